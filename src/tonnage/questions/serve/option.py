"""
One configuration as an option: replicas for the load, the offers that rent them, what its requests see, what it costs.

What one replica takes comes in as a `Point`, from the mean field or from the simulator: nothing here asks which.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from tonnage.catalog import providers
from tonnage.core.board_power import serving_load, steady_load
from tonnage.core.host import LoadShare, energy_use, offer_of, serving_needs
from tonnage.core.replica import Replica, errors_at
from tonnage.core.sites import Site
from tonnage.domain.answer import Quantity
from tonnage.domain.money import Offer, Term
from tonnage.domain.plan import Bill, Capacity, Configuration, ServeOption, SimulatedCapacity
from tonnage.domain.requests.groups import Adapters
from tonnage.domain.requests.serve import Serve
from tonnage.domain.serve_parts import Roofline, RooflinePoint
from tonnage.physics.efficiency import peak_flop_per_s
from tonnage.physics.operators import operator_s
from tonnage.physics.transformer import Tokens, step_work
from tonnage.physics.work import Work
from tonnage.pricing.bills import HOURS_PER_MONTH, bill, hourly_usd, instances_needed, usd_per_hour_of
from tonnage.pricing.energy import busy_share
from tonnage.pricing.terms import billing_rules, idle_usd, unit_costs
from tonnage.questions.serve import narrative
from tonnage.questions.serve.chance import PRECISE, Odds
from tonnage.record import Record
from tonnage.simulation.capacity import Point, Steady, stated
from tonnage.simulation.router import peak_load, replicas_in_all, working_replicas
from tonnage.simulation.step_parts import Placement

if TYPE_CHECKING:
    from tonnage.questions.serve.capacity_search import SearchedCapacity


SEATS: Final = frozenset({"kv", "batch"})
"""What binds where only room for more requests is missing."""
ROUNDING: Final = 1e-9
MIN_SHARE: Final = 0.01
"""Operators that take less of their step are left out of the roofline. [-]"""
OFFERS: Final = 4
"""Of one site that an option keeps: what it is ranked by, and others."""


class Candidate(Record, kw_only=True):
    """A configuration that holds the model and meets the objectives by the mean field."""

    site: Site
    configuration: Configuration
    replica: Replica
    best: Point
    """At capacity."""
    binds: str
    """What stops it from taking more."""
    tested: SearchedCapacity | None = None
    """Its simulations; absent = it was not simulated."""
    state: Steady
    """By the mean field: the replica, or prefill and decode workers in its place, of which `replica` is then one."""
    odds: Odds
    """Of meeting the objectives, by the mean field."""
    unmade: bool = False
    """No checkpoint in its weights is known."""
    scale: float = 1.0
    """Simulated capacity over the mean field's. [-]"""

    @property
    def simulated(self) -> SimulatedCapacity | None:
        """What the simulation said of one replica; None where it was not simulated."""
        return self.tested.found if self.tested is not None else None

    def seen(self, request: Serve, share: float) -> Point | None:
        """What requests see at a load of one replica, by simulation; None without. [1/s or requests]"""
        if self.tested is None:
            return None
        from tonnage.questions.serve.capacity_search import point_at

        return point_at(request, self.tested, share=share)

    def chance(self, request: Serve, replicas: int, *, factor: float = 1.0) -> float | None:
        """
        That so many replicas, each of which takes `factor` times what is predicted, meet every objective at the peak;
        None without objectives. [-]
        """
        share = share_of(request, replicas, adapters=self.configuration.engine.adapters)
        return self.odds.chance(share / (self.scale * factor)) if has_objectives(request) else None

    def firm(self, request: Serve, confidence: float | None = None) -> float:
        """
        The load that one replica meets with the confidence asked for (`confidence` overrides the request's); 0 = none.
        [1/s or requests]
        """
        return self.odds.capacity(request.confidence if confidence is None else confidence) * self.scale

    def cost(self, request: Serve, replicas: int) -> Cost:
        """What so many replicas cost at the best of the site's offers; infinite where none holds them."""
        return least_cost_of(self.site, replicas=replicas, ranks=self.configuration.ranks, request=request)


def is_sure(request: Serve, chance: float | None) -> bool:
    """Whether a chance is that asked for; None where nothing is."""
    return chance is None or chance >= request.confidence - ROUNDING


def has_objectives(request: Serve) -> bool:
    """Whether a latency is limited."""
    return bool(stated(request.slo))


