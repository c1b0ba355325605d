"""
Fit what engines add to their kernels, on published serving measurements.

    python tools/calibration/serving.py     fit every engine and era, rewrite overheads.csv

Each (engine, vendor, era) has its own few parameters, none of them per model or per accelerator: host time per step
and per sequence, time per kernel launch, and factors on classes of kernels whose tables come from other versions.
Residuals are log ratios under a soft-L1 loss; every group (block, accelerator, model, formats) counts alike up to
its first ten rows; parameters are pulled towards "nothing added" with the strength given in PARAMETERS.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path

import msgspec
import numpy as np
from refit import Problem, residuals

from tonnage.core.deployment import Deployment, resolve
from tonnage.core.serving_traffic import grid_of, pool_grids, pools_of, starts_together, under_load
from tonnage.domain.case import ServeCase
from tonnage.domain.engine_spec import Overheads, with_async_scheduling, with_prompt_read
from tonnage.domain.precision import number_format
from tonnage.errors import TonnageError
from tonnage.physics.efficiency import peak_flop_per_s
from tonnage.physics.parameters import active_parameters
from tonnage.simulation.disaggregated import disaggregated_loop
from tonnage.simulation.simulated import Served
from tonnage.simulation.steps import StepGrid, step_table
from tonnage_accuracy.cases import case_of, kind_of
from tonnage_accuracy.quantities import Measured, measured_numbers
from tonnage_accuracy.rows import Row, number, text, usable_rows
from tonnage_accuracy.tables import read_table, write_cells

ROOT = Path(__file__).parents[2]
FILES = ("inference", "inference_2", "inference_3", "serving_silicon", "serving_silicon_2", "serving_silicon_3")
TABLE = ROOT / "src/tonnage/catalog/data/engines/overheads.csv"

Key = tuple[str, str, str]
"""Engine, vendor, and the release at which its era begins."""

ERAS: dict[tuple[str, str], tuple[str, ...]] = {
    ("vllm", "NVIDIA"): ("0", "0.8"),
    ("vllm", "AMD"): ("0",),
    ("vllm", "AMD CDNA2"): ("0",),
    ("vllm", "Intel"): ("0", "0.8"),
    ("sglang", "NVIDIA"): ("0", "0.4.7"),
    ("sglang", "AMD"): ("0.4.7",),
    ("sglang", "AMD CDNA3"): ("0.4.7",),
    ("sglang", "Google"): ("0",),
    ("trtllm", "NVIDIA"): ("0", "0.17", "0.18", "1.1"),
    ("lmdeploy", "NVIDIA"): ("0",),
    ("fastertransformer", "NVIDIA"): ("0",),
    ("megatron", "NVIDIA"): ("0",),
    ("deepspeed", "Intel"): ("0",),
    ("deepspeed-mii", "NVIDIA"): ("0",),
    ("hf", "NVIDIA"): ("0",),
    ("llamacpp", "AMD"): ("0", "4000", "6330"),
    ("llamacpp", "Intel"): ("0", "4000"),
    ("llamacpp", "Apple"): ("0", "6330"),
    ("gptfast", "NVIDIA"): ("0",),
}
"""
Engines with enough rows for a fit of their own, and the releases at which a new fit begins.

