"""The README is read in 90 seconds: its prose, without what commands print and the table to look things up in."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
WORDS_PER_MINUTE = 240
"""Of an adult reading English silently: 238, the mean of 190 studies (Brysbaert, J. Mem. Lang. 109, 2019)."""


def test_the_prose_takes_ninety_seconds() -> None:
    text = re.sub(r"^```.*?^```$", "", README.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in text.splitlines() if not line.startswith("|")]
    words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", "\n".join(lines)).split()
    assert 200 < len(words) <= 1.5 * WORDS_PER_MINUTE
