"""
Which machine does a person mean? "8 x A100 80GB, 4 x L40S", "M4 Max 64GB", "Ryzen AI Max 395", "CPU".

The catalogue's own name reader comes first. What it does not know is taken apart: words for a computer ("MacBook
Pro"), marks that operating systems print ("(R)", "16-Core Processor", "@ 2.60GHz") and a memory size are left out, and
the size is held against the part or becomes its memory where one part is sold with several.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.accelerator import Accelerator
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.units import GB, GiB

__all__ = ["Owned", "is_unified", "processor_named", "read_owned"]

LONGEST: Final = 400
"""Characters of a list; a dozen groups need half of it."""
MOST_GROUPS: Final = 16
MOST_EACH: Final = 4096

_COUNT: Final = re.compile(r"^\s*(\d{1,7})\s*(?:[x×*]\s*|(?<!\d{3})\s+(?=[a-z]))(.+)$", re.IGNORECASE)
_NAMELESS: Final = re.compile(r"^\s*\d+\s*[x×*]\s*$", re.IGNORECASE)
_MEMORY: Final = re.compile(r"[\s,(-]*\b(\d{1,4})\s*(gb|gib|g)\b\)?", re.IGNORECASE)
_COMPUTER: Final = re.compile(r"\b(apple|macbook|mac|imac|studio|mini|pro(?=\s+m\d)|air|laptop with)\b", re.IGNORECASE)
_MARKS: Final = re.compile(
    r"\((?:r|tm|c)\)|®|™|\b\d+-core processor\b|\bprocessor\b|\bcpu\b(?=\s*(@|$))|@.*$|\bw/.*$|\bwith radeon.*$"
    r"|\b\d+(?:th|nd|rd|st) gen\b",
    re.IGNORECASE,
)
_PLAIN_CPU: Final = re.compile(r"^\s*(cpu|cpu only|no gpu|none)\s*$", re.IGNORECASE)


class Owned(msgspec.Struct, frozen=True):
    """So many of one part; no part is the processor alone."""

    count: int
    part: Accelerator | None


def read_owned(text: str, *, additions: Additions = catalog.NOTHING) -> tuple[Owned, ...]:
    """
    Groups of accelerators as people write them, divided by commas or plus signs.

    Raises
    ------
    TonnageError
        A name is unknown, a count is out of range, or a memory size is not one that the part is sold with.

    Examples
    --------
    >>> [(group.count, group.part.id) for group in read_owned("8 x A100 80GB, 4 x L40S")]
    [(8, 'a100-sxm4-80gb'), (4, 'l40s')]
    >>> read_owned("M4 Max 64GB")[0].part.memory_bytes / 2**30
    64.0
    >>> read_owned("CPU")
    (Owned(count=1, part=None),)
    """
    if len(text) > LONGEST:
        raise BadRequest(f"accelerator: {len(text):,} characters are more than a list of machines needs ({LONGEST})")
    pieces = [piece for piece in re.split(r"[,;]|\s\+\s", text) if piece.strip()]
    if not pieces or len(pieces) > MOST_GROUPS:
        raise BadRequest(
            f"accelerator: '{echo(text)}' names {len(pieces)} kinds of accelerator; write 1 to {MOST_GROUPS}, as in "
            "'8 x A100 80GB, 4 x L40S'"
        )
    return tuple(_group(piece, additions) for piece in pieces)


def _group(text: str, additions: Additions) -> Owned:
    if _PLAIN_CPU.match(text):
        return Owned(1, None)
    if _NAMELESS.match(text):
        raise BadRequest(f"accelerator: '{echo(text.strip())}' is a count without a name; write '8 x A100 80GB'")
    counted = _COUNT.match(text)
    count, name = (int(counted[1]), counted[2]) if counted else (1, text)
    if counted and _find_part(text, additions) is not None:  # "3090 Ti" is a part, not 3090 of a kind
        count, name = 1, text
    if not 1 <= count <= MOST_EACH:
        raise BadRequest(
            f"accelerator: {count:,} of '{echo(name.strip())}' is not a number between 1 and {MOST_EACH:,}"
        )
    return Owned(count, _part(name.strip(), additions))


def _part(name: str, additions: Additions) -> Accelerator:
    found = _find_part(name, additions)
    if found is not None:
        return found
    plain = " ".join(_COMPUTER.sub(" ", _MARKS.sub(" ", name)).split())
    size = _MEMORY.search(plain)
    bare = _MEMORY.sub(" ", plain).strip()
    found = _find_part(plain, additions) or _find_part(bare, additions)
    if found is None:
        return catalog.predictable_accelerator(name, additions)  # which says what is near
    return found if size is None else _of_size(found, float(size[1]), name)


def _find_part(name: str, additions: Additions) -> Accelerator | None:
    try:
        return catalog.predictable_accelerator(name, additions)
    except BadRequest as error:
        # A number of parts, which `_group` reads; a part without published rates is refused with its own reason.
        if isinstance(error, UnknownName) or _COUNT.match(name):
            return None
        raise


def _of_size(part: Accelerator, size: float, name: str) -> Accelerator:
    """The part with the memory its name states: its own, or another where the maker sells several."""
    own = min(abs(size * unit / part.memory_bytes - 1.0) for unit in (GB, GiB))
    if own < 0.03:
        return part
    if not is_unified(part):
        raise BadRequest(
            f"accelerator: '{echo(name)}' names {size:g} GB, but {part.name} has {part.memory_bytes / GiB:.0f} GiB; "
            f"leave the size out, or change it with --set {part.id}.memory='{size:g} GiB'"
        )
    if not 4 <= size <= 1024:
        raise BadRequest(f"accelerator: '{echo(name)}': {size:g} GB is no size that {part.name} is sold with")
    share = (part.usable_memory_bytes or part.memory_bytes) / part.memory_bytes
    usable = None if part.usable_memory_bytes is None else share * size * GiB
    return msgspec.structs.replace(part, memory_bytes=size * GiB, usable_memory_bytes=usable)


def is_unified(part: Accelerator) -> bool:
    """Whether processor and accelerator share one memory: nothing is gained by moving weights to the host."""
    return part.segment == "edge" or (part.memory_type.startswith("LPDDR") and part.form_factor != "PCIe")


def processor_named(name: str, *, additions: Additions = catalog.NOTHING) -> Accelerator | None:
    """The processor that an operating system's name for it means; absent where the catalogue has none such."""
    plain = " ".join(_MARKS.sub(" ", name).split())
    for form in (name, plain):
        found = _find_part(form, additions) if form else None
        if found is not None and found.segment == "cpu":
            return found
    return None
