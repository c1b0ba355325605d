"""
What does an engine add to its kernels, and for which weight formats has it kernels on an accelerator?

Fitted overheads have one CSV row per engine, vendor and era under data/engines; empty cells take the default (nothing
added). A row with an empty vendor holds for every vendor without its own. An engine that was not measured on a vendor's
parts takes its own row times that vendor's factors (engine `*`), with the host's times as they were fitted on the
parts of another vendor: the host does not change with the accelerator. An engine that nobody measured takes `generic`.
Both say so.

A peak in the datasheet is not a kernel: vLLM multiplies AWQ from Turing on, FP8 from Ada on, and keeps FP8 weights at
16-bit arithmetic on Ampere. Support has one row per engine, vendor and set of formats; the last matching row of a
format wins, so newer hardware adds rows below, and `never` takes away. What an FP8 cache is multiplied in has rows of
the same kind (engines/attention.csv), by kind of attention; without one, keys and values are widened to 16 bits. So has
what experts of 4 bits are multiplied in where all other weights keep 16 (engines/experts.csv); without one, 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from tonnage.catalog.accelerators import accelerators
from tonnage.catalog.rows import DATA, Row, number, table
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Verdict
from tonnage.domain.engine_spec import EngineSpec
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.refusal import refusal
from tonnage.record import Record

Release = tuple[int, ...]

HOST = (
    "step_s", "sequence_s", "rank_s", "overlapped", "prefill_launch_s", "prefill_mixer_s", "request_s", "reading_s",
    "prompt_s",
)  # fmt: skip
"""Fields that are the host's work, whatever accelerator it serves."""

_MEASURED_ON = "NVIDIA"
"""Vendor on whose parts every engine with releases of its own was fitted."""


class EngineTimes(Record, kw_only=True):
    """Fitted overheads of one engine in one era."""

    engine: str
    since: Release
    """First release they hold for."""
    values: Mapping[str, float]
    """By field of `domain.engine_spec.Overheads`; absent = the field's default."""
    source: str
    borrowed: bool = False
    """The engine was not measured on such parts."""
    unknown: bool = False
    """It was not measured anywhere: every number is a guess at what engines do."""

    @property
    def host_measured(self) -> bool:
        """The engine's own work was measured on such parts: a fit, or numbers set beside measurements of them."""
        return not self.borrowed and not self.source.startswith(_GUESS)


_GUESS: Final = ("seed: docs/physics.md", "seed: published utilisation")
"""How the sources of rows begin that hold for any part: one guess at what an engine does there."""


def engine_times(
    engine: str, *, vendor: str = "", architecture: str = "", part: str = "", release: Release | None = None
) -> EngineTimes:
    """
    Overheads of a release of an engine on a vendor's parts; the newest release when it is not known.

    An architecture that was fitted apart from the vendor's others has a line of its own ("AMD CDNA2"), and so has a
    part that is unlike the others of its architecture ("AMD mi210", one die where MI250 is two). Such a line says
    nothing of releases before its first: those take the vendor's.

    Examples
    --------
    >>> engine_times("vllm", vendor="NVIDIA").borrowed
    False
    >>> engine_times("no-such-engine").borrowed
    True
    """
    known = _eras()
    for fitted in (f"{vendor} {part}", f"{vendor} {architecture}", vendor):
        eras = known.get((engine, fitted), ())
        if eras and (fitted == vendor or release is None or eras[0].since <= release):
            return _of_release(eras, release)
    own = (engine, "") in known
    found = _of_release(known[engine if own else "generic", ""], release)
    measured = known.get((engine, _MEASURED_ON)) if vendor else None
    if measured is not None:
        host = {name: value for name, value in _of_release(measured, release).values.items() if name in HOST}
        found = replace(found, values=MappingProxyType({**found.values, **host}))
    stack = known.get(("*", vendor))
    if stack is not None:
        factors = {key: found.values.get(key, 1.0) * value for key, value in stack[-1].values.items()}
        found = replace(found, values=MappingProxyType({**found.values, **factors}))
    return replace(found, engine=engine, borrowed=not own or stack is not None, unknown=engine not in _named())


def _of_release(eras: tuple[EngineTimes, ...], release: Release | None) -> EngineTimes:
    """The newest era that a release has reached, the oldest where it reached none; without a release the newest."""
    reached = [era for era in eras if release is None or era.since <= release]
    return reached[-1] if reached else eras[0]


