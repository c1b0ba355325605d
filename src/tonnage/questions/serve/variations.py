"""
Which settings besides layout and weights are worth trying: cache in FP8, speculative decoding, workers apart.

A variation is looked at where it may win and kept where it does. With none can a replica take more than `gain` times
what it keeps up with without, whatever the latency, so that a variation whose cost at so much is above the best plan's
is left out, and nothing is missed by that: the bound is of the replica alone, and holds for any load and objective.
What costs no less than the same configuration without is not kept: a cache in fewer bits is not chosen for nothing.

- Cache in FP8: where engine and part do it and its quality is published (and passes the floor asked for).
- Drafting: by layers of the checkpoint's own (multi-token prediction) or by a published EAGLE-3 draft, where their
  acceptance is published, planned with its low end; or at the acceptance that the request states. Verified tokens cost
  time under load, so that it may lose.
- Prompts and answers on workers of their own (disaggregated serving), in small units of one configuration.
- Chunks of prompts and batch limits stay the engine's own: by averages chunks of 2,048 tokens save up to an eighth,
  which nothing measured confirms, and every option would be there three times (log of 2026-11-22).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tonnage.catalog import model_name
from tonnage.catalog.eagle import tokens_gained
from tonnage.catalog.models import PublishedDraft, eagle_targets
from tonnage.catalog.published import cache_change
from tonnage.core.header import Infeasible
from tonnage.core.quality import judge_change
from tonnage.core.replica import state_of
from tonnage.core.sites import Site
from tonnage.domain.layout import Engine
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration, PoolWorkers
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.groups import Images
from tonnage.domain.requests.serve import Serve
from tonnage.engines.registry import engine_spec
from tonnage.physics.known import Known, remembered
from tonnage.questions.serve import limits
from tonnage.questions.serve.chance import Curve, Odds
from tonnage.questions.serve.drafts import draft_notes, drafts_for, drafts_told
from tonnage.questions.serve.option import Candidate, has_objectives, least_cost_of, load_at, needed_of, replicas_of
from tonnage.simulation.router import peak_load, replicas_in_all
from tonnage.version import can_simulate

if TYPE_CHECKING:
    from tonnage.core.replica import Replica
    from tonnage.simulation.capacity import Steady
    from tonnage.simulation.encoder import Encoders


UNITS: Final = tuple(
    PoolWorkers(prefill=prefill, decode=decode)
    for prefill, decode in ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2))
)
"""Prefill and decode workers of a unit."""
TOGETHER: Final = (1, 2, 3, 4, 6, 7)
"""Workers that compute prompts and answers in a unit with encoders."""
MOST_ENCODERS: Final = 8
USUAL_BUSY: Final = 0.7
"""Of their time that the fewest encoders looked at would work when the others are full. [-]"""
EVEN: Final = 0.5
"""A chance: from this on, no more load is met than by the prediction itself. [-]"""

ROOM: Final = 2.1
"""Times the load that twice the cache may bring at most, with some slack. [-]"""
FP8_CACHE: Final = frozenset({"NVIDIA", "AMD"})
"""Vendors on whose parts engines keep a cache in FP8."""

LEAST: Final = 0.7
"""Chosen: simulated capacity over the mean field's that no leading plan is expected to fall below (0.81 seen). [-]"""

APART: Final = "prefill and decode on workers of their own (of one layout without pipelines)"


Variation = tuple[Configuration, float]
"""A configuration with other settings, and how much more load a replica may take with them at most."""


