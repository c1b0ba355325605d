"""Write SGLang's option list from an unpacked wheel, without importing it (it needs CUDA).

python sglang_options.py FOLDER VERSION FILE.json    FOLDER holds sglang/srt/arg_groups/fields
"""

import ast
import sys
from pathlib import Path

import listing


def options(folder: Path) -> dict[str, list[str] | None]:
    """One option per annotated field, with its literal choices, under its own name and its aliases."""
    found: dict[str, list[str] | None] = {}
    for path in sorted(folder.glob("sglang/srt/arg_groups/fields/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                given = arguments(node.annotation)
                names = [f"--{node.target.id.replace('_', '-')}", *given.get("aliases", [])]
                choices = sorted(map(str, given["choices"])) if given.get("choices") else None
                found.update(dict.fromkeys(names, choices))
    return dict(sorted(found.items()))


def arguments(annotation: ast.expr) -> dict[str, list[str]]:
    """The literal arguments of the Arg(...) in an annotation."""
    given: dict[str, list[str]] = {}
    for call in ast.walk(annotation):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Arg":
            for keyword in call.keywords:
                if keyword.arg in {"aliases", "choices"} and isinstance(keyword.value, ast.List):
                    given[keyword.arg] = [str(ast.literal_eval(item)) for item in keyword.value.elts]
    return given


if __name__ == "__main__":
    folder, version, target = sys.argv[1:]
    how = f"sglang_options.py: sglang/srt/arg_groups/fields of the sglang {version} wheel"
    listing.write(target, engine="SGLang", version=version, how=how, options=options(Path(folder)))
