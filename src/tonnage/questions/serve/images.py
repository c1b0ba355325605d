"""
Where should images be encoded, and what does each place cost?

Three places compete in the ranking: beside the language model with the encoder's weights divided over its
tensor-parallel ranks (the engine's default), beside it with whole images dealt out to the ranks, and on accelerators of
their own in units with replicas (E/PD) or with prefill and decode workers (E/P/D). The first two are configurations
like others; units with encoders are looked at where those without are (`variations`). This module says of
the first option what each place would cost there.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from tonnage.core.session_reuse import reusing_replica
from tonnage.core.steady_state import state_of
from tonnage.domain.images import EncoderWay, ImageCosts
from tonnage.domain.layout import Layout
from tonnage.domain.plan import Configuration, PoolWorkers, ServeOption
from tonnage.domain.requests.images import Images
from tonnage.domain.requests.serve import Serve
from tonnage.engines.registry import engine_spec
from tonnage.physics.vision import encoder_of, encoder_work, token_bytes
from tonnage.questions.serve.chance import Curve, Odds
from tonnage.questions.serve.option import Candidate, has_objectives, needed_of
from tonnage.questions.serve.variations import (
    UNITS,
    encoder_bytes,
    encoder_modes,
    in_units_of,
    unit_of,
    with_encoders,
)
from tonnage.simulation.encoder import (
    FULL,
    encoder_share,
    hits_of,
    kept_bytes,
)
from tonnage.units import show


def image_costs(request: Serve, first: ServeOption, *, found: Candidate) -> ImageCosts | None:
    """What images cost on the first option's accelerators, wherever they are encoded."""
    images = request.lengths.images
    if images is None:
        return None
    at = found.replica
    model = at.placement.model
    work = encoder_work(model, images, count=1.0, precision=at.placement.precision, layout=Layout())
    flop = sum(op.flop * op.count for op in work)
    ways = _ways(request, found)
    own = next((way for way in ways if way.configuration == first.configuration.label()), None)
    share = min(1.0, (own.encode_s + own.move_s) / first.capacity.ttft_mean_s) if own is not None else 0.0
    return ImageCosts(
        images=images,
        encoder_parameters=encoder_of(model).parameters,
        flop=flop,
        token_bytes=token_bytes(model),
        ttft_share=share,
        sentence=_sentence(images, flop, own, share=share),
        ways=tuple(ways),
    )


def _ways(request: Serve, found: Candidate) -> list[EncoderWay]:
    """Each place, on the layout and the formats of a candidate, by averages."""
    base = replace(found.configuration, pools=None, engine=replace(found.configuration.engine, mm_encoder_tp_mode=None))
    made: list[EncoderWay] = []
    together: Candidate | None = None
    for configuration in encoder_modes(request, base):
        one = _candidate(request, found, configuration)
        together = together or one
        made.append(_beside(request, one))
    if together is None or request.rate_per_s is None or not has_objectives(request):
        return made
    if base.layout.dp * base.layout.pp > 1:
        return made
    spec = engine_spec(base.engine.name)
    sizes = list(UNITS) if spec.hands_over_caches else []
    sizes += with_encoders(request, together) if spec.encodes_apart else []
    own = found.configuration.pools
    best: dict[str, tuple[bool, float, EncoderWay]] = {}
    for workers in sizes:
        way = _apart(request, together, workers)
        if way is not None:
            # The plan's own unit stands for its kind, whatever another would cost.
            key = workers != own, math.inf if way.usd_per_hour is None else way.usd_per_hour
            if way.name not in best or key < best[way.name][:2]:
                best[way.name] = *key, way
    return made + [best[name][2] for name in sorted(best)]


def _candidate(request: Serve, found: Candidate, configuration: Configuration) -> Candidate:
    """The same site with another place for the encoder, as far as it can be looked at."""
    model = found.replica.placement.model
    replica = reusing_replica(request, configuration, model=model, accelerator=found.site.accelerator)
    made = replace(found, configuration=configuration, replica=replica, simulated=None, point=None, scale=1.0)
    if replica.times is None:
        return made
    state = state_of(request, replica)
    best, binds = state.largest()
    made = replace(made, state=state, odds=Odds(Curve(request, replica, state=state), request.slo))
    return made if best is None else replace(made, best=best, binds=binds)