@cache
def _eras() -> Mapping[tuple[str, str], tuple[EngineTimes, ...]]:
    found: dict[tuple[str, str], list[EngineTimes]] = {}
    for row in table(DATA / "engines" / "overheads.csv"):
        named = {key: number(row, key) for key in row if key not in {"engine", "vendor", "since", "source"}}
        values = {key: value for key, value in named.items() if value is not None}
        since = tuple(int(part) for part in row["since"].split("."))
        era = EngineTimes(engine=row["engine"], since=since, values=MappingProxyType(values), source=row["source"])
        found.setdefault((row["engine"], row["vendor"]), []).append(era)
    return MappingProxyType({key: tuple(sorted(eras, key=lambda e: e.since)) for key, eras in found.items()})


@cache
def _named() -> frozenset[str]:
    """Engines with a row of overheads, fitted or set by hand."""
    return frozenset(row["engine"] for row in table(DATA / "engines" / "overheads.csv"))


ANY = "*"


class Support(Record, kw_only=True):
    """An engine's kernels for one weight format on one kind of accelerator."""

    at_16_bits: bool
    """The weights are stored so and multiplied at 16 bits."""
    note: str
    source: str


def support(engine: str, accelerator: Accelerator, *, weights: str) -> Support | None:
    """How the engine runs weights of this format there; None when it has no kernels for it."""
    known = formats(engine, accelerator)
    return known.get(weights) or known.get(ANY)


def formats(engine: str, accelerator: Accelerator) -> Mapping[str, Support]:
    """
    Every weight format the engine runs on the accelerator; empty when it does not run there at all.

    A generation that is only announced runs what the one before does (engines/expected.csv): a guess, and noted so.
    """
    is_cpu = accelerator.segment == "cpu"
    # TPUs are one architecture to the catalogue, and an engine knows some generations: a row may name parts, too.
    kinds = frozenset({accelerator.architecture, accelerator.id, *(("cpu",) if is_cpu else ())})
    known = _formats(engine, accelerator.vendor, kinds, accelerator.compute_capability)
    if known or accelerator.status != "announced":
        return known
    like = _expected().get(accelerator.architecture)
    if like is None:
        return known
    before = _formats(engine, accelerator.vendor, frozenset({like["like"]}), like["min_capability"] or None)
    return {name: replace(runs, note=like["why"]) for name, runs in before.items()}


def names_parts_of(engine: str, vendor: str) -> bool:
    """Whether a dated source says on which parts of a maker the engine runs."""
    return any(row["engine"] == engine and row["vendor"] == vendor for row in _support_rows())


def never_runs(engine: str, accelerator: Accelerator) -> bool:
    """Whether a dated source says that the engine runs no format there: llama.cpp has no back end for a TPU."""
    kinds = frozenset({accelerator.architecture, accelerator.id})
    named = (
        row["multiplies"] == "never" and _matches(row, accelerator.vendor, kinds, accelerator.compute_capability)
        for row in _support_rows()
        if row["engine"] == engine and row["formats"] == ANY
    )
    return not formats(engine, accelerator) and any(named)


def attends_in_8_bits(engine: str, accelerator: Accelerator) -> tuple[str, ...]:
    """
    Kinds of attention whose queries this engine casts to FP8 there when the cache is in FP8, in alphabetical order.

    Examples
    --------
    >>> from tonnage.catalog import accelerator
    >>> attends_in_8_bits("vllm", accelerator("h100-sxm5-80gb")), attends_in_8_bits("vllm", accelerator("l40s"))
    (('attention_decode', 'attention_prefill'), ())
    """
    return _in_8_bits(
        "attention", "kinds", engine, accelerator.vendor, accelerator.architecture, accelerator.compute_capability
    )


@cache
def _in_8_bits(
    name: str, column: str, engine: str, vendor: str, architecture: str, capability: str | None
) -> tuple[str, ...]:
    """What one column of a table of facts says is multiplied in 8 bits; the last matching row wins."""
    found: dict[str, bool] = {}
    for row in table(DATA / "engines" / f"{name}.csv"):
        if row["engine"] == engine and _matches(row, vendor, frozenset({architecture}), capability):
            found.update(dict.fromkeys(row[column].split(";"), row["multiplies"] == "in 8 bits"))
    return tuple(sorted(kind for kind, narrow in found.items() if narrow))


@cache
def _expected() -> Mapping[str, Row]:
    """Generations announced, and the one whose software they are taken to run."""
    return {row["architecture"]: row for row in table(DATA / "engines" / "expected.csv")}


