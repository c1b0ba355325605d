"""
The three fits of the house as problems that can be solved without some of their rows.

What is minimised is written in the fits' own scripts (`serving.py`, `training.py`, `infer.py`): their rows, weights,
priors and bounds are used here, started from the numbers in the catalogue. `prepare()` computes the Jacobians once;
`serving_without`, `training_without` and `infer_without` refit without some row ids and give what the catalogue would
then hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

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

EngineKey = tuple[str, str, str]

STACKS: frozenset[EngineKey] = frozenset({("vllm", "AMD", "0"), ("sglang", "Google", "0")})
"""
Fits from which the factors of a vendor's stack were read (engine `*`).

Without their rows those factors must not stay: they would carry what the rows taught to every other engine there.
"""

Table = Mapping[tuple[str, str], tuple[EngineTimes, ...]]


class Ready:
    """A problem with its rows, the row id of each of its terms and its Jacobian."""

    def __init__(self, task: Problem, rows: Sequence[Any], terms: Iterable[Any] | None = None) -> None:
        self.task, self.rows = task, rows
        self.ids = tuple(one.row.id for one in terms or rows)
        self.slopes = jacobian(task)

    def kept(self, hidden: set[str]) -> np.ndarray:
        """Places of the terms whose rows are not hidden."""
        return np.array([place for place, name in enumerate(self.ids) if name not in hidden], dtype=int)


def prepare() -> None:
    """Everything that all refits share, computed once before processes fork."""
    for ready in (_engines, _training, _networks):
        ready()


def seen() -> set[str]:
    """Ids of the rows that some fit reads."""
    return {name for ready in (*_engines().values(), _training(), _networks()) for name in ready.ids}


@cache
def _engines() -> dict[EngineKey, Ready]:
    """Fits of engines where they ended."""
    return {
        key: Ready(serving.problem(rows, Overheads(**_era(key).values)), rows, [s for s in rows for _ in s.targets])
        for key, rows in sorted(serving.by_key(serving.samples()).items())
    }


@cache
def _training() -> Ready:
    rows = training.samples()
    return Ready(training.problem(rows, training.read_seeds(), training_coefficients()), rows)


@cache
def _networks() -> Ready:
    rows = infer.items()
    return Ready(infer.problem(rows, offline()), rows)


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
        kept, of, vendor = ready.kept(hidden), key[:2], key[1]
        if len(kept) == len(ready.ids):
            continue
        place = table[of].index(_era(key))
        if not len(kept):
            lost.append((key, place))
            continue
        found = serving.overheads_at(ready.rows, refit(ready.task, kept, ready.slopes))
        values = {**_era(key).values, **{name: found[name] for name in serving.fitted_names(ready.rows)}}
        table[of][place] = msgspec.structs.replace(_era(key), values=MappingProxyType(values))
        if key in STACKS:
            table["*", vendor] = [_moved(era, _era(key).values, values) for era in table["*", vendor]]
    for key, place in lost:
        of, vendor = key[:2], key[1]
        if key in STACKS:
            table.pop(("*", vendor), None)
        others = [era for at, era in enumerate(table[of]) if (of, at) not in {(other[:2], at) for other, at in lost}]
        seeds = table.get((key[0], "")) or table["generic", ""]
        stand_in = (min(others, key=lambda era: era.since) if others else seeds[-1]).values
        if key in serving.TABULATED_ERAS:
            stand_in = MappingProxyType(serving.overheads_at(_engines()[key].rows, _engines()[key].task.prior))
        table[of][place] = msgspec.structs.replace(table[of][place], values=stand_in, borrowed=True)
    try:
        gone = engine_name(engine) if engine else ""
    except UnknownName:
        gone = engine
    for name, vendor, _ in STACKS:
        if gone == name:
            table.pop(("*", vendor), None)
    return {key: tuple(eras) for key, eras in table.items() if key[0] != gone}


def _moved(stack: EngineTimes, shipped: Mapping[str, float], refitted: Mapping[str, float]) -> EngineTimes:
    """Factors of a vendor's stack, moved as the fit moved that they were read from."""
    values = {name: value * refitted[name] / shipped[name] for name, value in stack.values.items() if name in shipped}
    return msgspec.structs.replace(stack, values=MappingProxyType({**stack.values, **values}))


def training_without(hidden: set[str]) -> TrainCoefficients:
    """Coefficients of training; an architecture without rows has no efficiency of its own."""
    ready = _training()
    kept = ready.kept(hidden)
    if len(kept) == len(ready.ids):
        return training_coefficients()
    found = training.coefficients(training_coefficients(), refit(ready.task, kept, ready.slopes))
    lost = _architectures(ready.rows) - _architectures([ready.rows[place] for place in kept])
    gemm = {name: value for name, value in found.gemm.items() if name not in lost}
    return msgspec.structs.replace(found, gemm=gemm)


def _architectures(rows: Iterable[training.Sample]) -> set[str]:
    return {sample.setup.accelerator.architecture for sample in rows}


def infer_without(hidden: set[str]) -> Offline:
    """Facts of networks; what only hidden rows taught is neutral, and a runtime nobody measured has no row."""
    ready, start = _networks(), offline()
    kept = ready.kept(hidden)
    if len(kept) == len(ready.ids):
        return start
    inside, keys = [ready.rows[place] for place in kept], infer.fitted_keys(start)
    begun = infer.unseen(start, inside)
    theta = refit(ready.task, kept, ready.slopes, start=np.log([max(infer.read(begun, key), 1e-12) for key in keys]))
    found = infer.changed(begun, zip(keys, np.exp(theta), strict=True))
    return _forgotten(found, inside, [item for item in ready.rows if item.row.id in hidden])


def _forgotten(facts: Offline, inside: Iterable[infer.Item], hidden: Iterable[infer.Item]) -> Offline:
    """
    Runtimes and generations that only hidden rows use: the generation is not fitted, and a runtime whose numbers no
    fit makes goes; all others have gone back to what is believed of their kind.
    """
    runtimes = {(item.setup.runtime.engine, item.setup.runtime.mode) for item in inside}
    lost = {(item.setup.runtime.engine, item.setup.runtime.mode) for item in hidden} - runtimes - {("generic", "")}
    lost = {name for name in lost if "/".join(name) not in infer.FIELDS["runtimes"]}
    known = {item.setup.machine.silicon.architecture for item in inside}
    gone = {item.setup.machine.silicon.architecture for item in hidden} - known
    return msgspec.structs.replace(
        facts,
        runtimes=tuple(row for row in facts.runtimes if (row.engine, row.mode) not in lost),
        silicon=tuple(
            msgspec.structs.replace(row, fitted=False) if row.architecture in gone else row for row in facts.silicon
        ),
    )
