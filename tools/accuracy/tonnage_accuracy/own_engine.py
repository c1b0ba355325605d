"""How far does a calibration carry? Fitted to one model on a real engine, asked about one of ten times its size.

And how far do one, three, six points of a run carry to its other loads and prompts, as a user would measure them? Rows
are of `measurements/own/engine.csv`: llama.cpp and vLLM on one core, in seconds of the server's own processor time. Of
repeats of a load the one with the most requests counts, then that in which the server had most of its core.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from tonnage.catalog import Additions
from tonnage.catalog.fitted import Priors
from tonnage.catalog.hub.config import read_inline
from tonnage.core.drift import Drift
from tonnage.domain.calibration import Calibration, Learnt
from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Latency, Measurement, Point, turning_point
from tonnage.questions.calibrate.calibrate import calibrate, prior_of
from tonnage.questions.calibrate.loads import MeasuredLoad, Stack, loads_of, shipped_overheads
from tonnage.questions.calibrate.posterior import NAMES, covariance_of, shares_of, stretch_of
from tonnage_accuracy.records import Figure
from tonnage_accuracy.tables import read_table

OPTIONS: Final = {"max_model_len": 1024, "max_num_batched_tokens": 2048}
"""As the servers ran: context of each slot, tokens of a step (llama.cpp's n_batch)."""
WORSE: Final = 0.02
"""By which an error may grow where points of other loads were measured. [-]"""
POINTS: Final = (1, 3, 6)
REAL_TIME: Final = 0.95
"""Of a core, by Linux' sched_rt_runtime_us: 950 of every 1,000 ms (kernel documentation, sched-rt-group). [-]"""
LEAST: Final = 8
"""Rows of a run in which points are few. [-]"""
PAIRS: Final = (("quiet-94MB", "quiet-910MB"), ("first-75MB", "first-904MB"))
NOTHING: Final = [0.0] * len(NAMES)
TOKENS: Final = 32.0
"""Of every answer of a sweep."""

Row = Mapping[str, str]
Times = dict[str, float]


def next_point(candidates: Sequence[Sequence[Learnt]], priors: Priors, *, taken: Sequence[int] = ()) -> int:
    """
    Place of the candidate whose measurement lessens the variance of all candidates most, after those taken.

    Each quantity weighs by its variance before anything is measured, so that a time to first token, which is less
    sure, does not outweigh a time per token. Only shares and places count: nothing needs to be measured yet.
    """
    numbers = [(place, one) for place, own in enumerate(candidates) for one in own]
    known = covariance_of([one for _, one in numbers], priors)
    noise = np.array([priors.noise[one.quantity] ** 2 for _, one in numbers])
    of = np.array([place for place, _ in numbers])
    quantities = [one.quantity for _, one in numbers]
    before = np.diag(known)
    total = {name: sum(v for v, own in zip(before, quantities, strict=True) if own == name) for name in quantities}
    weight = np.array([1.0 / total[name] for name in quantities])

    def gained(place: int) -> tuple[np.ndarray, np.ndarray]:
        """Covariance of all numbers with those of a candidate, and the inverse of its own with noise."""
        at = np.where(of == place)[0]
        return known[:, at], np.linalg.inv(known[np.ix_(at, at)] + np.diag(noise[at]))

    for place in taken:
        shared, inverse = gained(place)
        known = known - shared @ inverse @ shared.T

    def lessened(place: int) -> float:
        shared, inverse = gained(place)
        return float(weight @ np.einsum("ij,jk,ik->i", shared, inverse, shared))

    return max((place for place in range(len(candidates)) if place not in taken), key=lessened)


def _runs(folder: Path) -> dict[str, list[Row]]:
    """By model, in the order of prompt and load."""
    best: dict[tuple[str, int, int], Row] = {}
    for row in read_table(folder / "engine.csv"):
        # Prompts of random words differ by a few tokens from load to load.
        place = row["model"], round(math.log2(float(row["prompt_tokens"]))), int(row["concurrency"])
        known = best.get(place)
        if known is None or _weight(row) > _weight(known):
            best[place] = row
    return {name: [best[at] for at in sorted(best) if at[0] == name] for name in dict.fromkeys(at[0] for at in best)}


def _weight(row: Row) -> tuple[int, float]:
    """What a row counts by among repeats of its load: how much was asked, then the server's share of its core."""
    return int(row["requests"]), float(row["server_cpu_share"])


def _device(folder: Path, row: Row) -> Additions:
    return Additions(paths=(str(folder / row["device"]),))


def engine_and_model(row: Row) -> Stack:
    """The engine that a row is of, and its model."""
    hidden = int(row["hidden_size"])
    model = read_inline(
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": hidden,
            "torch_dtype": row["dtype"],
            "intermediate_size": int(row["intermediate_size"]),
            "num_hidden_layers": int(row["num_hidden_layers"]),
            "num_attention_heads": hidden // 64,
            "num_key_value_heads": hidden // 256,
            "head_dim": 64,
            "vocab_size": int(row["vocab_size"]),
            "max_position_embeddings": 4096,
            "tie_word_embeddings": False,
        }
    )
    options = {**OPTIONS, "max_num_seqs": int(row["slots"])}
    return Stack(model=model, accelerator=row["accelerator_id"], engine=row["engine"], options=options)


