"""
One model over unlike devices: cards of several kinds in one machine, or machines that hand layers to each other (RPC).

llama.cpp deals out whole layers, and a token passes the devices one after the other. So one request is fastest when the
device that reads a layer soonest holds as many as fit, then the next (`-ts` says how many each); with as many requests
in flight as there are devices all work at once, and output is most when the slowest share is least. Both are exact:
layers are alike, times add, and each device's time for all layers is that of `tonnage predict`. What the devices cannot
hold of a mixture is experts, of which a token reads few, and whole layers only where moving all experts is not enough.

Left out: tensor parallelism over unlike cards, which llama.cpp's row split does and which waits for the slower card at
every layer.
"""

from __future__ import annotations

import heapq
import itertools
from typing import Final

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.machine import LocalRow, Machine, Offload, Owned
from tonnage.engines.at_home import spread_engine
from tonnage.physics.memory import cell_cache_bytes, weight_bytes
from tonnage.physics.offload import CROSSING_S, offloaded_token_s
from tonnage.questions.own.speed import (
    Asked,
    Shares,
    device_room,
    place_layers,
    prompt_s_behind,
    shares_on,
    side_of,
    speed_of,
)
from tonnage.record import Record
from tonnage.simulation.cells import on_device

RPC_S: Final = 2e-4
"""Hand-over of one token's hidden state between machines beside the bytes: a round trip of TCP in one room. [s]"""


class Device(Record, kw_only=True):
    """One device as the split sees it."""

    name: str
    layer_s: float
    """One token through one layer. [s]"""
    most_layers: int
    """That its memory holds."""


class Split(Record, kw_only=True):
    """Layers of each device, and of the host."""

    layers: tuple[int, ...]
    host_layers: int


def fill_fastest(devices: list[Device], layers: int) -> Split:
    """
    The split in which one request is fastest: the device that is soonest done with a layer is filled first.

    Examples
    --------
    >>> slow, fast = (Device(name=n, layer_s=s, most_layers=20) for n, s in (("a", 2e-3), ("b", 1e-3)))
    >>> fill_fastest([slow, fast], 32)
    Split(layers=(12, 20), host_layers=0)
    """
    held = [0] * len(devices)
    left = layers
    for i in sorted(range(len(devices)), key=lambda i: devices[i].layer_s):
        held[i] = min(left, devices[i].most_layers)
        left -= held[i]
    return Split(layers=tuple(held), host_layers=left)


def share_evenly(devices: list[Device], layers: int) -> Split:
    """
    The split whose slowest device is done soonest: each layer goes where its device is then done first.

    Examples
    --------
    >>> slow, fast = (Device(name=n, layer_s=s, most_layers=30) for n, s in (("a", 2e-3), ("b", 1e-3)))
    >>> share_evenly([slow, fast], 30).layers
    (10, 20)
    """
    held = [0] * len(devices)
    queue = [(device.layer_s, i) for i, device in enumerate(devices) if device.most_layers > 0]
    heapq.heapify(queue)
    left = layers
    while left and queue:
        _, i = heapq.heappop(queue)
        held[i] += 1
        left -= 1
        if held[i] < devices[i].most_layers:
            heapq.heappush(queue, ((held[i] + 1) * devices[i].layer_s, i))
    return Split(layers=tuple(held), host_layers=left)


def experts_moved(shares: Shares, movable: float, *, rooms: list[float]) -> tuple[Offload, Split] | None:
    """
    The fewest first layers whose experts lie in host memory so that every layer has its place on the devices, which are
    filled in their order; absent where that is not enough.
    """
    each = shares.expert_bytes / max(1, shares.expert_layers)
    plain = (movable - shares.expert_bytes) / shares.layers
    for moved in range(1, shares.expert_layers + 1):
        kept, held, start = shares.expert_layers - moved, [], 0
        sizes = [plain] * (shares.layers - kept) + [plain + each] * kept
        for room in rooms:
            held.append(sum(size <= room for size in itertools.accumulate(sizes[start:])))
            start += held[-1]
        if start == shares.layers:
            return place_layers(shares, layers=0, expert_layers=moved), Split(layers=tuple(held), host_layers=0)
    return None


class Spread(Record, kw_only=True):
    """A model over unlike devices."""

    row: LocalRow
    pipeline_per_s: float
    """Output with as many requests in flight as devices, layers dealt out by speed. [tokens/s]"""
    alone: str
    """The first kind of device of which one holds all layers; empty = none does."""


