"""
The three fits of the house as problems that can be solved without some of their rows.

What is minimised is written in the fits' own scripts (`serving.py`, `training.py`, `infer.py`): their rows, weights,
priors and bounds are used here, started from the numbers in the catalogue. `prepare()` computes the Jacobians once;
`serving_without`, `training_without` and `infer_without` refit without some row ids and give what the catalogue would
then hold.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import infer
import msgspec
import numpy as np
import serving
import training
from refit import Problem, jacobian, refit

from tonnage.catalog.engines import EngineTimes, _eras
from tonnage.catalog.fitted import offline, training_coefficients
from tonnage.domain.engine_spec import Overheads
from tonnage.domain.offline import Offline
from tonnage.domain.training import TrainCoefficients
from tonnage.engines.registry import engine_name
from tonnage.errors import UnknownName
from tonnage_accuracy.rows import read_rows

__all__ = ["audit", "check", "infer_without", "only_engines", "prepare", "seen", "serving_without", "training_without"]

EVERY = 2
"""Thins crowded groups of serving rows, as `serving.py --fit` does."""

EngineKey = tuple[str, str, str]

STACKS: frozenset[EngineKey] = frozenset({("vllm", "AMD", "0")})
"""
Fits from which the factors of a vendor's stack were read (engine `*`).

Without their rows those factors must not stay: they would carry what the rows taught to every other engine there.
"""

Table = Mapping[tuple[str, str], tuple[EngineTimes, ...]]


class Ready(NamedTuple):
    """A problem with the row id of each of its terms and its Jacobian."""

    task: Problem
    ids: tuple[str, ...]
    slopes: np.ndarray

    def kept(self, hidden: set[str]) -> np.ndarray:
        """Places of the terms whose rows are not hidden."""
        return np.array([place for place, name in enumerate(self.ids) if name not in hidden], dtype=int)


ENGINES: list[str] = []
"""Engines whose fits alone are repeated; empty = every fit."""


def only_engines(names: Iterable[str]) -> None:
    """Takes the fits of some engines for all there are: all other rows stay as they are."""
    ENGINES.extend(names)


def prepare(*tables: str) -> None:
    """Everything that all refits share, computed once before processes fork; of training alone when it is named."""
    if ENGINES:
        _engines()
        return
    _training()
    if not tables:
        _engines()
        _networks()


def seen(*tables: str) -> list[tuple[str, ...]]:
    """Row ids of each fit, or of training's when it is named."""
    if ENGINES:
        return [ready.ids for ready in _engines().values()]
    others = [] if tables else [*(ready.ids for ready in _engines().values()), _networks().ids]
    return [*others, _training().ids]


# Engines


@cache
def _samples() -> dict[EngineKey, list[serving.Sample]]:
    return {key: rows for key, rows in serving.by_key(serving.samples(every=EVERY, engines=ENGINES)).items()}


@cache
def _engines() -> dict[EngineKey, Ready]:
    return {key: _engine(key, rows) for key, rows in sorted(_samples().items())}


def _names(key: EngineKey, rows: list[serving.Sample]) -> tuple[str, ...]:
    fixed = serving.FIXED.get(key[:2], {})
    return tuple(name for name in serving.free_parameters(rows) if name not in fixed)


def _engine(key: EngineKey, rows: list[serving.Sample]) -> Ready:
    """The fit of one engine, vendor and era, where it ended."""
    names, fixed = _names(key, rows), serving.FIXED.get(key[:2], {})
    size: dict[tuple[str, ...], int] = defaultdict(int)
    for sample in rows:
        size[sample.group] += 1
    terms = [place for place, sample in enumerate(rows) for _ in sample.targets]
    weight = [math.sqrt(min(10, size[rows[place].group]) / size[rows[place].group]) for place in terms]
    first = {place: terms.index(place) for place in set(terms)}

    def errors(theta: np.ndarray, places: np.ndarray) -> np.ndarray:
        overheads = serving.overheads_of(names, theta, fixed)
        wanted = {terms[place] for place in places}
        found = {place: serving.log_ratios(rows[place], overheads) for place in wanted}
        return np.array([found[terms[place]][place - first[terms[place]]] for place in places])

    about = [serving.PARAMETERS[name] for name in names]
    values = Overheads(**_era(key).values)
    shipped = [_to_theta(name, getattr(values, name)) for name in names]
    low, high = np.array([a[2] for a in about]), np.array([a[3] for a in about])
    task = Problem(
        name=" ".join(key),
        errors=errors,
        theta=np.clip(shipped, low, high),
        weight=np.ones(len(terms)),
        soft=0.1 / np.array(weight),
        prior=serving.priors(rows, names),
        spread=serving.spreads(rows, names),
        low=low,
        high=high,
        extra=lambda theta: serving.apart(dict(zip(names, theta, strict=True))),
    )
    return Ready(task, tuple(rows[place].row.id for place in terms), jacobian(task))


