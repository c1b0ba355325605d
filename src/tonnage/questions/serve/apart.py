"""
Would workers of their own be cheaper, for prompts and for answers, or for images?

For prompts and answers a unit is some prefill and some decode workers, all of one configuration that serves the load
on its own as well. Its capacity within the objectives is searched as a replica's is, with the same requests; as many
units as the load needs make the fleet. The cache of each prompt moves over the link that the unit has: inside an
instance where it fits into one, over the network otherwise.

For images three places compete in the ranking: beside the language model with the encoder's weights divided over its
tensor-parallel ranks (the engine's default), beside it with whole images dealt out to the ranks, and on accelerators of
their own in units with replicas (E/PD) or with prefill and decode workers (E/P/D). The first two are configurations
like others; units with encoders are looked at where those without are (`variations`). This module says of
the first option what each place would cost there.
"""

from __future__ import annotations

import math
from datetime import date
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tonnage.catalog import part_name
from tonnage.core.replica import Replica, state_of
from tonnage.core.session_reuse import reusing_replica
from tonnage.domain.layout import Layout
from tonnage.domain.plan import Configuration, PoolWorkers, SeparatePools, ServeOption, SimulatedCapacity
from tonnage.domain.requests.groups import Images
from tonnage.domain.requests.serve import Serve
from tonnage.domain.serve_parts import EncoderWay, ImageCosts
from tonnage.engines.registry import engine_spec, engine_title
from tonnage.physics.vision import encoder_of, encoder_work, token_bytes
from tonnage.questions.serve.chance import Curve, Odds
from tonnage.questions.serve.option import Candidate, bills_of, has_objectives, needed_of, replicas_of, share_of
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
from tonnage.units import percent, show
from tonnage.version import can_simulate

if TYPE_CHECKING:
    from tonnage.questions.serve.capacity_search import Trial
    from tonnage.simulation.disaggregated import Unit
    from tonnage.simulation.simulated import Requests

LOOKED_AT: Final = 3
"""Configurations, by what they cost as they are."""
GUESS: Final = 0.7
"""Of what the same workers take as replicas: where the search begins."""


def separate_pools(
    request: Serve, serving: list[tuple[Candidate, ServeOption]], *, first: ServeOption, today: date
) -> SeparatePools | None:
    """
    The cheapest fleet of pools among the configurations that cost least; None where none meets the objectives, and
    where nothing is looked at: no simulator, no rate (a number in flight instead), or no objective.
    """
    if not can_simulate() or request.rate_per_s is None or not has_objectives(request):
        return None
    from tonnage.questions.serve.capacity_search import draw_requests
    from tonnage.simulation.disaggregated import Unit

    requests = draw_requests(request)
    alike = [pair for pair in serving if pair[0].state.unit is None]
    cheapest = sorted(alike, key=lambda pair: (not pair[1].sure, pair[1].bill.usd_per_hour))[:LOOKED_AT]
    found = [
        one
        for candidate, _ in cheapest
        for workers in UNITS
        if (one := _pool_fleet(request, candidate, workers=workers, requests=requests, first=first, today=today))
        is not None
    ]
    if not found:
        return None
    best = min(found, key=lambda one: (one.bill.usd_per_hour, one.tpot_s))
    candidate = next(c for c, _ in cheapest if c.configuration == best.configuration)
    workers = best.prefill_workers + best.decode_workers
    together = Unit(prefill=0, decode=workers, transfer_s=0.0)
    _, both = _simulated_unit(request, candidate, worker=candidate.replica, unit=together, requests=requests)
    simulations = both.simulations + sum(one.simulations for one in found)
    best = replace(best, together_per_s=both.low_per_s, simulations=simulations)
    return replace(best, sentence=_pools_sentence(best))


