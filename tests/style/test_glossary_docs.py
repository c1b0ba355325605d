"""
The documents use the field's words: nothing of the glossary's left column is left in their prose.

`glossary_docs.csv` lists what gives way to what. Read here are the rows for output and documents, against the
text between code blocks of README, CONTRIBUTING, SECURITY and docs/; log, changelog and decisions tell history and
keep its words, and pages that a program writes are held where their words are written.
"""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = Path(__file__).with_name("glossary_docs.csv")
GENERATED = {"accuracy.md", "rules-of-thumb.md", "security.md", "peers.md"}
# Rows that a word alone cannot decide.
UNDECIDED = {
    "context (memory part)": "context is also what a model reads",
    "answer (tokens)": "an answer is also what Tonnage gives",
    "boards": "carrier boards and board power keep the word",
    "1 rank; eager": "the first is a count, the second an engine's flag",
    "retries and experiments": "what it gives way to holds it",
    "free 44%": "free may also be a price",
}
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")


def documents() -> list[Path]:
    named = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    pages = [
        path
        for path in (ROOT / "docs").rglob("*.md")
        if path.name not in GENERATED and not {"log", "decisions"} & set(path.relative_to(ROOT).parts)
    ]
    return [*named, *sorted(pages)]


def old_words() -> list[tuple[str, str]]:
    """Each old phrase with what takes its place; a row may hold several."""
    with GLOSSARY.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if re.search(r"output|docs|all", row["scope"])]
    assert set(UNDECIDED) <= {row["use_instead_of"] for row in rows}
    return [
        (phrase.strip(), row["use"])
        for row in rows
        if row["use_instead_of"] not in UNDECIDED
        for phrase in re.split(r" / |;|…", row["use_instead_of"])
    ]


def pattern(phrase: str) -> re.Pattern[str]:
    """The phrase as words; a number or N stands for any, and line ends for blanks."""
    words = [r"\S+" if re.fullmatch(r"N|[1-9][\d.]*%?", word) else re.escape(word) for word in phrase.split()]
    return re.compile(r"(?<![\w-])" + r"\s+".join(words) + r"(?![\w-])", re.IGNORECASE)


def prose(path: Path) -> str:
    """The text of a document, without code and where links lead, line for line."""

    def emptied(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    return CODE.sub(emptied, FENCE.sub(emptied, path.read_text(encoding="utf-8")))


def test_a_phrase_is_found_over_the_end_of_a_line_and_only_as_words() -> None:
    assert pattern("keeps N tokens of cache").search("it keeps 298,624\ntokens of cache")
    assert not pattern("seat").search("a seating plan")


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documents_use_the_words_of_the_glossary(path: Path) -> None:
    text = prose(path)
    found = [
        f"line {text.count(chr(10), 0, match.start()) + 1}: '{' '.join(match[0].split())}'; write: {use}"
        for phrase, use in old_words()
        for match in pattern(phrase).finditer(text)
    ]
    assert not found, "\n".join(found)
