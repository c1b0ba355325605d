"""What would change a serving plan: rivals' prices, traffic, its peak, the objectives, the length of a request.

Every contender keeps the replica that the plan built: along traffic and peak its capacity stays, along the objectives
the mean field is asked anew, along lengths it is built again at a few of them. Where a contender was simulated, the
mean field is scaled by what the simulation said of it, so that the present value gives the plan's own answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from tonnage.catalog import part_name
from tonnage.core.break_even import (
    DOUBLINGS,
    Axis,
    Contender,
    break_even_along,
    break_even_prices,
    scaled_at,
)
from tonnage.core.header import Infeasible
from tonnage.core.replica import Replica, load_of, state_of
from tonnage.core.session_reuse import reusing_replica
from tonnage.core.sites import Site
from tonnage.domain.answer import Quantity
from tonnage.domain.model import Model
from tonnage.domain.plan import BreakEven, Configuration, ServeOption
from tonnage.domain.requests.common import Slo
from tonnage.domain.requests.serve import Serve
from tonnage.questions.serve.chance import Curve, Odds
from tonnage.questions.serve.option import SEATS, Candidate, has_objectives, replicas_of
from tonnage.questions.serve.shown import rank_of
from tonnage.record import Record
from tonnage.simulation.capacity import Point, stated
from tonnage.simulation.router import working_replicas
from tonnage.units import show, whole_percent

CONTENDERS: Final = 14
"""Options that are asked again, cheapest first."""
OF_ONE: Final = 3
"""Of one accelerator."""
VARIED: Final = 6
"""Contenders of which other settings are looked at as well."""
LATE: Final = 5
"""Accelerators too slow for the objectives, that looser ones may bring in."""
LENGTHENED: Final = 5
"""Contenders that are built again for other lengths."""
SLO_RATIO: Final = 1.25
NOTHING: Final = "nothing that was looked at serves it"


class _ScaledCandidate(Record, kw_only=True):
    """A candidate, its capacity over the mean field's, and a cache of what was computed of it at other inputs."""

    candidate: Candidate
    listed: bool
    """At a price that its seller states."""
    scale: float = 1.0
    odds: dict[Slo, Odds] = {}
    """Objectives -> its chances under them."""
    bills: dict[int, float] = {}
    """Replicas -> what they cost. [USD/h]"""
    most: dict[Slo, tuple[Point | None, str]] = {}
    """Objectives -> the most that it takes and what stops it, which no load changes."""
    points: dict[float, Point] = {}
    """Concurrency -> the steady state there."""

    def odds_under(self, slo: Slo) -> Odds:
        """Its chances under some objectives."""
        if slo not in self.odds:
            odds = self.candidate.odds
            self.odds[slo] = Odds(odds.curve, slo, stretch=odds.stretch, scale=odds.scale)
        return self.odds[slo]

    def most_under(self, request: Serve) -> tuple[Point | None, str]:
        """The most that it takes by the mean field under the objectives of a request with its lengths."""
        if request.slo not in self.most:
            state = state_of(request, self.candidate.replica, unit=self.candidate.state.unit)
            holds = state.load.max_concurrency >= 1
            self.most[request.slo] = state.largest(self.points) if holds else (None, "kv")
        return self.most[request.slo]


def serve_break_even(
    request: Serve,
    options: Sequence[ServeOption],
    *,
    found: Iterable[tuple[Candidate, ServeOption]],
    varied: Callable[[Candidate], list[Candidate]],
    missed: Iterable[Infeasible],
    open_sites: Sequence[Site],
    model: Model,
) -> tuple[BreakEven, ...]:
    """
    Every input at which the first option stops being the first, or needs one more replica.

    Parameters
    ----------
    request : Serve
    options : sequence of ServeOption
        Ranked.
    found : iterable of (Candidate, ServeOption)
        Everything that serves the load.
    varied : callable
        A candidate -> the same with other settings, which another load may call for.
    missed : iterable of Infeasible
        What does not; those that are too slow may with looser objectives.
    open_sites : sequence of Site
    model : Model
    """
    cheapest = _cheapest_candidates(request, found, varied=varied)
    flips = [
        *break_even_prices(options),
        *_another_replica(request, options[0], cheapest),
    ]
    too_slow = _too_slow_candidates(request, missed, open_sites=open_sites, model=model)
    for (axis, changed), candidates in (
        *((each, cheapest) for each in _load_axes(request)),
        *((each, [*cheapest, *too_slow]) for each in _objective_axes(request)),
    ):  # fmt: skip
        flips += break_even_along(axis, at=partial(_contenders_at, changed, candidates), nothing=NOTHING)
    lengthened = [(one, _capacity_by_length(request, one, model)) for one in _to_lengthen(cheapest)]
    tokens = request.lengths.prompt_tokens + request.lengths.output_tokens
    # Beyond the longest that one of them was built for, nothing is known: somewhere before the next doubling it ends.
    known = [points[-1][0] for _, points in lengthened if points]
    length = Axis(
        name="tokens of a request", now=tokens, unit="tokens",
        least=tokens / 2.0 ** DOUBLINGS[-1], most=tokens * max(known, default=1.0),
    )  # fmt: skip

    def longer(share: float) -> list[_ScaledCandidate]:
        return [replace(one, scale=one.scale * scale) for one, scale in scaled_at(lengthened, share)]

    flips += break_even_along(length, at=lambda n: _contenders(request, longer(n / tokens)), nothing=NOTHING)
    return tuple(flips)


