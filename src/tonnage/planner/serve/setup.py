"""A serving case settled: nouns from the catalogue, the engine with its defaults, and what its memory holds.

Everything that holds before any traffic comes. Planners that ask many loads of one placement start here.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions, hub
from tonnage.catalog.efficiency import ladder
from tonnage.catalog.overheads import EngineTimes, engine_times
from tonnage.engine.kvcache import Demand, KvPool, kv_pool
from tonnage.engine.overheads import Overheads, ahead
from tonnage.engine.own_kernels import mixed_attention
from tonnage.engine.steps import Placement, Speculation
from tonnage.engines.registry import find_engine, unlisted_engine
from tonnage.engines.settings import defaults, resolved, stated_release
from tonnage.errors import BadRequest, UnknownName
from tonnage.nouns.accelerator import Accelerator, Link
from tonnage.nouns.calibration import Calibration
from tonnage.nouns.case import ServeCase
from tonnage.nouns.efficiency import Ladder
from tonnage.nouns.layout import Engine, Layout
from tonnage.nouns.model import Model
from tonnage.nouns.precision import Precision, number_format
from tonnage.physics.memory import checkpoint_precision
from tonnage.planner.calibrated import calibration_of, note_of, overheads_under
from tonnage.planner.placement import reachable

__all__ = ["THROUGH_HOST", "Setup", "settled_precision", "setup"]

THROUGH_HOST: Final = "pcie-host"
"""PCIe between accelerators that do not reach each other's memory: no peer access, or a host that redirects it."""
_LINKS: Final = ("nvlink", "pcie", THROUGH_HOST, "xgmi", "ici", "none")
_EXCHANGES: Final = ("all_reduce/", "all_gather/", "reduce_scatter/", "all_to_all/")


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """A case's nouns, settled: everything that holds before any traffic comes."""

    case: ServeCase
    placement: Placement
    memory_layout: Layout
    """Ranks that hold the weights; differs from the placement's where layers are split without pipelining."""
    engine: Engine
    release: tuple[int, ...] | None
    times: EngineTimes
    overheads: Overheads
    pool: KvPool
    calibration: Calibration | None = None
    """The user's own, of this engine on this accelerator."""
    notes: tuple[str, ...] = ()


def setup(case: ServeCase, *, additions: Additions = catalog.NOTHING) -> Setup:
    """Settle every noun of a case, with its engine's defaults and its memory."""
    if case.isl < 0 or case.osl < 0 or case.isl + case.osl <= 0:
        raise BadRequest(
            f"isl {case.isl:g} and osl {case.osl:g} must be at least 0 and not both 0; give prompt and output tokens"
        )
    case = _at_mean_lengths(case)
    model = case.model if isinstance(case.model, Model) else hub.resolve(case.model, additions=additions)
    accelerator = _counted(catalog.accelerator(case.accelerator, additions), case)
    precision = settled_precision(case.precision, model)
    year = case.year
    known, note = _engine(case)
    layout, memory_layout = _layouts(case)
    offline = case.traffic.static or case.traffic.saturated or case.traffic.batch is not None
    engine = defaults(known, accelerator, model=model, layout=memory_layout, year=year, offline=offline)
    version = stated_release(known, year)
    running = resolved(engine, year)
    times = engine_times(_timed_as(case.engine), vendor=accelerator.vendor, release=version)
    pool = kv_pool(
        model, accelerator, precision=precision, engine=running, layout=memory_layout,
        demand=_demand(case),
    )  # fmt: skip
    kernels = _cabled(
        ladder(
            accelerator,
            family=running.spec.kernel_family,
            inter_node_bytes_per_s=case.links.inter_bytes_per_s,
        ),
        case.links.intra,
    )
    own = calibration_of(accelerator, engine.name)
    shipped = ahead(Overheads(**times.values), engine.async_scheduling)
    overheads = overheads_under(shipped, own.stretch if own else None)
    placement = Placement(
        model=model,
        accelerator=reachable(accelerator, kernels.multiprocessors, reach=overheads.reach_bytes_per_s),
        precision=precision,
        layout=layout,
        ladder=kernels,
        domain=_domain(accelerator),
        graphs=engine.cuda_graphs is not False,
        speculation=_speculation(engine),
        mixed_attention=mixed_attention(accelerator, model, one_call=running.spec.attends_in_one_call(version)),
    )
    notes = (*note, *pool.notes, *model.assumed, *placement.ladder.notes, *note_of(own))
    if times.borrowed and own is None:
        notes = (*notes, f"{case.engine}: no measured overheads; a generic engine's are used")
    return Setup(
        case=case,
        placement=placement,
        memory_layout=memory_layout,
        engine=engine,
        release=version,
        times=times,
        overheads=overheads,
        pool=pool,
        calibration=own,
        notes=notes,
    )