llama.cpp on NVIDIA has rows enough and no fit: without either of its sources a fit of one factor misses the other by
27 to 37 %, where the prior misses it by 16 to 20. ExLlamaV2 the same: without its largest source seven fitted numbers
miss that by 38 %, the priors by 8, and its other two sources by as much either way. An architecture may have a fit of
its own: a card of CDNA2 is two dies that each hold half of the model and talk, and reaches half of what its data sheet
says; CDNA3 does not.
"""

PARAMETERS: dict[str, tuple[float, float, float, float]] = {
    # name: (prior, its spread, lowest, highest); seconds in units of SCALE, factors as logarithms
    "step_s": (1.0, 2.0, 0.0, 60.0),
    "sequence_s": (1.5, 1.5, 0.0, 40.0),
    "rank_s": (0.5, 1.0, 0.0, 5.0),
    "overlapped": (0.5, 0.3, 0.0, 1.0),
    "launch_s": (45.0, 15.0, 0.0, 100.0),
    "kernel_s": (0.0, 2.0, -1.4, 60.0),
    "prefill_launch_s": (40.0, 30.0, 0.0, 300.0),
    "prefill_mixer_s": (1.0, 1.0, 0.0, 5.0),
    "prefill_kernel_s": (0.0, 2.0, -1.4, 8.0),
    "request_s": (1.0, 2.0, 0.0, 30.0),
    "prompt_s": (0.0, 0.3, 0.0, 30.0),
    "memory": (0.0, 0.15, -0.9, 2.5),
    "compute": (0.0, 0.15, -0.4, 2.5),
    "experts": (0.0, 0.3, -1.0, 2.0),
    "experts_compute": (0.0, 0.3, -1.0, 2.0),
    "attention": (0.0, 0.3, -0.7, 3.0),
    "prefill_attention": (0.0, 0.2, -0.7, 0.7),
    "touch": (0.0, 0.7, -3.0, 1.0),
    "collective": (0.0, 0.3, -1.2, 2.5),
    "narrow": (0.0, 0.2, -0.7, 1.5),
    "weight_only": (0.0, 0.3, -0.7, 1.5),
    "bubble": (1.0, 1.0, 0.0, 4.0),
}
SCALE = {"step_s": 1e-3, "sequence_s": 1e-5, "rank_s": 1e-3, "overlapped": 1.0, "kernel_s": 1e-6, "launch_s": 1e-6,
         "prefill_kernel_s": 1e-6, "prefill_launch_s": 1e-6, "prefill_mixer_s": 1e-3,
         "request_s": 1e-2,
         "prompt_s": 1e-3, "bubble": 0.1}  # fmt: skip
MOST_PER_GROUP = 24
"""Rows of a group that are read, evenly over it."""
COMPILED, COMPILED_SEQUENCE = frozenset({"trtllm", "fastertransformer", "lmdeploy"}), 0.8
"""
Engines whose scheduler is compiled, and what a running sequence costs them: 3 to 15 us where many families were seen.

In Python it is 11 to 60 us (vLLM of 2024, DeepSpeed-MII, Megatron, vLLM on MI300X, SGLang).
"""
COPIED: dict[Key, tuple[Key, Key | None]] = {
    # one die, so what MI300X takes and not MI250, which is two
    ("vllm", "AMD mi210", "0"): (("vllm", "AMD", "0"), ("vllm", "AMD", "0")),
    ("vllm", "AMD CDNA2", "0.8"): (("vllm", "AMD", "0"), ("vllm", "AMD CDNA2", "0")),
    ("vllm", "Intel", "0.8"): (("vllm", "NVIDIA", "0.8"), None),
}
"""Lines that nobody measured: whose host they take, and whose factors on kernels (none: as tables say)."""
HOST: frozenset[str] = frozenset({*SCALE, "hidden_s", "reading_s"} - {"bubble"})
"""What the host of an engine adds, whatever the accelerator is."""
BY_HAND: frozenset[Key] = frozenset({("llamacpp", "Apple", "6330")})
"""Eras whose line was set otherwise, as its source says: their rows are no part of the era before."""
EAGER = frozenset({"hf", "megatron"})
"""Engines that launch from Python: host time per kernel overlaps with the accelerator, and binds small models."""
SCORED_ONLY = frozenset({"MLP41"})
"""Sources whose replica size and lengths are estimates: scored, not fitted."""
TABULATED = frozenset({"vllm", "sglang", "trtllm"})
"""Engines whose own kernels were measured one by one, on NVIDIA's parts."""
TOLD = frozenset({("vllm", "NVIDIA", "0.8")})
"""Eras of them whose ranks wait in each step for what one process tells them (V1's multiprocess executor)."""
AHEAD = {("sglang", "0.4.7"): (0.0, 0.4), ("trtllm", "0.18"): (0.3, 0.6), ("trtllm", "1.1"): (0.3, 0.6)}
"""
Engines and eras that prepare a step beside the last one without being asked: the prior of their `step_s`, its spread.

SGLang since 0.4 ("zero-overhead batch scheduler", measured without a gap between steps; vLLM's rows with asynchronous
scheduling have none either), TensorRT-LLM's PyTorch backend ("overlap scheduler").
"""
LAUNCHING = frozenset({"sglang", "trtllm"})
"""Of them, those that launch steps with prompts kernel by kernel; vLLM captures these, too, between attentions."""
FEWEST_FAMILIES, ENOUGH_FAMILIES = 3, 12
"""Model families from which on the spreads of the priors hold; fewer tighten them in proportion."""
UNTABULATED = 5.0
"""Priors on factors are this much wider for vendors without kernel tables."""
LAUNCHED_ALREADY = ("kernel_s", "prefill_kernel_s")
"""
Times a kernel that may be negative where tables were timed kernel by kernel (a step's launches overlap), and nowhere
else: the generic curve's launch is one inside a graph, and a negative rest makes few sequences quicker than any part.
"""


