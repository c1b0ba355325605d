"""What `make test` collects can be imported where nothing is installed but what `make test` installs."""

import os
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tests import conftest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
IMPORTS = """
import importlib, sys
import pytest
hidden = set(sys.argv[1].split(","))
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
for module in sys.stdin.read().split():
    try:
        importlib.import_module(module)
    except pytest.skip.Exception:
        pass
    except Exception as wrong:
        print(f"{module}: {wrong}")
"""


def hidden() -> set[str]:
    """What extras bring that `make test` does not install, by the names that are imported."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    made = re.search(r"^EXTRAS \?= (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert made
    apart = extras.keys() - {*made[1].split(","), "simulate", "all"}  # dev brings simulate; all is the others
    return {re.split(r"[\[><=; ]", needed)[0] for extra in apart for needed in extras[extra]}


def collected() -> list[str]:
    """Every module below tests/ that pytest looks into: doctests are looked for in helpers, too."""
    left = (*conftest.collect_ignore, *conftest.collect_ignore_glob)
    paths = [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py")]
    kept = (path for path in paths if not any(fnmatch(path, one) for one in left))
    return sorted("tests." + path.removesuffix(".py").replace("/", ".") for path in kept)


@pytest.mark.slow
def test_every_module_that_is_collected_can_be_imported() -> None:
    names, apart = collected(), hidden()
    assert {"torch", "ray"} <= apart and {"tests.conftest", "tests.measure.test_own_runs"} <= set(names)
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS, ",".join(apart)],
        input="\n".join(names),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("src", "tools/accuracy", "."))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0 and not run.stdout, run.stdout + run.stderr