Changed = Callable[[float], Serve]


def _contenders_at(changed: Changed, candidates: Sequence[_ScaledCandidate], value: float) -> list[Contender]:
    """What serves the request that `changed` makes of a value, with its cost."""
    return _contenders(changed(value), candidates)


def _load_axes(request: Serve) -> list[tuple[Axis, Changed]]:
    """
    The axes of load (mean rate, or requests in flight where that is what was asked) and of its peak over the mean, each
    with what makes the request of a value.
    """
    found: list[tuple[Axis, Changed]] = []
    if request.rate_per_s is not None:
        axis = Axis(name="mean rate", now=request.rate_per_s, unit="1/s")
        found.append((axis, lambda x: replace(request, rate_per_s=x)))
    else:
        axis = Axis(name="concurrency", now=request.concurrency or 1.0, unit="count")
        found.append((axis, lambda x: replace(request, concurrency=x)))
    peak = Axis(name="peak over mean", now=request.shape.peak_to_mean, unit="count", least=1.0)
    found.append((peak, lambda x: replace(request, shape=replace(request.shape, peak_to_mean=x))))
    return found


def _objective_axes(request: Serve) -> list[tuple[Axis, Changed]]:
    """An axis for each stated latency objective, in seconds, with what makes the request of a value."""
    found: list[tuple[Axis, Changed]] = []
    for name, value in stated(request.slo).items():
        axis = Axis(name=name.removesuffix("_s").upper(), now=value, unit="s", ratio=SLO_RATIO)
        found.append((axis, partial(_with_objective, request, name)))
    return found


def _with_objective(request: Serve, name: str, value: float) -> Serve:
    return replace(request, slo=replace(request.slo, **{name: value}))


def _contenders(request: Serve, candidates: Iterable[_ScaledCandidate]) -> list[Contender]:
    """What each costs at this request; those that cannot serve it are left out."""
    found = []
    for scaled in candidates:
        best, binds = scaled.most_under(request)
        if best is not None:
            made = _contender(request, scaled, best=_scale_load(best, scaled.scale), binds=binds)
            found += [made] if made is not None else []
    return found


def _scale_load(best: Point, scale: float) -> Point:
    return replace(best, rate_per_s=best.rate_per_s * scale, concurrency=best.concurrency * scale)


def _contender(request: Serve, scaled: _ScaledCandidate, *, best: Point, binds: str) -> Contender | None:
    """
    A candidate's fleet for this request with its cost, and the cost if capacity lies at either end of its interval;
    None where no offer holds it, or it breaks the request's limit of count or budget.
    """
    c, error = scaled.candidate.configuration, scaled.candidate.replica.rate_error
    firm = scaled.odds_under(request.slo).capacity(request.confidence) * scaled.scale
    counts = [
        replicas_of(request, best, factor=factor, firm=firm, seats=binds in SEATS, adapters=c.engine.adapters)
        for factor in (1.0, error.at(1.0), error.at(-1.0))
    ]
    usd, low, high = (_usd(request, scaled, count) for count in counts)
    ranks = c.ranks
    most, budget = request.filters.max_count, request.budget_usd_per_h
    if usd is None or (most is not None and counts[0] * ranks > most) or (budget is not None and usd > budget):
        return None
    how = ", ".join((c.precision.stored, *c.settings()))
    told = f"{counts[0] * ranks} x {part_name(c.accelerator)} ({how}) at {show(usd, 'USD/h')}"
    return Contender(
        name=_name(c), cost=Quantity(value=usd, unit="USD/h", low=low, high=high), told=told, sure=firm > 0.0,
        listed=scaled.listed, configuration=c,
    )  # fmt: skip