def replicas_of(
    request: Serve,
    best: Point,
    *,
    factor: float = 1.0,
    firm: float | None = None,
    seats: bool = False,
    adapters: Adapters | None = None,
) -> int:
    """
    Replicas for the peak: within their predicted capacity less the headroom, and within what they meet surely enough.

    `best` is at the predicted capacity of one, `factor` says how many times that is taken, `firm` which load one meets
    with the confidence asked for (none, or 0, asks for headroom alone). Where only `seats` bind, a stated number in
    flight takes its seats and no headroom. Merged `adapters` have replicas of their own.
    """
    kept = 0.0 if seats and request.rate_per_s is None else request.headroom
    needed = peak_load(request) / (load_at(request, best) * factor * (1.0 - kept))
    if firm:
        needed = max(needed, peak_load(request) / (firm * factor))
    if adapters is not None and adapters.kept == "merged":
        from tonnage.simulation.adapters import merged_replicas

        return merged_replicas(adapters, needed=needed, spare=request.spare_replicas, zones=request.zones)
    return replicas_in_all(request, needed)


def needed_of(request: Serve, found: Candidate, *, factor: float = 1.0, confidence: float | None = None) -> int:
    """
    Replicas of a candidate, spares included: as many as its predicted capacity (times `factor`) and the confidence call
    for.
    """
    firm = found.firm(request, confidence) if has_objectives(request) else None
    count = partial(
        replicas_of,
        request,
        found.best,
        factor=factor,
        seats=found.binds in SEATS,
        adapters=found.configuration.engine.adapters,
    )
    needed = count(firm=firm)
    # What one meets is known to a factor: where that decides on a replica, the chance of fewer does.
    fewer = count(firm=firm * PRECISE) if firm else needed
    if fewer < needed and (found.chance(request, fewer, factor=factor) or 0.0) >= (confidence or request.confidence):
        return fewer
    return needed


def share_of(request: Serve, replicas: int, *, adapters: Adapters | None = None) -> float:
    """What the busiest working replica gets at the peak: requests per second, or in flight where a number is asked."""
    if adapters is not None and adapters.kept == "merged":
        from tonnage.simulation.adapters import busiest_share

        spare, zones = request.spare_replicas, request.zones
        return busiest_share(adapters, peak_load(request), replicas=replicas, spare=spare, zones=zones)
    return peak_load(request) / working_replicas(request, replicas)


def load_at(request: Serve, point: Point) -> float:
    """The load of a steady state as the request states its own: arrivals, or requests in flight. [1/s or requests]"""
    return point.concurrency if request.rate_per_s is None else point.rate_per_s


class Cost(NamedTuple):
    """What so many replicas cost at the best of a site's offers."""

    unlisted: bool
    """No primary source states the price."""
    compared: float
    """What it is compared by; infinite where no offer holds a replica. [USD/h]"""
    usd: float
    """[USD/h]"""


def bills_of(site: Site, *, replicas: int, ranks: int, request: Serve, today: date) -> list[Bill]:
    """
    What so many replicas cost on the first few offers of the site, prices that sellers state first, then by cost; empty
    where none holds a replica or has so many.
    """
    first = sorted(costs_of(site, replicas=replicas, ranks=ranks, request=request), key=itemgetter(0))[:OFFERS]
    made = (bill(offer, replicas=replicas, ranks=ranks, term=term, today=today) for _, offer, term in first)
    return [b for b in made if isinstance(b, Bill)]


def least_cost_of(site: Site, *, replicas: int, ranks: int, request: Serve) -> Cost:
    """The cost of the first of the bills that `bills_of` makes, without making it; infinite where there is none."""
    costs = (cost for cost, *_ in costs_of(site, replicas=replicas, ranks=ranks, request=request))
    return min(costs, default=Cost(True, math.inf, math.inf))


def costs_of(site: Site, *, replicas: int, ranks: int, request: Serve) -> Iterator[tuple[Cost, Offer, Term]]:
    """What so many replicas cost on each offer of the site and each term of the request that holds them."""
    for offer in site.offers:
        if not site.takes(offer, ranks):
            continue
        instances = instances_needed(replicas=replicas, ranks=ranks, per_instance=offer.count)
        if offer.stock is not None and instances * offer.count > offer.stock:
            continue
        for term in request.filters.terms:
            found = hourly_usd(offer, instances=instances, term=term)
            if found is not None:
                usd, compared = found
                yield Cost(offer.trust_of(term) != "primary", compared, usd), offer, term


