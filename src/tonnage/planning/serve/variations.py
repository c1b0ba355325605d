"""
Which settings besides layout and weights are worth trying: cache in FP8, speculative decoding, workers apart.

A variation is looked at where it may win and kept where it does. With none can a replica take more than `gain` times
what it keeps up with without, whatever the latency, so that a variation whose cost at so much is above the best plan's
is left out, and nothing is missed by that: the bound is of the replica alone, and holds for any load and objective.
What costs no less than the same configuration without is not kept: a cache in fewer bits is not chosen for nothing.

- Cache in FP8: where engine and part do it and its quality is published (and passes the floor asked for).
- Drafting: by layers of the checkpoint's own (multi-token prediction) where their acceptance is published, planned with
  its low end; or at the acceptance that the request states. Verified tokens cost time under load, so that it may lose.
  Separate draft models (EAGLE) are left out: the catalogue has neither their acceptance nor their memory.
- Prompts and answers on workers of their own (disaggregated serving), in small units of one configuration.
- Chunks of prompts and batch limits stay the engine's own: by averages chunks of 2,048 tokens save up to an eighth,
  which nothing measured confirms, and every option would be there three times (log of 2026-11-22).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog.models import PublishedDraft, published_draft
from tonnage.catalog.published import cache_change
from tonnage.domain.layout import Engine
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration, PoolWorkers
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.requests.serve import Serve
from tonnage.engines.registry import engine_spec
from tonnage.errors import BadRequest
from tonnage.planning.core.header import Infeasible
from tonnage.planning.quality import judge_change
from tonnage.planning.serve import limits
from tonnage.planning.serve.chance import Curve, Odds
from tonnage.planning.serve.option import (
    Candidate,
    has_objectives,
    least_cost_of,
    load_of,
    needed_of,
    replicas_of,
)
from tonnage.planning.sites import Site
from tonnage.simulation.autoscale import fleet_of

if TYPE_CHECKING:
    from tonnage.planning.replica import Replica
    from tonnage.simulation.pool_capacity import Unit

__all__ = [
    "UNITS", "Variation", "Variations", "kept_apart", "least_with", "primary_cost", "sure_cost", "unit_of",
    "variation_notes",
]  # fmt: skip

UNITS: Final = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2))
"""Prefill and decode workers of a unit."""
EVEN: Final = 0.5
"""A chance: from this on, no more load is met than by the prediction itself. [-]"""

ROOM: Final = 2.1
"""Times the load that twice the cache may bring at most, with some slack. [-]"""
FP8_CACHE: Final = frozenset({"NVIDIA", "AMD"})
"""Vendors on whose parts engines keep a cache in FP8."""

APART: Final = "prefill and decode on workers of their own (of one tensor-parallel layout)"


class Variation(NamedTuple):
    """A configuration with other settings, and how much more load a replica may take with them at most."""

    configuration: Configuration
    gain: float


class Variations:
    """Settings that a plan tries, as far as they depend on the request and the model alone."""

    def __init__(self, request: Serve, model: Model) -> None:
        self.request = request
        self.draft = _draft(request, model)
        change = cache_change(request.model, "fp8")
        floor = request.quality_floor
        known = change.kept is not None and (floor is None or bool(judge_change(change, floor).passes))
        self.fp8_cache = known and request.kv_precision is None

    def of(self, site: Site, found: Candidate | Infeasible) -> Iterator[Variation]:
        """Variations of a configuration that was looked at: of one that cannot serve, those that may help it."""
        tried = found.configuration
        short = isinstance(found, Infeasible)
        limit = found.verdict.limit if isinstance(found, Infeasible) else None
        if short and limit not in {"cache", "ttft", "tpot", "e2e"}:
            return
        caches = self._caches(site, tried) if limit != "ttft" else [(tried.precision, 1.0)]
        engines = [(tried.engine, 1.0)]
        if limit != "cache":
            engines += self._engines(tried)
        for (precision, more), (engine, gain) in product(caches, engines):
            if (precision, engine) != (tried.precision, tried.engine):
                yield Variation(replace(tried, precision=precision, engine=engine), more * gain)

    def _caches(self, site: Site, tried: Configuration) -> list[tuple[Precision, float]]:
        own = [(tried.precision, 1.0)]
        part = site.accelerator
        able = part.vendor in FP8_CACHE and "fp8" in part.peaks and engine_spec(tried.engine.name).fp8_cache
        if not (self.fp8_cache and able) or number_format(tried.precision.kv).bits < 16:
            return own
        return [*own, (replace(tried.precision, kv="fp8"), ROOM)]

    def _engines(self, tried: Configuration) -> Iterator[tuple[Engine, float]]:
        if self.draft is not None and engine_spec(tried.engine.name).drafts:
            yield (
                replace(tried.engine, speculative_tokens=self.draft.tokens, speculative_acceptance=self.draft.low),
                1.0 + self.draft.tokens,
            )


def _draft(request: Serve, model: Model) -> PublishedDraft | None:
    """What is drafted, and how much of it is kept: as the request states it, or as published of the model."""
    if request.draft_acceptance is not None:
        if not model.mtp_layers:
            raise BadRequest(
                f"draft_acceptance: {model.id} has no layers of its own to draft with (multi-token prediction), and "
                "separate draft models are not planned; leave it out, and ask `tonnage predict` with speculative_tokens"
            )
        stated = request.draft_acceptance
        return PublishedDraft(tokens=request.draft_tokens, low=stated, high=stated, source="stated in the request")
    return published_draft(model.id) if model.mtp_layers else None


def variation_notes(request: Serve, model: Model) -> tuple[str, ...]:
    """What was tried besides layouts and formats, and what was not."""
    tried = "also tried where it may win: a KV cache in FP8 of published quality"
    if request.rate_per_s is not None and (request.slo.ttft_s, request.slo.tpot_s, request.slo.e2e_s) != (None,) * 3:
        tried += f", {APART}"
    draft = _draft(request, model)
    if draft is not None:
        kept = f"{draft.low:.0%}" if draft.low == draft.high else f"{draft.low:.0%} to {draft.high:.0%}"
        count = f"{draft.tokens} token{'' if draft.tokens == 1 else 's'}"
        return (
            f"{tried}; speculative decoding of {count} a step, {kept} of them kept, planned at {draft.low:.0%}"
            f" ({draft.source})",
        )
    if model.mtp_layers:
        return (
            f"{tried}; {model.id} can draft with its own layers, but nobody published how much of it is kept: state"
            " yours (--draft-acceptance '70 %')",
        )
    return (tried,)


def kept_apart(request: Serve, found: list[Candidate], *, best: float) -> list[Candidate]:
    """
    Prompts and answers on workers of their own, where that costs less than the same configuration, and than any other.

    Apart, workers take at most what they keep up with together: what their replicas would cost, at least two, is the
    least. In that order, until none that is left can cost less than the best plan.
    """
    tries: list[tuple[float, int, Candidate]] = []
    for one in found:
        if _may_split(request, one):
            least = least_with(request, one, site=one.site, gain=1.0, fewest=2)
            best = min(best, sure_cost(request, one))
            tries.append((least, len(tries), one))
    chosen = []
    for least, _, one in sorted(tries, key=lambda each: each[:2]):
        if least >= best:
            break
        made = _in_units(request, one, below=min(best, sure_cost(request, one)))
        if made is not None:
            chosen.append(made)
            best = min(best, sure_cost(request, made))
    return chosen


def sure_cost(request: Serve, found: Candidate | Infeasible) -> float:
    """What it costs at prices that sellers state; infinite where it serves nothing, or not surely enough. [USD/h]"""
    if isinstance(found, Infeasible) or (has_objectives(request) and found.firm(request) <= 0.0):
        return math.inf
    return primary_cost(request, found)


def least_with(request: Serve, found: Candidate | Infeasible, *, site: Site, gain: float, fewest: int = 1) -> float:
    """What a configuration costs if a replica takes `gain` times the most that it keeps up with. [USD/h]"""
    replicas = 1
    if isinstance(found, Candidate):
        load = request.rate_per_s if request.rate_per_s is not None else request.concurrency or 1.0
        replicas = fleet_of(
            max(1, math.ceil(load * request.shape.peak_to_mean / (found.odds.most * gain) - 1e-9)),
            spare=request.spare_replicas,
            zones=request.zones,
        )
    replicas = max(replicas, fewest)
    ranks = found.configuration.ranks
    least = least_cost_of(site, replicas=replicas, ranks=ranks, request=request)
    return math.inf if least is None else least[1]


def primary_cost(request: Serve, found: Candidate) -> float:
    """What a candidate costs at prices that sellers state, if its numbers hold; infinite without. [USD/h]"""
    ranks, replicas = found.configuration.ranks, needed_of(request, found)
    least = least_cost_of(found.site, replicas=replicas, ranks=ranks, request=request)
    if least is None or least[0] or limits.beyond_limits(request, replicas * ranks, usd_per_h=least[2]):
        return math.inf
    return least[1]


def _may_split(request: Serve, found: Candidate) -> bool:
    """Whether a configuration may keep prompts and answers apart: at a rate, within an objective, by what is known."""
    layout, replica = found.configuration.layout, found.replica
    return (
        request.rate_per_s is not None
        and has_objectives(request)
        and engine_spec(found.configuration.engine.name).hands_over_caches
        # Ranks that step together hold each other up, which the steady state of a unit does not know.
        and layout.dp * layout.pp == 1
        and found.configuration.engine.speculative_tokens is None
        and replica.times is not None
        and request.lengths.output_tokens > 2.0
    )


def unit_of(request: Serve, found: Candidate, *, workers: PoolWorkers) -> tuple[Replica, Unit | None]:
    """A worker of a candidate's configuration, with what it finds again, and the unit of so many; None = too large."""
    from tonnage.simulation.pool_capacity import Unit, one_transfer_s

    replica, ranks = found.replica, found.configuration.layout.ranks * (workers.prefill + workers.decode)
    leaves = ranks > found.site.per_node
    assert replica.times is not None
    placement = replica.deployment.placement
    unit = Unit(
        times=replica.times,
        load=load_of(request, replica),
        prefill=workers.prefill,
        decode=workers.decode,
        transfer_s=one_transfer_s(placement, request.lengths.prompt_tokens, leaves_node=leaves),
        leaves_node=leaves,
    )
    if replica.reuse is None:
        return replica, unit
    from tonnage.planning.sessions.units import unit_within

    return unit_within(request, replica.deployment, unit=unit)