def _pool_fleet(
    request: Serve, candidate: Candidate, *, workers: PoolWorkers, requests: Requests, first: ServeOption, today: date
) -> SeparatePools | None:
    """
    As many units as carry the peak load with headroom and spares, on the cheapest offer; None where a unit does not
    fit, misses the objectives at any rate, or no offer holds so many. `together_per_s` and `sentence` are the caller's.
    """
    ranks, count = candidate.configuration.layout.ranks, workers.prefill + workers.decode
    worker, state = unit_of(request, candidate, workers=workers)
    if state is None or (made := state.unit) is None:
        return None
    trial, seen = _simulated_unit(request, candidate, worker=worker, unit=made, requests=requests)
    if not seen.rate_per_s:
        return None
    units = replicas_of(request, trial.at(seen.low_per_s))
    bills = bills_of(candidate.site, replicas=units * count, ranks=ranks, request=request, today=today)
    if not bills:
        return None
    point = trial.at(share_of(request, units))
    return SeparatePools(
        configuration=candidate.configuration,
        prefill_workers=workers.prefill,
        decode_workers=workers.decode,
        units=units,
        accelerators=units * count * ranks,
        rate_per_s=seen.low_per_s,
        together_per_s=0.0,
        limit=seen.limit,
        ttft_s=point.ttft_tail_s,
        tpot_s=point.tpot_tail_s,
        transfer_s=made.transfer_s,
        leaves_node=made.leaves_node,
        bill=bills[0],
        saves=1.0 - bills[0].usd_per_hour / first.bill.usd_per_hour,
        simulations=seen.simulations,
        sentence="",
    )


def _simulated_unit(
    request: Serve, candidate: Candidate, *, worker: Replica, unit: Unit, requests: Requests
) -> tuple[Trial, SimulatedCapacity]:
    """
    How many requests per second one unit of a candidate's workers takes within the objectives, and the trial that says
    what requests see at other rates.
    """
    from tonnage.questions.serve.capacity_search import PRECISION, trial_of

    workers, best = unit.prefill + unit.decode, candidate.best
    held = best.concurrency * workers
    trial = trial_of(request, worker, requests=requests, guess=best, close=False, unit=unit, held=held)
    return trial, trial.capacity(best.rate_per_s * workers * GUESS, PRECISION[True])


def _pools_sentence(found: SeparatePools) -> str:
    """
    The pools in words: price against the first option's, latencies, and the rate of all units beside that of as many
    workers that are not disaggregated.
    """
    each = f"{found.prefill_workers} prefill + {found.decode_workers} decode workers"
    units = f"{found.units} units of {each}" if found.units > 1 else each
    saved = (
        f"{percent(found.saves)} less than"
        if found.saves > 0.005
        else ("as much as" if found.saves > -0.005 else f"{percent(-found.saves)} more than")
    )
    over = "the network" if found.leaves_node else "the link inside the instance"
    return (
        f"{units} of {found.configuration.label(part_name, engine_title)} ({found.accelerators} accelerators) cost"
        f" ${found.bill.usd_per_hour:,.2f}/h, {saved} the first option: TTFT {show(found.ttft_s, 's')}, TPOT"
        f" {show(found.tpot_s, 's')}; a cache takes {show(found.transfer_s, 's')} over {over}; beyond"
        f" {show(found.units * found.rate_per_s, 'count')} requests/s {found.limit} fails. As many workers that each do"
        f" both take {show(found.units * found.together_per_s, 'count')} requests/s behind routers of the same size."
    )


def image_costs(request: Serve, first: ServeOption, *, found: Candidate) -> ImageCosts | None:
    """
    What images cost on the first option's accelerators, wherever they are encoded; None without images. `found` is the
    first option's candidate, `ttft_share` the part of its mean TTFT that encoding and moving take (0 where no place is
    the option's own).
    """
    images = request.lengths.images
    if images is None:
        return None
    at = found.replica
    model = at.placement.model
    work = encoder_work(model, images, count=1.0, precision=at.placement.precision, layout=Layout())
    flop = sum(op.flop * op.count for op in work)
    ways = _encoder_ways(request, found)
    own = next((way for way in ways if way.configuration == first.configuration.label(part_name, engine_title)), None)
    share = min(1.0, (own.encode_s + own.move_s) / first.capacity.ttft_mean_s) if own is not None else 0.0
    return ImageCosts(
        images=images,
        encoder_parameters=encoder_of(model).parameters,
        flop=flop,
        token_bytes=token_bytes(model),
        ttft_share=share,
        sentence=_images_sentence(images, flop, own, share=share),
        ways=tuple(ways),
    )


