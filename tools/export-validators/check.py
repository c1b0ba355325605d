"""
Every exported file of the golden tests, read by its target's own parser.

    python tools/export-validators/check.py [training] [megatron] [vllm]

Each parser has an environment of its own (`tools/environments.py`), about 1 GB without PyTorch; `training` adds
Accelerate and DeepSpeed, `megatron` Megatron-LM's parser (1 GB each), `vllm` vLLM's own argument parser (1 to 3 GB).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
FILES: Final = ROOT / "build" / "handoff"
sys.path.insert(0, str(ROOT))

from tools.environments import built  # noqa: E402 - this folder's name is no package's

# Environment, program in its folder, options, files.
SCHEMAS: Final = [
    ("check-jsonschema", ["--builtin-schema", "vendor.compose-spec"], ["compose*/compose.yaml"]),
    ("check-jsonschema", ["--schemafile", str(HERE / "leaderworkerset.schema.json")], ["*/leaderworkerset.yaml"]),
    ("check-jsonschema", ["--schemafile", str(HERE / "scaledobject.schema.json")], ["kubernetes*/scale-to-zero.yaml"]),
    ("check-jsonschema", ["--schemafile", str(HERE / "llminferenceservice.schema.json")], ["kserve*/service.yaml"]),
    ("check-jsonschema", ["--schemafile", str(HERE / "modelservice.schema.json")], ["llm-d*/values.yaml"]),
    ("kubernetes-validate", ["--strict"], [f"kubernetes*/{name}.yaml" for name in ("serve", "autoscale", "pods")]),
]
PARSERS: Final = [
    ("skypilot", "skypilot", "skypilot*/service.yaml"),
    ("skypilot", "skypilot", "train-skypilot/train.yaml"),
    ("dstack", "dstack", "dstack*/service.dstack.yml"),
    ("grafana", "grafana", "grafana*/dashboard.json"),
    ("training", "accelerate", "accelerate*/accelerate.yaml"),
    ("training", "deepspeed", "deepspeed*/deepspeed.json"),
    ("megatron", "megatron", "megatron*/pretrain.sh"),
    ("vllm", "vllm_options", "vllm*/serve.sh"),
]
LARGE: Final = {"training", "megatron", "vllm"}


def files(*patterns: str) -> list[str]:
    """What a parser is given; a pattern without a file is a mistake here, not a success there."""
    found = [str(path) for pattern in patterns for path in sorted(FILES.glob(pattern))]
    if not found:
        sys.exit(f"export-validators: nothing was written for {', '.join(patterns)}")
    return found


def check(*command: str) -> None:
    """One parser; the first refusal ends the run."""
    if (code := subprocess.run(command, cwd=ROOT, check=False).returncode) != 0:
        sys.exit(code)


def main(large: set[str]) -> None:
    """Write the files, then ask each parser."""
    shutil.rmtree(FILES, ignore_errors=True)
    check(sys.executable, str(HERE / "write.py"), str(FILES))
    programs = built("handoff/schemas").parent
    for program, options, patterns in SCHEMAS:
        check(str(programs / program), *options, *files(*patterns))
    check(sys.executable, str(HERE / "promtool.py"), *files("prometheus*/tonnage.rules.yaml"))
    schema = str(ROOT / "docs" / "request.schema.json")
    requests = [path for path in sorted((ROOT / "examples").glob("*.yaml")) if _is_plan(path)]
    check(str(programs / "check-jsonschema"), "--check-metaschema", schema)
    check(str(programs / "check-jsonschema"), "--schemafile", schema, *map(str, requests))
    for environment, script, pattern in PARSERS:
        if environment not in LARGE or environment in large:
            check(str(built(f"handoff/{environment}")), str(HERE / f"{script}.py"), *files(pattern))


def _is_plan(path: Path) -> bool:
    return any(line.startswith("plan:") for line in path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    if unknown := set(sys.argv[1:]) - LARGE:
        sys.exit(f"usage: check.py [training] [megatron] [vllm]; not {', '.join(sorted(unknown))}")
    main(set(sys.argv[1:]))
