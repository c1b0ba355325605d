"""What others wrote (files, requests, metrics pages) is checked here: within bounds, and without hidden characters."""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from tonnage.errors import UNSEEN, BadFact, echo

DEEPEST: Final = 40
MOST_VALUES: Final = 20_000
"""Of a request; a fleet of a thousand workloads has some ten thousand. YAML takes 20 microseconds for each."""
PASTED: Final = frozenset({"file", "page", "log"})
"""Fields of requests that hold a whole text of another program, which its own reader checks."""
PROSE: Final = PASTED | {"notes"}
"""Fields whose text may have several lines wherever it stands."""
MOST_IN_FILE: Final = 3_000_000
"""Values of a plan or of results, which hold whole tables."""


def plain_text(text: str, *, where: str, lines: bool = False) -> str:
    """
    The text of others itself, where it may be shown and written into files.

    Parameters
    ----------
    where : str
        What it is, for the message.
    lines : bool
        It is prose, which may have several lines and tabs; a name has none.

    Raises
    ------
    BadFact
        It holds a control character, or one that nobody sees.
    """
    if text.isascii() and text.isprintable():
        return text
    found = UNSEEN.search(text) or (None if lines else re.search(r"[\t\r\n]", text))
    if found is not None:
        raise BadFact(
            f"{where} '{echo(text)}' holds the character U+{ord(found[0]):04X}, which is not shown; remove it"
        )
    return text


def check_values(value: Any, *, where: str, most: int = MOST_IN_FILE, lines: bool = True) -> None:
    """
    Refuse values that no file or request needs, before any of them is read.

    Parameters
    ----------
    lines : bool
        Every text may have several lines; otherwise those of the fields in `PROSE` alone.

    Raises
    ------
    BadFact
        More than `most` values, nested too deeply, a whole number that no float holds, or a text with characters that
        nobody sees.
    """
    current, count = [value], 0
    for _ in range(DEEPEST + 1):
        inner: list[Any] = []
        for item in current:
            if isinstance(item, str):
                plain_text(item, where=f"{where}:", lines=lines)
            elif isinstance(item, dict):
                for name, held in item.items():
                    plain_text(str(name), where=f"{where}: the field")
                    if not (name in PROSE and isinstance(held, str)):
                        inner.append(held)
                    elif name not in PASTED:
                        plain_text(held, where=f"{where}:", lines=True)
            elif isinstance(item, list | tuple):
                inner.extend(item)
            elif isinstance(item, int) and item.bit_length() > sys.float_info.max_exp:
                raise BadFact(f"{where} holds a number of over {sys.float_info.max_10_exp} digits: no count")
        count += len(inner)
        if count > most:
            raise BadFact(f"{where} holds more than {most:,} values, which no request needs")
        if not inner:
            return
        current = inner
    raise BadFact(f"{where} is nested more than {DEEPEST} deep")
