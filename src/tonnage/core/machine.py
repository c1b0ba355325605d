"""
Which machine does a person mean? "8 x A100 80GB, 4 x L40S", "M4 Max 64GB", "Ryzen AI Max 395", "CPU", or a tool's list.

The catalogue's own name reader comes first. What it does not know is taken apart: words for a computer ("MacBook
Pro"), marks that operating systems print ("(R)", "16-Core Processor", "@ 2.60GHz") and a memory size are left out, and
the size is held against the part or becomes its memory where one part is sold with several. Whatever is not said is
assumed, once, here, and told: a desktop of two memory channels and 64 GB beside a card of which only the name is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, hardware
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.machine import DeviceGroup, Host, Inventory, Machine, Owned
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.units import GB, GiB, show

LONGEST: Final = 400
"""Characters of a list; a dozen groups need half of it."""
MOST_GROUPS: Final = 16
MOST_EACH: Final = 4096

_COUNT: Final = re.compile(r"^\s*(\d{1,7})\s*(?:[x×*]\s*|(?<!\d{3})\s+(?=[a-z]|\d{4}(?!\d)))(.+)$", re.IGNORECASE)
_BETWEEN: Final = re.compile(r"[,;]|\s(?:\+|&|and|plus)\s|\+(?=\s*\d+\s*[x×*])", re.IGNORECASE)
_NAMELESS: Final = re.compile(r"^\s*\d+\s*[x×*]\s*$", re.IGNORECASE)
_MEMORY: Final = re.compile(r"[\s,(-]*\b(\d{1,4})\s*(gb|gib|g)\b\)?", re.IGNORECASE)
_COMPUTER: Final = re.compile(r"\b(apple|macbook|mac|imac|studio|mini|pro(?=\s+m\d)|air|laptop with)\b", re.IGNORECASE)
_MARKS: Final = re.compile(
    r"\((?:r|tm|c)\)|®|™|\b\d+-core processor\b|\bprocessor\b|\bcpu\b(?=\s*(@|$))|@.*$|\bw/.*$|\bwith radeon.*$"
    r"|\b\d+(?:th|nd|rd|st) gen\b",
    re.IGNORECASE,
)
_PLAIN_CPU: Final = re.compile(r"^\s*(?:(?:1\s*x\s*)?cpus?(?: only| alone)?|no gpu|none|processor)\s*$", re.IGNORECASE)


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
    >>> [(group.count, group.part.id) for group in read_owned("2 RTX 3090 + 1 4090")]
    [(2, 'rtx-3090'), (1, 'rtx-4090')]
    >>> [(group.count, group.part.id) for group in read_owned("two RTX 3090s and a 4090")]
    [(2, 'rtx-3090'), (1, 'rtx-4090')]
    >>> read_owned("CPU")[0].part is None
    True
    """
    if len(text) > LONGEST:
        raise BadRequest(f"accelerator: {len(text):,} characters are more than a list of machines needs ({LONGEST})")
    pieces = [piece for piece in _BETWEEN.split(text) if piece.strip()]
    if not pieces or len(pieces) > MOST_GROUPS:
        raise BadRequest(
            f"accelerator: '{echo(text)}' names {len(pieces)} kinds of accelerator; write 1 to {MOST_GROUPS}, as in "
            "'8 x A100 80GB, 4 x L40S'"
        )
    return tuple(_group(piece, additions) for piece in pieces)


def _group(text: str, additions: Additions) -> Owned:
    """One group as written: its count (1 where none is written) and its part; None = a processor without a name."""
    if _PLAIN_CPU.match(text):
        usual = catalog.accelerator(USUAL_PROCESSOR, additions)
        return Owned(1, None, f"assumed: {_without_remark(usual.name)}")
    if _NAMELESS.match(text):
        raise BadRequest(f"accelerator: '{echo(text.strip())}' is a count without a name; write '8 x A100 80GB'")
    text = text if _find_part(text, additions) is not None else catalog.in_digits(text)
    counted = _COUNT.match(text)
    count, name = (int(counted[1]), counted[2]) if counted else (1, text)
    if counted and _find_part(text, additions) is not None:  # "3090 Ti" is a part, not 3090 of a kind
        count, name = 1, text
    if not 1 <= count <= MOST_EACH:
        raise BadRequest(
            f"accelerator: {count:,} of '{echo(name.strip())}' is not a number between 1 and {MOST_EACH:,}"
        )
    part, stated = _part(name.strip(), additions)
    sizes = hardware.memory_sizes(part.id)
    several = len(sizes) > 1 and not stated
    assumed = f"assumed: it is sold with {_any_of(sizes)} GB" if several else ""
    return Owned(count, part, assumed, _taken(name.strip(), additions))


