"""What stands in the way of any run of training, by how much, and what would change it."""

from __future__ import annotations

from math import log2
from typing import Final

from msgspec.structs import replace

from tonnage.domain.answer import Verdict
from tonnage.domain.plan import Rejection
from tonnage.planning.sites import Site, none_passes
from tonnage.planning.train.job import TrainContext
from tonnage.planning.train.option import InfeasibleRun
from tonnage.planning.train.places import MAX_ACCELERATORS, rentals
from tonnage.planning.train.search import fastest_arrangements

__all__ = ["by_nearness", "what_stops"]

_ORDER: Final = {"deadline": 0, "budget": 0, "cost": 1, "interruptions": 2, "layout": 3, "memory": 4}


def by_nearness(miss: InfeasibleRun) -> tuple[int, bool, float]:
    """How near a try came: what was arranged, and so says what would do, comes before a bound on what was not."""
    return _ORDER.get(miss.verdict.limit or "", 5), miss.verdict.nearest is None, miss.verdict.short_by or 0.0


def what_stops(
    asked: TrainContext, missed: list[InfeasibleRun], *, excluded: tuple[Rejection, ...], open_sites: tuple[Site, ...]
) -> Verdict:
    """When nothing does it: the limit that stops the try that came closest, and what would work."""
    if not missed:
        unfit = next((loser for loser in excluded if loser.verdict.limit in {"precision", "training"}), None)
        if unfit is not None and not open_sites:
            return replace(unfit.verdict, reason=f"{unfit.what}: {unfit.verdict.reason}")
        if not excluded or open_sites:
            wanted = asked.request.count or asked.request.filters.max_count or "several"
            return Verdict(
                ok=False,
                limit="offer",
                reason=f"no offer that passes the filters joins {wanted} accelerators",
                nearest="another count, or more providers",
            )
        return none_passes(excluded)
    closest = min(missed, key=by_nearness).verdict
    if closest.limit not in {"memory", "layout"}:
        return closest
    works = _smallest_that_works(asked, open_sites)
    return replace(
        closest, nearest=works or closest.nearest or "no count of these accelerators; a smaller model or LoRA"
    )


def _smallest_that_works(asked: TrainContext, open_sites: tuple[Site, ...]) -> str:
    """The fewest accelerators that hold the job, whatever count or limit was asked for."""
    powers = [2**k for k in range(int(log2(MAX_ACCELERATORS)) + 1)]
    smallest = ""
    for site in open_sites:
        for rental in rentals(site, counts=tuple(powers), terms=asked.request.filters.terms, today=asked.today):
            found = fastest_arrangements(asked.model, rental.place, job=asked.job, framework=asked.request.framework)
            fits = found.likely(asked.request.confidence)
            if fits is not None:
                powers = [n for n in powers if n < rental.place.count]
                label = fits.setup.layout.label
                smallest = f"smallest that works: {rental.place.count} x {site.accelerator.id} ({label})"
                break
        if not powers:
            break
    return smallest