class Sample(msgspec.Struct, frozen=True):
    """One measured row, its settled case, and the parts of its steps."""

    row: Row
    at: Deployment
    grids: tuple[StepGrid, ...]
    targets: tuple[Measured, ...]

    @property
    def key(self) -> Key:
        """Which fit it belongs to."""
        engine, part = self.at.fitted.engine, self.at.placement.accelerator
        vendor = f"{part.vendor} {part.architecture}"
        vendor = vendor if (engine, vendor) in ERAS else part.vendor
        eras = ERAS.get((engine, vendor), ("0",))
        reached = [era for era in eras if self.at.release is None or _numbers(era) <= self.at.release]
        return engine, vendor, (reached or eras[:1])[-1]

    @property
    def group(self) -> tuple[str, ...]:
        """Near-duplicates: one model in one format on one accelerator from one source."""
        return (self.row.block, self.at.case.accelerator, str(self.at.case.model), self.at.placement.precision.weights)


def _numbers(era: str) -> tuple[int, ...]:
    return tuple(int(part) for part in era.split("."))


def samples() -> list[Sample]:
    """Usable rows of served language models, crowded groups thinned evenly."""
    found: dict[tuple[str, ...], list[Sample]] = defaultdict(list)
    cached: set[tuple[str, ...]] = set()
    for row in usable_rows(ROOT, *FILES):
        if kind_of(row) != "serve" or text(row, "load") == "memory_only" or text(row, "duplicate_of"):
            continue
        try:
            case = case_of(row)
            assert isinstance(case, ServeCase)
            at = resolve(case)
            grids = pool_grids(at) if case.disaggregation else (grid_of(at),)
        except TonnageError:
            continue
        sample = Sample(row, at, grids, targets(row))
        found[(*sample.group, *sample.key)].append(sample)
        if not possible(row, at):
            cached.add((*sample.group, *sample.key))
    return [sample for key, group in found.items() if key not in cached for sample in _thinned(group)]


def _thinned(group: list[Sample]) -> list[Sample]:
    if len(group) <= MOST_PER_GROUP:
        return group
    step = len(group) / MOST_PER_GROUP
    return [group[int(i * step)] for i in range(MOST_PER_GROUP)]


def possible(row: Row, at: Deployment) -> bool:
    """
    False where the rate exceeds three quarters of the arithmetic peak: prompts came from a prefix cache.

    The runs beside such a one shared its prompts, and teach nothing either.
    """
    ttft, tpot = number(row, "silicon_ttft_ms"), number(row, "silicon_tpot_ms")
    clients = at.case.traffic.concurrency
    if not (ttft and tpot and clients) or at.case.disaggregation is not None:
        return True
    p = at.placement
    seconds = (ttft + tpot * (at.case.osl - 1.0)) * 1e-3
    flop = 2.0 * active_parameters(p.model).value * (at.case.isl + at.case.osl) * clients / seconds
    dtype = number_format(p.precision.activations).compute
    return flop / p.layout.ranks < 0.75 * peak_flop_per_s(p.accelerator, dtype)


def targets(row: Row) -> tuple[Measured, ...]:
    """Independent numbers of a row: latencies where given, else one rate."""
    given = {m.quantity: m for m in measured_numbers(row)}
    kept = [given[name] for name in ("ttft_ms", "tpot_ms") if name in given]
    if text(row, "provenance") == "public_dump" and not text(row, "requests_per_client"):
        kept = [m for m in kept if m.quantity != "ttft_ms"]  # the first requests paid for compilation
    for name in ("e2e_ms", "output_tokens_per_s", "total_tokens_per_s", "samples_per_s"):
        if name in given and not any(m.quantity == "tpot_ms" for m in kept):
            if text(row, "load") == "open_loop" and name != "e2e_ms":
                continue  # below saturation a rate is the rate that was sent
            kept.append(given[name])
            break
    return tuple(kept)