def rate_of(times: Times, *, clients: float, tokens: float) -> float:
    """Tokens per second of clients who wait for their answers (Little). [tokens/s]"""
    return clients * tokens / (times["ttft_s"] + (tokens - 1.0) * times["tpot_s"])


def _own_share(row: Row) -> float:
    """
    Of wall time, what an engine with something to do has had of its core. [-]

    One that came before all others on its core lost what the kernel keeps from real-time threads, whatever else is
    missing from its processor time it did not ask for: vLLM's steps took as long at 0.60 as at 0.93.
    """
    return max(float(row["server_cpu_share"]), REAL_TIME)


def as_measurement(rows: Iterable[Row]) -> Measurement:
    """The rows as a measurement, in seconds of the server's own processor time."""
    points = []
    for row in rows:
        share, tokens, clients = _own_share(row), float(row["output_tokens"]), float(row["concurrency"])
        times = {name: float(row[name]) * share for name in ("ttft_s", "tpot_s")}
        rate = rate_of(times, clients=clients, tokens=tokens)
        points.append(
            Point(
                concurrency=clients,
                requests=int(row["requests"]),
                completed=int(row["requests"]),
                prompt_tokens=float(row["prompt_tokens"]),
                output_tokens=tokens,
                output_least=tokens,
                output_most=tokens,
                output_tokens_per_s=rate,
                requests_per_s=rate / tokens,
                ttft_s=Latency(mean=times["ttft_s"]),
                tpot_s=Latency(mean=times["tpot_s"]),
            )
        )
    return Measurement(schema=MEASUREMENT_SCHEMA, tool="tonnage", points=tuple(points))


def transfer_rates(folder: Path, *, small: str, large: str) -> list[tuple[Times, Times, float]]:
    """Of each load of the large model: predicted by the small one's calibration, measured, and clients."""
    runs = _runs(folder)
    own, truth = runs[small], runs[large]
    device = _device(folder, own[0])
    fitted = calibrate([(as_measurement(own), engine_and_model(own[0]))], additions=device).calibration
    loads = loads_of(as_measurement(truth), engine_and_model(truth[0]), additions=device)
    return [
        (_as_if_measured(fitted, load), load.measured, float(row["concurrency"]))
        for load, row in zip(loads, truth, strict=True)
    ]


def few_points(folder: Path) -> list[Figure]:
    """Median errors of the rest of every run before and after one, three and six points that the tool chose."""
    if not (folder / "engine.csv").exists():
        return []
    found = []
    for name, rows in _runs(folder).items():
        for count in POINTS if len(rows) >= LEAST else ():
            errors = taught_by(folder, name, count=count)
            for quantity, said in (("tpot_s", "TPOT"), ("ttft_s", "TTFT")):
                for place, when in enumerate(("before", "after")):
                    values = [pair[place] for pair in errors[quantity]]
                    figure = f"median error of {said}, {when} {count} point{'s' * (count != 1)} measured"
                    found.append(Figure(group=f"own: {name}", figure=figure, rows=len(values), value=median(values)))
    return found