def _to_theta(name: str, value: float) -> float:
    return value / serving.SCALE[name] if name in serving.SCALE else math.log(max(value, 1e-9))


def _era(key: EngineKey) -> EngineTimes:
    since = tuple(int(part) for part in key[2].split("."))
    eras = _eras()[key[0], key[1]]
    return next((era for era in eras if era.since == since), eras[0])


def serving_without(hidden: set[str], *, engine: str = "") -> Table:
    """
    The table of overheads. A fit without rows is its priors where the engine's own kernels are tabulated, as the fit of
    few rows nearly is; elsewhere it takes what the catalogue then says of the engine. Either is marked as borrowed. An
    engine that is left out leaves the table whole.
    """
    table = {key: list(eras) for key, eras in _eras().items()}
    lost = []
    for key, ready in _engines().items():
        kept = ready.kept(hidden)
        if len(kept) == len(ready.ids):
            continue
        place = table[key[0], key[1]].index(_era(key))
        if not len(kept):
            lost.append((key, place))
            continue
        names, fixed = _names(key, _samples()[key]), serving.FIXED.get(key[:2], {})
        found = serving.overheads_of(names, refit(ready.task, kept, ready.slopes), fixed)
        values = {**_era(key).values, **{name: getattr(found, name) for name in names}}
        table[key[0], key[1]][place] = msgspec.structs.replace(_era(key), values=MappingProxyType(values))
        if key in STACKS:
            table["*", key[1]] = [_moved(era, _era(key).values, values) for era in table["*", key[1]]]
    for (name, vendor, since), _ in lost:
        if (name, vendor, since) in STACKS:
            table.pop(("*", vendor), None)
    for key, place in lost:
        name, vendor, _ = key
        others = [era for at, era in enumerate(table[name, vendor]) if (name, vendor, at) not in _places(lost)]
        seeds = table.get((name, "")) or table["generic", ""]
        stand_in = (min(others, key=lambda era: era.since) if others else seeds[-1]).values
        if key in serving.TABULATED_ERAS:
            stand_in = MappingProxyType(_unfitted(key))
        era = table[name, vendor][place]
        table[name, vendor][place] = msgspec.structs.replace(era, values=stand_in, borrowed=True)
    try:
        gone = engine_name(engine) if engine else ""
    except UnknownName:
        gone = engine
    if any(gone == name for name, _, _ in STACKS):
        table = {key: eras for key, eras in table.items() if key[0] != "*"}
    return {key: tuple(eras) for key, eras in table.items() if key[0] != gone}


def _unfitted(key: EngineKey) -> dict[str, float]:
    """What a fit says that has no rows: where each of its parameters is drawn to."""
    rows = _samples()[key]
    names, fixed = _names(key, rows), serving.FIXED.get(key[:2], {})
    found = serving.overheads_of(names, serving.priors(rows, names), fixed)
    return {name: getattr(found, name) for name in names} | fixed


def _moved(stack: EngineTimes, shipped: Mapping[str, float], refitted: Mapping[str, float]) -> EngineTimes:
    """Factors of a vendor's stack, moved as the fit moved that they were read from."""
    values = {name: value * refitted[name] / shipped[name] for name, value in stack.values.items() if name in shipped}
    return msgspec.structs.replace(stack, values=MappingProxyType({**stack.values, **values}))


def _places(lost: Iterable[tuple[EngineKey, int]]) -> set[tuple[str, str, int]]:
    return {(key[0], key[1], place) for key, place in lost}


