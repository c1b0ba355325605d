"""Complexity over 15 only with a word that says why: ruff counts (C901), this holds the limit and the words."""

import tomllib
from pathlib import Path

import pytest
from tests.style.source import modules

ROOT = Path(__file__).parents[2]
LIMIT = 15


def silent_exemptions(sources: dict[str, str]) -> list[str]:
    """Exemptions from the limit that give no reason."""
    return [
        f"src/tonnage/{module}:{number}: `# noqa: C901` takes a reason: `# noqa: C901 - why one function`"
        for module, text in sources.items()
        for number, line in enumerate(text.splitlines(), 1)
        if "C901" in line.partition("# noqa:")[2] and len(line.partition("C901 - ")[2].split()) < 3
    ]


def test_ruff_holds_the_limit() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "C901" in lint["select"] and lint["mccabe"]["max-complexity"] == LIMIT
    assert "C901" not in lint["ignore"]
    assert not [files for files, codes in lint["per-file-ignores"].items() if "C901" in codes]


def test_exemptions_say_why() -> None:
    wrong = silent_exemptions(dict(modules()))
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("def f():  # noqa: C901", True),
        ("def f():  # noqa: C901, E501", True),
        ("def f():  # noqa: C901 - long", True),
        ("def f():  # noqa: C901 - one branch a verdict", False),
        ("def f():", False),
    ],
)
def test_a_bare_exemption_is_caught(line: str, caught: bool) -> None:
    assert bool(silent_exemptions({"x.py": line})) is caught
