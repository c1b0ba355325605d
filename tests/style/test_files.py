"""A file is read in one sitting: at most 450 lines, but for what a program writes."""

from tests.style.source import modules

MOST_LINES = 450
GENERATED = {"domain/requests/typed.py": "python -m tonnage.questions.typed_requests"}
"""Files that a program writes, and the program; a test holds each against what it writes today."""
LONGER = {
    "__init__.py": "the Python interface, a function a question: one page for help() and completion",
    "web/questions.py": "a table, a row a question as the page and the tools ask it",
}
"""Files that may be longer, and why one file answers one question there."""


def too_long(sources: dict[str, str]) -> list[str]:
    """Files above the limit that neither a program writes nor a reason excuses."""
    return [
        f"src/tonnage/{module}: {lines} lines, at most {MOST_LINES}: which two questions does it answer?"
        for module, text in sources.items()
        if (lines := len(text.splitlines())) > MOST_LINES and module not in {**GENERATED, **LONGER}
    ]


def test_files_have_at_most_450_lines() -> None:
    wrong = too_long(dict(modules()))
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_exemption_is_of_a_file() -> None:
    sources = dict(modules())
    assert set(LONGER) <= set(sources)
    assert all("generated" in sources[name].splitlines()[0] for name in GENERATED)


def test_a_long_file_is_caught() -> None:
    assert too_long({"x.py": "x\n" * 451}) and not too_long({"x.py": "x\n" * 450})
