"""
What do many LoRA adapters change of one replica: its memory, its steps, the requests that run at once?

Slots for adapters are allocated at the start, each of the largest rank, on every rank of the replica. A step runs the
products of the adapters that its sequences are for (`physics.adapters`). A request whose adapter is in no slot has it
copied from the host before its prompt, and everybody in the step waits: engines copy between two steps. No more
sequences run than have, on average, as many adapters as there are slots.

Left out: which replica a request is sent to (a router that sends an adapter's requests to one replica makes fewer
misses); reading adapters from disk, for hosts keep all of them; copies beside a step (SGLang's
enable_lora_overlap_loading). In tables of steps a step of many prompt tokens counts the adapters of as many sequences.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from tonnage.domain.answer import Quantity
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.requests.groups import Adapters
from tonnage.physics.adapters import BYTES, adapter_bytes, adapter_work, distinct_adapters, lru_miss_rate, popularity
from tonnage.physics.offload import LINK_SHARE
from tonnage.physics.shares import Tokens
from tonnage.physics.work import Work
from tonnage.simulation.router import fleet_of, replicas_carrying

if TYPE_CHECKING:
    from tonnage.simulation.step_parts import Placement


SLOW_HOST_LINK: Final = 16e9
"""To the host, where the catalogue does not know the link: PCIe 3.0 x16. [bytes/s]"""
_MANY: Final = 1e6
"""Sequences beyond which no engine's limit is looked for."""


def adapter_parts(model: Model, adapters: Adapters, *, layout: Layout) -> tuple[Quantity, ...]:
    """What slots of adapters hold on a rank. [bytes]"""
    rank = adapters.slot_rank
    # Engines allocate slots for every layer that may have an adapter, whatever the adapters change.
    each = adapter_bytes(model, rank=rank, layout=layout)
    how = f"{adapters.slots} slots of {each / 1e6:,.1f} MB: rank {rank}, {BYTES * 8:g} bits"
    return (Quantity(name=f"LoRA adapters, {adapters.kept}", value=adapters.slots * each, source=how),)


def adapters_in(model: Model, tokens: Tokens, *, adapters: Adapters, layout: Layout) -> Work:
    """The products of adapters in one step, of as many as its sequences have and slots hold; none without slots."""
    if not adapters.slots:
        return ()
    sequences = max(1.0, tokens.decodes + tokens.prompts)
    distinct = distinct_adapters(count=adapters.count, skew=adapters.skew, sequences=sequences)
    return adapter_work(
        model,
        rank=adapters.rank,
        targets=adapters.targets,
        layout=layout,
        rows=tokens.rows,
        distinct=min(distinct, float(adapters.slots)),
    )


def misses(adapters: Adapters) -> float:
    """Share of requests that wait for their adapter. [-]"""
    if not adapters.slots:
        return 0.0
    return lru_miss_rate(count=adapters.count, skew=adapters.skew, slots=adapters.slots)


def most_sequences(adapters: Adapters) -> float:
    """
    Sequences of a rank that have as many different adapters as there are slots, on average.

    Infinite unless adapters are swapped, or where even a million sequences have fewer.
    """
    if adapters.kept != "swapped":
        return math.inf
    low, high = float(adapters.slots), 2.0 * adapters.slots
    while _distinct(adapters, high) <= adapters.slots:
        low, high = high, 2.0 * high
        if high > _MANY:
            return math.inf
    while high - low > 0.5:
        middle = (low + high) / 2.0
        low, high = (middle, high) if _distinct(adapters, middle) <= adapters.slots else (low, middle)
    return math.floor(low)


def _distinct(adapters: Adapters, sequences: float) -> float:
    return distinct_adapters(count=adapters.count, skew=adapters.skew, sequences=sequences)


def with_room_for_adapters(engine: Engine) -> Engine:
    """The engine's settings with no more sequences than its slots have adapters for."""
    if engine.adapters is None:
        return engine
    most = most_sequences(engine.adapters)
    if most >= (engine.max_num_seqs or math.inf):
        return engine
    return msgspec.structs.replace(engine, max_num_seqs=int(most))


def merged_replicas(adapters: Adapters, *, needed: float, spare: int, zones: int) -> int:
    """
    Replicas in all where each adapter is merged into its own: at least one for each.

    `needed` is what the whole load would take on replicas of one model; `spare` and `zones` hold for each adapter.
    """
    return sum(
        round(members) * fleet_of(max(1, math.ceil(needed * share - 1e-9)), spare=spare, zones=zones)
        for members, share in popularity(adapters.count, adapters.skew)
    )


def busiest_share(adapters: Adapters, load: float, *, replicas: int, spare: int, zones: int) -> float:
    """
    What the busiest replica gets of the whole load, where each serves one adapter. [the unit of the load]

    `replicas` are all of them; those that must carry the load when spares or a zone have failed are dealt out so that
    the busiest has least. `spare` is that of each adapter.
    """
    working = max(adapters.count, replicas_carrying(replicas, spare=spare * adapters.count, zones=zones))
    shares = [share for members, share in popularity(adapters.count, adapters.skew) for _ in range(round(members))]
    counts = [1] * len(shares)
    for _ in range(working - len(shares)):
        place = max(range(len(shares)), key=lambda i: shares[i] / counts[i])
        counts[place] += 1
    return load * max(share / count for share, count in zip(shares, counts, strict=True))


def load_s(placement: Placement) -> float:
    """
    Copying one adapter from the host to every rank at once; 0 without adapters. [s]

    A link to the host that the catalogue does not know is taken for `SLOW_HOST_LINK`.
    """
    p = placement
    if p.adapters is None:
        return 0.0
    held = adapter_bytes(p.model, rank=p.adapters.rank, targets=p.adapters.targets, layout=p.layout)
    return held / (LINK_SHARE * (p.accelerator.host_link.bytes_per_s or SLOW_HOST_LINK))


def with_adapters(placement: Placement, adapters: Adapters, *, isl: float) -> Placement:
    """
    The placement whose steps run adapters, and load those that are missing before the prompts that need them.

    The mean time of loading is spread over the `isl` tokens of a prompt, and added to what the encoder takes for each.
    """
    made = msgspec.structs.replace(placement, adapters=adapters)
    fixed, each = placement.encoder_s
    waits = misses(adapters) * load_s(made) / max(1.0, isl)
    return msgspec.structs.replace(made, encoder_s=(fixed, each + waits))