def worsened(folder: Path) -> Iterator[tuple[int, str, int, int, float]]:
    """
    For each number of points and quantity, over all runs: numbers of the other loads that got worse by more than
    `WORSE`, how many there are, and by how much the worst did.
    """
    runs = [name for name, rows in _runs(folder).items() if len(rows) >= LEAST]
    for count in POINTS:
        taught = [taught_by(folder, name, count=count) for name in runs]
        for quantity in dict.fromkeys(quantity for errors in taught for quantity in errors):
            rises = [after - before for errors in taught for before, after in errors.get(quantity, ())]
            yield count, quantity, sum(rise > WORSE for rise in rises), len(rises), max(rises)


def taught_by(folder: Path, name: str, *, count: int) -> dict[str, list[tuple[float, float]]]:
    """
    A sweep of one model on this engine, calibrated by so many of its own loads: errors of the others before and after.

    The loads are chosen one after another, each where it lessens the variance left in all most. By quantity.
    """
    rows = _runs(folder)[name]
    device, stack = _device(folder, rows[0]), engine_and_model(rows[0])
    loads = loads_of(as_measurement(rows), stack, additions=device)
    known = prior_of(loads[0])
    candidates = [
        [
            Learnt(load.model, quantity, load.place, shares=shares, part=load.parts.get(quantity, 0.0))
            for quantity, shares in shares_of(load.predicted, NOTHING, base=shipped_overheads(load.at)).items()
        ]
        for load in loads
    ]
    chosen: list[int] = []
    for _ in range(count):
        chosen.append(next_point(candidates, known, taken=chosen))
    taught = [rows[place] for place in sorted(chosen)]
    fitted = calibrate([(as_measurement(taught), stack)], additions=device).calibration
    found: dict[str, list[tuple[float, float]]] = {}
    for place, load in enumerate(loads):
        if place not in chosen:
            before = load.predicted(stretch_of(NOTHING, shipped_overheads(load.at)))
            after = _as_if_measured(fitted, load)
            for quantity, value in load.measured.items():
                pair = abs(before[quantity] / value - 1.0), abs(after[quantity] / value - 1.0)
                found.setdefault(quantity, []).append(pair)
    return found


def _as_if_measured(fitted: Calibration, load: MeasuredLoad) -> Times:
    """A load as if its model had been measured: of another model, what is carried over whole is what is tested."""
    in_flight, prompt_tokens, output_tokens, *_ = load.place
    drift = Drift(fitted, fitted.models[0], prompt_tokens, output_tokens, load.at.placement.layout)
    moved = drift.at(in_flight, interrupted=load.parts["tpot_s"])
    times = load.predicted(fitted.stretch)
    return {
        "ttft_s": times["ttft_s"] * moved.pace * moved.first,
        "tpot_s": times["tpot_s"] * moved.pace * moved.between,
        "output_tokens_per_s": times["output_tokens_per_s"] / moved.pace,
    }


def transfer_figures(folder: Path) -> list[Figure]:
    """Errors of decode and prefill one at a time; of a sweep's knee, and of its most requests per second."""
    if not (folder / "engine.csv").exists():
        return []
    found = []
    for small, large in PAIRS:
        loads = transfer_rates(folder, small=small, large=large)
        group = f"own: llama.cpp, calibrated on {small}, predicts {large}"
        predicted, truth, _ = loads[0]
        for name, said in (("ttft_s", "prefill"), ("tpot_s", "decode")):
            error = abs(predicted[name] / truth[name] - 1.0)
            found.append(Figure(group=group, figure=f"error of {said}", rows=1, value=error, at_most=0.20))
        if len(loads) > 1:
            seen = _sweep((times, clients) for times, _, clients in loads)
            known = _sweep((times, clients) for _, times, clients in loads)
            for said, reads in (("most requests/s", _most), ("knee, requests at once", _knee)):
                error = abs(reads(seen) / reads(known) - 1.0)
                figure = f"error of the sweep's {said}"
                found.append(Figure(group=group, figure=figure, rows=len(loads), value=error, at_most=0.25))
    return found


def _sweep(loads: Iterable[tuple[Times, float]]) -> list[Point]:
    return [
        Point(concurrency=clients, completed=1, requests_per_s=rate_of(times, clients=clients, tokens=TOKENS) / TOKENS)
        for times, clients in loads
    ]


def _most(sweep: Iterable[Point]) -> float:
    return max(point.requests_per_s or 0.0 for point in sweep)


def _knee(sweep: Iterable[Point]) -> float:
    return turning_point(sweep) or math.nan
