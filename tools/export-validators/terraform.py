"""Hold exported Terraform files against the providers' schemas, and have Terraform read them where it is there."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RESOURCES = json.loads(Path(__file__).with_name("terraform.schema.json").read_text(encoding="utf-8"))["resources"]


def against(where: str, known: dict, written: dict) -> list[str]:
    """Unknown arguments, and required ones that are missing, down to the innermost block."""
    found = [f"{where}: unknown {name}" for name in written if name not in known["arguments"]]
    found += [f"{where}: no {name}" for name in known["required"] if name not in written]
    for name, inner in known["blocks"].items():
        blocks = written.get(name, [])
        for block in blocks if isinstance(blocks, list) else [blocks]:
            found += against(f"{where}.{name}", inner, block)
    return found


for path in sys.argv[1:]:
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    ((kind, groups),) = document["resource"].items()
    if wrong := [line for group in groups.values() for line in against(kind, RESOURCES[kind], group)]:
        sys.exit(f"{path}: {'; '.join(wrong)}")
    program = shutil.which("terraform")
    if program:  # its configuration loader; `validate` would need the providers themselves
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(path, folder)
            subprocess.run([program, f"-chdir={folder}", "providers"], check=True, capture_output=True)
    print(f"ok: {path}: {kind}{' and terraform providers' if program else ''}")
