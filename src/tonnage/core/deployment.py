"""
A configuration settled: what an engine runs of a model on accelerators, and everything that holds before any traffic.

The only way from a configuration to its engine, overheads, kernels, memory and layout. `resolve` reads the names of a
case from the catalogue, `deploy` takes nouns that are known already (a plan's candidates, what-if accelerators). Plans,
predictions, simulations, batches and fleets all start here, so that one configuration has one number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.efficiency import ladder
from tonnage.catalog.engines import (
    EngineTimes,
    attends_in_8_bits,
    engine_lacking,
    engine_times,
    only_fp16,
    with_usual_activations,
)
from tonnage.catalog.hub.resolve import resolve_text
from tonnage.catalog.models import as_published
from tonnage.core.error_model import ErrorModel, basis_of_tier, serve_level
from tonnage.core.speculation import check_beams, speculation_of, with_published_acceptance
from tonnage.domain.accelerator import Accelerator, Link
from tonnage.domain.answer import Basis, Spread
from tonnage.domain.calibration import Calibration, Stretch
from tonnage.domain.case import Links, ServeCase, Traffic
from tonnage.domain.efficiency import Ladder, Rung
from tonnage.domain.engine_spec import Overheads, ResolvedEngine, with_async_scheduling, with_prompt_read
from tonnage.domain.layout import Disaggregation, Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import Lengths
from tonnage.domain.sessions import PrefixReuse
from tonnage.engines.registry import (
    defaults,
    engine_spec,
    find_engine,
    planned_engines,
    read_settings,
    resolve_engine,
    stated_release,
    stated_settings,
    unlisted_engine,
)
from tonnage.errors import BadRequest, UnknownName
from tonnage.physics.collectives import has_link
from tonnage.physics.memory import resolve_precision
from tonnage.physics.vision import known_images
from tonnage.record import Record
from tonnage.simulation.adapters import adapter_parts, with_adapters, with_room_for_adapters
from tonnage.simulation.encoder import held_for_images, with_encoder
from tonnage.simulation.kvcache import Demand, KvPool, kv_pool
from tonnage.simulation.mean_step import ReplicaTimes
from tonnage.simulation.own_kernels import batching_of, mixed_attention_factor
from tonnage.simulation.step_parts import Placement

if TYPE_CHECKING:
    from tonnage.core.drift import Drift


THROUGH_HOST: Final = "pcie-host"
"""PCIe between accelerators that do not reach each other's memory: no peer access, or a host that redirects it."""
_LINKS: Final = ("nvlink", "pcie", THROUGH_HOST, "xgmi", "ici", "none")
_EXCHANGES: Final = ("all_reduce/", "all_gather/", "reduce_scatter/", "all_to_all/")
HOPPER_BYTES_PER_S: Final = 36.4e9
"""Data-sheet bandwidth per multiprocessor beyond which Hopper parts gain nothing: H200's. [bytes/s]"""


class Deployment(Record, kw_only=True):
    """One configuration with every default filled in: everything that holds before any traffic comes."""

    case: ServeCase
    placement: Placement
    memory_layout: Layout
    """Ranks that hold the weights; differs from the placement's where layers are split without pipelining."""
    engine: Engine
    running: ResolvedEngine
    """The engine with its specification: what is particular to it."""
    release: tuple[int, ...] | None
    fitted: EngineTimes
    overheads: Overheads
    pool: KvPool
    calibration: Calibration | None = None
    """The user's own, of this engine on this accelerator."""
    drift: Drift | None = None
    """What it, or published rows, say of this configuration beyond the causes of a stack."""
    notes: tuple[str, ...] = ()
    kv_tokens: float = 0.0
    """Tokens of cache, counted as requests of some lengths use them; this and what follows are of such. [tokens]"""
    times: ReplicaTimes | None = None
    basis: Basis = Basis.DERIVED
    rate_error: Spread = Spread(0.0)
    """Of the rate it takes, which is as sure as its tokens per second under a steady load."""
    reuse: PrefixReuse | None = None
    """What prompts find of their sessions; absent = nothing is known of those, or looked for."""

    def basis_on(self, tier: Rung) -> Basis:
        """How a number is founded whose weakest kernel stands on an evidence tier."""
        tier = "generic" if self.fitted.unknown else tier  # a guessed host, however well kernels are known
        return basis_of_tier(tier, overheads_borrowed=self.fitted.borrowed, calibrated=self.calibration is not None)

    def errors(self, basis: Basis, *, load: str, in_flight: float | None = None) -> ErrorModel:
        """The error model under a class of load, and of the user's own measurements with so many requests in flight."""
        own, engine = self.calibration, self.fitted.engine
        known = own is not None or self.fitted.host_measured
        level = serve_level(self.placement.model, basis=basis, load=load, engine=engine, host_known=known)
        # Published rows narrow no interval.
        surely = own if own is None or self.drift is None else self.drift.surely(in_flight)
        return ErrorModel(kind="serve", level=level, calibration=surely)

    @property
    def max_num_seqs(self) -> float:
        """Requests that the engine's own setting lets run together on the replica; infinite where it has none."""
        return float(self.engine.max_num_seqs or math.inf) * self.memory_layout.dp