def _usd(request: Serve, scaled: _ScaledCandidate, replicas: int) -> float | None:
    """What so many replicas cost on the cheapest offer of the site; None where none holds them. [USD/h]"""
    if replicas not in scaled.bills:
        scaled.bills[replicas] = scaled.candidate.cost(request, replicas).compared
    usd = scaled.bills[replicas]
    return usd if math.isfinite(usd) else None


def _name(configuration: Configuration) -> str:
    return " ".join((configuration.accelerator, configuration.precision.stored, *configuration.settings()))


def _cheapest_candidates(
    request: Serve,
    found: Iterable[tuple[Candidate, ServeOption]],
    *,
    varied: Callable[[Candidate], list[Candidate]],
) -> list[_ScaledCandidate]:
    """
    The cheapest options, a few of one accelerator, each with its capacity over the mean field's (`scale`).

    Of the first few, other settings are contenders too; their scale is that of the option itself, for they were not
    simulated. Options that miss the objectives by the mean field are left out.
    """
    # In the plan's own order: at one price the faster leads.
    ranked = sorted(found, key=lambda pair: rank_of(pair[1]))
    counts: dict[str, int] = {}
    kept: list[_ScaledCandidate] = []
    known = {candidate.configuration for candidate, _ in ranked}
    for candidate, _ in ranked:
        name = _name(candidate.configuration)
        if counts.get(name, 0) >= OF_ONE or sum(counts.values()) >= CONTENDERS or candidate.replica.times is None:
            continue
        placed = _scaled_candidate(request, candidate)
        guess, _ = placed.most_under(request)
        if guess is None:
            continue
        counts[name] = counts.get(name, 0) + 1
        scale = candidate.best.rate_per_s / guess.rate_per_s
        kept.append(replace(placed, scale=scale))
        others = varied(candidate) if sum(counts.values()) <= VARIED else []
        kept += [
            replace(_scaled_candidate(request, one), scale=scale) for one in others if one.configuration not in known
        ]
    return kept


def _scaled_candidate(request: Serve, candidate: Candidate) -> _ScaledCandidate:
    """A candidate with scale 1 and an empty cache."""
    offers, terms = candidate.site.offers, request.filters.terms
    return _ScaledCandidate(
        candidate=candidate, listed=any(offer.trust_of(term) == "primary" for offer in offers for term in terms)
    )


def _too_slow_candidates(
    request: Serve, missed: Iterable[Infeasible], *, open_sites: Sequence[Site], model: Model
) -> list[_ScaledCandidate]:
    """
    Accelerators that hold the model and are too slow, nearest to the objectives first, one configuration of each; those
    whose site is no longer open are left out.
    """
    slow = sorted((miss for miss in missed if miss.alone is not None), key=lambda miss: miss.verdict.short_by or 0.0)
    sites = {(site.accelerator.id, site.intra_link): site for site in open_sites}
    kept: dict[str, _ScaledCandidate] = {}
    for miss in slow:
        c = miss.configuration
        site = sites.get((c.accelerator, c.intra_link))
        if site is None or miss.alone is None or c.accelerator in kept or len(kept) >= LATE:
            continue
        replica = reusing_replica(request, c, model=model, accelerator=site.accelerator)
        state = state_of(request, replica)
        odds = Odds(Curve(request, replica, state=state), request.slo)
        alone = Candidate(
            site=site, configuration=c, replica=replica, best=miss.alone, binds="", state=state, odds=odds
        )
        kept[c.accelerator] = _scaled_candidate(request, alone)
    return list(kept.values())


def _to_lengthen(cheapest: list[_ScaledCandidate]) -> list[_ScaledCandidate]:
    """
    Candidates to build again for other lengths: the first without other settings, and those with other settings of the
    first one's layout and weights.
    """
    plain = [one for one in cheapest if not one.candidate.configuration.settings()][:LENGTHENED]
    first = _without_settings(cheapest[0].candidate.configuration) if cheapest else None
    others = (one for one in cheapest if one.candidate.configuration.settings())
    return plain + [one for one in others if _without_settings(one.candidate.configuration) == first]