def option_of(
    request: Serve,
    found: Candidate,
    *,
    bills: list[Bill],
    replicas: int | None = None,
    confidence: float | None = None,
) -> ServeOption:
    """
    The option with as many replicas as it needs for the confidence (absent: the request's), or with `replicas` where so
    many are there already, on the first of its bills, which must not be empty.
    """
    replica, best = found.replica, found.best
    replicas = replicas or needed_of(request, found, confidence=confidence)
    ranks = found.configuration.ranks
    working = working_replicas(request, replicas)
    share = share_of(request, replicas, adapters=found.configuration.engine.adapters)
    steady = found.state.at(share) if request.rate_per_s is None else found.state.at_rate(share)[0]
    point = found.seen(request, share) or steady
    carried = point.rate_per_s * working / request.shape.peak_to_mean
    # A rate that was asked for is the mean load itself; a number in flight becomes one by the latencies found.
    mean_rate = request.rate_per_s if request.rate_per_s is not None else carried
    tokens_per_s = mean_rate * request.lengths.output_tokens
    capacity = _capacity(request, found, point=point, steady=steady)
    cost = _cost_interval(request, bills[0], found=found, confidence=confidence)
    chance = found.chance(request, replicas)
    return ServeOption(
        configuration=found.configuration,
        replicas=replicas,
        accelerators=replicas * ranks,
        capacity=capacity,
        memory=replica.pool.memory,
        limit_bytes=replica.pool.limit_bytes,
        kv_tokens=replica.kv_tokens,
        bill=bills[0],
        other_offers=tuple(bills[1:OFFERS]),
        cost=cost,
        headroom=1.0 - share / load_at(request, best),
        usd_per_month=cost.value * HOURS_PER_MONTH,
        usd_per_million_output_tokens=cost.value / (tokens_per_s * 3600.0) * 1e6,
        basis=str(replica.basis),
        chance=chance,
        sure=is_sure(request, chance),
        reuse=replica.reuse,
    )


def _cost_interval(request: Serve, made: Bill, *, found: Candidate, confidence: float | None) -> Quantity:
    """
    Cost of an hour of the fleet with its lines, and what it becomes when capacity lies at either end of its interval.
    """
    ranks, replica = found.configuration.ranks, found.replica
    error = replica.rate_error
    # The value planned with is the lower bound of the simulation's own interval.
    more = found.simulated.high_per_s / found.simulated.low_per_s if found.simulated else 1.0
    needed = partial(needed_of, request, found, confidence=confidence)
    fewest, most = (needed(factor=factor) for factor in (error.at(1.0) * more, error.at(-1.0)))
    return Quantity(
        value=made.usd_per_hour,
        unit="USD/h",
        low=usd_per_hour_of(made, replicas=fewest, ranks=ranks),
        high=usd_per_hour_of(made, replicas=most, ranks=ranks),
        basis=replica.basis,
        parts=made.lines,
    )


def _capacity(request: Serve, found: Candidate, *, point: Point, steady: Point) -> Capacity:
    """
    What requests see at a point (latencies), beside the largest rate of one replica; its intervals are those of the
    steady state of the same load, simulated or not.
    """
    replica, best, seen = found.replica, found.best, found.simulated
    # A number in flight is as a closed loop: how long requests take changes the rate, not the queue.
    state = None if request.rate_per_s is None else found.state
    errors = errors_at(replica, steady, prompt_tokens=request.lengths.prompt_tokens, state=state)
    rate = Quantity(value=best.rate_per_s, unit="1/s", basis=replica.basis).spread(replica.rate_error)
    if seen is not None:
        rate = msgspec.structs.replace(rate, high=seen.high_per_s * replica.rate_error.at(1.0))
    full = (
        seen is None
        and found.configuration.pools is None
        and found.binds == "kv"
        and best.concurrency >= replica.max_num_seqs * 0.999
    )
    return Capacity(
        max_rate_per_s=rate,
        concurrency=point.concurrency,
        ttft_s=errors.quantity("ttft_s", point.ttft_tail_s, unit="s", basis=replica.basis),
        tpot_s=errors.quantity("tpot_s", point.tpot_tail_s, unit="s", basis=replica.basis),
        ttft_mean_s=point.ttft_mean_s,
        tpot_mean_s=point.tpot_mean_s,
        binds="batch" if full else found.binds,
        binds_text=narrative.binds_text(found.binds, best, replica=replica, seen=seen),
        prompt_share=_prompt_share(found, point),
        simulated=seen,
    )


def _prompt_share(found: Candidate, point: Point) -> float:
    """
    Share of a replica's working time that prompts take, the rest being decoding; of pools the share of prefill workers.
    [-]
    """
    pools, times = found.configuration.pools, found.state.times
    if pools is not None and pools.prefill:
        return pools.prefill / (pools.prefill + pools.decode)
    return min(1.0, point.rate_per_s * times.prefill_work_s / busy_share(mean_requests=point.concurrency))