def resolve(case: ServeCase, *, additions: Additions = catalog.NOTHING) -> Deployment:
    """
    The deployment of a case, its names read from the catalogue; with separate pools, of one decode worker.

    Raises
    ------
    TonnageError
        The model, accelerator, engine or a format is unknown, or the case contradicts itself.
    """
    model = resolve_text(case.model, additions=additions, tokens=case.osl, instead="predict a case of kind 'infer'")
    if case.images is not None:
        case = replace(case, images=known_images(model, case.images, isl=case.isl))
    part = catalog.predictable_accelerator(case.accelerator, additions)
    if case.disaggregation is None:
        return deploy(case, model=model, accelerator=part)
    return _deploy_pools(case, case.disaggregation, model=model, accelerator=part)


def _deploy_pools(case: ServeCase, split: Disaggregation, *, model: Model, accelerator: Accelerator) -> Deployment:
    """The deployment of one decode worker; of a worker that does not fit where there is one, named in its verdict."""
    for name, layout in (("prefill", split.prefill), ("decode", split.decode)):
        at = deploy(replace(case, layout=layout), model=model, accelerator=accelerator)
        verdict = at.pool.verdict
        if not verdict.ok:
            told = replace(verdict, reason=f"{name} workers: {verdict.reason}")
            return replace(at, pool=replace(at.pool, verdict=told))
    return at


def case_of(configuration: Configuration, *, model: Model | str, lengths: Lengths, traffic: Traffic) -> ServeCase:
    """The case that `predict` would be asked about a plan's configuration; without images that other workers encode."""
    layout = configuration.layout
    layered = engine_spec(configuration.engine.name).layered and layout.tp == 1 and layout.ranks > 1
    return ServeCase(
        model=model,
        accelerator=configuration.accelerator,
        traffic=traffic,
        isl=lengths.prompt_tokens,
        osl=lengths.output_tokens,
        layout=layout,
        precision=configuration.precision,
        engine=configuration.engine.name,
        engine_version=configuration.engine.version,
        engine_options=stated_settings(configuration.engine),
        links=Links(intra=configuration.intra_link),
        split_mode="layer" if layered else "tensor",
        images=None if configuration.pools is not None and configuration.pools.encode else lengths.images,
    )