def _capacity_by_length(request: Serve, scaled: _ScaledCandidate, model: Model) -> list[tuple[float, float]]:
    """
    (share of the present lengths, capacity over that at the present ones); lengths that it cannot serve, or that the
    model does not take, are left out.
    """
    now, _ = scaled.most_under(request)
    points = []
    for power in DOUBLINGS:
        share = 2.0**power
        asked = _with_lengths(request, share)
        whole = asked.lengths.prompt_tokens + asked.lengths.output_tokens
        if model.max_context is not None and whole > model.max_context:
            continue
        replica = scaled.candidate.replica if power == 0 else reusing_replica(
            asked, scaled.candidate.configuration, model=model, accelerator=scaled.candidate.site.accelerator
        )  # fmt: skip
        if replica.times is None or load_of(asked, replica).max_concurrency < 1:
            continue
        best = _capacity_of(asked, replica, found=scaled.candidate)
        if best is not None and now is not None:
            points.append((share, best.rate_per_s / now.rate_per_s))
    return points


def _capacity_of(request: Serve, replica: Replica, *, found: Candidate) -> Point | None:
    """The capacity of a replica, or of a unit of its kind whose prefill workers keep no answers."""
    unit = found.state.unit
    if unit is None or replica.reuse is None:
        return state_of(request, replica, unit=unit).largest()[0]
    from tonnage.questions.sessions.buys import unit_within

    _, made = unit_within(request, replica, unit=unit)
    return made.largest()[0] if made else None


def _with_lengths(request: Serve, share: float) -> Serve:
    """
    The request with mean and p95 lengths times `share`; its profile of single requests goes, that of sessions stays.
    """
    lengths = request.lengths
    tail = {name: value * share for name in ("prompt_p95", "output_p95") if (value := getattr(lengths, name))}
    return replace(
        request,
        lengths=replace(
            lengths,
            prompt_tokens=max(1.0, lengths.prompt_tokens * share),
            output_tokens=max(1.0, lengths.output_tokens * share),
            profile=None,
            **tail,
        ),
        sessions=replace(request.sessions, profile=request.sessions.profile or lengths.profile),
    )


def _another_replica(request: Serve, best: ServeOption, contenders: Iterable[_ScaledCandidate]) -> list[BreakEven]:
    """
    The mean rate from which the first option needs one more replica, and what for where the confidence asks for it
    rather than the headroom; empty where no rate is asked for.

    By averages alone (`quick`), the best of the option's settings counts: another setting of the same accelerators may
    carry more. Where options are simulated, what other settings take is not known without simulating them too.
    """
    if request.rate_per_s is None:
        return []
    capacity = best.capacity.max_rate_per_s
    working = working_replicas(request, best.replicas)
    error = 1.0 if capacity.high is None else capacity.high / capacity.value
    able, firmly = capacity.value * (1.0 - request.headroom), False
    for one in sorted(contenders, key=lambda one: one.candidate.configuration != best.configuration):
        if _without_settings(one.candidate.configuration) != _without_settings(best.configuration):
            continue
        own = one.candidate.configuration == best.configuration
        if not own and not request.quick:
            continue
        rate = capacity.value if own else _max_rate(request, one)
        firm = one.odds_under(request.slo).capacity(request.confidence) * one.scale if has_objectives(request) else 0.0
        surely = rate * (1.0 - request.headroom), False
        if firm and best.sure:
            surely = min(surely, (firm, True))
        able, firmly = surely if own else max((able, firmly), surely)
    most = able * working / request.shape.peak_to_mean
    copies = "units of pools" if best.configuration.pools else "replicas"
    needed = f"{best.replicas + 1} {copies} are needed"
    needed += f" to meet every objective with {whole_percent(request.confidence)}" if firmly else ""
    return [
        BreakEven(input="mean rate above", value=most, unit="1/s", becomes=needed,
             low=most / error, high=most * error, now=request.rate_per_s)
    ]  # fmt: skip


def _without_settings(configuration: Configuration) -> tuple[str, object, str, str | None]:
    """What identifies a configuration but for the settings that vary: accelerator, layout, weights, link."""
    c = configuration
    return c.accelerator, c.layout, c.precision.stored, c.intra_link


def _max_rate(request: Serve, one: _ScaledCandidate) -> float:
    """The rate that a replica takes within the objectives at its scale; 0 where none. [1/s]"""
    best, _ = one.most_under(request)
    return best.rate_per_s * one.scale if best is not None else 0.0