# Training


@cache
def _rows_of_training() -> list[training.Sample]:
    return training.samples([row for path in training.ROWS for row in read_rows(path)])


@cache
def _training() -> Ready:
    rows, paths = _rows_of_training(), list(training.PRIORS)
    seeds = msgspec.toml.decode(training.SEEDS.read_bytes(), type=TrainCoefficients)
    whole = training.problem(rows, seeds)
    center = whole.center()

    def errors(theta: np.ndarray, places: np.ndarray) -> np.ndarray:
        return training.errors([rows[place] for place in places], whole.coefficients(theta))

    shipped = training_coefficients()
    task = Problem(
        name="training",
        errors=errors,
        theta=np.array([training._to(path, training.get(shipped, path)) for path in paths]),
        weight=whole.weight,
        soft=np.full(len(rows), 0.1),
        prior=center,
        spread=np.array([training.PRIORS[path] for path in paths]),
        low=np.full(len(paths), -50.0),
        high=np.full(len(paths), 50.0),
    )
    return Ready(task, tuple(sample.row.id for sample in rows), jacobian(task))


def training_without(hidden: set[str]) -> TrainCoefficients:
    """Coefficients of training; an architecture without rows has no efficiency of its own."""
    ready, rows = _training(), _rows_of_training()
    kept = ready.kept(hidden)
    if len(kept) == len(ready.ids):
        return training_coefficients()
    theta = refit(ready.task, kept, ready.slopes)
    values = {path: training._from(path, value) for path, value in zip(training.PRIORS, theta, strict=True)}
    found = training.put(training_coefficients(), values)
    known = {rows[place].accelerator.architecture for place in kept}
    lost = {rows[place].accelerator.architecture for place in range(len(rows))} - known
    gemm = {name: value for name, value in found.gemm.items() if name not in lost}
    return msgspec.structs.replace(found, gemm=gemm)


# Batches through networks


@cache
def _items() -> list[infer.Item]:
    return infer.items()


@cache
def _networks() -> Ready:
    return _networks_from(offline())


def _networks_from(start: Offline) -> Ready:
    items = _items()
    keys = [key for key in infer.parameters(start) if infer.read(start, key) > 0]
    seed = np.log([infer.read(start, key) for key in keys])
    size: dict[Any, int] = defaultdict(int)
    for item in items:
        size[item.group] += 1
    bounds = [infer.BOUNDS.get(key[2], (1e-12, 1e12)) for key in keys]
    believed, pull = np.array([infer.beliefs(key) for key in keys]).T

    def errors(theta: np.ndarray, places: np.ndarray) -> np.ndarray:
        facts = infer.changed(start, zip(keys, np.exp(theta), strict=True))
        return infer.errors([items[place] for place in places], facts)

    task = Problem(
        name="networks",
        errors=errors,
        theta=seed,
        weight=np.array([infer.SOFT * size[item.group] ** -0.25 for item in items]),
        soft=np.full(len(items), infer.SOFT),
        prior=believed,
        spread=1 / pull,
        low=np.log([bound[0] for bound in bounds]),
        high=np.log([bound[1] for bound in bounds]),
    )
    return Ready(task, tuple(item.row.id for item in items), jacobian(task))


def infer_without(hidden: set[str]) -> Offline:
    """Facts of networks; what only hidden rows taught is neutral, and a runtime nobody measured has no row."""
    ready, items, start = _networks(), _items(), offline()
    kept = ready.kept(hidden)
    if len(kept) == len(ready.ids):
        return start
    inside = [items[place] for place in kept]
    keys = [key for key in infer.parameters(start) if infer.read(start, key) > 0]
    begun = infer.unseen(start, inside)
    theta = refit(ready.task, kept, ready.slopes, start=np.log([max(infer.read(begun, key), 1e-12) for key in keys]))
    found = infer.changed(begun, zip(keys, np.exp(theta), strict=True))
    return _forgotten(found, inside, [items[place] for place in range(len(items)) if items[place].row.id in hidden])