def answer(sample: Sample, overheads: Overheads) -> Served:
    """The sample's traffic under some overheads."""
    case, engine, ranks = sample.at.case, sample.at.engine, sample.at.placement.layout.tp
    running = with_async_scheduling(overheads, engine.async_scheduling, ranks=ranks)
    running = with_prompt_read(running, case.isl, ahead=sample.at.overheads.ahead)
    at = msgspec.structs.replace(sample.at, overheads=running)
    if at.case.disaggregation is not None:
        return disaggregated_loop(
            pools_of(at, sample.grids),
            clients=(at.case.traffic.concurrency or 1.0) / at.case.replicas,
            prompt_tokens=at.case.isl,
            output_tokens=at.case.osl,
            together=starts_together(at.case.traffic),
            requests_per_client=at.case.traffic.requests_per_client,
        )
    return under_load(at, step_table(sample.grids[0], at.overheads))[0]


def predicted(sample: Sample, found: Served, wanted: Measured) -> float:
    """One number of an answer, in the unit of the measurement."""
    case, quantity = sample.at.case, wanted.quantity
    rate = found.requests_per_s * case.replicas
    if quantity == "ttft_ms":
        median = found.ttft_tail_s[0] if found.ttft_tail_s and wanted.statistic == "p50" else None
        return (found.ttft_s if median is None else median) * 1e3
    if quantity == "tpot_ms":
        return found.tpot_s * 1e3
    if quantity == "e2e_ms":
        return found.e2e_s * 1e3
    if quantity == "samples_per_s":
        return rate
    if quantity == "output_tokens_per_s" and case.phase == "decode":
        return found.running / found.tpot_s * case.replicas
    return rate * (case.osl if quantity == "output_tokens_per_s" else case.isl + case.osl)


def log_ratios(sample: Sample, overheads: Overheads) -> list[float]:
    """log(predicted / measured) of every target of a sample."""
    found = answer(sample, overheads)
    return [math.log(max(predicted(sample, found, m), 1e-12) / m.value) for m in sample.targets]


def overheads_of(names: tuple[str, ...], values: Iterable[float], fixed: dict[str, float]) -> Overheads:
    """Overheads from a vector of fitted numbers."""
    read = {
        name: float(value * SCALE[name] if name in SCALE else math.exp(value))
        for name, value in zip(names, values, strict=True)
    }
    return Overheads(**{**fixed, **read})


def free_parameters(rows: list[Sample]) -> tuple[str, ...]:
    """The parameters that these rows can tell: each needs a part of some step, or a latency, to act on."""
    grids = [grid for sample in rows for grid in sample.grids]
    names = ["step_s", "kernel_s", "memory", "compute", "attention", "touch"]
    if rows[0].key[0] in EAGER:
        names.append("launch_s")
    batches = {sample.grids[-1].batches[-1] for sample in rows}
    if max(batches, default=1.0) > 8:
        names.append("sequence_s")
    if rows[0].key in TOLD and len({s.at.placement.layout.tp for s in rows if not s.at.engine.async_scheduling}) > 1:
        names.append("rank_s")
    if len({sample.at.engine.async_scheduling for sample in rows}) > 1:
        names.append("overlapped")
    if any(sample.at.case.phase != "decode" for sample in rows):
        names += ["prefill_kernel_s", "prefill_attention"]
    if any(m.quantity == "ttft_ms" for sample in rows for m in sample.targets):
        names += ["request_s", "prompt_s"]
    if rows[0].key[0] in LAUNCHING and sum(map(_shows_first_tokens, rows)) >= 8:
        names += ["prefill_launch_s", "prefill_mixer_s"]
    for name in ("experts", "experts_compute", "collective", "narrow", "weight_only"):
        if sum(max(getattr(grid.dense[0], name), getattr(grid.dense[-1], name)) > 0 for grid in grids) >= max(
            8, len(grids) // 50
        ):
            names.append(name)
    if sum(sample.at.placement.layout.pp > 1 for sample in rows) >= 8:
        names.append("bubble")
    kept = LEAN if rows[0].key in TABULATED_ERAS else KEPT.get(rows[0].key[:2], frozenset(PARAMETERS))
    return tuple(name for name in PARAMETERS if name in names and name in kept)


