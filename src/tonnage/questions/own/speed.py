"""
How fast does one model in one format run on one machine, with as little in host memory as it allows?

Both sides of a machine are predicted by the same road as every other configuration (`core.deployment`), as if all
of the model lay there; `physics.offload` puts the two together. So a model that fits the device has the number that
`tonnage predict` gives, and one on the processor alone that of the processor.
"""

from __future__ import annotations

import itertools
import math
from typing import Final

import msgspec

from tonnage.core.board_power import SUM, serving_load, spread, watts_of
from tonnage.core.deployment import Deployment, deploy
from tonnage.core.error_model import ErrorModel
from tonnage.core.serving_traffic import served_latency
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Layout
from tonnage.domain.machine import LocalRow, Machine, Offload
from tonnage.domain.model import Model, Moe
from tonnage.domain.precision import Precision
from tonnage.engines.at_home import spread_engine
from tonnage.optimize.largest import largest_whole
from tonnage.physics.memory import cache_bytes_per_sequence, weight_bytes
from tonnage.physics.offload import CROSSING_S, LINK_SHARE, STAGED_SHARE, offloaded_prefill_s, offloaded_token_s
from tonnage.physics.transformer import experts_hit
from tonnage.pricing.energy import IDLE_DRAW
from tonnage.record import Record
from tonnage.simulation.kvcache import Demand, kv_pool

PIECE: Final = 512
"""Tokens of a prompt that the engine takes at once unless it is told otherwise (llama.cpp n_ubatch). [tokens]"""
LARGE_PIECE: Final = 2048
"""What it can be told without another setting (`-ub`, at most llama.cpp n_batch). [tokens]"""
PROMPT: Final = 2048
"""Prompt whose rate is stated. [tokens]"""
USUAL_LINK: Final = 31.5e9
"""PCIe 4.0 of 16 lanes, where a part's link to its host is not known. [bytes/s]"""
_ANSWER: Final = 128
_ROOM: Final = 1e15
"""Memory of the device as if there were always room. [bytes]"""
_STEP: Final = 1024
"""Contexts are looked for in steps of this. [tokens]"""


class Asked(Record, kw_only=True):
    """One model in its formats with the context that is allocated, and how the engine cuts prompts."""

    model: Model
    precision: Precision
    context: int
    prompt: int = PROMPT
    piece: int = PIECE
    engine: str = ""
    """Absent = the one that spreads a model over unlike memories."""
    mapped: bool = False
    """What lies in host memory is a mapped file, not pinned: the engine's default, and not what Tonnage starts."""


class Side(Record, kw_only=True):
    """
    One memory of the machine with all of the model in it, whether or not it fits: seconds of an output token and of the
    prompt.
    """

    at: Deployment
    token_s: float
    prompt_s: float
    basis: Basis
    errors: ErrorModel


def speed_of(asked: Asked, machine: Machine) -> LocalRow | str:
    """
    The model on the machine with the least of it in host memory; a sentence ("needs …") where the machine cannot hold
    it.

    Every piece of a prompt brings weights from the host anew: it is large where a request is done sooner so.
    """
    found = _placed(asked, machine)
    if machine.device is None or isinstance(found, str) or not found.offload.moved_bytes or asked.piece != PIECE:
        return found
    large = _placed(msgspec.structs.replace(asked, piece=LARGE_PIECE), machine)
    prompt = min(asked.prompt, asked.context)
    rows = (found,) if isinstance(large, str) else (found, large)
    return min(rows, key=lambda row: prompt / row.prompt_per_s.value + _ANSWER / row.decode_per_s.value)


def _placed(asked: Asked, machine: Machine) -> LocalRow | str:
    """The model on the machine, its prompts in the pieces that are asked for."""
    alone = deployment_of(asked, machine.host.part) if machine.device is None else None
    if alone is not None:
        short = alone.pool.need.value - machine.host.memory_bytes
        if short > 0:
            return f"needs {_gib(alone.pool.need.value)} of {_gib(machine.host.memory_bytes)} of host memory"
        shares = shares_on(asked, alone)
        return join_sides(asked, machine, offload=place_layers(shares, layers=shares.layers, expert_layers=0))
    assert machine.device is not None
    at = deployment_of(asked, machine.device, count=machine.count)
    short = (at.pool.need.value - at.pool.limit_bytes) * machine.count
    shares = shares_on(asked, at)
    offload = smallest_placement(shares, short_by=short)
    room = machine.host.memory_bytes
    if offload is None or offload.moved_bytes > room:
        lacking = short if room <= 0 else short - room
        return f"needs {_gib(lacking)} more than the device" + (" and the host have" if room > 0 else " has")
    if machine.count == 1 or offload.layers or not offload.expert_layers:
        return join_sides(asked, machine, offload=offload)
    movable = shares.expert_bytes + shares.layer_bytes + shares.cache_bytes
    free = at.pool.limit_bytes - at.pool.need.value + movable / machine.count
    offload, split = deal_out(shares, offload, cards=machine.count, room_bytes=free)
    return msgspec.structs.replace(join_sides(asked, machine, offload=offload), split=split)


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


