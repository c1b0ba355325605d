"""What would change a batch plan: rivals' prices, the number of items, the deadline, the length of an item.

Items and deadlines need no new search: the same replicas work for longer, or more of them. Lengths do, and are asked
for a few of the best at doubling lengths, with the rates between drawn on logarithms.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from tonnage.domain.answer import Verdict
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.plan import BreakEven
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.serve import Batch
from tonnage.planning.batch.option import Work
from tonnage.planning.batch.runs import Job, JobRun, Place, run_on
from tonnage.planning.core.break_even import Axis, Contender, break_even_along, break_even_prices, priced_option
from tonnage.units import show

__all__ = ["Candidate", "batch_break_even"]

CHEAPEST: Final = 14
"""Chances that are asked again, by cost of an item."""
FASTEST: Final = 6
"""And by speed, which a tighter deadline asks for."""
LENGTHENED: Final = 5
"""Configurations whose rate is worked out at other lengths."""
DOUBLINGS: Final = (-3, -2, -1, 0, 1, 2, 3)

Sized = Callable[[Batch, Work, Place], tuple[JobRun, float | None] | Verdict]
Remade = Callable[[Batch, Work], Work | None]


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration at a place, whether it is in time now or not."""

    work: Work
    place: Place
    fastest: int
    """Most instances that may be taken there."""

    @property
    def usd_per_item(self) -> float:
        """Of work alone, start and rounding left out. [USD]"""
        job, place = self.work.job, self.place
        replicas = max(1, int(place.offer.count // job.ranks))
        instances = max(1.0, job.ranks / place.offer.count)
        return instances * place.usd_per_hour / (replicas * job.items_per_s * place.useful) / 3600.0

    @property
    def items_per_s(self) -> float:
        """Of the largest fleet. [1/s]"""
        return self.work.job.items / run_on(self.work.job, self.place, instances=self.fastest).wall_s


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
        The run that a request needs of a work at a place, or why it cannot.
    remade : callable
        The same configuration with the lengths of another request; None where it does not hold one.
    """
    if not options:
        return ()
    few = _few(chances)
    found = list(break_even_prices([priced_option(option) for option in options]))
    items = Axis(name="items", now=request.items, unit="count", least=1.0)
    found += break_even_along(items, at=lambda n: _contenders(replace(request, items=n), few, sized), nothing=_NOTHING)
    if request.deadline_s is not None:
        until = Axis(name="deadline", now=request.deadline_s, unit="s")
        found += break_even_along(
            until, at=lambda s: _contenders(replace(request, deadline_s=s), few, sized), nothing=_NOTHING
        )
    longer = _longer(request, few[:LENGTHENED], remade)
    tokens = request.lengths.prompt_tokens + request.lengths.output_tokens
    reach = 2.0 ** DOUBLINGS[-1]
    length = Axis(
        name="tokens of an item", now=tokens, unit="tokens", least=max(4.0, tokens / reach), most=tokens * reach
    )
    found += break_even_along(length, at=lambda n: _contenders(request, longer(n / tokens), sized), nothing=_NOTHING)
    return tuple(found)


_NOTHING: Final = "nothing finishes in time"


def _few(chances: Iterable[Candidate]) -> list[Candidate]:
    """The cheapest by the item, one or two of an accelerator and term, and the fastest."""
    ranked = sorted((c for c in chances if c.fastest >= 1), key=lambda chance: chance.usd_per_item)
    kept: dict[tuple[str, str], Candidate] = {}
    for chance in ranked:
        kept.setdefault((chance.work.configuration.accelerator, chance.place.term), chance)
        if len(kept) >= CHEAPEST:
            break
    by_speed: dict[str, Candidate] = {}
    for chance in ranked:
        name = chance.work.configuration.accelerator
        if name not in by_speed or chance.items_per_s > by_speed[name].items_per_s:
            by_speed[name] = chance
    fast = sorted(by_speed.values(), key=lambda chance: -chance.items_per_s)[:FASTEST]
    return [*kept.values(), *(chance for chance in fast if chance not in kept.values())]


def _contenders(request: Batch, chances: Iterable[Candidate], sized: Sized) -> list[Contender]:
    """What each costs at this request; those that cannot do it are left out."""
    found = []
    for chance in chances:
        work = replace(chance.work, job=replace(chance.work.job, items=request.items))
        outcome = sized(request, work, chance.place)
        if isinstance(outcome, Verdict):
            continue
        run, kept = outcome
        quick, slow = (
            run_on(work.job, chance.place, instances=run.instances, speed=speed)
            for speed in (work.job.factor, 1.0 / work.job.factor)
        )
        found.append(
            Contender(
                name=_name(work.configuration.accelerator, chance.place.term),
                usd=run.usd,
                low=min(run.usd, quick.usd),
                high=max(run.usd, slow.usd),
                told=_describe(chance, run),
                sure=kept is None or kept >= request.confidence - 1e-4,
                chance=kept,
                listed=chance.place.offer.trust_of(chance.place.term) == "primary",
                configuration=work.configuration,
            )
        )
    return found


def _name(accelerator: str, term: str) -> str:
    return accelerator if term == "on-demand" else f"{accelerator}, {term}"


def _describe(chance: Candidate, run: JobRun) -> str:
    count = round(run.instances * chance.place.offer.count)
    name = _name(chance.work.configuration.accelerator, chance.place.term)
    return f"{count} x {name} for {show(run.usd, 'USD')} in {show(run.wall_s, 's')}"


def _longer(request: Batch, chances: Sequence[Candidate], remade: Remade) -> Callable[[float], list[Candidate]]:
    """Share of the present length -> the chances with the rates that their replicas have there."""
    known: list[tuple[Candidate, list[tuple[float, Job]]]] = []
    for chance in chances:
        points = []
        for power in DOUBLINGS:
            work = chance.work if power == 0 else remade(_scale_requests(request, 2.0**power), chance.work)
            if work is not None:
                points.append((2.0**power, work.job))
        known.append((chance, points))

    def at(share: float) -> list[Candidate]:
        found = []
        for chance, points in known:
            job = _between(points, share)
            if job is not None:
                found.append(replace(chance, work=replace(chance.work, job=job)))
        return found

    return at


def _scale_requests(request: Batch, share: float) -> Batch:
    lengths = request.lengths
    return replace(
        request,
        lengths=Lengths(
            prompt_tokens=max(1.0, lengths.prompt_tokens * share), output_tokens=max(1.0, lengths.output_tokens * share)
        ),
    )


def _between(points: Sequence[tuple[float, Job]], share: float) -> Job | None:
    """The job at a share of the length: rate and time of an item between two that are known; None beyond them."""
    shares = [known for known, _ in points]
    after = bisect_left(shares, share)
    if after == 0:
        return points[0][1] if points and math.isclose(share, shares[0]) else None
    if after == len(points):
        return None
    (near, a), (far, b) = points[after - 1], points[after]
    t = math.log(share / near) / math.log(far / near)
    return replace(
        a,
        items_per_s=a.items_per_s ** (1.0 - t) * b.items_per_s**t,
        item_s=a.item_s ** (1.0 - t) * b.item_s**t,
    )
