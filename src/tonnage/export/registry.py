"""Which targets are there? Each module of `export/targets` is one."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import Final

from tonnage.errors import UnknownName
from tonnage.export.target import Target

FOLDER: Final = "tonnage.export.targets"


@cache
def known_targets() -> dict[str, Target]:
    """Every target by the name that `--to` takes."""
    names = (module.name for module in pkgutil.iter_modules(importlib.import_module(FOLDER).__path__))
    found = [importlib.import_module(f"{FOLDER}.{name}").TARGET for name in sorted(names)]
    return {target.name: target for target in found}


def target_module(name: str) -> ModuleType:
    """
    The module of a target.

    Raises
    ------
    UnknownName
        No such target.
    """
    known = known_targets()
    if name not in known:
        raise UnknownName("target", name, known=known)
    return importlib.import_module(f"{FOLDER}.{name.replace('-', '_')}")