def _at_mean_lengths(case: ServeCase) -> ServeCase:
    """Lengths as means: a uniform draw between fractions of nominal averages below it."""
    if case.length_spread is None:
        return case
    low, high = case.length_spread
    if not 0 < low <= high <= 2:
        raise BadRequest(f"length_spread {low:g}-{high:g}: fractions of nominal, 0 < low <= high <= 2")
    mean = (low + high) / 2.0
    return msgspec.structs.replace(case, isl=case.isl * mean, osl=case.osl * mean)


def settled_precision(given: Precision | None, model: Model) -> Precision:
    """
    The formats that run: the checkpoint's own when none are given.

    A mixture published with experts in a format of their own (gpt-oss) keeps its other weights at
    16 bits when the case names only that format.
    """
    if given is None:
        return checkpoint_precision(model)
    for name in (given.weights, given.kv, given.activations, given.experts or given.weights):
        number_format(name)
    if model.experts_dtype and given.experts is None and number_format(given.weights).bits < 8:
        return msgspec.structs.replace(given, weights=model.native_dtype, experts=given.weights)
    return given


def _counted(accelerator: Accelerator, case: ServeCase) -> Accelerator:
    """The device that is counted: a share of the part, with the links the case has."""
    share = case.accelerator_fraction
    if not 0 < share <= 1:
        raise BadRequest(f"accelerator_fraction {share:g} must be above 0 and at most 1")
    if share < 1:
        accelerator = msgspec.structs.replace(
            accelerator,
            memory_bytes=accelerator.memory_bytes * share,
            usable_memory_bytes=accelerator.driver_memory_bytes * share,
            memory_bytes_per_s=accelerator.memory_bytes_per_s * share,
            peaks={dtype: peak * share for dtype, peak in accelerator.peaks.items()},
        )
    if case.links.intra is not None and case.links.intra not in _LINKS:
        raise UnknownName("link", case.links.intra, known=_LINKS)
    if case.links.intra in {"pcie", THROUGH_HOST, "none"} and accelerator.link.bytes_per_s:
        accelerator = msgspec.structs.replace(accelerator, link=Link(kind="none"))
    return accelerator


def _cabled(kernels: Ladder, intra: str | None) -> Ladder:
    """The ladder without exchanges that were measured between peers, where accelerators pass data through the host."""
    if intra != THROUGH_HOST:
        return kernels
    alone = {key: grid for key, grid in kernels.grids.items() if not key.startswith(_EXCHANGES)}
    return msgspec.structs.replace(kernels, grids=alone, peer_access=False)


def _domain(accelerator: Accelerator) -> int:
    """Accelerators that reach each other without the network."""
    return max(accelerator.link.domain, accelerator.max_per_node or 8)


def _engine(case: ServeCase) -> tuple[Engine, tuple[str, ...]]:
    """The engine noun of a case; one whose settings nobody listed allocates by need, as libraries do."""
    fields = set(Engine.__struct_fields__) - {"name", "version"}
    options: dict[str, Any] = {key: value for key, value in case.engine_options.items() if key in fields}
    notes: tuple[str, ...] = ()
    spec = find_engine(case.engine)
    if spec is None:
        spec = unlisted_engine()
        notes = (f"{case.engine}: its defaults are not known; it is taken to allocate by need",)
    return msgspec.convert({"name": spec.name, "version": case.engine_version, **options}, Engine), notes


def _speculation(engine: Engine) -> Speculation | None:
    """Speculative decoding, when the case gives both the drafted tokens and how often they are accepted."""
    if not engine.speculative_tokens:
        return None
    if engine.speculative_acceptance is None or not 0.0 <= engine.speculative_acceptance <= 1.0:
        raise BadRequest(
            f"speculative_tokens {engine.speculative_tokens} needs speculative_acceptance, the share of drafted "
            "tokens kept, from 0 to 1; it depends on the text and cannot be guessed"
        )
    return Speculation(tokens=float(engine.speculative_tokens), acceptance=engine.speculative_acceptance)


def _timed_as(name: str) -> str:
    """The name an engine's overheads are filed under: its own, that of its kin, or the spelling given."""
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


def _demand(case: ServeCase) -> Demand:
    """What must be resident at least: one request, or all of a batch that an engine cannot queue."""
    return Demand(concurrency=1.0, context_tokens=max(1.0, case.isl + case.osl))