@cache
def _formats(engine: str, vendor: str, kinds: frozenset[str], capability: str | None) -> Mapping[str, Support]:
    """Weight formats with kernels on such parts; of the rows that match, the last of a format counts."""
    found: dict[str, Support] = {}
    for row in _support_rows():
        if row["engine"] == engine and _matches(row, vendor, kinds, capability):
            if row["multiplies"] == "never":
                for name in row["formats"].split(";"):
                    found.pop(name, None)
                continue
            runs = Support(at_16_bits=row["multiplies"] == "at 16 bits", note=row["note"], source=row["source"])
            found.update(dict.fromkeys(row["formats"].split(";"), runs))
    return MappingProxyType(found)


def _matches(row: Row, vendor: str, kinds: frozenset[str], capability: str | None) -> bool:
    if row["vendor"] not in {ANY, vendor}:
        return False
    if row["min_capability"]:
        return capability is not None and _at_least(capability, row["min_capability"])
    if not row["architectures"]:
        return True
    return not kinds.isdisjoint(row["architectures"].split(";"))


def _at_least(capability: str, least: str) -> bool:
    """Compute capabilities compare as numbers: 10.0 is above 8.9."""
    return tuple(map(int, capability.split("."))) >= tuple(map(int, least.split(".")))


@cache
def _support_rows() -> tuple[Row, ...]:
    return tuple(table(DATA / "engines" / "support.csv"))


def with_usual_activations(precision: Precision, accelerator: Accelerator, *, engine: str) -> Precision:
    """
    The formats with the activations that engines use with these weights, where none but 16 bits are named.

    FP8 weights come with FP8 activations wherever the part multiplies FP8: no engine widens them there. Where it does
    not (Ampere), or where the engine's kernels for a format multiply at 16 bits, weight-only kernels run. Parts whose
    tensor units know FP16 and not BF16 (V100, T4, RTX 2080 Ti) take FP16: engines refuse BF16 there. Experts of 4 bits
    beside weights of 16 take activations of 8 bits where the engine's kernels do (engines/experts.csv).

    Examples
    --------
    >>> from tonnage.catalog import accelerator
    >>> stored = Precision(experts="mxfp4")
    >>> [with_usual_activations(stored, accelerator(name), engine="trtllm").activations for name in ("b200", "h200")]
    ['mxfp8', 'bf16']
    """
    stored = number_format(precision.weights)
    in_bf16 = stored.name == "bf16"
    if precision.activations == "bf16" and only_fp16(accelerator) and not (in_bf16 and precision.experts is None):
        # Experts in 4 bits leave the other weights at 16, which are FP16 then as well.
        precision = replace(precision, activations="fp16", weights="fp16" if in_bf16 else precision.weights)
    if precision.experts is not None and stored.bits >= 16 and number_format(precision.activations).bits == 16:
        narrow = _in_8_bits(
            "experts", "formats", engine, accelerator.vendor, accelerator.architecture, accelerator.compute_capability
        )
        return replace(precision, activations="mxfp8") if precision.experts in narrow else precision
    native = not stored.weight_only and stored.bits < 16 and stored.compute in accelerator.peaks
    if precision.experts is not None or not native or number_format(precision.activations).bits < 16:
        return precision
    runs = support(engine, accelerator, weights=stored.name)
    if runs is None or runs.at_16_bits:
        return precision
    kv = "fp16" if precision.kv == "bf16" and only_fp16(accelerator) else precision.kv
    return replace(precision, activations=stored.name, kv=kv)


def only_fp16(accelerator: Accelerator) -> bool:
    """Whether products of 16 bits run in FP16 alone, faster than in 32 bits."""
    peaks = accelerator.peaks
    return "bf16" not in peaks and peaks.get("fp16", 0.0) > peaks.get("fp32", 0.0)


def engine_lacking(spec: EngineSpec, accelerator: Accelerator, *, planned: Iterable[str]) -> Verdict | None:
    """
    The refusal of an engine that nothing shows on an accelerator, with the `planned` ones that run there; else None.

    It is lacking where a source says that it never runs, and on parts of vendors that its record does not name.
    """
    elsewhere = spec.vendors is not None and accelerator.vendor not in spec.vendors + spec.vendors_by_document
    listed = elsewhere and any(part.vendor == accelerator.vendor for part in accelerators().values())
    if not listed and not never_runs(spec.name, accelerator):
        return None
    others = [name for name in planned if formats(name, accelerator)]
    nearest = f"engine {' or '.join(others)}" if others else "another accelerator"
    reason = f"no source shows {spec.title} running on {accelerator.name}"
    return refusal("engine", reason, nearest=nearest)