def deployment_of(asked: Asked, part: Accelerator, *, count: int = 1) -> Deployment:
    return deploy(case_at_home(asked, part, count=count), model=asked.model, accelerator=part)


def case_at_home(asked: Asked, part: Accelerator, *, count: int) -> ServeCase:
    """
    The case of one request at a time with all of the model on a part, or its layers spread over `count` of them; a
    prompt that the context has no room for is shortened.
    """
    prompt = min(asked.prompt, max(1, asked.context - _ANSWER))
    return ServeCase(
        model=asked.model,
        accelerator=part.id,
        traffic=Traffic(batch=1, static=True),
        isl=prompt,
        osl=_ANSWER,
        precision=asked.precision,
        engine=asked.engine or spread_engine().name,
        engine_options={"max_model_len": asked.context, "max_num_seqs": 1, "max_num_batched_tokens": asked.piece},
        layout=Layout(tp=count),
        split_mode="layer" if count > 1 else "tensor",
    )


def roomy(part: Accelerator) -> Accelerator:
    """The part as if there were always room."""
    return msgspec.structs.replace(part, memory_bytes=_ROOM, usable_memory_bytes=None)


def side_of(asked: Asked, part: Accelerator, *, count: int = 1) -> Side:
    """Times with all of the model in one memory, as if there were room."""
    at = deployment_of(asked, roomy(part), count=count)
    found, tier = served_latency(at)
    basis = at.basis_on(tier)
    errors = at.errors(basis, load="steady")
    return Side(at=at, token_s=found.tpot_s, prompt_s=found.ttft_s, basis=basis, errors=errors)


def device_room(asked: Asked, part: Accelerator, *, movable: float) -> tuple[float, float]:
    """
    Memory of a device for weights and cache, when so many bytes of them are all that may lie elsewhere; and what else
    lies there. [bytes]
    """
    pool = deployment_of(asked, part).pool
    fixed = max(0.0, pool.need.value - movable)
    return pool.limit_bytes - fixed, fixed


def shares_on(asked: Asked, at: Deployment) -> Shares:
    """Bytes of the model on a deployment: the cache that its context allocates, and half an answer behind a token."""
    whole = at.pool.bytes * at.memory_layout.ranks
    depth = at.case.isl + at.case.osl / 2.0
    return shares_of(asked.model, asked.precision, cache_bytes=whole, depth=depth, piece_tokens=asked.piece)


def join_sides(asked: Asked, machine: Machine, *, offload: Offload) -> LocalRow:
    """
    Both sides put together as a row; only the sides that are used are predicted. With both at work the rates rest on an
    assumption, not on measurements.
    """
    side = None if machine.device is None else side_of(asked, machine.device, count=machine.count)
    host = side_of(asked, machine.host.part) if offload.read_share > 0.0 else None
    shown = side or host
    assert shown is not None, "a model lies somewhere"
    moved = offload.layers + offload.expert_layers
    token_s = offloaded_token_s(
        device_s=shown.token_s,
        host_s=host.token_s if host else 0.0,
        host_share=offload.read_share,
        crossings=moved,
        crossing_s=CROSSING_S,
    )
    prompt = shown.at.case.isl
    prompt_s = shown.prompt_s
    if side is not None and host is not None:
        prompt_s = prompt_s_behind(asked, machine, prompt=prompt, device_s=prompt_s, offload=offload)
    basis = Basis.ASSUMED if side is not None and host is not None else shown.basis
    pool = deployment_of(asked, machine.device or machine.host.part, count=machine.count).pool
    return LocalRow(
        model=asked.model.id,
        precision=asked.precision,
        engine=spread_engine().title,
        context=asked.context,
        piece=None if asked.piece == PIECE else asked.piece,
        offload=offload,
        decode_per_s=_rate(shown, 1.0 / token_s, "tpot_s", basis),
        prompt_per_s=_rate(shown, prompt / prompt_s, "ttft_s", basis),
        weight_bytes=weight_bytes(asked.model, asked.precision).value,
        memory_bytes=pool.need.value * machine.count,
        most_context=_most_context(asked, machine, offload),
        level=shown.errors.level,
        notes=shown.at.notes,
        board_w=_board_w(shown, token_s, share=1.0 if side is None else 1.0 - offload.read_share, cards=machine.count),
    )


