"""
Which machine does a person mean? "8 x A100 80GB, 4 x L40S", "M4 Max 64GB", "Ryzen AI Max 395", "CPU", or a tool's list.

The catalogue's own name reader comes first. What it does not know is taken apart: words for a computer ("MacBook
Pro"), marks that operating systems print ("(R)", "16-Core Processor", "@ 2.60GHz") and a memory size are left out, and
the size is held against the part or becomes its memory where one part is sold with several. Whatever is not said is
assumed, once, here, and told: a desktop of two memory channels and 64 GB beside a card of which only the name is known.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.machine import DeviceGroup, Host, Inventory, Machine
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.record import Record
from tonnage.units import GB, GiB, show

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


class Owned(Record):
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
    """One group as written: its count (1 where none is written) and its part; None = a processor without a name."""
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
    """
    The part that a name means, as it stands, else without words for computers, marks of systems and a memory size.

    A size that was left out becomes its memory, or is refused where it is not sold so.
    """
    found = _find_part(name, additions)
    if found is not None:
        return found
    unmarked = " ".join(_COMPUTER.sub(" ", _MARKS.sub(" ", name)).split())
    size = _MEMORY.search(unmarked)
    sizeless = _MEMORY.sub(" ", unmarked).strip()
    found = _find_part(unmarked, additions) or _find_part(sizeless, additions)
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
    """
    The part with the memory that its name states, `size` GB or GiB: its own within 3 %, else another of unified memory.

    Another size of memory that the processor does not share is refused.
    """
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
    return with_memory(part, size * GiB)


def with_memory(part: Accelerator, memory_bytes: float) -> Accelerator:
    """The part with another size of memory, of which the same share is usable."""
    usable = part.usable_memory_bytes
    if usable is not None:
        usable *= memory_bytes / part.memory_bytes
    return replace(part, memory_bytes=memory_bytes, usable_memory_bytes=usable)


def is_unified(part: Accelerator) -> bool:
    """Whether processor and accelerator share one memory: nothing is gained by moving weights to the host."""
    return part.segment == "edge" or (part.memory_type.startswith("LPDDR") and part.form_factor != "PCIe")


def processor_named(name: str, *, additions: Additions = catalog.NOTHING) -> Accelerator | None:
    """The processor that an operating system's name for it means; absent where the catalogue has none such."""
    unmarked = " ".join(_MARKS.sub(" ", name).split())
    for form in (name, unmarked):
        found = _find_part(form, additions) if form else None
        if found is not None and found.segment == "cpu":
            return found
    return None


USUAL_PROCESSOR: Final = "cpu-core-13900k"
"""Stands for a processor that is not known: eight wide cores with AVX2, two channels of DDR5-5600."""
USUAL_MEMORY: Final = 64 * GB
KEPT_BY_SYSTEM: Final = 4 * GiB
"""Host memory left to the operating system and programs. [bytes]"""


def host_of(
    *,
    processor: str = "",
    bytes_per_s: float | None = None,
    memory_bytes: float | None = None,
    additions: Additions = catalog.NOTHING,
) -> Host:
    """
    The processor's side from what is known of it; the rest is assumed and said.

    Of its memory, what the operating system and programs need is left to them.
    """
    known = processor_named(processor, additions=additions) if processor else None
    part = known or catalog.accelerator(USUAL_PROCESSOR, additions)
    assumed = []
    if known is None:
        named = f"'{processor}' is not in the catalogue: " if processor else ""
        assumed.append(f"processor: {named}taken as {part.name}")
    if bytes_per_s is None:
        assumed.append(
            f"host memory reads at {show(part.memory_bytes_per_s, 'bytes/s')} ({part.memory_type}); "
            "--host-bandwidth says another"
        )
    if memory_bytes is None:
        memory_bytes = USUAL_MEMORY
        assumed.append(f"host memory of {memory_bytes / GB:.0f} GB; --memory says another")
    part = replace(
        part,
        memory_bytes=memory_bytes,
        usable_memory_bytes=None,
        memory_bytes_per_s=bytes_per_s or part.memory_bytes_per_s,
    )
    return Host(part=part, memory_bytes=max(0.0, memory_bytes - KEPT_BY_SYSTEM), assumed=tuple(assumed))


