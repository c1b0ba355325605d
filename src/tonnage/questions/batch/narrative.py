"""
The words of a batch plan: why it leads, what haste costs, what spot risks, what is in the way or would help.

What would change it: items and deadlines need no new search: the same replicas work for longer, or more of them.
Lengths do, and are asked for a few of the best at doubling lengths, with the rates between drawn on logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from tonnage.catalog import accelerators_text, model_name, part_name, provider_name, seller
from tonnage.core.break_even import (
    DOUBLINGS,
    Axis,
    Contender,
    break_even_along,
    break_even_prices,
    scaled_at,
)
from tonnage.core.header import COMMUNITY, Context, names_taken
from tonnage.core.ranking import frontier
from tonnage.domain.answer import Quantity, Verdict
from tonnage.domain.batch_plan import BatchOption, TradeOff, cheapest_on
from tonnage.domain.plan import BreakEven, Configuration
from tonnage.domain.refusal import refusal
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.serve import Batch
from tonnage.engines.registry import engine_title
from tonnage.questions.batch.work import Candidate, JobRun, Work
from tonnage.questions.serve.limits import unmade_text
from tonnage.units import percent, show, whole_percent

MAX_KINDS: Final = 8
"""Kinds of accelerators that are told side by side."""


LARGEST_FLEET: Final = 256
"""Accelerators of the largest fleet looked at, where the request names no limit. List prices are no stock."""
MAX_POINTS: Final = 12
"""Of the frontier that are kept."""
WORTH_A_POINT: Final = 1.1
"""Times faster than the point before. [-]"""


def purpose(asked: Context[Batch]) -> str:
    """What is asked for."""
    return f"to finish {asked.request.items:,.0f} items of {model_name(asked.request.model)}"


def sentence(asked: Context[Batch], options: tuple[BatchOption, ...]) -> str:
    """The answer in one sentence."""
    request = asked.request
    best = options[0]
    old = ", old price" if best.bill.stale else ""
    layout = f"{best.replicas} x {best.configuration.label(part_name, engine_title)}"
    return (
        f"Rent {best.bill.instances} x {best.bill.instance_type} ({accelerators_text(best)}) at {seller(best.bill)} "
        f"for {best.wall_s.shown()}: {best.cost.shown()} for {request.items:,.0f} items, "
        f"{show(best.usd_per_thousand_items, 'USD')} a thousand ({best.bill.term}, {best.bill.as_of}{old}; {layout})."
    )


def describe_option(option: BatchOption) -> str:
    """An option in a few words."""
    when = f"in {show(option.wall_s.value, 's')} ({option.bill.term})"
    return f"{accelerators_text(option)} for {show(option.cost.value, 'USD')} {when}"


def lead_reason(first: BatchOption, *, confidence: float, timed: bool) -> str:
    """Why the first option leads."""
    if first.chance is None:
        return f"{'soonest' if timed else 'cheapest'} (no deadline given)"
    asked = whole_percent(confidence)
    if not first.sure:
        return f"likeliest to be in time: {whole_percent(first.chance)}, and none has {asked}"
    return f"cheapest that is in time with at least {asked} ({whole_percent(first.chance)})"


def risk(option: BatchOption, *, lacks: Callable[[Configuration], bool]) -> str:
    """
    How likely an option is in time where that is less than asked for, and that its checkpoint has to be made first
    where `lacks` says so; empty otherwise.
    """
    late = "" if option.chance is None or option.sure else f"in time with {whole_percent(option.chance)} only"
    return "; ".join(filter(None, (late, unmade_text(option.configuration) if lacks(option.configuration) else "")))


def arithmetic(option: BatchOption) -> str:
    """What one replica finishes, and what limits the requests it holds."""
    lost = f", {percent(1 - option.useful)} of its hours lost to spot preemptions" if option.useful < 1 else ""
    held = {"kv": "the KV cache is full", "batch": "the engine takes no more"}
    return (
        f"a replica finishes {show(option.items_per_s.value, '1/s')} with {option.concurrency:,.0f} at once "
        f"({held[option.binds]}){lost}"
    )


def trade_offs(found: Iterable[JobRun]) -> tuple[TradeOff, ...]:
    """
    Cost against time over every number of instances: cheapest first, each faster than the one before by a tenth at
    least; some of them where they are many.
    """
    points: list[JobRun] = []
    for one in found:
        at, most = one.at, one.at.fastest
        doubled = (at.step * 2**power for power in range(10))
        sizes = sorted({one.instances, most, *(size for size in doubled if size <= most)})
        points += [at.run(instances) for instances in sizes]
    kept = [points[i] for i in frontier(points, objectives=(lambda p: p.usd, lambda p: p.wall_s))]
    kept.sort(key=lambda point: point.usd)
    thinned = kept[:1]
    for point in kept[1:]:
        if thinned[-1].wall_s / point.wall_s >= WORTH_A_POINT:
            thinned.append(point)
    return tuple(_trade_off(point, cheapest=thinned[0]) for point in _spread(thinned))


def _spread(points: list[JobRun]) -> list[JobRun]:
    """At most `MAX_POINTS` of the points, evenly, both ends kept."""
    if len(points) <= MAX_POINTS:
        return points
    step = (len(points) - 1) / (MAX_POINTS - 1)
    return [points[round(i * step)] for i in range(MAX_POINTS)]


def _trade_off(run: JobRun, *, cheapest: JobRun) -> TradeOff:
    return TradeOff(
        label=f"{run.at.work.configuration.label(part_name, engine_title)} at {provider_name(run.at.offer.provider)}",
        accelerators=run.accelerators,
        term=run.at.term,
        wall_s=run.wall_s,
        usd=run.usd,
        times_the_price=run.usd / cheapest.usd,
        times_faster=cheapest.wall_s / run.wall_s,
    )


def card_for_card(options: tuple[BatchOption, ...]) -> tuple[str, ...]:
    """
    Each kind of accelerator against the one with the lowest hourly price: "3x the price, 4x as fast" for this job.
    Empty where fewer than two kinds share a term.

    The kinds that do the job for the least money, on the term that most of them have; speeds are items of one
    accelerator.
    """
    terms = sorted({o.bill.term for o in options})
    kinds = [
        {o.configuration.accelerator: o for o in sorted(options, key=lambda o: -o.cost.value) if o.bill.term == term}
        for term in terms
    ]
    best = max(kinds, key=len, default={})
    if len(best) < 2:
        return ()
    ordered = sorted(sorted(best.values(), key=lambda o: o.cost.value)[:MAX_KINDS], key=_hourly)
    return tuple(_against(option, ordered[0]) for option in ordered[1:] if _hourly(option) > _hourly(ordered[0]))


def _hourly(option: BatchOption) -> float:
    """Of one accelerator. [USD/h]"""
    return option.bill.usd_per_instance_hour / option.bill.accelerators_per_instance


def _against(option: BatchOption, base: BatchOption) -> str:
    """
    One accelerator of an option against one of the base: price of an hour, items per second with the errors of both,
    and which is cheaper by the item.
    """
    ranks, own = base.configuration.layout.ranks, option.configuration.layout.ranks
    price = _hourly(option) / _hourly(base)
    faster = option.items_per_s.value / own / (base.items_per_s.value / ranks)
    # Errors of two predictions add in squares.
    error = math.exp(math.hypot(_log_error(option.items_per_s), _log_error(base.items_per_s)))
    said = "cheaper" if faster > price else "more expensive"
    tie = " [not distinguishable within error]" if faster / error <= price <= faster * error else ""
    one, other = (part_name(of.configuration.accelerator) for of in (option, base))
    return (
        f"{one}: {_times(price)} the hourly price of {other}, "
        f"{_times(faster)} ({_times(faster / error)}-{_times(faster * error)}) as fast: {said} per item{tie}"
    )


def _times(ratio: float) -> str:
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.2g}x"


def _log_error(rate: Quantity) -> float:
    """Logarithm of the 90 % factor of a rate; 0 where it has no interval."""
    return math.log((rate.high or rate.value) / rate.value)


def spot_against(options: tuple[BatchOption, ...]) -> str:
    """The cheapest interruptible option against the cheapest that stays; empty when either is missing."""
    spot, steady = (cheapest_on(term, options) for term in ("spot", "on-demand"))
    if spot is None or steady is None:
        return ""
    saved = 1.0 - spot.cost.value / steady.cost.value
    word = f"saves {percent(saved)}" if saved > 0 else f"costs {percent(-saved)} more"
    here, there = (
        f"{show(one.cost.value, 'USD')} on {part_name(one.configuration.accelerator)} "
        f"at {provider_name(one.bill.provider)}"
        for one in (spot, steady)
    )
    return (
        f"spot {word}: {here} against {there} on-demand; {percent(1 - spot.useful, 1)} of its hours are lost to spot "
        f"preemptions, and old traces had capacity {percent(spot.available)} of the time, which its "
        f"{show(spot.wall_s.value, 's')} count in"
    )


def too_late(request: Batch, run: JobRun) -> Verdict:
    """Not even the largest fleet finishes in time."""
    deadline = request.deadline_s or 0.0
    return refusal(
        "deadline",
        f"{run.accelerators} accelerators finish in {show(run.wall_s, 's')}, "
        f"of which {show(run.at.start.total_s, 's')} to start; {show(deadline, 's')} are allowed",
        short_by=run.wall_s - deadline,
        nearest=f"deadline {show(run.wall_s * 1.01, 's')}",
    )


def too_expensive(request: Batch, run: JobRun) -> Verdict:
    """Finishes in time, beyond the budget."""
    usd = run.usd
    budget = request.budget_usd or 0.0
    return refusal(
        "budget",
        f"{run.at.work.configuration.label(part_name, engine_title)} costs {show(usd, 'USD')}, above "
        f"{show(budget, 'USD')}",
        short_by=usd - budget,
        nearest=f"budget {show(usd * 1.005, 'USD')}",
    )


def too_many(request: Batch, at: Candidate) -> Verdict:
    """One instance or one replica already exceeds the count allowed."""
    need = max(at.offer.count, float(at.work.ranks))
    return refusal(
        "count",
        f"{at.offer.instance_type} brings {need:g} accelerators and at most {request.filters.max_count} are allowed",
        short_by=need - (request.filters.max_count or 0),
        nearest=f"a limit of {need:g} accelerators",
    )


def assumptions(asked: Context[Batch], options: tuple[BatchOption, ...]) -> tuple[str, ...]:
    """Everything the answer takes as given that the user did not say."""
    request, model = asked.request, asked.model
    lengths = request.lengths
    said = [
        *model.assumed,
        f"an item is {lengths.prompt_tokens:,.0f} prompt and {lengths.output_tokens:,.0f} output tokens on average",
        "items are independent and all there at the start; nobody waits for a single one, so replicas run full",
        "instances start from nothing, and weights are fetched each time",
    ]
    if "spot" in request.filters.terms:
        said.append("spot capacity stays as long as its provider's record says, else as long as traces of older parts")
    if request.filters.max_count is None:
        said.append(f"at most {LARGEST_FLEET} accelerators are looked at; list prices are no stock")
    said += names_taken(request.filters, asked.additions)
    if not request.filters.community:
        said.append(COMMUNITY)
    said.append("prices exclude VAT, storage of the results and egress")
    return tuple(said)


CHEAPEST: Final = 14
"""Chances that are asked again, by cost of an item."""
FASTEST: Final = 6
"""And by speed, which a tighter deadline asks for."""
LENGTHENED: Final = 5
"""Configurations whose rate is worked out at other lengths."""

Sized = Callable[[Batch, Candidate], JobRun | Verdict]
Remade = Callable[[Batch, Work], Work | None]


def batch_break_even(
    request: Batch, options: Sequence[BatchOption], *, chances: Iterable[Candidate], sized: Sized, remade: Remade
) -> tuple[BreakEven, ...]:
    """
    Every input at which the first option stops being the first.

    Parameters
    ----------
    request : Batch
    options : sequence of BatchOption
        Ranked.
    chances : iterable of Candidate
        Every configuration at every place.
    sized : callable
        The run that a request needs of a candidate, or why it cannot do it.
    remade : callable
        The same configuration with the lengths of another request; None where it does not hold one.
    """
    candidates = _cheapest_and_fastest(chances, first=options[0])
    found = list(break_even_prices(options))
    items = Axis(name="items", now=request.items, unit="count", least=1.0)
    found += break_even_along(
        items, at=lambda n: _contenders(replace(request, items=n), candidates, sized), nothing=_NOTHING
    )
    if request.deadline_s is not None:
        until = Axis(name="deadline", now=request.deadline_s, unit="s")
        found += break_even_along(
            until, at=lambda s: _contenders(replace(request, deadline_s=s), candidates, sized), nothing=_NOTHING
        )
    known = [(candidate, _rate_by_length(request, candidate.work, remade)) for candidate in candidates[:LENGTHENED]]

    def longer(share: float) -> list[Candidate]:
        return [_at_speed(candidate, scale) for candidate, scale in scaled_at(known, share)]

    tokens = request.lengths.prompt_tokens + request.lengths.output_tokens
    reach = 2.0 ** DOUBLINGS[-1]
    length = Axis(
        name="tokens of an item", now=tokens, unit="tokens", least=max(4.0, tokens / reach), most=tokens * reach
    )
    found += break_even_along(length, at=lambda n: _contenders(request, longer(n / tokens), sized), nothing=_NOTHING)
    return tuple(found)


_NOTHING: Final = "nothing finishes in time"


def _cheapest_and_fastest(chances: Iterable[Candidate], *, first: BatchOption) -> list[Candidate]:
    """
    The plan's first option, the cheapest candidates by the item, one of each accelerator and term, and the fastest of
    each accelerator.
    """
    bill = first.bill

    def others(candidate: Candidate) -> bool:
        offer = candidate.offer
        place = offer.provider, offer.instance_type, offer.region, candidate.term
        leads = place == (bill.provider, bill.instance_type, bill.region, bill.term)
        return not (leads and candidate.work.configuration == first.configuration)

    ranked = sorted((c for c in chances if c.fastest >= 1), key=lambda each: (others(each), each.usd_per_item))
    kept: dict[str, Candidate] = {}
    for candidate in ranked:
        kept.setdefault(candidate.name, candidate)
        if len(kept) >= CHEAPEST:
            break
    by_speed: dict[str, Candidate] = {}
    for candidate in ranked:
        name = candidate.work.configuration.accelerator
        if name not in by_speed or candidate.items_per_s > by_speed[name].items_per_s:
            by_speed[name] = candidate
    fast = sorted(by_speed.values(), key=lambda candidate: -candidate.items_per_s)[:FASTEST]
    return [*kept.values(), *(candidate for candidate in fast if candidate not in kept.values())]


def _contenders(request: Batch, chances: Iterable[Candidate], sized: Sized) -> list[Contender]:
    """What each costs at this request; those that cannot do it are left out."""
    found = []
    for candidate in chances:
        run = sized(request, replace(candidate, work=replace(candidate.work, items=request.items)))
        if isinstance(run, Verdict):
            continue
        quick, slow = run.ends
        found.append(
            Contender(
                name=candidate.name,
                cost=Quantity(value=run.usd, unit="USD", low=quick.usd, high=slow.usd),
                told=f"{run.accelerators} x {candidate.name} for {show(run.usd, 'USD')} in {show(run.wall_s, 's')}",
                sure=run.sure,
                chance=run.chance,
                listed=candidate.offer.trust_of(candidate.term) == "primary",
                configuration=candidate.work.configuration,
            )
        )
    return found


def _at_speed(candidate: Candidate, times: float) -> Candidate:
    """A candidate whose replicas work at so many times their rate."""
    served = replace(candidate.work.served, requests_per_s=candidate.work.items_per_s * times)
    return replace(candidate, work=replace(candidate.work, served=served))


def _rate_by_length(request: Batch, work: Work, remade: Remade) -> list[tuple[float, float]]:
    """(times as long, rate over that at the present lengths), shortest first; lengths that do not fit are left out."""
    points = []
    for times in (2.0**power for power in DOUBLINGS):
        made = work if times == 1.0 else remade(_scale_requests(request, times), work)
        if made is not None:
            points.append((times, made.items_per_s / work.items_per_s))
    return points


def _scale_requests(request: Batch, share: float) -> Batch:
    lengths = request.lengths
    return replace(
        request,
        lengths=Lengths(
            prompt_tokens=max(1.0, lengths.prompt_tokens * share), output_tokens=max(1.0, lengths.output_tokens * share)
        ),
    )
