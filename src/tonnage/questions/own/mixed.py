"""
One model over unlike devices: cards of several kinds in one machine, or machines that hand layers to each other (RPC).

llama.cpp deals out whole layers, and a token passes the devices one after the other. So one request is fastest when the
device that reads a layer soonest holds as many as fit, then the next (`-ts` says how many each); with as many requests
in flight as there are devices all work at once, and output is most when the slowest share is least. Both are exact:
layers are alike, times add, and each device's time for all layers is that of `tonnage predict`.

Left out: tensor parallelism over unlike cards, which llama.cpp's row split does and which waits for the slower card at
every layer.
"""

from __future__ import annotations

import heapq
from typing import Final

from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.published import published_score
from tonnage.core.machine import host_of
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.machine import Host
from tonnage.domain.precision import Precision
from tonnage.errors import TonnageError
from tonnage.physics.memory import cell_cache_bytes, weight_bytes
from tonnage.physics.offload import CROSSING_S
from tonnage.questions.own.groups import models_of, part_of
from tonnage.questions.own.local import CONTEXT
from tonnage.questions.own.question import MixedRow, Own, OwnedGroup
from tonnage.questions.own.speed import Asked, device_room, side_of
from tonnage.record import Record
from tonnage.simulation.cells import on_device

ROWS: Final = 4
FORMATS: Final = ("gguf-q8_0", "gguf-q4_k_m")
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


def mixed_rows(request: Own, *, additions: Additions) -> tuple[MixedRow, ...]:
    """
    Models over all devices of all groups, best first, a few of them; empty unless there are two devices, in one box or
    joined by a stated network.
    """
    if not request.one_box and request.network_bytes_per_s is None:
        return ()
    parts = [(group, part_of(group, additions)) for group in request.own]
    devices = [(group, part) for group, part in parts for _ in range(group.count) if part.segment != "cpu"]
    if len(devices) < 2:
        return ()
    processor = next((part.id for _, part in parts if part.segment == "cpu"), "")
    host = host_of(processor=processor, memory_bytes=request.host_bytes, additions=additions)
    found: list[MixedRow] = []
    for name in models_of(request):
        row = next(
            (
                row
                for weights in FORMATS
                if (row := _row(request, name, weights, devices=devices, host=host, additions=additions)) is not None
            ),
            None,
        )
        if row is not None:
            found.append(row)
        if len(found) == ROWS:
            break
    return tuple(found)


def _row(
    request: Own,
    name: str,
    weights: str,
    *,
    devices: list[tuple[OwnedGroup, Accelerator]],
    host: Host,
    additions: Additions,
) -> MixedRow | None:
    """
    The model over all devices in one format; None where it does not fit, or makes less than the wanted speed in a
    format that a coarser one follows.
    """
    try:
        model = resolve(name, additions=additions)
        asked = Asked(
            model=model,
            precision=Precision(weights=weights, kv="fp16", activations="fp16"),
            context=min(request.serve.max_context or CONTEXT, model.max_context or CONTEXT),
        )
        sides = {part.id: side_of(asked, part) for _, part in devices}
    except TonnageError:
        return None
    layers = model.num_layers
    cache = cell_cache_bytes(model, asked.precision.kv, context=asked.context, piece=asked.piece)
    movable = on_device(weight_bytes(model, asked.precision), devices[0][1]).value + cache
    each = movable / max(1, layers)
    held = [
        Device(
            name=part.name,
            layer_s=sides[part.id].token_s / layers,
            most_layers=max(0, int(device_room(asked, part, movable=movable) // each)),
        )
        for _, part in devices
    ]
    single = fill_fastest(held, layers)
    if single.host_layers * each > host.memory_bytes or not any(single.layers):
        return None
    used = sum(count > 0 for count in single.layers)
    handed = _hand_over_s(request, hidden=model.hidden_size)
    host_layer_s = side_of(asked, host.part).token_s / layers if single.host_layers else 0.0
    token_s = sum(n * device.layer_s for n, device in zip(single.layers, held, strict=True))
    token_s += single.host_layers * (host_layer_s + CROSSING_S) + (used - 1) * handed
    if 1.0 / token_s < request.min_speed and weights != FORMATS[-1]:
        return None
    even = share_evenly(held, layers)
    slowest = max(n * device.layer_s for n, device in zip(even.layers, held, strict=True))
    slowest = max(slowest + handed, even.host_layers * host_layer_s)
    worst = max(sides.values(), key=lambda side: side.token_s)
    rate = Quantity(value=1.0 / token_s, unit="tokens/s", basis=Basis.ASSUMED)
    return MixedRow(
        model=name,
        weights=weights,
        layers=single.layers,
        devices=tuple(device.name for device in held),
        host_layers=single.host_layers,
        decode_per_s=rate.spread(worst.errors.spread("tpot_s").turned),
        pipeline_per_s=1.0 / slowest,
        alone=next(
            (group.name for (group, _), device in zip(devices, held, strict=True) if device.most_layers >= layers), ""
        ),
        quality=published_score(name),
        command=_command(request, name, weights, split=single, layers=layers),
    )


def _hand_over_s(request: Own, *, hidden: int) -> float:
    """From one device to the next: a copy in one machine, or a message over the network. [s]"""
    if request.one_box or request.network_bytes_per_s is None:
        return CROSSING_S
    return RPC_S + 2.0 * hidden / request.network_bytes_per_s


def _command(request: Own, name: str, weights: str, *, split: Split, layers: int) -> str:
    """llama.cpp's words for the split; machines other than the first run `rpc-server`."""
    words = ["llama-server", "-m", f"{name.rpartition('/')[2]}-{weights.removeprefix('gguf-').upper()}.gguf"]
    words += ["-ngl", str(layers - split.host_layers) if split.host_layers else "99"]
    words += ["-sm", "layer", "-ts", ",".join(map(str, split.layers))]
    return " ".join(words if request.one_box else [*words, "--rpc", "HOST:50052,…"])