def deploy(case: ServeCase, *, model: Model, accelerator: Accelerator) -> Deployment:
    """
    The deployment of a case whose model and accelerator are known, with its engine's defaults and its memory.

    A model that does not fit, or an engine that does not run on the accelerator, is no error: `pool.verdict` says so.
    """
    if case.isl < 0 or case.osl < 0 or case.isl + case.osl <= 0:
        raise BadRequest(
            f"isl {case.isl:g} and osl {case.osl:g} must be at least 0 and not both 0; give prompt and output tokens"
        )
    case = _at_mean_lengths(case)
    accelerator = _counted_device(accelerator, case)
    known, note = _engine(case)
    case = replace(case, engine_options=stated_settings(known))
    precision = _precision(case, model, accelerator, engine=known.name)
    layout, memory_layout = _layouts(case)
    offline = case.traffic.static or case.traffic.saturated or case.traffic.batch is not None
    engine = defaults(known, accelerator, model=model, layout=memory_layout, year=case.year, offline=offline)
    adapters = engine.adapters if engine.adapters is not None and engine.adapters.slots else None
    engine = with_room_for_adapters(engine) if adapters else engine
    version = stated_release(known, case.year)
    running = resolve_engine(engine, case.year)
    precision, published = as_published(precision, model, beside_experts=running.spec.beside_experts)
    times = _times(case, accelerator, release=version)
    speculation = speculation_of(engine, model) if engine.speculative_tokens else None
    if case.beams != 1:
        check_beams(case, drafts=speculation is not None)
    pool = kv_pool(
        model,
        accelerator,
        precision=precision,
        engine=running,
        layout=memory_layout,
        demand=Demand(
            context_tokens=max(1.0, case.isl + case.osl), drafter=speculation.drafter if speculation else None
        ),
        images=(held_for_images(model, case.images, engine=engine, tp=layout.tp) if case.images else ())
        + (adapter_parts(model, adapters, layout=memory_layout) if adapters else ()),
    )
    kernels = _without_peer_exchanges(
        ladder(accelerator, family=running.spec.kernel_family, inter_node_bytes_per_s=case.links.inter_bytes_per_s),
        case.links.intra,
    )
    own = calibration_of(accelerator, engine.name, model=model.id)
    linked = bool(kernels.grids) or has_link(accelerator, ranks=layout.tp)
    shipped = _shipped_overheads(times, engine, ranks=layout.tp, linked=linked)
    overheads = overheads_under(shipped, own.stretch, carried=own.carried) if own else shipped
    ahead = bool(engine.async_scheduling) or running.spec.runs_ahead(version)
    overheads = with_prompt_read(overheads, case.isl, ahead=float(ahead))
    reach = overheads.reach_bytes_per_s
    placement = Placement(
        model=model,
        accelerator=with_reachable_bandwidth(accelerator, kernels.multiprocessors, reach=reach),
        precision=precision,
        attends=attends_in_8_bits(engine.name, accelerator),
        layout=layout,
        ladder=kernels,
        # Accelerators that reach each other without the network.
        domain=max(accelerator.link.domain, accelerator.max_per_node or 8),
        graphs=engine.cuda_graphs is not False,
        speculation=speculation,
        mixed_attention=mixed_attention_factor(accelerator, model, one_call=running.spec.attends_in_one_call(version)),
        fused_attention=running.spec.fuses_attention(version),
        batching=batching_of(accelerator, running.spec, release=version, units=kernels.multiprocessors, reach=reach),
        eager=running.spec.eager if times.engine == running.spec.overheads_of else None,
        two_batches=running.spec.overlaps_two_batches(version),
        balanced=running.spec.balances_experts(version),
        beams=float(case.beams),
    )
    if case.images is not None:
        placement = with_encoder(placement, overheads, images=case.images, isl=case.isl, engine=engine)
    placement = with_adapters(placement, adapters, isl=case.isl) if adapters else placement
    if (lacking := engine_lacking(running.spec, accelerator, planned=planned_engines())) is not None:
        told = f"{lacking.reason}; what would work: {lacking.nearest}"
        pool = replace(pool, verdict=replace(lacking, reason=told))
    return Deployment(
        case=case,
        placement=placement,
        memory_layout=memory_layout,
        engine=engine,
        running=running,
        release=version,
        fitted=times,
        overheads=overheads,
        pool=pool,
        calibration=own,
        drift=_drift(own, case, placement, engine=engine.name),
        notes=(
            *note,
            *filter(None, (catalog.status_note(accelerator),)),
            *published,
            *pool.notes,
            *model.assumed,
            *placement.ladder.notes,
            *_notes(case, placement, borrowed=times.borrowed and own is None),
        ),
    )