def machine_named(
    text: str,
    *,
    memory_bytes: float | None = None,
    host_bytes_per_s: float | None = None,
    additions: Additions = catalog.NOTHING,
) -> Machine:
    """
    The machine that a person names: equal accelerators, however they are listed, and one processor; or that alone.

    A memory size is the host's; of a part that shares its memory with the processor it is the part's, too.

    Raises
    ------
    TonnageError
        A name is unknown, a size does not go with it, or it has unlike accelerators or several processors.
    """
    groups = _equal_parts(read_owned(text, additions=additions))
    devices = [group for group in groups if group.part is not None and group.part.segment != "cpu"]
    processors = [group for group in groups if group.part is not None and group.part.segment == "cpu"]
    if len(devices) > 1:
        raise BadRequest(
            f"accelerator: '{echo(text)}' names unlike accelerators, and `tonnage local` answers for equal ones; ask "
            f"for one kind, or for all of them: tonnage plan own '{echo(text)}' --one-box"
        )
    if sum(group.count for group in processors) > 1:
        raise BadRequest(
            f"accelerator: '{echo(text)}' names several processors; name one, and what all of them read by "
            "--host-bandwidth"
        )
    processor = processors[0].part if processors else None
    host = host_of(
        processor=processor.id if processor else "",
        bytes_per_s=host_bytes_per_s,
        memory_bytes=memory_bytes,
        additions=additions,
    )
    if not devices:
        title = processor.name if processor else "A desktop processor alone"
        return Machine(title=title, host=host, evidence="named")
    part = devices[0].part
    assert part is not None, "groups of no part were left out"
    if is_unified(part) and memory_bytes is not None:
        part = replace(part, memory_bytes=memory_bytes, usable_memory_bytes=None)
    return _machine(part, devices[0].count, host, beside=(), evidence="named")


def machine_found(
    inventory: Inventory, *, engines: tuple[str, ...] = (), additions: Additions = catalog.NOTHING
) -> Machine:
    """
    The machine that a tool's output describes: its devices with the most memory together, and the others beside them;
    the processor alone where it lists none.

    Raises
    ------
    BadRequest
        A device in it is none of the catalogue; the sentence says how to name one that is near.
    """
    host = host_of(
        processor=inventory.cpu,
        bytes_per_s=inventory.host_bytes_per_s,
        memory_bytes=inventory.host_memory_bytes,
        additions=additions,
    )
    groups = [(group, _part_of_device(group, additions)) for group in inventory.devices]
    if not groups:
        return Machine(
            title=inventory.cpu or "A processor alone", host=host, evidence=inventory.evidence, engines=engines
        )
    best, part = max(groups, key=lambda pair: pair[0].count * pair[1].memory_bytes)
    beside = tuple(group for group, _ in groups if group is not best)
    return replace(_machine(part, best.count, host, beside=beside, evidence=inventory.evidence), engines=engines)


def _equal_parts(groups: tuple[Owned, ...]) -> list[Owned]:
    """The groups with equal parts counted together."""
    parts = [group.part for group in groups]
    return [
        Owned(sum(group.count for group in groups if group.part == part), part)
        for number, part in enumerate(parts)
        if part not in parts[:number]
    ]


def _machine(part: Accelerator, count: int, host: Host, *, beside: tuple[DeviceGroup, ...], evidence: str) -> Machine:
    if is_unified(part):
        # One memory: nothing is gained by moving weights to the processor's side.
        host = replace(host, memory_bytes=0.0, assumed=())
    title = part.name if count == 1 else f"{count} x {part.name}"
    return Machine(title=title, host=host, device=part, count=count, beside=beside, evidence=evidence)


def _part_of_device(group: DeviceGroup, additions: Additions) -> Accelerator:
    """The part of the catalogue behind a driver's name, with the memory that the driver states."""
    try:
        part = read_owned(group.name, additions=additions)[0].part
    except UnknownName as error:
        raise BadRequest(
            f"this machine's '{group.name}' is not in the catalogue ({error}); name a part that is near with "
            "--accelerator, or describe it in a file for --additions"
        ) from error
    if part is None:
        raise BadRequest(f"'{group.name}' names no accelerator")
    if group.memory_bytes is not None and abs(group.memory_bytes / part.memory_bytes - 1.0) > 0.08:
        return replace(part, memory_bytes=group.memory_bytes, usable_memory_bytes=None)
    return part