def _in_units(request: Serve, found: Candidate, *, below: float) -> Candidate | None:
    """The cheapest unit of a configuration that meets the objectives surely enough for less than `below`. [USD/h]"""
    tries = []
    for prefill, decode in UNITS:
        workers = PoolWorkers(prefill=prefill, decode=decode)
        worker, unit = unit_of(request, found, workers=workers)
        best, binds = unit.largest() if unit is not None else (None, "")
        if unit is None or best is None:
            continue
        configuration = replace(found.configuration, pools=workers)
        # An even chance ends where the prediction does; less than that may be asked for.
        most = best if request.confidence >= EVEN else unit.at(unit.most)
        least = least_cost_of(
            found.site, replicas=replicas_of(request, most), ranks=configuration.ranks, request=request
        )
        if least is not None and least[1] < below:
            made = replace(found, configuration=configuration, replica=worker, best=best, binds=binds, unit=unit)
            tries.append((least[1], prefill + decode, made))
    chosen: tuple[float, Candidate] | None = None
    for least_usd, _, tried in sorted(tries, key=lambda one: one[:2]):
        if least_usd >= (chosen[0] if chosen else below):
            break
        assert tried.unit is not None
        odds = Odds(Curve(request, tried.replica, load=tried.unit.load, unit=tried.unit), request.slo)
        made = replace(tried, odds=odds)
        if made.firm(request) <= 0.0:
            continue
        replicas = needed_of(request, made)
        cost = least_cost_of(found.site, replicas=replicas, ranks=made.configuration.ranks, request=request)
        if cost is not None and not cost[0] and cost[1] < (chosen[0] if chosen else below):
            chosen = cost[1], made
    return chosen[1] if chosen else None
