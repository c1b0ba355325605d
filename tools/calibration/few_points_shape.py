"""
What would few points teach if errors also drifted smoothly over loads, lengths and degrees? Serving and training.

    python -m tools.calibration.few_points_shape serve     beside the table of few_points.py, a minute on one core
    python -m tools.calibration.few_points_shape train     step times, widths fitted anew without the family
    python -m tools.calibration.few_points_shape product   step times by what `tonnage calibrate` itself does with them
    python -m tools.calibration.few_points_shape memory    peaks of memory, the same; their two widths fitted first

A run is what one user has. Errors of a number are causes x shares (serving; `few_points.py`), an offset of the run by
quantity, a drift over the run's configurations, and noise. The drift is a Gaussian process: its covariance falls as
exp(-distance), over logarithms of load, prompt, answer and degrees (serving), of accelerators, degrees, batches and
lengths (training; another recomputation, format or sharding counts as one more). Time per token and rate share one
drift with opposite signs. All widths maximise the evidence without the run's family (five folds); points are chosen one
after another where they lessen the variance of the rest most; the others are scored.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import median
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from tools.calibration.few_points import (
    FOLDS,
    LEAST,
    MOST,
    POINTS,
    ROOT,
    WIDEST,
    Line,
    Point,
    line_of,
    points,
    rows,
    scored,
)

from tonnage import catalog
from tonnage.catalog import hub
from tonnage.catalog.intervals import Priors, priors
from tonnage.core import train_estimate as estimate
from tonnage.core.error_model import NINETY
from tonnage.domain.calibration import Learnt
from tonnage.domain.case import ServeCase, TrainCase
from tonnage.questions.calibrate.posterior import NAMES, covariance_of
from tonnage.questions.train.setup import resolve_setup
from tonnage_accuracy.cases import case_of, kind_of
from tonnage_accuracy.grouping import group_by, labels_of, read_grouping
from tonnage_accuracy.left_out import left_out_predictions
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, number, read_rows, text
from tonnage_accuracy.scoring import score

Array = np.ndarray[Any, np.dtype[np.float64]]
FARTHEST: Final = 1.1
"""Residuals beyond a factor of three count as that. [log]"""
TIMES: Final = ("tpot_s", "ttft_s", "step_s")
"""Quantities with a drift of their own; a rate has that of its time per token, with the other sign."""
LENGTHS: Final = {"serve": ("load", "lengths", "lengths") + ("degrees",) * 4, "train": ("degrees",) * 7}
DEGREES: Final = ("num_accel", "tp", "pp", "cp", "micro_batch", "global_batch", "seq_len")
KINDS: Final = ("act_ckpt", "precision", "sharding", "method")
LEAST_TRAIN: Final = 4
"""Rows that a training run has at least."""
FARTHEST_PEAK: Final = 0.35
"""The same of a peak: what is farther off says that a source left a setting out, and nothing of widths. [log]"""
LEAST_PEAKS: Final = 3
"""The same of one whose peaks of memory are scored: few state more."""
Widths = Mapping[str, float]


class Run(NamedTuple):
    """The numbers of one run, one after another."""

    family: str
    residual: Array
    quantity: tuple[str, ...]
    row: Array
    """Of each number, which row it is of."""
    shares: Array
    place: Array
    other: Array
    """Of each number, what is another kind of configuration altogether."""


def serving_runs() -> list[Run]:
    """The runs of `few_points.py` with the place of every number."""
    listed = {row.id: row for row in rows()}
    found = []
    for own in group_by(points(), lambda p: p.run).values():
        if len(own) < LEAST:
            continue
        numbers = [(place, point, seen) for place, point in enumerate(own) for seen in point.seen]
        places, closed = [], []
        for _, point, _ in numbers:
            case = case_of(listed[point.id])
            assert isinstance(case, ServeCase)
            layout, load = case.layout, case.traffic.concurrency
            known = (
                load or case.traffic.rate_per_s or 1.0,
                case.isl,
                case.osl,
                layout.tp,
                layout.dp,
                layout.pp,
                layout.ep,
            )
            places.append([math.log(max(value, 0.1)) for value in known])
            closed.append(float(load is not None))
        found.append(
            Run(
                own[0].family,
                np.array([s.left for *_, s in numbers]),
                tuple(s.quantity for *_, s in numbers),
                np.array([place for place, *_ in numbers]),
                np.array([s.shares for *_, s in numbers]),
                np.array(places),
                np.array(closed),
            )
        )
    return found


def training_rows() -> list[tuple[list[Row], str, list[float]]]:
    """Step times by source, model, part and software: rows, family, ln(measured / predicted without the family)."""
    every = [
        row
        for path in sorted((ROOT / "measurements").glob("training*.csv.gz"))
        for row in read_rows(path)
        if row.usable and kind_of(row) == "train"
    ]
    stored, grouping = left_out_predictions(ROOT, "family"), read_grouping(ROOT)
    shipped = {(s.id, s.quantity): s.predicted for s in score(every)}
    residual: dict[str, float] = {}
    for row in every:
        for one in measured_numbers(row):
            key = (row.id, one.quantity)
            predicted = stored[key].predicted if key in stored else shipped.get(key)
            if one.quantity == "step_time_s" and one.value and predicted:
                residual[row.id] = math.log(one.value / predicted)

    def run_of(row: Row) -> tuple[str, ...]:
        labels = labels_of(row)
        return (row.block, labels.model, labels.accelerator, labels.engine)

    found = []
    for own in group_by([row for row in every if row.id in residual], run_of).values():
        if len(own) < LEAST_TRAIN:
            continue
        kept = Random(1).sample(own, MOST) if len(own) > MOST else own
        found.append((kept, grouping.family(kept[0]), [residual[row.id] for row in kept]))
    return found


def product_lines() -> list[str]:
    """The same runs by the posterior, the choice of points and the widths of `tonnage calibrate`."""
    known, flat, found = priors("train"), (0.0,) * len(NAMES), []
    for kept, family, left in training_rows():
        points = []
        for row, value in zip(kept, left, strict=True):
            case = case_of(row)
            assert isinstance(case, TrainCase)
            model, part = hub.resolve(case.model), catalog.accelerator(case.accelerator)
            setup = resolve_setup(case, model=model, accelerator=part).setup
            place, setting = estimate.place_of_setup(setup), estimate.setting_of(setup)
            seen = Learnt(model.id, "step_s", place, left=value, shares=flat, setting=setting)
            points.append(Point(row.id, family, (), (seen,)))
        found.append(points)
    lines = []
    for count in POINTS:
        own = [scored(points, known, count)["step_s"] for points in found if len(points) > count]
        lines.append(" ".join(map(str, line_of("step_s", count, own))))
    return lines


def memory_runs() -> list[list[Point]]:
    """Peaks of memory by source, model, part and software, each with the share of it that is no weight or state."""
    found: dict[tuple[str, ...], list[Point]] = {}
    stored, grouping = left_out_predictions(ROOT, "family"), read_grouping(ROOT)
    for path in sorted((ROOT / "measurements").glob("training*.csv.gz")):
        for row in read_rows(path):
            peaks = [one.value for one in measured_numbers(row) if one.quantity == "peak_mem_gb" and one.value]
            if not row.usable or kind_of(row) != "train" or not peaks:
                continue
            case, labels = case_of(row), labels_of(row)
            assert isinstance(case, TrainCase)
            model, part = hub.resolve(case.model), catalog.accelerator(case.accelerator)
            setup = resolve_setup(case, model=model, accelerator=part).setup
            peak, without = estimate.peak(setup, case.memory_kind), stored.get((row.id, "peak_mem_gb"))
            seen = Learnt(
                model.id,
                "memory_peak_bytes",
                estimate.place_of_setup(setup),
                left=math.log(peaks[0] * 1e9 / (without.predicted * 1e9 if without else peak.value)),
                shares=(0.0,) * len(NAMES),
                setting=estimate.setting_of(setup),
                part=1.0 - estimate.exact_bytes(peak) / peak.value,
            )
            run = (row.block, labels.model, labels.accelerator, labels.engine)
            found.setdefault(run, []).append(Point(row.id, grouping.family(row), run, (seen,)))
    kept = [own for own in found.values() if len(own) >= LEAST_PEAKS]
    return [Random(1).sample(own, MOST) if len(own) > MOST else own for own in kept]


def memory_widths(runs: Sequence[Sequence[Point]]) -> Priors:
    """The widths of training with those of a peak that have the most evidence, each run as the root of its rows."""
    usual = priors("train")
    one = msgspec.structs.replace(usual, drift={**usual.drift, "loose": 1.0})
    each = [[point.seen[0] for point in run] for run in runs]
    known = [(covariance_of(own, one), np.array([seen.left for seen in own])) for own in each]

    def unlikely(loose: float, noise: float) -> float:
        total = 0.0
        for shared, residual in known:
            factor = np.linalg.cholesky(loose**2 * shared + noise**2 * np.eye(len(residual)))
            white = np.linalg.solve(factor, np.clip(residual, -FARTHEST_PEAK, FARTHEST_PEAK))
            total += float(0.5 * white @ white + np.log(np.diag(factor)).sum()) / math.sqrt(len(residual))
        return total

    tried = [(0.02 * i, 0.01 * k) for i in range(4, 40) for k in range(3, 20)]
    loose, noise = min(tried, key=lambda one: unlikely(*one))
    return msgspec.structs.replace(
        usual, drift={**usual.drift, "loose": loose}, noise={**usual.noise, "memory_peak_bytes": noise}
    )


def memory_lines() -> list[str]:
    """The widths, and the runs scored by them: each by widths that never saw its family."""
    runs = memory_runs()
    found = memory_widths(runs)
    lines = [f"widths: loose {found.drift['loose']:.3f}, noise {found.noise['memory_peak_bytes']:.3f}"]
    families = sorted({run[0].family for run in runs})
    Random(7).shuffle(families)
    folds = [set(families[place::FOLDS]) for place in range(FOLDS)]
    known = [memory_widths([run for run in runs if run[0].family not in fold]) for fold in folds]
    for count in POINTS:
        own = [
            scored(run, known[next(i for i, fold in enumerate(folds) if run[0].family in fold)], count)
            for run in runs
            if len(run) > max(count, LEAST_PEAKS - 1)
        ]
        lines.append(" ".join(map(str, line_of("memory_peak_bytes", count, [one["memory_peak_bytes"] for one in own]))))
    return lines


def training_runs() -> list[Run]:
    """The training runs with the place of every step."""
    found = []
    for kept, family, left in training_rows():
        kinds = [tuple(text(row, name) for name in KINDS) for row in kept]
        known = list(dict.fromkeys(kinds))
        found.append(
            Run(
                family,
                np.array(left),
                ("step_s",) * len(kept),
                np.arange(len(kept)),
                np.zeros((len(kept), len(NAMES))),
                np.array([[math.log(max(number(row, name) or 1.0, 0.1)) for name in DEGREES] for row in kept]),
                np.array([float(known.index(kind)) for kind in kinds]),
            )
        )
    return found


def start_of(kind: str) -> dict[str, float]:
    """Where the widths begin: those of the product, and a drift of a tenth."""
    times = TIMES[:2] if kind == "serve" else TIMES[2:]
    usual = priors("serve")
    found = {f"cause {name}": usual.widths[name] for name in NAMES} if kind == "serve" else {}
    noise = usual.noise if kind == "serve" else {"step_s": 0.05}
    found |= {f"noise {name}": width * 0.6 for name, width in noise.items()}
    found |= {f"{part} {name}": 0.15 for part in ("offset", "drift") for name in times}
    return found | {f"length {name}": 3.0 for name in dict.fromkeys(LENGTHS[kind])}


def covariance(run: Run, of: Widths, kind: str) -> Array:
    """Of all errors of a run, noise apart."""
    shares = run.shares * np.array([of.get(f"cause {name}", 0.0) for name in NAMES])
    place = run.place / np.array([of[f"length {name}"] for name in LENGTHS[kind]])
    apart = np.sum((place[:, None] - place[None]) ** 2, axis=-1)
    near = np.exp(-np.sqrt(apart + (run.other[:, None] != run.other[None])))
    total: Array = shares @ shares.T
    for time in TIMES:
        if f"drift {time}" in of:
            sign = np.array([_sign(quantity, time) for quantity in run.quantity])
            both = np.outer(sign, sign)
            total = total + both * (of[f"offset {time}"] ** 2 + of[f"drift {time}"] ** 2 * near)
    return total


def _sign(quantity: str, time: str) -> float:
    if quantity == time:
        return 1.0
    return -1.0 if (quantity, time) == ("output_tokens_per_s", "tpot_s") else 0.0


def _noise(run: Run, of: Widths) -> Array:
    return np.array([of[f"noise {quantity}"] ** 2 for quantity in run.quantity])


def fitted(runs: Sequence[Run], kind: str) -> dict[str, float]:
    """The widths with the most evidence, each run counting as the root of its rows; a coordinate search."""

    def unlikely(of: Widths) -> float:
        total = 0.0
        for run in runs:
            factor = np.linalg.cholesky(covariance(run, of, kind) + np.diag(_noise(run, of)))
            white = np.linalg.solve(factor, np.clip(run.residual, -FARTHEST, FARTHEST))
            value = float(0.5 * white @ white + np.log(np.diag(factor)).sum())
            total += value / math.sqrt(len(set(run.row.tolist())))
        return total

    best = start_of(kind)
    least, steps = unlikely(best), dict.fromkeys(best, 0.5)
    for _ in range(4):
        for name in steps:
            for sign in (1.0, -1.0):
                tried = {**best, name: best[name] * math.exp(sign * steps[name])}
                if tried[name] > WIDEST.get(name.removeprefix("cause "), 20.0):
                    continue
                value = unlikely(tried)
                if value < least:
                    best, least = tried, value
                    break
            else:
                steps[name] /= 2.0
    return best


def chosen(run: Run, known: Array, noise: Array) -> list[int]:
    """Rows to measure, in order: each lessens the variance of all numbers most, quantities alike."""
    share = {q: 1.0 / sum(known[i, i] for i, own in enumerate(run.quantity) if own == q) for q in set(run.quantity)}
    weight = np.array([share[quantity] for quantity in run.quantity])

    def after(before: Array, row: int) -> Array:
        at = np.where(run.row == row)[0]
        seen = before[np.ix_(at, at)] + np.diag(noise[at])
        return before - before[:, at] @ np.linalg.solve(seen, before[at])

    taken: list[int] = []
    every = sorted(set(run.row.tolist()))
    while len(taken) < min(max(POINTS), len(every) - 1):
        taken.append(min((r for r in every if r not in taken), key=lambda r: float(weight @ np.diag(after(known, r)))))
        known = after(known, taken[-1])
    return taken


def table(runs: Sequence[Run], kind: str) -> list[str]:
    """By quantity and number of points: runs, median errors before, by a shift, after, p90 after, covered, worse."""
    families = sorted({run.family for run in runs})
    Random(7).shuffle(families)
    folds = [set(families[place::FOLDS]) for place in range(FOLDS)]
    widths = [fitted([run for run in runs if run.family not in fold], kind) for fold in folds]
    found: dict[tuple[str, int], list[tuple[Array, Array, Array, Array]]] = {}
    for run in runs:
        of = widths[next(i for i, fold in enumerate(folds) if run.family in fold)]
        known, noise = covariance(run, of, kind), _noise(run, of)
        order = chosen(run, known, noise)
        for count in POINTS:
            if len(order) < count:
                continue
            is_seen = np.isin(run.row, order[:count])
            seen, rest = np.where(is_seen)[0], np.where(~is_seen)[0]
            values = np.clip(run.residual[seen], -FARTHEST, FARTHEST)
            gain = np.linalg.solve(known[np.ix_(seen, seen)] + np.diag(noise[seen]), known[np.ix_(seen, rest)]).T
            said, left = gain @ values, np.diag(known)[rest] - np.sum(gain * known[np.ix_(rest, seen)], axis=1)
            for quantity in dict.fromkeys(run.quantity):
                at = [i for i, place in enumerate(rest) if run.quantity[place] == quantity]
                same = [v for v, place in zip(values, seen, strict=True) if run.quantity[place] == quantity]
                error, shift = run.residual[rest][at], sum(same) / len(same) if same else 0.0
                held = np.abs(said[at] - error) <= NINETY * np.sqrt(left[at] + noise[rest][at])
                if at:
                    found.setdefault((quantity, count), []).append(
                        (
                            np.abs(np.expm1(-error)),
                            np.abs(np.expm1(shift - error)),
                            np.abs(np.expm1(said[at] - error)),
                            held,
                        )
                    )
    return [_line(quantity, count, own) for (quantity, count), own in sorted(found.items())]


def _line(quantity: str, count: int, own: Sequence[tuple[Array, Array, Array, Array]]) -> str:
    before, shift, after, held = (np.concatenate([errors[i] for errors in own]) for i in range(4))
    worse = sum(median(e[2].tolist()) - median(e[0].tolist()) > 0.02 for e in own) / len(own)
    return (
        f"{quantity:20s} {count} {len(own):4d} {np.median(before):.4f} {np.median(shift):.4f} {np.median(after):.4f} "
        f"{np.quantile(before, 0.9):.3f} {np.quantile(after, 0.9):.3f} {held.mean():.3f} {worse:.3f}"
    )


SOURCES: Final[dict[str, Callable[[], list[Run]]]] = {"serve": serving_runs, "train": training_runs}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.calibration.few_points_shape", description=__doc__.split("\n\n", 1)[0]
    )
    parser.add_argument("kind", choices=(*SOURCES, "product", "memory"))
    given = parser.parse_args()
    if given.kind in ("product", "memory"):
        print(*Line._fields)
        print(*(product_lines() if given.kind == "product" else memory_lines()), sep="\n")
        return
    print("quantity, points, runs, median error before, by a shift, after, p90 before, after, covered, worse")
    for line in table(SOURCES[given.kind](), given.kind):
        print(line)


if __name__ == "__main__":
    main()
