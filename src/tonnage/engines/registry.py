"""Which engines are there? Every module of this folder that holds a record; nothing else lists them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any

from tonnage import engines as folder
from tonnage.domain.engine_spec import EngineSpec, ServerMetrics
from tonnage.errors import UnknownName

__all__ = [
    "engine_name",
    "engine_spec",
    "engines",
    "find_engine",
    "planned_engines",
    "records",
    "server_metrics",
    "unlisted_engine",
]


@cache
def engines() -> Mapping[str, EngineSpec]:
    """Every engine by its name."""
    found: list[EngineSpec] = records("ENGINE")
    return MappingProxyType({spec.name: spec for spec in found})


def planned_engines() -> tuple[str, ...]:
    """Engines that plans consider, best measured first."""
    found = [(spec.planned, spec.name) for spec in engines().values() if spec.planned is not None]
    return tuple(name for _, name in sorted(found))


def engine_spec(name: str) -> EngineSpec:
    """
    The engine of that name, whatever its spelling.

    Raises
    ------
    UnknownName
        No such engine.
    """
    found = find_engine(name)
    if found is None:
        raise UnknownName("engine", name, known=engines())
    return found


def engine_name(name: str) -> str:
    """The engine's own name for any spelling of it."""
    return engine_spec(name).name


def find_engine(name: str) -> EngineSpec | None:
    """The same; absent where no engine is called so."""
    key = name.strip().lower()
    own = _engine_module(key)
    return own if own is not None else _spellings().get(key)


def unlisted_engine() -> EngineSpec:
    """What an engine that nobody described is taken for: a library that allocates by need."""
    return next(spec for spec in engines().values() if spec.stands_for)


@cache
def server_metrics() -> tuple[ServerMetrics, ...]:
    """Metrics pages, those of engines before those of servers around them."""
    found: list[ServerMetrics] = [make() for make in records("metrics")]
    return tuple(sorted(found, key=lambda page: (page.around, page.name)))


@cache
def _engine_module(name: str) -> EngineSpec | None:
    """The engine whose module is called as it is: asking for one does not import all."""
    stem = name.replace("-", "_")
    if stem not in _stems():
        return None
    found: EngineSpec | None = getattr(_module(stem), "ENGINE", None)
    return found if found is not None and found.name == name else None


@cache
def _spellings() -> Mapping[str, EngineSpec]:
    every = engines().values()
    aliases = {alias: spec for spec in every for alias in spec.aliases}
    return MappingProxyType({**aliases, **{spec.name: spec for spec in every}})


@cache
def _stems() -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(folder.__path__))


def _module(stem: str) -> ModuleType:
    return importlib.import_module(f"{folder.__name__}.{stem}")


def records(attribute: str) -> list[Any]:
    """What the modules of the folder hold under that name, in the order of the modules' names."""
    found = (getattr(_module(stem), attribute, None) for stem in sorted(_stems()))
    return [record for record in found if record is not None]
