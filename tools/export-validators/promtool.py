"""
Alert rules read by promtool, and tried on a service as planned and on one that breaks every promise.

    python tools/export-validators/promtool.py RULES...

promtool is found in the path, in PROMTOOL, or taken from Debian's package `prometheus` into .venv-handoff/promtool
(nothing is installed). Where none of these can be, one line says that the rules were not read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
FOLDER: Final = HERE.parents[1] / ".venv-handoff" / "promtool"
TRIED: Final = "prometheus"
"""Case whose rules the unit test is written for."""


def promtool() -> str | None:
    """The program; absent where nothing provides it."""
    found = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if found or (own := FOLDER / "usr" / "bin" / "promtool").exists():
        return found or str(own)
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return None
    FOLDER.mkdir(parents=True, exist_ok=True)
    asked = ["apt-get", "download", "--quiet", "prometheus"]
    if subprocess.run(asked, cwd=FOLDER, capture_output=True, check=False).returncode != 0:
        return None
    for package in FOLDER.glob("prometheus_*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(FOLDER)], check=True)
        package.unlink()
    return str(own)


def main(rules: list[Path]) -> int:
    """Exit status of the first refusal; 69 (unavailable) where nothing could read them."""
    program = promtool()
    if program is None:
        print("export-validators: no promtool (Debian: apt-get install prometheus); alert rules were not read")
        return os.EX_UNAVAILABLE
    if code := subprocess.run([program, "check", "rules", *map(str, rules)], check=False).returncode:
        return code
    for path in rules:
        if path.parent.name == TRIED:
            shutil.copy(HERE / "rules.test.yaml", path.with_name("rules.test.yaml"))
            return subprocess.run(
                [program, "test", "rules", "rules.test.yaml"], cwd=path.parent, check=False
            ).returncode
    return 0


def version() -> str:
    """ "2.42.0"; empty where there is no program."""
    program = promtool()
    asked = [program, "--version"] if program else ["true"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return said[2] if len(said) > 2 else ""


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(version())
    else:
        sys.exit(main([Path(name) for name in sys.argv[1:]]))