def _precision(case: ServeCase, model: Model, accelerator: Accelerator, *, engine: str) -> Precision:
    """The formats that were asked for or that the model is kept in, as the accelerator and engine run them."""
    precision = resolve_precision(case.precision, model)
    if case.precision is None and precision.weights == "bf16" and only_fp16(accelerator):
        precision = replace(precision, weights="fp16")  # vLLM's `dtype: auto` does the same
    return with_usual_activations(precision, accelerator, engine=engine)


def _times(case: ServeCase, accelerator: Accelerator, *, release: tuple[int, ...] | None) -> EngineTimes:
    """What was fitted of the engine's release on such accelerators."""
    # Whoever makes a processor, no fit on the same maker's GPUs says anything about it.
    vendor = "" if accelerator.segment == "cpu" else accelerator.vendor
    return engine_times(
        _timed_as(case.engine),
        vendor=vendor,
        architecture=accelerator.architecture,
        part=accelerator.id,
        release=release,
    )


def _shipped_overheads(times: EngineTimes, engine: Engine, *, ranks: int, linked: bool) -> Overheads:
    """What was fitted of an engine under its settings; `linked` where its ranks have links or measured exchanges."""
    shipped = with_async_scheduling(Overheads(**times.values), engine.async_scheduling, ranks=ranks)
    if linked:
        return shipped
    # A factor below one was fitted over links of their own (MI300X); PCIe takes no less than its formula says.
    return replace(shipped, collective=max(1.0, shipped.collective))


def _drift(own: Calibration | None, case: ServeCase, placement: Placement, *, engine: str) -> Drift | None:
    """What measured loads near this one say beyond the stack's factors; absent where none count."""
    if not (placement.accelerator.published or (own is not None and own.learnt)):
        return None
    from tonnage.core.drift import drift_at

    return drift_at(own, case, at=placement, engine=engine)


def _notes(case: ServeCase, placement: Placement, *, borrowed: bool) -> Iterator[str]:
    """What is assumed of the engine beyond the case."""
    layout = placement.layout
    if placement.two_batches and layout.ep > 1 and layout.dp > 1 and layout.tp * layout.dp > placement.domain:
        told_of = "half of a step is exchanged between nodes beside the other (--enable-two-batch-overlap)"
        yield f"{case.engine}: {told_of}, busy experts are copied (--enable-eplb); else steps are longer"
    if borrowed:
        yield f"{case.engine}: no measured overheads; a generic engine's are used"


def with_reachable_bandwidth(accelerator: Accelerator, multiprocessors: float | None, *, reach: float) -> Accelerator:
    """
    The accelerator with the bandwidth that its multiprocessors can ask for.

    A Hopper multiprocessor keeps about 28 GB/s in flight (H200: 132 of them reach 0.78 of 4.8 TB/s), so a part with
    few of them beside fast memory (H20: 78 at 4.0 TB/s) decodes at half of its data sheet. An engine whose kernels
    keep less in flight (llama.cpp) says how much (`reach` of one multiprocessor [bytes/s], 0 = no limit of its own),
    and the two limits meet as those of a roofline do (power four). Where multiprocessors are not known nothing changes.
    """
    if multiprocessors is None:
        return accelerator
    reached = accelerator.memory_bytes_per_s
    if (accelerator.compute_capability or "").startswith("9."):
        reached = min(reached, multiprocessors * HOPPER_BYTES_PER_S)
    if reach:
        reached = (reached**-4.0 + (multiprocessors * reach) ** -4.0) ** -0.25
    if reached == accelerator.memory_bytes_per_s:
        return accelerator
    return replace(accelerator, memory_bytes_per_s=reached)


def _at_mean_lengths(case: ServeCase) -> ServeCase:
    """Lengths as means: a uniform draw between fractions of nominal averages below it."""
    if case.length_spread is None:
        return case
    low, high = case.length_spread
    if not 0 < low <= high <= 2:
        raise BadRequest(f"length_spread {low:g}-{high:g}: fractions of nominal, 0 < low <= high <= 2")
    mean = (low + high) / 2.0
    return replace(case, isl=case.isl * mean, osl=case.osl * mean)


