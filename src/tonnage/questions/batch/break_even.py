"""What would change a batch plan: rivals' prices, the number of items, the deadline, the length of an item.

Items and deadlines need no new search: the same replicas work for longer, or more of them. Lengths do, and are asked
for a few of the best at doubling lengths, with the rates between drawn on logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from tonnage.core.break_even import (
    DOUBLINGS,
    Axis,
    Contender,
    break_even_along,
    break_even_prices,
    scaled_at,
)
from tonnage.domain.answer import Quantity, Verdict
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.plan import BreakEven
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.serve import Batch
from tonnage.questions.batch.work import Candidate, JobRun, Work
from tonnage.units import show

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
    few = _few(chances)
    found = list(break_even_prices(options))
    items = Axis(name="items", now=request.items, unit="count", least=1.0)
    found += break_even_along(items, at=lambda n: _contenders(replace(request, items=n), few, sized), nothing=_NOTHING)
    if request.deadline_s is not None:
        until = Axis(name="deadline", now=request.deadline_s, unit="s")
        found += break_even_along(
            until, at=lambda s: _contenders(replace(request, deadline_s=s), few, sized), nothing=_NOTHING
        )
    known = [(chance, _at_lengths(request, chance.work, remade)) for chance in few[:LENGTHENED]]

    def longer(share: float) -> list[Candidate]:
        return [_faster(chance, scale) for chance, scale in scaled_at(known, share)]

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
    kept: dict[str, Candidate] = {}
    for chance in ranked:
        kept.setdefault(chance.name, chance)
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
        run = sized(request, replace(chance, work=replace(chance.work, items=request.items)))
        if isinstance(run, Verdict):
            continue
        quick, slow = run.ends
        found.append(
            Contender(
                name=chance.name,
                cost=Quantity(value=run.usd, unit="USD", low=quick.usd, high=slow.usd),
                told=f"{run.accelerators} x {chance.name} for {show(run.usd, 'USD')} in {show(run.wall_s, 's')}",
                sure=run.sure,
                chance=run.chance,
                listed=chance.offer.trust_of(chance.term) == "primary",
                configuration=chance.work.configuration,
            )
        )
    return found


def _faster(chance: Candidate, times: float) -> Candidate:
    served = replace(chance.work.served, requests_per_s=chance.work.items_per_s * times)
    return replace(chance, work=replace(chance.work, served=served))


def _at_lengths(request: Batch, work: Work, remade: Remade) -> list[tuple[float, float]]:
    """(share of the lengths, rate over that at the present ones); those that do not fit are left out."""
    points = []
    for share in (2.0**power for power in DOUBLINGS):
        made = work if share == 1.0 else remade(_scale_requests(request, share), work)
        if made is not None:
            points.append((share, made.items_per_s / work.items_per_s))
    return points


def _scale_requests(request: Batch, share: float) -> Batch:
    lengths = request.lengths
    return replace(
        request,
        lengths=Lengths(
            prompt_tokens=max(1.0, lengths.prompt_tokens * share), output_tokens=max(1.0, lengths.output_tokens * share)
        ),
    )