def prompt_s_behind(asked: Asked, machine: Machine, *, prompt: float, device_s: float, offload: Offload) -> float:
    """Seconds of so many prompt tokens whose pieces bring what was moved to the devices, which need `device_s`."""
    assert machine.device is not None
    return offloaded_prefill_s(
        device_s=device_s,
        moved_bytes=offload.streamed_bytes,
        pieces=math.ceil(prompt / asked.piece),
        link_bytes_per_s=machine.device.host_link.bytes_per_s or USUAL_LINK,
        link_share=LINK_SHARE,
        staged_bytes_per_s=STAGED_SHARE * machine.host.part.memory_bytes_per_s if asked.mapped else math.inf,
    )


def _board_w(side: Side, token_s: float, *, share: float, cards: int) -> Quantity | None:
    """
    Mean draw of one of the devices that take turns at a token, and of which the host takes a share; None where its
    limit is not published. [W]
    """
    while_busy = serving_load(side.at, running=1.0, tpot_s=side.token_s, requests_per_s=0.0)
    busy = share * side.token_s / token_s / cards
    load = spread(busy * while_busy.value + (1.0 - busy) * IDLE_DRAW, SUM)
    return watts_of(load, side.at.placement.accelerator)


def _rate(side: Side, value: float, name: str, basis: Basis) -> Quantity:
    return Quantity(value=value, unit="tokens/s", basis=basis).spread(side.errors.spread(name))