def _encoder_ways(request: Serve, found: Candidate) -> list[EncoderWay]:
    """
    Each place of the encoder on the layout and formats of a candidate, by averages: both on the replica; then the
    cheapest unit of each kind, or the plan's own. Units are left out without a rate or an objective, and with data or
    pipeline parallelism.
    """
    base = replace(found.configuration, pools=None, engine=replace(found.configuration.engine, mm_encoder_tp_mode=None))
    made: list[EncoderWay] = []
    together: Candidate | None = None
    for configuration in encoder_modes(request, base):
        one = _with_encoder_place(request, found, configuration)
        together = together or one
        made.append(_way_on_replica(request, one))
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
        way = _way_in_units(request, together, workers)
        if way is not None:
            # The plan's own unit stands for its kind, whatever another would cost.
            key = workers != own, math.inf if way.usd_per_hour is None else way.usd_per_hour
            if way.name not in best or key < best[way.name][:2]:
                best[way.name] = *key, way
    return made + [best[name][2] for name in sorted(best)]


def _with_encoder_place(request: Serve, found: Candidate, configuration: Configuration) -> Candidate:
    """
    A candidate's site and offers with another place for the encoder, by averages. Where nothing fits or no objective is
    met, replica, state or capacity that it lacks stay those of `found`.
    """
    model = found.replica.placement.model
    replica = reusing_replica(request, configuration, model=model, accelerator=found.site.accelerator)
    made = replace(found, configuration=configuration, replica=replica, tested=None, scale=1.0)
    if replica.times is None:
        return made
    state = state_of(request, replica)
    best, binds = state.largest()
    made = replace(made, state=state, odds=Odds(Curve(request, replica, state=state), request.slo))
    return made if best is None else replace(made, best=best, binds=binds)


def _way_on_replica(request: Serve, one: Candidate) -> EncoderWay:
    """
    The encoder beside the language model of a replica: seconds a request, bytes of one accelerator, and requests per
    second of one replica at the confidence asked for. Rate 0 and no price where it does not fit or meets no objective.
    """
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
        configuration=one.configuration.label(part_name, engine_title),
        encode_s=fixed + each * images.per_request,
        move_s=0.0,
        hits=hits,
        memory_bytes=2.0 * encoder_of(at.placement.model).parameters + held,
        rate_per_s=rate,
        accelerators=one.configuration.ranks,
        usd_per_hour=_cost(request, one) if rate > 0.0 else None,
    )


def _way_in_units(request: Serve, one: Candidate, workers: PoolWorkers) -> EncoderWay | None:
    """
    A unit of such workers, with encoders of its own or with images encoded by its prefill workers; None where a unit
    does not fit. Rate 0 and no price where it meets no objective; the rate is of one unit, the price of the fleet.
    """
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
        beside = _way_on_replica(request, replace(one, replica=worker))
        name, ranks = "on prefill workers, decode apart", configuration.ranks
        return replace(
            beside,
            name=name,
            configuration=configuration.label(part_name, engine_title),
            rate_per_s=rate,
            usd_per_hour=cost,
            accelerators=ranks,
        )
    passes = math.ceil(max(1.0, e.images) / e.workers - 1e-9) * min(1.0, e.images)
    split = "disaggregated" if workers.prefill else "prompts and answers together"
    model = worker.placement.model
    return EncoderWay(
        name=f"on encoders of their own ({split})",
        configuration=configuration.label(part_name, engine_title),
        encode_s=passes * e.image_s,
        move_s=e.moved_s,
        hits=1.0 - e.images / images.per_request,
        memory_bytes=encoder_bytes(model, images),
        rate_per_s=rate,
        accelerators=configuration.ranks,
        usd_per_hour=cost,
    )


def _cost(request: Serve, one: Candidate) -> float | None:
    """Of the fleet for the peak load, by averages; None where no offer holds it. [USD/h]"""
    usd = one.cost(request, needed_of(request, one)).usd
    return None if math.isinf(usd) else usd


def _images_sentence(images: Images, flop: float, own: EncoderWay | None, *, share: float) -> str:
    cut = f" in {images.tiles:g} tiles" if images.tiles > 1 else ""
    size = f"{images.tiles * images.patches:,.0f} patches{cut}, {images.tokens:,.0f} tokens of the prompt"
    taken = f"; encoding takes {show(own.encode_s + own.move_s, 's')}, {percent(share)} of the mean TTFT" if own else ""
    return f"An image is {size}, {show(flop, 'FLOP')} to encode{taken}."