def _beside(request: Serve, one: Candidate) -> EncoderWay:
    at, images = one.replica, request.lengths.images
    assert images is not None
    tp, dealt = at.placement.layout.tp, at.engine.mm_encoder_tp_mode == "data"
    budget = float(at.engine.max_num_batched_tokens or FULL)
    kept = kept_bytes(at.placement.model, images, budget=budget)
    hits = hits_of(at.placement.model, images, kept=kept)
    fixed, each = encoder_share(at.placement, at.overheads, images=images, budget=budget, hits=hits, dealt=dealt)
    memory = at.pool.memory if at.pool.verdict.ok else at.pool.need
    held = sum(part.value for part in memory.parts if part.name.startswith("images: "))
    rate = one.odds.capacity(request.confidence) if one.replica.times is not None else 0.0
    name = "whole images dealt out to the ranks" if dealt else "divided over the ranks" if tp > 1 else "on the replica"
    return EncoderWay(
        name=f"beside the language model, {name}",
        configuration=one.configuration.label(),
        encode_s=fixed + each * images.per_request,
        move_s=0.0,
        hits=hits,
        memory_bytes=2.0 * encoder_of(at.placement.model).parameters + held,
        rate_per_s=rate,
        accelerators=one.configuration.ranks,
        usd_per_hour=_cost(request, one) if rate > 0.0 else None,
    )


def _apart(request: Serve, one: Candidate, workers: PoolWorkers) -> EncoderWay | None:
    worker, state = unit_of(request, one, workers=workers)
    images = request.lengths.images
    if state is None or state.unit is None or images is None:
        return None
    configuration = in_units_of(one.configuration, workers)
    best, _ = state.largest()
    rate, cost = 0.0, None
    if best is not None:
        odds = Odds(Curve(request, worker, state=state), request.slo)
        made = replace(one, configuration=configuration, replica=worker, best=best, odds=odds, state=state)
        rate = odds.capacity(request.confidence)
        cost = _cost(request, made) if rate > 0.0 else None
    e = state.unit.encoders
    if e is None:
        beside = _beside(request, replace(one, replica=worker))
        name, ranks = "on prefill workers, decode apart", configuration.ranks
        return replace(
            beside,
            name=name,
            configuration=configuration.label(),
            rate_per_s=rate,
            usd_per_hour=cost,
            accelerators=ranks,
        )
    passes = math.ceil(max(1.0, e.images) / e.workers - 1e-9) * min(1.0, e.images)
    split = "disaggregated" if workers.prefill else "prompts and answers together"
    model = worker.placement.model
    return EncoderWay(
        name=f"on encoders of their own ({split})",
        configuration=configuration.label(),
        encode_s=passes * e.image_s,
        move_s=e.moved_s,
        hits=1.0 - e.images / images.per_request,
        memory_bytes=encoder_bytes(model, images),
        rate_per_s=rate,
        accelerators=configuration.ranks,
        usd_per_hour=cost,
    )


def _cost(request: Serve, one: Candidate) -> float | None:
    """Of the fleet for the whole load, by averages. [USD/h]"""
    usd = one.cost(request, needed_of(request, one)).usd
    return None if math.isinf(usd) else usd


def _sentence(images: Images, flop: float, own: EncoderWay | None, *, share: float) -> str:
    cut = f" in {images.tiles:g} tiles" if images.tiles > 1 else ""
    size = f"{images.tiles * images.patches:,.0f} patches{cut}, {images.tokens:,.0f} tokens of the prompt"
    taken = f"; encoding takes {show(own.encode_s + own.move_s, 's')}, {share:.0%} of the mean TTFT" if own else ""
    return f"An image is {size}, {show(flop, 'FLOP')} to encode{taken}."