def _most_context(asked: Asked, machine: Machine, offload: Offload) -> int:
    """The largest context for which the weights may stay where they are, the one asked for at least. [tokens]"""
    part = machine.device or machine.host.part
    at = deployment_of(asked, part, count=machine.count)
    room = at.pool.limit_bytes * machine.count + offload.moved_bytes
    longest = asked.model.max_context or asked.context

    def fits(steps: int) -> bool:
        settings = msgspec.structs.replace(at.engine, max_model_len=steps * _STEP)
        there = kv_pool(
            asked.model,
            part,
            precision=at.placement.precision,
            engine=msgspec.structs.replace(at.running, settings=settings),
            layout=at.memory_layout,
            demand=Demand(context_tokens=steps * _STEP),
        )
        return there.need.value * machine.count <= (room if machine.device else machine.host.memory_bytes)

    return max(asked.context, min(longest, largest_whole(fits, most=max(1, longest // _STEP)) * _STEP))


# What of a model lies in host memory, and what a token then reads from there: as little as possible is moved. Of a
# mixture, experts go first, layer by layer, because a token reads few of them; whole layers with their cache follow
# only when all experts have gone. `Shares` counts the bytes once for a model in its formats; placing layers is
# arithmetic on them, so that a hundred placements cost nothing.

_ENDS = ("embedding", "head", "towers", "norms", "other")
"""Parts of the weights that belong to no layer."""


class Shares(Record, kw_only=True):
    """Bytes of one model in its formats, as far as they can be moved, and as far as a token reads them."""

    layers: int
    expert_layers: int
    expert_bytes: float
    """All routed experts of all layers. [bytes]"""
    layer_bytes: float
    """What else lies in layers. [bytes]"""
    cache_bytes: float
    """Of the context that is allocated. [bytes]"""
    read_expert_bytes: float
    """Experts that one token reads. [bytes]"""
    read_layer_bytes: float
    """The rest of the layers and the cache behind a token. [bytes]"""
    read_end_bytes: float
    """Head: read for each token, never moved unless everything is. [bytes]"""
    streamed_share: float
    """Share of the experts that one piece of a prompt needs. [-]"""

    @property
    def read_bytes(self) -> float:
        """All that one token reads. [bytes]"""
        return self.read_expert_bytes + self.read_layer_bytes + self.read_end_bytes


def shares_of(model: Model, precision: Precision, *, cache_bytes: float, depth: float, piece_tokens: float) -> Shares:
    """
    Counts the bytes of a model: with the cache that is allocated, what a token reads with so many tokens (`depth`)
    behind it, and the experts that a piece of a prompt needs.
    """
    weights = weight_bytes(model, precision)
    experts = weights.part("experts")
    ends = sum(weights.part(name) for name in _ENDS)
    mixtures = [(group.count, group.feed_forward) for group in model.layers if isinstance(group.feed_forward, Moe)]
    of_mixtures = sum(count for count, _ in mixtures)
    active = sum(n * moe.num_experts_per_tok / moe.num_experts for n, moe in mixtures) / max(1, of_mixtures)
    hit = sum(
        n
        * experts_hit(num_experts=moe.num_experts, num_experts_per_tok=moe.num_experts_per_tok, tokens=piece_tokens)
        / moe.num_experts
        for n, moe in mixtures
    ) / max(1, of_mixtures)
    behind = cache_bytes_per_sequence(model, precision.kv, context=depth)
    return Shares(
        layers=model.num_layers,
        expert_layers=of_mixtures,
        expert_bytes=experts,
        layer_bytes=weights.value - experts - ends,
        cache_bytes=cache_bytes,
        read_expert_bytes=experts * active,
        read_layer_bytes=weights.value - experts - ends + behind,
        read_end_bytes=weights.part("head") or weights.part("embedding"),
        streamed_share=hit,
    )


def place_layers(shares: Shares, *, layers: int, expert_layers: int) -> Offload:
    """
    The placement with so many whole layers, and the experts of so many layers, in host memory.

    Experts of moved layers have gone with them: with all layers moved nothing is left on the device.
    """
    whole = layers / shares.layers
    experts = max(whole, expert_layers / shares.expert_layers) if shares.expert_layers else 0.0
    moved_weights = experts * shares.expert_bytes + whole * shares.layer_bytes
    read = experts * shares.read_expert_bytes + whole * shares.read_layer_bytes
    everything = layers >= shares.layers
    return Offload(
        layers=layers,
        expert_layers=0 if everything else expert_layers,
        moved_bytes=moved_weights + whole * shares.cache_bytes,
        streamed_bytes=experts * shares.expert_bytes * shares.streamed_share + whole * shares.layer_bytes,
        read_share=1.0 if everything else read / shares.read_bytes,
    )


def smallest_placement(shares: Shares, *, short_by: float) -> Offload | None:
    """
    The placement that moves least and frees so many bytes (nothing moved where none are missing); None when moving all
    but one layer is not enough.
    """
    if short_by <= 0.0:
        return Offload()
    if shares.expert_layers:
        each = shares.expert_bytes / shares.expert_layers
        needed = math.ceil(short_by / each)
        if needed <= shares.expert_layers:
            return place_layers(shares, layers=0, expert_layers=needed)
    rest = (shares.layer_bytes + shares.cache_bytes) / shares.layers
    left = short_by - shares.expert_bytes
    if rest <= 0.0:
        return None
    layers = max(1, math.ceil(left / rest))
    if layers >= shares.layers:
        return None
    return place_layers(shares, layers=layers, expert_layers=shares.expert_layers)


def deal_out(shares: Shares, offload: Offload, *, cards: int, room_bytes: float) -> tuple[Offload, tuple[int, ...]]:
    """
    The layers of each of several equal cards where the first layers have their experts in host memory: as many bytes on
    each; and the placement with as many more of them moved as whole layers in a card's room take.
    """
    plain = (shares.layer_bytes + shares.cache_bytes) / shares.layers
    each = shares.expert_bytes / shares.expert_layers
    for moved in range(offload.expert_layers, shares.expert_layers + 1):
        kept = shares.expert_layers - moved
        sizes = [plain] * (shares.layers - kept) + [plain + each] * kept
        ends = list(itertools.accumulate(sizes))
        places = [int((end - size / 2.0) / ends[-1] * cards) for end, size in zip(ends, sizes, strict=True)]
        held = [sum(itertools.compress(sizes, map(card.__eq__, places))) for card in range(cards)]
        if max(held) <= room_bytes:
            break
    return place_layers(shares, layers=0, expert_layers=moved), tuple(map(places.count, range(cards)))
