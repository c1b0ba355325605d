"""
Which accelerator does a name mean, however a tool, a cloud or a person spells it?

Three looks, strictest first: the id, alias or name itself, without case, punctuation and vendor's words
("NVIDIA", "GeForce", "Tesla"); the table of family defaults ("H100" is the SXM5 80GB); and the words of the
name, all of which an accelerator must have ("h100 80gb hbm3"). Where several remain, the family's default
among them is taken and the others are told; without a default the name is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tonnage.domain.accelerator import Accelerator
from tonnage.errors import BadRequest, UnknownName, echo, nearest

# Words that tools print around the part's own name and that distinguish no two parts.
_NOISE: Final = frozenset(
    {"nvidia", "amd", "intel", "google", "aws", "apple", "qualcomm", "habana", "geforce", "tesla", "quadro", "radeon"}
    | {"instinct", "cloud", "cpu", "gpu", "graphics", "edition", "generation", "corporation", "accelerator"}
    | {"per", "chip", "socket", "core"}
)
_PREFIX: Final = re.compile(r"^(rtx|gtx|rx|tpu|arc|jetson|cpu)(?=[0-9av])")
# Only a word with a digit names a part; "80GB", "HBM3" and "PCIe5" tell variants apart but name none.
_TELLING: Final = re.compile(r"(?=\D*\d)(?!\d+gi?b$|hbm|g?ddr|lpddr|sxm|pcie)")
MAX_NAME_LENGTH: Final = 200
"""Characters; no accelerator's name comes near it, and a hostile one is not worth comparing."""

_COUNTED: Final = re.compile(r"^\s*(\d{1,6})\s*(?:[x×*]\s*|\s)(?=.*[a-z])(?=.*\d)(.+)$", re.IGNORECASE)
_WORD: Final = re.compile(r"[a-z0-9]+(?:\.[0-9]+)?")


class Match(NamedTuple):
    """An accelerator's id, and the other ids that the same name could have meant."""

    id: str
    others: tuple[str, ...]


class Index(NamedTuple):
    """Where to look a name up: squeezed spellings, words, and the defaults of families."""

    spellings: Mapping[str, tuple[str, ...]]
    words: Mapping[str, frozenset[str]]
    defaults: Mapping[str, str]
    listed: tuple[str, ...]
    """Every id, alias and name, for suggestions."""


def index(accelerators: Iterable[Accelerator], defaults: Mapping[str, str]) -> Index:
    """Prepare the look-up once; `defaults` maps family names to ids."""
    spellings: dict[str, list[str]] = {}
    words: dict[str, frozenset[str]] = {}
    listed: list[str] = []
    for part in accelerators:
        given = (part.id, part.name, *part.aliases)
        listed += given
        for spelling in {form for name in given for form in _forms(name)}:
            ids = spellings.setdefault(spelling, [])
            if part.id not in ids:
                ids.append(part.id)
        every = " ".join((*given, part.form_factor, part.memory_type, part.architecture, part.vendor))
        words[part.id] = frozenset(_words(every)) | {_squeeze(name) for name in given}
    return Index(
        spellings={spelling: tuple(ids) for spelling, ids in spellings.items()},
        words=words,
        defaults={form: chosen for name, chosen in defaults.items() for form in _forms(name)},
        listed=tuple(listed),
    )


def resolve(name: str, index: Index) -> Match:
    """
    The accelerator that a name means, with the alternatives it passed over.

    Raises
    ------
    UnknownName
        No accelerator has this name, or several have and none is a default.
    BadRequest
        The name holds how many there are: "8x H100".
    """
    if len(name) > MAX_NAME_LENGTH:
        raise UnknownName("accelerator", name, known=index.words)
    plain = name.strip().lower()
    if plain in index.words:
        return Match(plain, ())
    forms = _forms(name)
    default = next((index.defaults[form] for form in forms if form in index.defaults), None)
    if default is not None and default in index.words:
        return Match(default, _family(name, index, without=default))
    spelled = next((index.spellings[form] for form in forms if form in index.spellings), ())
    several = spelled or _with_words(name, index)
    if len(several) == 1:
        return Match(several[0], ())
    defaults = [id for id in index.defaults.values() if id in several]
    if not defaults and (counted := _COUNTED.match(name)) is not None:
        one = resolve(counted[2], index).id
        how = (
            f"name '{one}' alone, and their number ({counted[1]}) where the question has a field for it: accelerators,"
            " tp, count or max_accelerators"
        )
        raise BadRequest(f"'{echo(name)}' is a number of accelerators: {how}")
    if not defaults:
        # Suggest ids, and other spellings only where no id comes near.
        other_spelling = not nearest(name, index.words) and nearest(name, index.listed)
        known = several or (index.listed if other_spelling else index.words)
        raise UnknownName("accelerator", name, known=known)
    return Match(defaults[0], tuple(id for id in several if id != defaults[0]))


def _family(name: str, index: Index, *, without: str) -> tuple[str, ...]:
    """Every accelerator that has the words of the name or whose spelling starts with it."""
    start = _squeeze(name)
    starting = {id for spelling, ids in index.spellings.items() if spelling.startswith(start) for id in ids}
    both = starting.union(_with_words(name, index)) - {without}
    return tuple(id for id in index.words if id in both)


def _with_words(name: str, index: Index) -> tuple[str, ...]:
    wanted = [word for word in _words(name) if word not in _NOISE]
    if not any(_TELLING.match(word) for word in wanted):
        return ()
    return tuple(id for id, words in index.words.items() if words.issuperset(wanted))


def _words(name: str) -> list[str]:
    return _WORD.findall(name.lower())


def _squeeze(name: str) -> str:
    return "".join(word for word in _words(name) if word not in _NOISE)


def _forms(name: str) -> tuple[str, ...]:
    """The spellings that mean this name: squeezed, without what stands in brackets, without the product line."""
    forms = [_squeeze(name), _squeeze(re.sub(r"\(.*?\)", "", name))]
    forms += [_PREFIX.sub("", form) for form in forms]
    return tuple(dict.fromkeys(filter(None, forms)))