class Variations:
    """Settings that a plan tries, as far as they depend on the request and the model alone."""

    def __init__(self, request: Serve, model: Model) -> None:
        self.request = request
        self.drafts = _drafts(request, model)
        change = cache_change(request.model, "fp8")
        floor = request.quality_floor
        known = change.kept is not None and (floor is None or bool(judge_change(change, floor).passes))
        self.fp8_cache = known and request.kv_precision is None

    def of(self, site: Site, found: Candidate | Infeasible) -> Iterator[Variation]:
        """Variations of a configuration that was looked at: of one that cannot serve, those that may help it."""
        limit = found.verdict.limit if isinstance(found, Infeasible) else None
        if limit is None or limit in {"cache", "ttft", "tpot", "e2e"}:
            yield from self.of_configuration(site, found.configuration, limit=limit)

    def of_configuration(self, site: Site, tried: Configuration, *, limit: str | None) -> Iterator[Variation]:
        """
        Variations of a configuration that serves (`limit` None), or of one that this limit stops, which they may lift.
        """
        caches = self.caches(site, tried) if limit != "ttft" else [(tried.precision, 1.0)]
        engines = [(tried.engine, 1.0)]
        if limit != "cache":
            engines += self._engines(site, tried)
        for (precision, more), (engine, gain) in product(caches, engines):
            if (precision, engine) != (tried.precision, tried.engine):
                yield replace(tried, precision=precision, engine=engine), more * gain

    def caches(self, site: Site, tried: Configuration) -> list[tuple[Precision, float]]:
        """The configuration's own formats and those with a narrower cache, and how much more it may hold."""
        own = [(tried.precision, 1.0)]
        part = site.accelerator
        able = part.vendor in FP8_CACHE and "fp8" in part.peaks and engine_spec(tried.engine.name).fp8_cache
        if not (self.fp8_cache and able) or number_format(tried.precision.kv).bits < 16:
            return own
        return [*own, (replace(tried.precision, kv="fp8"), ROOM)]

    def _engines(self, site: Site, tried: Configuration) -> Iterator[tuple[Engine, float]]:
        """The engine with each draft that it can run there, and the tokens a step gained at most."""
        for draft in self.drafts if engine_spec(tried.engine.name).drafts else ():
            # A draft beside the model is in BF16, and stands on the ranks of one stage.
            if draft.model is None or ("bf16" in site.accelerator.peaks and tried.layout.pp == 1):
                yield (
                    replace(
                        tried.engine,
                        speculative_tokens=draft.tokens,
                        speculative_acceptance=draft.low,
                        draft_model=draft.model,
                    ),
                    tokens_gained(draft.low, draft.tokens),
                )


def variation_notes(request: Serve, model: Model) -> tuple[str, ...]:
    """What was tried besides layouts and formats, and what was not."""
    if request.adapters.adapters is not None:
        from tonnage.questions.serve.drafts import ASSUMED

        return (*ASSUMED, *_variation_notes(request, model))
    return _variation_notes(request, model)


def _drafts(request: Serve, model: Model) -> tuple[PublishedDraft, ...]:
    """What may be drafted; most models have neither layers nor a draft for it."""
    asked = request.draft_acceptance is not None or model.mtp_layers or model.id in eagle_targets()
    return drafts_for(request, model) if asked else ()


def _variation_notes(request: Serve, model: Model) -> tuple[str, ...]:
    """What was tried besides layouts and formats, drafts with their source."""
    tried = "also tried where it may win: a KV cache in FP8 of published quality"
    if request.rate_per_s is not None and has_objectives(request):
        tried += f", {APART}"
    if drafts := _drafts(request, model):
        return f"{tried}; {drafts_told(drafts)}", *draft_notes(request, model)
    if model.mtp_layers:
        return (
            f"{tried}; {model_name(model.id)} can draft with its own layers, but nobody published how much of it "
            "is kept: state yours (--draft-acceptance '70 %')",
        )
    return (tried, *(draft_notes(request, model) if model.id in eagle_targets() else ()))


