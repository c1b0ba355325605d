"""Which options are shown, in which order: those found of each accelerator, the recommended one and its reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from tonnage.core.header import Infeasible
from tonnage.core.ranking import EVEN, recommended, unlikely, with_verdicts
from tonnage.core.stop import stop_asked
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration, Decision, ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.questions.serve import limits, narrative
from tonnage.questions.serve.option import Candidate, add_costs

FOLDED: Final = 5.0
"""Times the cost of the plan, beyond which a single replica is not looked at. [-]"""
KEPT_PER_SITE: Final = 3

Priced = tuple[Candidate, ServeOption]


def name_of(configuration: Configuration) -> str:
    """A configuration by what its speed depends on: one accelerator alone has no use for a link."""
    link = configuration.intra_link if configuration.layout.ranks > 1 else None
    return f"{configuration.label()} {link or ''}"


def rank_of(option: ServeOption) -> tuple[bool, bool, float, float, int, float]:
    """
    Those that meet the objectives surely enough come first, those at a price that its seller states before others, the
    cheapest of them first, at one price what has fewer unusual settings, of these the faster.

    Where none does, the likeliest leads.
    """
    behind = unlikely(option.chance, sure=option.sure)
    run = option.configuration
    changes = len(run.settings()) - (run.engine.mm_encoder_tp_mode == "data")  # whole images are as exact
    changes += run.engine.adapters is not None and run.engine.adapters.kept == "swapped"
    unlisted, usd = option.bill.trust != "primary", option.bill.compared_usd_per_hour
    return not option.sure, unlisted, behind, usd, changes, option.capacity.tpot_s.value


def with_load_curve(request: Serve, ranked: tuple[ServeOption, ...], *, found: list[Priced]) -> tuple[ServeOption, ...]:
    """
    The options, the first with latencies over the whole range of loads; unchanged where it was not simulated or a stop
    was asked for.
    """
    known = ranked[0].capacity.simulated if ranked else None
    if known is None or stop_asked():
        return ranked
    from tonnage.questions.serve.capacity_search import load_curve

    first = ranked[0]
    one = candidate_of(first, found)
    seen = load_curve(request, one.replica, found=known, guess=one.best, unit=one.state.unit)
    return (replace(first, capacity=replace(first.capacity, simulated=seen)), *ranked[1:])


def adapters_kept(request: Serve, ranked: tuple[ServeOption, ...], *, found: list[Priced]) -> tuple[Decision, ...]:
    """Why the first option keeps the request's adapters as it does; empty without adapters."""
    if request.adapters.adapters is None:
        return ()
    from tonnage.questions.serve.drafts import adapter_decision

    return adapter_decision(ranked, found)


def candidate_of(option: ServeOption, found: list[Priced]) -> Candidate:
    """The candidate that became the option, by configuration and bill; it has to be among those found."""
    return next(one for one, other in found if (other.configuration, other.bill) == (option.configuration, option.bill))


def ranked_of(
    request: Serve, model: Model, *, serving: list[Priced], by_cost: bool
) -> tuple[tuple[ServeOption, ...], list[Infeasible]]:
    """
    The best few options of each accelerator and link in their order, each with its account, those whose checkpoint
    somebody has to make first behind the others as sure; and those that the load makes as dear as a replica is when it
    is not looked at. The recommended one comes first, or the cheapest where the order is `by_cost`.
    """
    lacks = partial(limits.unmade, request=request, model=model)
    shown = [add_costs(request, option, found=candidate) for candidate, option in rows_to_show(serving)]
    in_order = sorted(shown, key=lambda one: (not one.sure, lacks(one.configuration)))
    kept, dear = _without_too_dear(in_order, times=FOLDED)
    if not kept:
        return (), dear
    made = [one for one in kept if one.sure is kept[0].sure and not lacks(one.configuration)] or kept
    first = made[0] if by_cost else recommended(made)
    passed = not lacks(first.configuration) and any(one.sure and lacks(one.configuration) for one in kept)
    told = with_verdicts(
        tuple(sorted(kept, key=lambda one: one is not first)),
        lead=partial(narrative.lead_reason, request=request, cheapest=made[0], passed=passed),
        arithmetic=narrative.arithmetic,
        risk=partial(narrative.risk, request=request, lacks=lacks),
    )
    return told, dear


def _without_too_dear(
    options: Sequence[ServeOption], *, times: float
) -> tuple[tuple[ServeOption, ...], list[Infeasible]]:
    """Options that cost at most so many times the first, and a verdict for each of the others."""
    most = times * options[0].bill.compared_usd_per_hour if options else 0.0
    dear = [
        Infeasible(
            configuration=option.configuration,
            verdict=limits.too_dear(
                option.bill.usd_per_hour, best=options[0].bill.usd_per_hour, times=times, count=option.accelerators
            ),
        )
        for option in options
        if option.bill.compared_usd_per_hour > most
    ]
    return tuple(option for option in options if option.bill.compared_usd_per_hour <= most), dear


def rows_to_show(found: list[Priced]) -> list[Priced]:
    """
    Priced candidates in the order of options, each configuration once as sure as asked and once less sure: the best few
    replicas and units of each accelerator and link whose checkpoint is there, then of those whose is not; and the
    cheapest with an even chance.
    """
    kept: list[Priced] = []
    seen: set[tuple[str, bool]] = set()
    counts: Counter[tuple[object, ...]] = Counter()
    likely = [one for _, one in found if not one.sure and (one.chance or 0.0) >= EVEN]
    even = min(likely, key=lambda one: (one.bill.trust != "primary", one.bill.compared_usd_per_hour), default=None)
    for pair in sorted(found, key=lambda pair: (not pair[1].sure, pair[0].unmade, *rank_of(pair[1]))):
        candidate, option = pair
        run = candidate.configuration
        place = candidate.site.accelerator.id, candidate.site.intra_link, run.pools is None, candidate.unmade
        name = name_of(run), option.sure
        if option is not even and (name in seen or counts[place] >= KEPT_PER_SITE):
            continue
        seen.add(name)
        counts[place] += 1
        kept.append(pair)
    return kept
