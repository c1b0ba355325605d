"""
How large is an installation? `python -m tools.benchmarks.size [--against TREE]`

Builds the wheel of this tree, installs it into an empty environment as a user would (compiled byte code included), and
adds up the files that each distribution says it owns. pip and setuptools were there before and are not counted. With
`--against` another tree (an older checkout) is measured beside it. Needs a package index; 1 MB is 10^6 bytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
LIMIT_MB: Final = 150.0
"""Most that the core may take. [MB]"""
COUNT: Final = """
import importlib.metadata as m, json
found = {}
for one in m.distributions():
    paths = [one.locate_file(file) for file in one.files or ()]
    found[one.metadata["Name"].lower()] = sum(path.stat().st_size for path in paths if path.is_file())
print(json.dumps(found))
"""
BEFORE: Final = ("pip", "setuptools", "wheel")


def sizes(tree: Path) -> dict[str, int]:
    """Bytes on disk of each distribution that installing a tree brings, largest first."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts" if sys.platform == "win32" else "bin", "python")
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(tree)], check=True)
        told = subprocess.run([python, "-c", COUNT], check=True, capture_output=True, text=True, encoding="utf-8")
    found: dict[str, int] = json.loads(told.stdout)
    return dict(sorted(((k, v) for k, v in found.items() if k not in BEFORE), key=lambda item: -item[1]))


def table(now: dict[str, int], before: dict[str, int] | None) -> list[str]:
    """A row a distribution, and their sum, in MB."""
    names = [*now, *(name for name in before or {} if name not in now)]
    rows = [("distribution", *(["before"] if before else []), "now")]
    sums = [("total", *([_mb(sum(before.values()))] if before else []), _mb(sum(now.values())))]
    for name in names:
        rows.append((name, *([_mb(before.get(name, 0))] if before else []), _mb(now.get(name, 0))))
    return [f"{row[0]:24}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in (*rows, *sums)]


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f}" if size else "-"


def run() -> int:
    """Exit code 1: the core is larger than it may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path)
    against = parser.parse_args().against
    now = sizes(ROOT)
    print("\n".join(table(now, sizes(against) if against else None)))
    return int(sum(now.values()) > LIMIT_MB * 1e6)


if __name__ == "__main__":
    sys.exit(run())