def _taken(name: str, additions: Additions) -> str:
    """As which part a name of several was taken; empty where it is that of one, or says a size besides."""
    try:
        return catalog.ambiguity(name, additions) or ""
    except UnknownName:
        return ""


def _without_remark(name: str) -> str:
    return name.partition(" (")[0]


def _any_of(sizes: tuple[int, ...]) -> str:
    """
    Sizes as a sentence has them.

    Examples
    --------
    >>> _any_of((96, 256, 512))
    '96, 256 or 512'
    """
    return " or ".join(filter(None, (", ".join(map(str, sizes[:-1])), str(sizes[-1]))))


def _part(name: str, additions: Additions) -> tuple[Accelerator, bool]:
    """
    The part that a name means, as it stands, else without words for computers, marks of systems and a memory size; and
    whether the name says its memory.

    A size that was left out becomes its memory, or is refused where it is not sold so.
    """
    found = _find_part(name, additions)
    if found is not None:
        return found, _MEMORY.search(name) is not None
    unmarked = " ".join(_COMPUTER.sub(" ", _MARKS.sub(" ", name)).split())
    sizes = [float(size[1]) for size in _MEMORY.finditer(unmarked)]
    sizeless = _MEMORY.sub(" ", unmarked).strip()
    found = _find_part(unmarked, additions) or _find_part(sizeless, additions)
    if found is None:
        return catalog.predictable_accelerator(name, additions), False  # which says what is near
    for size in sizes:
        found = _of_size(found, size, name)
    return found, bool(sizes)


def _find_part(name: str, additions: Additions) -> Accelerator | None:
    try:
        return catalog.predictable_accelerator(name, additions)
    except BadRequest as error:
        # A number of parts, which `_group` reads; a part without published rates is refused with its own reason.
        if isinstance(error, UnknownName) or _COUNT.match(catalog.in_digits(name)):
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
    sizes = hardware.memory_sizes(part.id)
    if size not in sizes if sizes else not 4 <= size <= 1024:
        sold = f"; it is sold with {_any_of(sizes)} GB" if sizes else ""
        kin = [id for id in hardware.with_memory_of(size) if id.startswith(part.id) or part.id.startswith(id)]
        other = f", '{kin[0]}' with {size:g} GB" if kin else ""
        raise BadRequest(f"accelerator: '{echo(name)}': {size:g} GB is no size of {part.name}{sold}{other}")
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


def _usual_processor(memory_bytes: float | None, additions: Additions) -> Accelerator:
    """Stands for a processor that is not known: of those that hold such a memory, the one that reads it slowest."""
    usual, size = catalog.accelerator(USUAL_PROCESSOR, additions), memory_bytes or 0.0
    parts = catalog.accelerators(additions).values() if size > usual.memory_bytes else ()
    able = (part for part in parts if part.segment == "cpu" and part.memory_bytes >= size)
    return min(able, key=lambda part: part.memory_bytes_per_s, default=usual)


