"""
What machine is meant: a name and a few sizes, or what was found on one, become a `Machine`.

Whatever is not said is assumed, once, here, and told: a desktop of two memory channels and 64 GB beside a card of which
only the name is known.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.machine import DeviceGroup, Host, Inventory, Machine
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.planning.own.names import Owned, is_unified, processor_named, read_owned
from tonnage.units import GB, GiB, show

__all__ = ["host_of", "machine_found", "machine_named"]

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
    """The processor's side from what is known of it; the rest is assumed and said."""
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
    part = msgspec.structs.replace(
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
    The machine that a person names: equal accelerators, however they are listed, and one processor.

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
        part = msgspec.structs.replace(part, memory_bytes=memory_bytes, usable_memory_bytes=None)
    return _machine(part, devices[0].count, host, beside=(), evidence="named")


def machine_found(
    inventory: Inventory, *, engines: tuple[str, ...] = (), additions: Additions = catalog.NOTHING
) -> Machine:
    """
    The machine that a tool's output describes.

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
    groups = [(group, _find_part(group, additions)) for group in inventory.devices]
    if not groups:
        return Machine(
            title=inventory.cpu or "A processor alone", host=host, evidence=inventory.evidence, engines=engines
        )
    best, part = max(groups, key=lambda pair: pair[0].count * pair[1].memory_bytes)
    beside = tuple(group for group, _ in groups if group is not best)
    return msgspec.structs.replace(
        _machine(part, best.count, host, beside=beside, evidence=inventory.evidence), engines=engines
    )


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
        host = msgspec.structs.replace(host, memory_bytes=0.0, assumed=())
    title = part.name if count == 1 else f"{count} x {part.name}"
    return Machine(title=title, host=host, device=part, count=count, beside=beside, evidence=evidence)


def _find_part(group: DeviceGroup, additions: Additions) -> Accelerator:
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
        return msgspec.structs.replace(part, memory_bytes=group.memory_bytes, usable_memory_bytes=None)
    return part