def kept_apart(request: Serve, found: list[Candidate], *, known: Known, most: float = math.inf) -> list[Candidate]:
    """
    Prompts and answers on workers of their own, where that costs less than the same configuration, and than any other.

    Apart, workers take at most what they keep up with together: what their replicas would cost, at least two, is the
    least. In that order, until none that is left can cost less than the best plan, even if a simulation that follows
    leaves that `LEAST` of what is predicted, or than `most` [USD/h]. `known` keeps what no load moves.
    """
    left = LEAST if _simulated(request) else 1.0
    best, tries = most, list[tuple[float, int, Candidate]]()
    for one in found:
        if _may_split(request, one):
            least = least_with(request, one, site=one.site, gain=1.0, fewest=2)
            best = min(best, sure_cost(request, one, factor=left))
            tries.append((least, len(tries), one))
    chosen = []
    for least, _, one in sorted(tries, key=lambda each: each[:2]):
        if least >= best:
            break
        made = _in_units(request, one, below=min(best, sure_cost(request, one, factor=left)), known=known)
        if made is not None:
            chosen.append(made)
            best = min(best, sure_cost(request, made, factor=left))
    return chosen


def _simulated(request: Serve) -> bool:
    """Whether what is kept by averages is simulated then."""
    return not request.quick and can_simulate()


def sure_cost(request: Serve, found: Candidate | Infeasible, *, factor: float = 1.0) -> float:
    """
    Cost of a candidate's fleet at prices that sellers state if a replica takes `factor` times what is known; infinite
    where it serves nothing, not surely enough, or has no such price. [USD/h]
    """
    if isinstance(found, Infeasible) or (has_objectives(request) and found.firm(request) <= 0.0):
        return math.inf
    return primary_cost(request, found, factor=factor)


def least_with(request: Serve, found: Candidate | Infeasible, *, site: Site, gain: float, fewest: int = 1) -> float:
    """
    Cost of the fleet if a replica takes `gain` times the most that it keeps up with, of at least `fewest` replicas; for
    what cannot serve as it is, of `fewest` alone. [USD/h]
    """
    replicas = 1
    if isinstance(found, Candidate):
        most = found.odds.most if has_objectives(request) else load_at(request, found.best)
        replicas = replicas_in_all(request, peak_load(request) / (most * gain))
    replicas = max(replicas, fewest)
    return least_cost_of(site, replicas=replicas, ranks=found.configuration.ranks, request=request).compared


def primary_cost(request: Serve, found: Candidate, *, factor: float = 1.0) -> float:
    """
    Cost of a candidate's fleet at prices that sellers state if a replica takes `factor` times what is known; infinite
    without, or beyond the request's count. A bound for all others, whatever the budget: what costs more than it cannot
    be the cheapest. [USD/h]
    """
    replicas = needed_of(request, found, factor=factor)
    cost = found.cost(request, replicas)
    over = limits.beyond_limits(request, replicas * found.configuration.ranks, usd_per_h=0.0)
    return math.inf if cost.unlisted or over else cost.compared


def _may_split(request: Serve, found: Candidate) -> bool:
    """Whether a configuration may keep prompts and answers apart: at a rate, within an objective, by what is known."""
    layout, replica = found.configuration.layout, found.replica
    return (
        request.rate_per_s is not None
        and has_objectives(request)
        and engine_spec(found.configuration.engine.name).hands_over_caches
        and layout.pp == 1
        # Ranks that step together hold each other up: the simulator knows it, and the steady state of a unit does not.
        and (layout.dp == 1 or _simulated(request))
        and found.configuration.engine.speculative_tokens is None
        and found.configuration.engine.adapters is None
        and replica.times is not None
        and request.lengths.output_tokens > 2.0
    )


def encoder_modes(request: Serve, configuration: Configuration) -> tuple[Configuration, ...]:
    """The configuration with each way of a vision encoder on its ranks; itself alone where there is one way."""
    able = engine_spec(configuration.engine.name).deals_images
    if request.lengths.images is None or configuration.layout.tp == 1 or not able:
        return (configuration,)
    dealt = replace(configuration.engine, mm_encoder_tp_mode="data")
    return configuration, replace(configuration, engine=dealt)


def engine_modes(request: Serve, model: Model, *, configuration: Configuration) -> Iterator[Configuration]:
    """The configuration with each way to keep the request's adapters, and each of a vision encoder."""
    fields, made = request.adapters, iter((configuration,))
    if fields.adapters is not None:
        from tonnage.questions.serve.drafts import adapter_modes

        made = adapter_modes(fields, model, configuration=configuration)
    for one in made:
        yield from encoder_modes(request, one)