def fitted_names(rows: list[Sample]) -> tuple[str, ...]:
    """Those of them that are not fixed."""
    return tuple(name for name in free_parameters(rows) if name not in fixed_of(rows[0].key))


def overheads_at(rows: list[Sample], theta: Iterable[float]) -> dict[str, float]:
    """Overheads by name at a place of the fit of these rows, fixed ones among them."""
    names, fixed = fitted_names(rows), fixed_of(rows[0].key)
    found = overheads_of(names, theta, fixed)
    return {name: getattr(found, name) for name in names} | fixed


def _shows_first_tokens(sample: Sample) -> bool:
    """Clients in a closed loop, and a time to first token: prompts come one by one, as short steps."""
    return sample.at.case.traffic.concurrency is not None and any(m.quantity == "ttft_ms" for m in sample.targets)


def problem(rows: list[Sample], start: Overheads) -> Problem:
    """The fit of one engine, vendor and era: a term for each number that its rows measured, from `start`."""
    key, fixed = rows[0].key, fixed_of(rows[0].key)
    names = fitted_names(rows)
    size: dict[tuple[str, ...], int] = defaultdict(int)
    for sample in rows:
        size[sample.group] += 1
    terms = [place for place, sample in enumerate(rows) for _ in sample.targets]
    weight = [math.sqrt(min(10, size[rows[place].group]) / size[rows[place].group]) for place in terms]
    first = {place: terms.index(place) for place in set(terms)}

    def errors(theta: np.ndarray, places: np.ndarray) -> np.ndarray:
        overheads = overheads_of(names, theta, fixed)
        found = {place: log_ratios(rows[place], overheads) for place in {terms[place] for place in places}}
        return np.array([found[terms[place]][place - first[terms[place]]] for place in places])

    low, high = (np.array([PARAMETERS[name][end] for name in names]) for end in (2, 3))
    return Problem(
        name=" ".join(key),
        errors=errors,
        theta=np.clip([_to_theta(name, getattr(start, name)) for name in names], low, high),
        weight=np.ones(len(terms)),
        soft=0.1 / np.array(weight),
        prior=priors(rows, names),
        spread=spreads(rows, names),
        low=low,
        high=high,
        extra=lambda theta: apart(dict(zip(names, theta, strict=True))),
    )


def _to_theta(name: str, value: float) -> float:
    return value / SCALE[name] if name in SCALE else math.log(max(value, 1e-9))


def fit(rows: list[Sample]) -> dict[str, float]:
    """Fitted overheads of one engine, vendor and era."""
    from scipy.optimize import least_squares  # here alone: refits without rows need no SciPy

    names, task = fitted_names(rows), problem(rows, Overheads())
    low = np.array([_least(name, rows[0].key) for name in names])
    found = [
        least_squares(
            lambda theta: residuals(task, theta),
            np.clip(start, low + 1e-6, task.high - 1e-6),
            bounds=(low, task.high),
            diff_step=1e-2,
            max_nfev=14,
            x_scale=task.spread,
        )
        for start in starts(rows, names, task.prior)
    ]
    solution = min(found, key=lambda one: float(one.cost))
    print(task.name, ", ".join(f"{n} {v:.3g}" for n, v in zip(names, solution.x, strict=True)), file=sys.stderr)
    return overheads_at(rows, solution.x)


def _least(name: str, key: Key) -> float:
    """The least that a parameter of an engine on a vendor's parts may be."""
    timed = key[1] == "NVIDIA"
    return PARAMETERS[name][2] if timed or name not in LAUNCHED_ALREADY else 0.0


def starts(rows: list[Sample], names: tuple[str, ...], prior: np.ndarray) -> list[np.ndarray]:
    """
    Where a fit begins: at the priors, and for engines without tables also where products are faster and slower.

    The two limits of a product stay together (`apart`), so that a fit alone does not cross over to the other side.
    """
    engine, vendor, _ = rows[0].key
    if engine in TABULATED and vendor == "NVIDIA":
        return [prior]
    both = np.array([name in {"memory", "compute"} for name in names])
    return [prior, prior - 0.4 * both, prior + 0.4 * both]