def add_costs(request: Serve, option: ServeOption, *, found: Candidate) -> ServeOption:
    """
    The option with its unit costs, what its host must bring, how it is billed, and its energy at the mean load of the
    fleet.
    """
    capacity, lengths = option.capacity, request.lengths
    working = working_replicas(request, option.replicas)
    # usd_per_million_output_tokens was made at the mean load, so the mean rate follows from it exactly.
    tokens_per_s = option.cost.value / option.usd_per_million_output_tokens * 1e6 / 3600.0
    largest = capacity.max_rate_per_s.value * working
    load, busy = _load_at_mean(request, option, found=found, rate_per_s=tokens_per_s / lengths.output_tokens)
    return replace(
        option,
        unit_costs=unit_costs(
            usd_per_hour=option.cost.value,
            requests_per_s=tokens_per_s / lengths.output_tokens,
            prompt_tokens=lengths.prompt_tokens,
            output_tokens=lengths.output_tokens,
            prompt_share=capacity.prompt_share,
            max_requests_per_s=largest,
        ),
        idle_usd_per_month=idle_usd(
            usd_per_hour=option.cost.value, busy_share=min(1.0, tokens_per_s / lengths.output_tokens / largest)
        ),
        needs=serving_needs(option.configuration.layout, weight_bytes=option.weight_bytes, offer=offer_of(option.bill)),
        billing=billing_rules(providers().get(option.bill.provider)),
        energy=energy_use(
            found.site.accelerator,
            count=float(option.accelerators),
            busy=busy,
            bill=option.bill,
            output_tokens_per_s=tokens_per_s,
            load=load,
        ),
    )


def _load_at_mean(
    request: Serve, option: ServeOption, *, found: Candidate, rate_per_s: float
) -> tuple[LoadShare, float]:
    """
    What the accelerators of a replica are loaded with while they work, at the mean rate of the whole fleet
    (`rate_per_s`), and the share of time at work. [-]
    """
    at, pools = found.replica, option.configuration.pools
    each = rate_per_s / option.replicas
    if pools is None:
        return steady_load(at, found.state.at_rate(each)[0])
    working = working_replicas(request, option.replicas)
    in_flight = option.capacity.concurrency * working / request.shape.peak_to_mean / option.replicas
    # While a unit works it holds more than on average, and a step gives each of these a token.
    busy, tokens = busy_share(mean_requests=in_flight), each * request.lengths.output_tokens
    load = serving_load(
        at,
        running=in_flight / busy,
        tpot_s=in_flight / tokens,
        requests_per_s=each / busy,
        workers=(pools.prefill, pools.decode),
    )
    return load, busy


def roofline(request: Serve, option: ServeOption, *, found: Candidate) -> Roofline:
    """The operators of a decode step at the planned load and of one prompt, beside the ceilings they run under."""
    lengths, accelerator = request.lengths, found.site.accelerator
    placement, layout = found.replica.placement, option.configuration.layout
    work = partial(step_work, placement.model, precision=placement.precision, layout=layout, attends=placement.attends)
    running = max(1.0, option.capacity.concurrency / layout.dp)
    context = lengths.prompt_tokens + lengths.output_tokens / 2.0
    decode = work(Tokens(decodes=running, context=context, emitted=running))
    prefill = work(Tokens(prompts=1.0, chunk=lengths.prompt_tokens, emitted=1.0))
    formats = {op.compute for op in (*decode, *prefill) if op.flop > 0}
    return Roofline(
        accelerator=accelerator.id,
        memory_bytes_per_s=accelerator.memory_bytes_per_s,
        peaks={name: peak_flop_per_s(accelerator, name) for name in sorted(formats)},
        points=(*_points("decode", decode, placement), *_points("prefill", prefill, placement)),
    )


def _points(phase: str, work: Work, placement: Placement) -> tuple[RooflinePoint, ...]:
    """
    One point for each operator and format, the slowest first; operators that take under `MIN_SHARE` of the step or
    compute nothing are left out.
    """
    sums: dict[tuple[str, str], tuple[float, float, float]] = {}
    for op in work:
        seconds = operator_s(op, accelerator=placement.accelerator, ladder=placement.ladder)[0]
        flop, moved, took = sums.get((op.name, op.compute), (0.0, 0.0, 0.0))
        sums[op.name, op.compute] = (
            flop + op.flop * op.count,
            moved + (op.read_bytes + op.write_bytes) * op.count,
            took + seconds * op.count,
        )
    whole = sum(took for _, _, took in sums.values())
    points = [
        RooflinePoint(
            phase=phase,
            operator=name,
            compute=compute,
            flop_per_byte=flop / moved,
            flop_per_s=flop / took,
            share=took / whole,
        )
        for (name, compute), (flop, moved, took) in sums.items()
        if flop > 0 and moved > 0 and took / whole >= MIN_SHARE
    ]
    return tuple(sorted(points, key=lambda point: -point.share))