def in_units_of(configuration: Configuration, workers: PoolWorkers) -> Configuration:
    """The configuration as a unit of so many workers; those without a vision encoder deal out no images."""
    if workers.encode:
        configuration = replace(configuration, engine=replace(configuration.engine, mm_encoder_tp_mode=None))
    return replace(configuration, pools=workers)


def unit_of(request: Serve, found: Candidate, *, workers: PoolWorkers) -> tuple[Replica, Steady | None]:
    """
    A worker of a candidate's configuration, with what it finds again, and the steady states of a unit of so many; None
    in their place where the unit does not fit.
    """
    from tonnage.simulation.disaggregated import Unit, one_transfer_s

    replica, ranks = found.replica, replace(found.configuration, pools=workers).ranks
    leaves = ranks > found.site.per_node
    encoders = None
    if workers.encode:
        replica = _without_encoder(request, found, workers=workers)
        encoders = _encoders_of(found, request.lengths, workers=workers.encode, leaves_node=leaves)
        if replica.times is None or encoders is None:
            return replica, None
    placement = replica.placement
    unit = Unit(
        prefill=workers.prefill,
        decode=workers.decode,
        transfer_s=one_transfer_s(placement, request.lengths.prompt_tokens, leaves_node=leaves),
        leaves_node=leaves,
        encoders=encoders,
    )
    if replica.reuse is None:
        return replica, state_of(request, replica, unit=unit)
    from tonnage.questions.sessions.buys import unit_within

    return unit_within(request, replica, unit=unit)


def _least_apart(request: Serve, found: Candidate, *, workers: PoolWorkers) -> float:
    """
    What the fleet of units costs if workers find as much again as the candidate does; infinite if it misses. [USD/h]

    They find less: a prefill worker sees more prompts a second than a replica, and keeps no answers.
    """
    from tonnage.simulation.disaggregated import Unit

    unit = Unit(prefill=workers.prefill, decode=workers.decode, transfer_s=0.0)
    state = state_of(request, found.replica, unit=unit)
    best, _ = state.largest()
    if best is None:
        return math.inf
    most = best if request.confidence >= EVEN else state.at(state.most)
    ranks = replace(found.configuration, pools=workers).ranks
    return least_cost_of(found.site, replicas=replicas_of(request, most), ranks=ranks, request=request).compared


def _without_encoder(request: Serve, found: Candidate, *, workers: PoolWorkers) -> Replica:
    """A worker of a candidate's configuration that gets images encoded."""
    from tonnage.core.session_reuse import reusing_replica

    configuration = in_units_of(found.configuration, workers)
    model = found.replica.placement.model
    return reusing_replica(request, configuration, model=model, accelerator=found.site.accelerator)


def _encoders_of(found: Candidate, lengths: Lengths, *, workers: int, leaves_node: bool) -> Encoders | None:
    """
    So many encoders beside a candidate's workers; None without images, or where the encoder does not fit one
    accelerator.
    """
    from tonnage.simulation.encoder import Encoders, encode_s, hits_of, moved_s

    at, images = found.replica, lengths.images
    if images is None:
        return None
    room = _room(at.placement.model, images, visible_bytes=found.site.accelerator.visible_memory_bytes)
    if room < 0.0:
        return None
    return Encoders(
        workers=workers,
        image_s=encode_s(at.placement, at.overheads, images=images, count=1.0),
        images=images.per_request * (1.0 - hits_of(at.placement.model, images, kept=room)),
        moved_s=moved_s(at.placement, images, leaves_node=leaves_node),
    )


def _room(model: Model, images: Images, *, visible_bytes: float) -> float:
    """What an encoder worker has left for encodings; negative = the encoder itself is too large. [bytes]"""
    from tonnage.simulation.encoder import KEPT

    return KEPT * visible_bytes - encoder_bytes(model, images)