def priors(rows: list[Sample], names: tuple[str, ...]) -> np.ndarray:
    """Where the parameters are drawn to."""
    engine, _, era = rows[0].key
    found = {name: PARAMETERS[name][0] for name in names}
    if engine in COMPILED and "sequence_s" in found:
        found["sequence_s"] = COMPILED_SEQUENCE
    if (engine, era) in AHEAD and "step_s" in found:
        found["step_s"] = AHEAD[engine, era][0]
    return np.array([found[name] for name in names])


def spreads(rows: list[Sample], names: tuple[str, ...]) -> np.ndarray:
    """
    How far the parameters may leave their priors.

    Where no kernel was tabulated the curve is a guess, and whole-engine runs have to correct it. A fit that saw few
    model families stays near the priors: what three families have in common is not yet the engine's.
    """
    engine, vendor, _ = rows[0].key
    wide = 1.0 if vendor == "NVIDIA" else UNTABULATED
    families = len({sample.at.placement.model.family for sample in rows})
    tabulated = vendor == "NVIDIA" and engine in TABULATED
    seen = min(1.0, max(families, FEWEST_FAMILIES) / ENOUGH_FAMILIES) if tabulated else 1.0
    found = {name: PARAMETERS[name][1] * seen * (1.0 if name in SCALE else wide) for name in names}
    if (engine, rows[0].key[2]) in AHEAD and "step_s" in found:
        found["step_s"] = AHEAD[engine, rows[0].key[2]][1] * seen
    if "narrow" in found and all(grid.dense[0].narrow > 0.0 for sample in rows for grid in sample.grids):
        # Rows in 8 bits alone cannot divide what is slow between all products and narrow ones: neither has more of it.
        found["narrow"] = min(found["narrow"], found["memory"] / 2.0)
    return np.array([found[name] for name in names])


def apart(values: dict[str, float]) -> np.ndarray:
    """
    Penalty on factors of the two roofline limits that differ too much: compute below 0.8 or above 4/3 of memory.

    Beyond it a faster part could be slower: its product would move from the limit with the small factor to the one
    with the large factor faster than the product shrinks (the derivative of (c^4 + m^4)^(1/4) times the mean factor).
    """
    dense = values.get("compute", 0.0) - values.get("memory", 0.0)
    experts = dense + values.get("experts_compute", 0.0) - values.get("experts", 0.0)
    low, high = math.log(0.8), math.log(4.0 / 3.0) - 0.01
    return np.array([100.0 * (max(0.0, d - high) + max(0.0, low - d)) for d in (dense, experts)])


def scored_only(sample: Sample) -> bool:
    """Rows that are scored but teach nothing: their layout, lengths, image or decoding is not what the row says."""
    row = sample.row
    by_hand = text(row, "provenance") == "local_file" and bool(text(row, "measured"))
    return row.block in SCORED_ONLY or by_hand


def by_key(rows: list[Sample]) -> dict[Key, list[Sample]]:
    """Samples by the fit they belong to."""
    found: dict[Key, list[Sample]] = defaultdict(list)
    for sample in rows:
        if sample.targets and sample.key[:2] in ERAS and sample.key not in BY_HAND and not scored_only(sample):
            found[sample.key].append(sample)
    return found


FIXED: dict[tuple[str, str], dict[str, float]] = {
    ("hf", "NVIDIA"): {"step_s": 1e-3},
    # The host as once fitted on NVIDIA's parts: rows of full batches do not see it. Without what ranks add: all rows
    # are of eight, and with it the factor on attention falls to its bound. None has a first token of a quiet engine,
    # so what a request costs before its prompt is not seen either.
    ("vllm", "AMD"): {"step_s": 9.581e-4, "overlapped": 0.5},
    ("llamacpp", "AMD"): {"reach_bytes_per_s": 5.25e9},
}
"""Parameters that are not fitted."""
READ: dict[str, float] = {"request_s": 8e-3, "reading_s": 8e-6}
"""
What servers in Python take for a prompt before any step holds it: its HTTP exchange, and a token received, tokenised
and handed to the engine's process. From 380 runs of vLLM 0.16 to 0.19 with 4 to 16 clients (five parts, three models):
first tokens less their own steps are 2 ms + 1.6 steps + 8.7 us a token of the prompt, whatever the model.
"""
READERS: frozenset[Key] = frozenset(
    {
        ("vllm", "NVIDIA", "0.8"),
        ("vllm", "AMD", "0"),
        ("sglang", "NVIDIA", "0.4.7"),
        ("trtllm", "NVIDIA", "1.1"),
        ("sglang", "AMD", "0.4.7"),
        ("sglang", "AMD CDNA3", "0.4.7"),
        ("sglang", "Google", "0"),
    }
)