def _forgotten(facts: Offline, inside: Iterable[infer.Item], hidden: Iterable[infer.Item]) -> Offline:
    """
    Runtimes and generations that only hidden rows use: the generation is not fitted, and a runtime whose numbers no
    fit makes goes; all others have gone back to what is believed of their kind.
    """
    runtimes = {(item.setup.runtime.engine, item.setup.runtime.mode) for item in inside}
    lost = {(item.setup.runtime.engine, item.setup.runtime.mode) for item in hidden} - runtimes - {("generic", "")}
    lost = {name for name in lost if "/".join(name) not in infer.RUNTIME_FIELDS}
    known = {item.setup.machine.silicon.architecture for item in inside}
    gone = {item.setup.machine.silicon.architecture for item in hidden} - known
    return msgspec.structs.replace(
        facts,
        runtimes=tuple(row for row in facts.runtimes if (row.engine, row.mode) not in lost),
        silicon=tuple(
            msgspec.structs.replace(row, fitted=False) if row.architecture in gone else row for row in facts.silicon
        ),
    )


def check() -> None:
    """Median errors of some groups under a refit and under the fit's own script from its own start."""
    print(f"{'fit':28s} {'without':28s} {'rows':>5s} {'as is':>7s} {'refit':>7s} {'complete':>8s}")
    for key, rows in sorted(_samples().items()):
        groups = sorted({sample.at.case.accelerator for sample in rows})
        if len(groups) < 2 or len(rows) > 400:
            continue
        ready = _engines()[key]
        hidden = {sample.row.id for sample in rows if sample.at.case.accelerator == groups[0]}
        mine = np.array([place for place, name in enumerate(ready.ids) if name in hidden])
        theta = refit(ready.task, ready.kept(hidden), ready.slopes)
        fixed = serving.FIXED.get(key[:2], {})
        complete = Overheads(**serving.fit([s for s in rows if s.row.id not in hidden], fixed=fixed, quiet=True))
        own = [sample for sample in rows if sample.row.id in hidden]
        outside = [ratio for sample in own for ratio in serving.log_ratios(sample, complete)]
        found = (ready.task.errors(ready.task.theta, mine), ready.task.errors(theta, mine), np.array(outside))
        medians = [np.median(np.abs(np.expm1(values))) for values in found]
        shown = "  ".join(f"{100 * value:5.1f}%" for value in medians)
        print(f"{' '.join(key):28s} {groups[0]:28s} {len(mine):5d}  {shown}", flush=True)


def audit() -> None:
    """Parameters against groups, and whether what was fitted still helps rows that did not teach it."""
    print(f"{'fit':26s} {'params':>6s} {'at bound':>8s} {'groups':>6s} {'parts':>5s} {'families':>8s}", end="")
    print(f" {'as is':>7s} {'no part':>7s} {'no family':>9s} {'prior':>7s}")
    for key, rows in sorted(_samples().items()):
        ready = _engines()[key]
        task, everything = ready.task, np.arange(len(ready.ids))
        medians = [_median(task.errors(task.theta, everything))]
        counts = [len({sample.group for sample in rows})]
        for of in (lambda s: s.at.case.accelerator, lambda s: s.at.placement.model.family):
            names = {of(sample) for sample in rows}
            counts.append(len(names))
            outside = np.empty(len(ready.ids))
            for name in names:
                hidden = {sample.row.id for sample in rows if of(sample) == name}
                mine = np.array([place for place, row in enumerate(ready.ids) if row in hidden])
                kept = ready.kept(hidden)
                theta = refit(task, kept, ready.slopes) if len(kept) else np.clip(task.prior, task.low, task.high)
                outside[mine] = task.errors(theta, mine)
            medians.append(_median(outside))
        medians.append(_median(task.errors(np.clip(task.prior, task.low, task.high), everything)))
        stuck = int(np.sum((task.theta <= task.low + 1e-3) | (task.theta >= task.high - 1e-3)))
        print(
            f"{' '.join(key):26s} {len(task.theta):6d} {stuck:8d} {counts[0]:6d} {counts[1]:5d} {counts[2]:8d}", end=""
        )
        print(" ".join(["", *(f"{100 * value:6.1f}%" for value in medians)]), flush=True)


def _median(errors: np.ndarray) -> float:
    return float(np.median(np.abs(np.expm1(errors))))