def host_of(
    *,
    processor: str = "",
    bytes_per_s: float | None = None,
    memory_bytes: float | None = None,
    peaks: Mapping[str, float] | None = None,
    additions: Additions = catalog.NOTHING,
) -> Host:
    """
    The processor's side from what is known of it; the rest is assumed and said.

    One that the catalogue lacks computes at its own `peaks` where they are known. [FLOP/s]

    Of its memory, what the operating system and programs need is left to them.
    """
    known = processor_named(processor, additions=additions) if processor else None
    part = known or _usual_processor(memory_bytes, additions)
    assumed = []
    if known is None and peaks:
        part = replace(part, name=processor, peaks=peaks)
        assumed.append(f"'{processor}' is not in the catalogue: its peaks follow from cores, clock and instructions")
    elif known is None:
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
    The machine that a person names: accelerators, however they are listed, and one processor; or that alone.

    A memory size is the host's; of a part that shares its memory with the processor it is the part's, too.

    Raises
    ------
    TonnageError
        A name is unknown, a size does not go with it, or it has several processors, or machines of their own.
    """
    groups = _equal_parts(read_owned(text, additions=additions))
    devices = [group for group in groups if group.part is not None and group.part.segment != "cpu"]
    processors = [group for group in groups if group.part is not None and group.part.segment == "cpu"]
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
        unnamed = f"A desktop processor alone (assumed: {_without_remark(host.part.name)})"
        return Machine(title=processor.name if processor else unnamed, host=host, evidence="named")
    host = replace(host, assumed=(*(group.taken for group in devices if group.taken), *host.assumed))
    if memory_bytes is not None:
        devices = [_of_shared_memory(group, memory_bytes) for group in devices]
    return _machine(devices, host, evidence="named")


def _of_shared_memory(group: Owned, memory_bytes: float) -> Owned:
    """The group with a stated memory where its part shares that of the processor, and as it is where not."""
    part = group.part
    if part is None or not is_unified(part):
        return group
    sizes = hardware.memory_sizes(part.id)
    near = next((size for size in sizes if 0.9 < memory_bytes / (size * GiB) < 1.02), None)
    if not group.assumed and not 0.9 < memory_bytes / part.memory_bytes < 1.1:
        raise BadRequest(
            f"memory: {show(memory_bytes, 'bytes')} contradicts the {show(part.memory_bytes, 'bytes')} of the "
            f"{part.name} that is named; state one"
        )
    if sizes and near is None:
        raise BadRequest(
            f"memory: {show(memory_bytes, 'bytes')} is no size of {part.name}; it is sold with {_any_of(sizes)} GB"
        )
    sold = near * GiB if near else memory_bytes
    return replace(group, part=replace(part, memory_bytes=sold, usable_memory_bytes=None), assumed="")


def machine_found(
    inventory: Inventory, *, engines: tuple[str, ...] = (), additions: Additions = catalog.NOTHING
) -> Machine:
    """
    The machine that a tool's output describes, with all of its devices; the processor alone where it lists none.

    Raises
    ------
    BadRequest
        A device in it is none of the catalogue; the sentence says how to name one that is near.
    """
    host = host_of(
        processor=inventory.cpu,
        bytes_per_s=inventory.host_bytes_per_s,
        memory_bytes=inventory.host_memory_bytes,
        peaks=inventory.peaks,
        additions=additions,
    )
    groups = [Owned(group.count, _part_of_device(group, additions)) for group in inventory.devices]
    if not groups:
        return Machine(title=_found_title(inventory), host=host, evidence=inventory.evidence, engines=engines)
    return replace(_machine(_equal_parts(groups), host, evidence=inventory.evidence), engines=engines)


def _found_title(inventory: Inventory) -> str:
    """A processor as it was found: its name, cores, and memory with its rate."""
    rate, size = inventory.host_bytes_per_s, inventory.host_memory_bytes
    told = [
        f"{inventory.cores} cores" if inventory.cores else "",
        show(size, "bytes") if size else "",
        f"memory at {show(rate, 'bytes/s', digits=2)}" if rate else "",
    ]
    beside = ", ".join(filter(None, told))
    return f"{inventory.cpu or 'A processor alone'}{f' ({beside})' if beside else ''}"


def _equal_parts(groups: Sequence[Owned]) -> list[Owned]:
    """The groups with equal parts counted together."""
    parts = [group.part for group in groups]
    return [
        replace(group, count=sum(other.count for other in groups if other.part == group.part))
        for number, group in enumerate(groups)
        if group.part not in parts[:number]
    ]


def group_title(group: Owned) -> str:
    """
    A group in words: its number, the part with a memory that it is sold with, and what was assumed.

    Examples
    --------
    >>> group_title(read_owned("M3 Ultra")[0]), group_title(read_owned("2x 3090")[0])
    ('M3 Ultra (80-core GPU), 512 GB (assumed: it is sold with 96, 256 or 512 GB)', '2 x GeForce RTX 3090')
    """
    part = group.part
    name = part.name if part is not None else "A desktop processor"
    if part is not None and len(hardware.memory_sizes(part.id)) > 1:
        name += f", {part.memory_bytes / GiB:.0f} GB"
    assumed = f" ({group.assumed})" if group.assumed else ""
    return f"{f'{group.count} x ' if group.count > 1 else ''}{name}{assumed}"


def _machine(groups: Sequence[Owned], host: Host, *, evidence: str) -> Machine:
    """
    One machine with all of the groups: the one with the most memory first.

    Raises
    ------
    BadRequest
        One of several shares its memory with its processor: it is a machine of its own.
    """
    shared = [group for group in groups if group.part is not None and is_unified(group.part)]
    if shared and len(groups) > 1:
        raise BadRequest(
            f"accelerator: {group_title(shared[0])} is a machine of its own; ask for each alone, or for one model over "
            "all of them: tonnage plan own … --network '10 Gbit/s'"
        )
    if shared:  # One memory: nothing is gained by moving weights to the processor's side.
        host = replace(host, memory_bytes=0.0, assumed=())
    first, *others = sorted(groups, key=lambda group: -group.count * group.part.memory_bytes if group.part else 0.0)
    title = " + ".join(map(group_title, (first, *others)))
    return Machine(
        title=title, host=host, device=first.part, count=first.count, others=tuple(others), evidence=evidence
    )


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
