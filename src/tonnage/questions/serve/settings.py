"""
Which other settings of what was looked at are candidates: drafts, narrower caches, prompts and answers apart.

By the mean field a replica has to carry more with a setting than without, with the confidence asked for or with an even
chance. What whole fleets cost says too little before they are simulated: where two replicas just suffice by averages,
the setting that leaves them room is a candidate too. Where fewer could not cost less than the best plan, even if that
carries `LEAST` of what is predicted, no setting is looked at. A candidate by averages is made here, with settings or
without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from tonnage.core.header import Infeasible
from tonnage.core.ranking import EVEN
from tonnage.core.replica import Replica, state_of
from tonnage.core.session_reuse import reusing_replica
from tonnage.core.sites import Site
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration
from tonnage.domain.requests.serve import Serve
from tonnage.physics.known import Known
from tonnage.questions.serve import limits
from tonnage.questions.serve.chance import Curve, Odds
from tonnage.questions.serve.option import Candidate, costs_of, has_objectives, load_at
from tonnage.questions.serve.variations import LEAST, Variations, least_with, sure_cost
from tonnage.simulation.capacity import LONE, Point, Steady
from tonnage.simulation.router import peak_load

Outcome = Candidate | Infeasible
OutcomeOf = Callable[..., Outcome]
"""By name site and configuration -> the configuration by the mean field, or why it cannot serve."""

LEVELS: Final = (EVEN, 0.8, 0.9)
"""Confidences at which settings and units are looked for, besides the one asked for. [-]"""


def chances_of(request: Serve) -> list[Serve]:
    """
    The request at each confidence for which settings and units are looked for, its own first: what leads where more is
    asked for is known where less is, so that less is never dearer.
    """
    levels = dict.fromkeys((request.confidence, *LEVELS)) if has_objectives(request) else [request.confidence]
    return [replace(request, confidence=one) for one in levels]


def best_settings(
    request: Serve,
    model: Model,
    *,
    looked_at: Sequence[tuple[Site, Outcome]],
    outcome_of: OutcomeOf,
    most: float = math.inf,
) -> list[Candidate]:
    """
    Of each that was looked at the setting with which a replica carries most, fewer changes first, where that is more
    than without: in the order of what they cost at least, until none that is left can cost less than the best plan, or
    than `most` [USD/h].
    """
    best = min((most, *(sure_cost(request, one, factor=LEAST) for _, one in looked_at)))
    tries: list[tuple[float, int, Site, Outcome, Configuration]] = []
    variations = Variations(request, model)
    for site, found in looked_at:
        for configuration, gain in variations.of(site, found):
            least = least_with(request, found, site=site, gain=gain)
            if least < best:
                tries.append((least, len(tries), site, found, configuration))
    chosen: dict[int, tuple[float, int, Candidate]] = {}
    for least, _, site, found, configuration in sorted(tries, key=lambda one: one[:2]):
        if least >= best:
            break
        made = outcome_of(site=site, configuration=configuration)
        if not isinstance(made, Candidate):
            continue
        needed, changes = _needed(request, made), len(configuration.settings())
        if (needed, changes) < chosen.get(id(found), (_needed(request, found), 0))[:2]:
            chosen[id(found)] = needed, changes, made
            best = min(best, sure_cost(request, made, factor=LEAST))
    return [made for _, _, made in chosen.values()]


def _needed(request: Serve, found: Outcome) -> float:
    """Replicas in fractions, by the mean field; infinite where it serves nothing, or not surely enough."""
    if not isinstance(found, Candidate):
        return math.inf
    firm = found.firm(request) if has_objectives(request) else math.inf
    most = load_at(request, found.best) * (1.0 - request.headroom)
    return peak_load(request) / min(firm, most) if firm > 0.0 else math.inf


def most_of(
    request: Serve, replica: Replica, *, configuration: Configuration
) -> tuple[Steady, Point, str] | Infeasible:
    """A replica's steady states, the one at the most that it takes and what stops it there, or why it cannot serve."""
    if unable := replica.pool.verdict if replica.times is None else limits.misses_context(request, replica):
        return Infeasible(configuration=configuration, verdict=unable)
    state = state_of(request, replica)
    if state.load.max_concurrency < 1:
        need = request.lengths.prompt_tokens + request.lengths.output_tokens
        return Infeasible(configuration=configuration, verdict=limits.too_little_cache(need, replica.kv_tokens))
    best, binds = state.largest()
    if best is not None:
        return state, best, binds
    alone = state.at(LONE)
    too_slow = limits.misses_objective(request.slo, alone, limit=binds)
    return Infeasible(configuration=configuration, verdict=too_slow, alone=alone)


def outcome_of(
    request: Serve, model: Model, *, site: Site, configuration: Configuration, known: Known | None = None
) -> Candidate | Infeasible:
    """
    The configuration by the mean field: what one replica takes, or why it cannot serve or be rented. Read from `known`
    where it is there, and kept.
    """
    known = {} if known is None else known
    key = id(site), configuration
    if key not in known:
        replica = reusing_replica(request, configuration, model=model, accelerator=site.accelerator)
        most = most_of(request, replica, configuration=configuration)
        if isinstance(most, Infeasible):
            known[key] = most
        elif not any(costs_of(site, replicas=1, ranks=configuration.layout.ranks, request=request)):
            known[key] = Infeasible(configuration=configuration, verdict=limits.no_offer(site, configuration))
        else:
            state, best, binds = most
            odds = Odds(Curve(request, replica, state=state), request.slo)
            known[key] = Candidate(
                site=site, configuration=configuration, replica=replica, best=best, binds=binds, state=state, odds=odds,
                unmade=limits.unmade(configuration, request=request, model=model),
            )  # fmt: skip
    found: Candidate | Infeasible = known[key]
    return found