def _counted_device(accelerator: Accelerator, case: ServeCase) -> Accelerator:
    """The device that is counted: a share of the part, with the links the case has."""
    share = case.accelerator_fraction
    if not 0 < share <= 1:
        raise BadRequest(f"accelerator_fraction {share:g} must be above 0 and at most 1")
    if share < 1:
        accelerator = accelerator.of_share(share)
    if case.links.intra is not None and case.links.intra not in _LINKS:
        raise UnknownName("link", case.links.intra, known=_LINKS)
    if case.links.intra in {"pcie", THROUGH_HOST, "none"} and accelerator.link.bytes_per_s:
        accelerator = replace(accelerator, link=Link(kind="none"))
    return accelerator


def _without_peer_exchanges(kernels: Ladder, intra: str | None) -> Ladder:
    """The ladder without exchanges that were measured between peers, where accelerators pass data through the host."""
    if intra != THROUGH_HOST:
        return kernels
    alone = {key: kernels.grids[key] for key in kernels.grids if not key.startswith(_EXCHANGES)}
    return replace(kernels, grids=alone, peer_access=False)


def _engine(case: ServeCase) -> tuple[Engine, tuple[str, ...]]:
    """The engine noun of a case; one whose settings nobody listed allocates by need, as libraries do."""
    notes: tuple[str, ...] = ()
    spec = find_engine(case.engine)
    if spec is None:
        spec = unlisted_engine()
        notes = (f"{case.engine}: its defaults are not known; it is taken to allocate by need",)
    named = read_settings(case.engine_options, spec, version=case.engine_version)
    return with_published_acceptance(named) if named.draft_model else named, notes


def _timed_as(name: str) -> str:
    """The name an engine's overheads are filed under: its own, its family's, or as given where no list has it."""
    spec = find_engine(name)
    if spec is not None:
        return spec.overheads_of
    spelt, other = name.strip().lower(), unlisted_engine()
    return other.name if spelt in other.stands_for else spelt


def _layouts(case: ServeCase) -> tuple[Layout, Layout]:
    """Layout that runs, and layout that holds the weights."""
    layout = case.layout
    if case.split_mode == "layer" and layout.ranks > 1:
        # Layers are spread over the devices, which take turns: memory of all, speed of one.
        return Layout(), Layout(pp=layout.ranks)
    return layout, layout


def calibration_of(accelerator: Accelerator, engine: str, *, model: str) -> Calibration | None:
    """The user's own calibration of an engine on an accelerator, as it holds for a model; absent where none is."""
    own = accelerator.calibrations.get(engine)
    return None if own is None else own.for_model(model)


def overheads_under(base: Overheads, stretch: Stretch | None, *, carried: float = 1.0) -> Overheads:
    """
    The catalogue's overheads with the user's factors on them; host times replace the catalogue's.

    `carried` is how far the result lies from the catalogue (0) to the user's values (1): on logarithms, of host times
    that are zero on a straight line. [-]
    """
    if stretch is None:
        return base

    def factor(value: float) -> float:
        return math.exp(carried * math.log(value))

    def time(own: float | None, known: float) -> float:
        if own is None or carried >= 1.0:
            return known if own is None else own
        return own**carried * known ** (1.0 - carried) if known > 0.0 and own > 0.0 else known + carried * (own - known)

    memory, compute, host = factor(stretch.memory), factor(stretch.compute), factor(stretch.host)
    return replace(
        base,
        memory=base.memory * memory,
        attention=base.attention * memory * factor(stretch.attention),
        touch=base.touch * memory,
        compute=base.compute * compute,
        prefill_attention=base.prefill_attention * compute,
        collective=base.collective * factor(stretch.links),
        step_s=time(stretch.step_s, base.step_s),
        sequence_s=time(stretch.sequence_s, base.sequence_s),
        request_s=time(stretch.request_s, base.request_s),
        hidden_s=base.hidden_s * host,
        launch_s=base.launch_s * host,
        kernel_s=base.kernel_s * host,
        prefill_launch_s=base.prefill_launch_s * host,
        prefill_mixer_s=base.prefill_mixer_s * host,
        prefill_kernel_s=base.prefill_kernel_s * host,
    )