def speed_on(asked: Asked, machine: Machine) -> LocalRow | str:
    """The model on the machine, over all of its devices; a sentence ("needs …") where it cannot hold it."""
    if not machine.others and machine.network_bytes_per_s is None:
        return speed_of(asked, machine)
    found = spread_out(asked, machine)
    return found if isinstance(found, str) else found.row


def spread_out(asked: Asked, machine: Machine) -> Spread | str:
    """
    The model by layers over unlike devices, what they cannot hold in host memory; why not where that has no room
    either.
    """
    assert machine.device is not None, "unlike devices are devices"
    kinds = [(machine.device, machine.count), *((group.part, group.count) for group in machine.others if group.part)]
    sides = [side_of(asked, part) for part, _ in kinds]
    devices = [number for number, (_, count) in enumerate(kinds) for _ in range(count)]
    layers = asked.model.num_layers
    network = machine.network_bytes_per_s
    handed_s = CROSSING_S if network is None else RPC_S + 2.0 * asked.model.hidden_size / network
    cache = cell_cache_bytes(asked.model, asked.precision.kv, context=asked.context, piece=asked.piece)
    movable = on_device(weight_bytes(asked.model, asked.precision), machine.device).value + cache
    each = movable / max(1, layers)
    rooms = [device_room(asked, part, movable=movable) for part, _ in kinds]
    of_kind = [
        Device(name=part.name, layer_s=side.token_s / layers, most_layers=max(0, int(room // each)))
        for (part, _), side, (room, _) in zip(kinds, sides, rooms, strict=True)
    ]
    held = [of_kind[number] for number in devices]
    single = fill_fastest(held, layers)
    offload = Offload(
        layers=single.host_layers,
        moved_bytes=single.host_layers * each,
        read_share=single.host_layers / layers,
        streamed_bytes=single.host_layers * each,
    )
    if single.host_layers:
        room = [rooms[number][0] for number in devices]
        offload, single = experts_moved(shares_on(asked, sides[0].at), movable, rooms=room) or (offload, single)
    if offload.moved_bytes > machine.host.memory_bytes or not any(single.layers):
        lacking = offload.moved_bytes - machine.host.memory_bytes
        return f"needs {lacking / 2**30:.1f} GiB more than the devices and the host have"
    on_devices = layers - single.host_layers
    shares = [
        sum(single.layers[i] for i, n in enumerate(devices) if n == number) / on_devices for number in range(len(kinds))
    ]
    host_s = side_of(asked, machine.host.part).token_s if offload.read_share else 0.0
    token_s = (sum(count > 0 for count in single.layers) - 1) * handed_s + offloaded_token_s(
        device_s=sum(share * side.token_s for share, side in zip(shares, sides, strict=True)),
        host_s=host_s,
        host_share=offload.read_share,
        crossings=offload.layers + offload.expert_layers,
        crossing_s=CROSSING_S,
    )
    on_all_s = sum(share * side.prompt_s for share, side in zip(shares, sides, strict=True))
    prompt_s = prompt_s_behind(asked, machine, prompt=sides[0].at.case.isl, device_s=on_all_s, offload=offload)
    even = share_evenly(held, layers)
    slowest = max(n * device.layer_s for n, device in zip(even.layers, held, strict=True))
    worst = max(sides, key=lambda side: side.token_s)
    alone = (device.name for device in of_kind if device.most_layers >= layers)

    def rate(value: float, name: str) -> Quantity:
        found = Quantity(value=value, unit="tokens/s", basis=Basis.ASSUMED)
        return found.spread(worst.errors.spread(name).turned if name == "tpot_s" else worst.errors.spread(name))

    row = LocalRow(
        model=asked.model.id,
        precision=asked.precision,
        engine=spread_engine().title,
        context=asked.context,
        most_context=asked.context,
        offload=offload,
        split=single.layers,
        decode_per_s=rate(1.0 / token_s, "tpot_s"),
        prompt_per_s=rate(sides[0].at.case.isl / prompt_s, "ttft_s"),
        weight_bytes=weight_bytes(asked.model, asked.precision).value,
        memory_bytes=movable + sum(rooms[number][1] for number in devices),
        level=worst.errors.level,
        notes=worst.at.notes,
    )
    slowest = max(slowest + handed_s, offload.read_share * host_s)
    return Spread(row=row, pipeline_per_s=1.0 / slowest, alone=next(alone, ""))


def device_names(machine: Machine) -> tuple[str, ...]:
    """Every device of a machine, in the order that layers are dealt out in."""
    groups = (Owned(machine.count, machine.device), *machine.others)
    return tuple(group.part.name for group in groups for _ in range(group.count) if group.part is not None)