def fixed_of(key: Key) -> dict[str, float]:
    """What a fit takes as given."""
    return FIXED.get(key[:2], {}) | (READ if key in READERS else {})


KEPT: dict[tuple[str, str], frozenset[str]] = {
    ("hf", "NVIDIA"): frozenset({"launch_s", "memory", "attention"}),
    ("llamacpp", "AMD"): frozenset({"step_s", "memory", "compute", "attention"}),
    # One publisher, programs compiled whole: the host, and how far products, experts and attention are from the curve.
    ("sglang", "Google"): frozenset({"step_s", "memory", "compute", "experts", "attention", "prefill_attention"}),
    # One publisher, one model, CDNA 4 alone: what it says of the host, and nothing of kernels.
    ("sglang", "AMD"): frozenset({"step_s", "sequence_s", "prefill_launch_s", "prefill_mixer_s"}),
}
"""Parameters that a fit is left, where the others earned nothing on families and parts left out."""
TABULATED_ERAS = frozenset(
    {
        ("vllm", "NVIDIA", "0.8"),
        ("sglang", "NVIDIA", "0.4.7"),
        ("trtllm", "NVIDIA", "0.18"),
        ("trtllm", "NVIDIA", "1.1"),
    }
)
"""Eras whose own kernels are in the tables: factors on kernels are 1, and only what tables leave out is fitted."""
LEAN = frozenset(
    {
        "step_s",
        "sequence_s",
        "rank_s",
        "overlapped",
        "prefill_launch_s",
        "prefill_mixer_s",
        "request_s",
        "bubble",
    }
)
"""
What tables leave out: the host's work for a step, a sequence, a rank, a request, launches of prompts, and bubbles.

Not a time a kernel: tables were timed inside graphs, as a step runs. One was fitted before, to 1.4 us under vLLM, and
was the host of several ranks, which has nothing to do with kernels.
"""


def main() -> None:
    """Fit every engine, vendor and era, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--workers", type=int, default=2)
    write(fit_all(by_key(samples()), workers=parser.parse_args().workers))


def fit_all(found: dict[Key, list[Sample]], *, workers: int) -> dict[Key, dict[str, float]]:
    """Every engine's fit; they share nothing, so they run beside each other, the longest first."""
    keys = sorted(found, key=lambda key: -len(found[key]))
    _FITTED.update(found)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        return dict(zip(keys, pool.map(_fit_one, keys), strict=True))


_FITTED: dict[Key, list[Sample]] = {}
"""What a fit's process inherits: samples are large to send."""


def _fit_one(key: Key) -> dict[str, float]:
    return fit(_FITTED[key])


def write(fitted: dict[Key, dict[str, float]]) -> None:
    """Rewrite the rows of the table that were fitted; others stay."""
    rows: dict[Key, Mapping[str, str]] = {(r["engine"], r["vendor"], r["since"]): r for r in read_table(TABLE)}
    numbers = [name for name in Overheads.__struct_fields__ if name != "ahead"]  # of a release, not of a row
    columns = ["engine", "vendor", "since", *numbers, "source"]
    for (engine, vendor, since), values in fitted.items():
        cells = {name: f"{value:.4g}" for name, value in values.items()}
        source = f"tools/calibration/serving.py, {date.today():%Y-%m-%d}"
        rows[engine, vendor, since] = {"engine": engine, "vendor": vendor, "since": since, **cells, "source": source}
    names = {*numbers} - {"reach_bytes_per_s"}
    for copy, (host, kernels) in COPIED.items():
        own, factors = rows[host], rows[kernels] if kernels else {}
        cells = {name: (own if name in HOST else factors).get(name, "") for name in names}
        rows[copy] = {**rows[copy], **cells}
    write_cells(TABLE, columns, [row for _, row in sorted(rows.items())])


if __name__ == "__main__":
    main()