def encoder_bytes(model: Model, images: Images) -> float:
    """Weights, and activations of one image. [bytes]"""
    from tonnage.physics.vision import encoder_of
    from tonnage.simulation.encoder import encoder_parts

    held = encoder_parts(model, images, tokens=images.tokens, kept=0.0, tp=1)
    return 2.0 * encoder_of(model).parameters + sum(part.value for part in held)


def _unit_sizes(request: Serve, found: Candidate) -> list[PoolWorkers]:
    """Units that are looked at: with images, prompts may stay with answers while an encoder has workers of its own."""
    sizes = list(UNITS)
    if request.lengths.images is None or not engine_spec(found.configuration.engine.name).encodes_apart:
        return sizes
    return sizes + with_encoders(request, found)


def with_encoders(request: Serve, found: Candidate) -> list[PoolWorkers]:
    """
    Units whose encoders keep their other workers busy: as many as that takes, one fewer, and as many as fill an
    instance. Units that do not fit or meet no objective are left out.
    """
    images = request.lengths.images
    assert images is not None
    made: list[PoolWorkers] = []
    for shape in (*(PoolWorkers(prefill=0, decode=count) for count in TOGETHER), *UNITS):
        alone = replace(shape, encode=1)
        _, state = unit_of(request, found, workers=alone)
        if state is None or state.unit is None or state.unit.encoders is None:
            continue
        others, _ = replace(state, unit=replace(state.unit, encoders=None)).largest()
        if others is None:
            continue
        needed = others.rate_per_s / max(1e-12, state.unit.encoders.most)
        most = min(MOST_ENCODERS, max(1, math.ceil(needed / USUAL_BUSY)))
        counts = {most, max(1, most - 1)}
        # What an instance has left costs the same whether it encodes or rests.
        left = -replace(found.configuration, pools=shape).ranks % found.site.per_node
        counts |= {left} if most < left <= MOST_ENCODERS else set()
        made += [replace(shape, encode=count) for count in sorted(counts)]
    return made


def _as_unit(request: Serve, found: Candidate, *, workers: PoolWorkers) -> Candidate | None:
    """A candidate's configuration as a unit of so many workers, its odds still the candidate's; None if it misses."""
    worker, state = unit_of(request, found, workers=workers)
    best, binds = state.largest() if state is not None else (None, "")
    if state is None or best is None:
        return None
    configuration = in_units_of(found.configuration, workers)
    return replace(found, configuration=configuration, replica=worker, best=best, binds=binds, state=state)


def _with_odds(request: Serve, unit: Candidate) -> Candidate:
    """A unit with odds of its own."""
    return replace(unit, odds=Odds(Curve(request, unit.replica, state=unit.state), request.slo))


def _in_units(request: Serve, found: Candidate, *, below: float, known: Known) -> Candidate | None:
    """
    The cheapest unit of a configuration that meets the objectives surely enough for less than `below` [USD/h], at a
    price that its seller states; None where no unit does.
    """
    tries = []
    for workers in _unit_sizes(request, found):
        if found.replica.reuse is not None and _least_apart(request, found, workers=workers) >= below:
            continue
        made = remembered(known, (id(found), workers), made=partial(_as_unit, request, found, workers=workers))
        if made is None:
            continue
        # An even chance ends where the prediction does; less than that may be asked for.
        most = made.best if request.confidence >= EVEN else made.state.at(made.state.most)
        least = made.cost(request, replicas_of(request, most)).compared
        if least < below:
            tries.append((least, made.configuration.ranks, made))
    chosen: tuple[float, Candidate] | None = None
    for least_usd, _, tried in sorted(tries, key=lambda one: one[:2]):
        if least_usd >= (chosen[0] if chosen else below):
            break
        made = remembered(known, (id(tried),), made=partial(_with_odds, request, tried))
        if made.firm(request) <= 0.0:
            continue
        cost = made.cost(request, needed_of(request, made))
        if not cost.unlisted and cost.compared < (chosen[0] if chosen else below):
            chosen = cost.compared, made
    return chosen[1] if chosen else None
