"""What can go wrong, and the sentence the user gets.

    TonnageError                the user's problem, never a bug of ours
    ├── BadRequest              a field of the request is wrong, missing or contradicts another
    │   ├── UnknownName         no such accelerator, model, region, precision …; suggests the nearest
    │   └── UnitError           a quantity without a unit, or with one of another dimension
    ├── BadFact                 a file of facts (catalogue, config.json, GGUF header, trace) cannot be read
    └── Unmeasured              the answer needs a fact that nobody has published

Each message is one sentence: the field, the value given, what was expected, and the nearest
thing that works. "Does not fit" and "cannot meet the objective" are answers, not errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

LONGEST_ECHO = 80
"""Characters of the user's own text that a message repeats; hostile input can be megabytes long."""
LONGEST_SENTENCE: Final = 2000
"""Of a whole message. [bytes]"""
NO_SIMULATOR: Final = "the simulator is not installed: pip install 'tonnage[simulate]' brings it"
"""What every face says where nothing can simulate."""
UNSEEN: Final = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Controls but for tabs and ends of lines, marks of direction, separators of lines, characters of no width or no text:
what moves a terminal's cursor, or shows another text than there is (Unicode TR36, TR39; all that Unicode has a program
ignore but for the marks that choose between two shapes of a letter)."""


class TonnageError(Exception):
    """
    Root of everything a user can cause; a face prints it and exits with 2.

    Parameters
    ----------
    message : object
        The sentence; characters that nobody sees are replaced, and what is too long is cut.
    """

    def __init__(self, message: object = "") -> None:
        text = UNSEEN.sub("\ufffd", str(message))
        raw = text.encode()
        fits = len(raw) <= LONGEST_SENTENCE
        super().__init__(text if fits else raw[: LONGEST_SENTENCE - 3].decode(errors="ignore") + "…")


class BadRequest(TonnageError):
    """A request says something impossible or contradictory."""


class UnitError(BadRequest):
    """A quantity lacks a unit or carries one of another dimension."""


class BadFact(TonnageError):
    """A file of facts cannot be read, or states something impossible."""


class Unmeasured(TonnageError):
    """The answer needs a fact that is not known; unknown is never silently zero."""


class NoCheckpoint(BadRequest):
    """A file must name the checkpoint to load, and none that holds the planned weights is named."""


class UnknownName(BadRequest):
    """
    No such name; the message suggests the nearest known ones.

    Parameters
    ----------
    what : str
        Kind of thing looked for: "accelerator", "model", "region".
    name : str
        What the user wrote.
    known : iterable of str
        Every name that would have been accepted.
    """

    def __init__(self, what: str, name: str, *, known: Iterable[str]) -> None:
        names = sorted(set(known))
        close = nearest(name, names)
        hint = did_you_mean(close)
        shown = ", ".join(names) if len(names) <= 12 else f"see `tonnage catalog {what}s`"
        if len(names) > 12 and what not in {"accelerator", "model", "offer", "provider"}:
            shown = ", ".join(names[:12]) + ", …"
        super().__init__(f"no {what} '{echo(name)}'; {hint}{len(names)} known: {shown}")
        self.what, self.name, self.close = what, name, close


def nearest(name: str, known: Iterable[str], *, count: int = 3) -> tuple[str, ...]:
    """
    Names that the user may have meant, best first.

    Compares without case, punctuation and maker prefix, so that "h100_sxm" finds
    "h100-sxm5-80gb" and "Llama-3-8b" finds "meta-llama/Meta-Llama-3-8B".
    """
    import difflib  # a mistake pays for it, not every start

    wanted = _plain(name[:LONGEST_ECHO])
    plain: dict[str, list[str]] = {}
    for candidate in known:
        for form in dict.fromkeys((_plain(candidate), _plain(candidate.rsplit("/", 1)[-1]))):
            plain.setdefault(form, []).append(candidate)
    if numeronym := re.fullmatch(r"([a-z])(\d\d?)([a-z])", wanted):  # k8s, i18n
        first, left_out, last = numeronym.groups()
        wanted = next((key for key in plain if re.fullmatch(f"{first}.{{{left_out}}}{last}", key)), wanted)
    starts = sorted((key for key in plain if wanted and key.startswith(wanted)), key=len)
    close = difflib.get_close_matches(wanted, plain, n=count, cutoff=0.6)
    found: list[str] = []
    for key in [*starts, *close]:
        found += [candidate for candidate in plain[key] if candidate not in found]
    return tuple(found[:count])


def echo(text: object) -> str:
    """The user's own text, short and printable enough to repeat in a message."""
    shown = UNSEEN.sub("\ufffd", str(text)[: LONGEST_ECHO + 1])
    shown = "".join(c if c.isprintable() else "\ufffd" for c in shown)
    return shown if len(shown) <= LONGEST_ECHO else shown[:LONGEST_ECHO] + "…"


def echo_path(path: object) -> str:
    """A path, short and printable; of a long one the end, for that tells the file from its neighbours."""
    text = str(path)
    return echo(text) if len(text) <= LONGEST_ECHO else "…" + echo(text[-LONGEST_ECHO + 1 :])


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def did_you_mean(names: Iterable[str]) -> str:
    """
    The names that the user may have meant, as a question; empty for none.

    Examples
    --------
    >>> did_you_mean(["h100-pcie-80gb", "h100-sxm5-80gb"])
    "did you mean 'h100-pcie-80gb' or 'h100-sxm5-80gb'? "
    """
    quoted = [f"'{name}'" for name in names]
    return f"did you mean {listed(quoted, last='or')}? " if quoted else ""


def listed(words: Sequence[str], *, last: str = "and") -> str:
    """
    Words in a row.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
