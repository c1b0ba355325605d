"""Write the option lists of axolotl, TRL, torchtitan and OpenRLHF from unpacked wheels, without importing them.

python training_options.py NAME VERSION FILE.json FOLDER...    NAME: axolotl, trl, torchtitan, openrlhf

FOLDER holds what `pip download --no-deps axolotl==0.19.0` gives, unpacked; TRL's list also takes the
folder of transformers, whose arguments it adds. OpenRLHF's are those of its train_ppo_ray, with the choices they take.
"""

import ast
import json
import sys
from pathlib import Path

CLASSES = {
    "axolotl": ("axolotl/utils/schemas/*.py", None),
    "trl": ("tr*/**/*.py", {"_BaseConfig", "SFTConfig", "ModelConfig", "ScriptArguments", "TrainingArguments"}),
    "torchtitan": ("torchtitan/config/configs.py", None),
}
"""Files that declare the options, and their classes; all of a file's where there is none."""
SECTIONS = {
    "TrainingConfig": "training",
    "ParallelismConfig": "parallelism",
    "CompileConfig": "compile",
    "CommConfig": "comm",
    "DebugConfig": "debug",
}
"""torchtitan's sections by the class that declares them."""


def options(name: str, folders: list[Path]) -> list[str]:
    """Every annotated field, in its section where the program has sections."""
    pattern, wanted = CLASSES[name]
    found = set()
    for folder in folders:
        for path in sorted(folder.glob(pattern)):
            if path.name == "vllm_serve.py":  # a program of its own
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and (wanted is None or node.name in wanted):
                    section = f"{SECTIONS[node.name]}." if node.name in SECTIONS else ""
                    found |= {
                        section + field.target.id
                        for field in node.body
                        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
                    }
    return sorted(found)


PREFIXES = ("actor", "critic")
"""What openrlhf's one loop over options is for."""


def declared(source: Path) -> dict[str, list[str] | None]:
    """Options of the `add_argument` calls of a program, each with its choices; those of its loop once a prefix."""
    found: dict[str, list[str] | None] = {}
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"):
            continue
        choices = next((ast.literal_eval(word.value) for word in node.keywords if word.arg == "choices"), None)
        text = ast.unparse(node.args[0]).removeprefix("f").strip("'\"")
        for name in {text.replace("{prefix}", prefix) for prefix in PREFIXES}:
            found[name] = choices
    return dict(sorted(found.items()))


if __name__ == "__main__":
    name, version, target, *folders = sys.argv[1:]
    source = f"tools/export-validators/training_options.py: annotated fields of the {name} {version} wheel"
    names: dict[str, list[str] | None] = {}
    if name == "openrlhf":
        program = "openrlhf/cli/train_ppo_ray.py"
        source = f"tools/export-validators/training_options.py: {program} of the {version} wheel, read 2026-11-22"
        names = declared(next(Path(folders[0]).rglob(program)))
    else:
        names = {f"--{option}": None for option in options(name, [Path(folder) for folder in folders])}
    listed = {"engine": name, "version": version, "source": source, "options": names}
    Path(target).write_text(json.dumps(listed, indent=0, separators=(",", ":")) + "\n", encoding="utf-8")
