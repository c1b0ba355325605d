"""
How is it started? A plan becomes the files that run it: one module of `targets` per engine or orchestrator.

A target is a module with a `TARGET` (what it is called, the version its files were written for, the plans it accepts)
and a function `export(plan, option) -> {path: text}`. Targets are found by listing the folder, so a new one is one new
file. A target that is a serving engine also has `serve(deployment) -> Server`, which the orchestrators start.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.domain.rl_plan import RlOption, RlPlan
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.errors import BadRequest, UnknownName
from tonnage.export.target import Target

__all__ = ["export", "known_targets", "target_module"]


def known_targets() -> dict[str, Target]:
    """Every target by the name that `--to` takes."""
    from tonnage.export import targets as folder

    names = (module.name for module in pkgutil.iter_modules(folder.__path__))
    found = [importlib.import_module(f"{folder.__name__}.{name}").TARGET for name in sorted(names)]
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
    return importlib.import_module(f"tonnage.export.targets.{name.replace('-', '_')}")


def export(
    plan: ServePlan | TrainPlan | RlPlan, option: ServeOption | TrainOption | RlOption, *, to: str
) -> dict[str, str]:  # fmt: skip
    """
    The files that start one option of a plan on a target, by their names.

    Raises
    ------
    BadRequest
        The target cannot express the option, or the plan names something no file can hold safely.
    """
    module = target_module(to)
    kind = plan.kind if isinstance(plan, TrainPlan) else "rl" if isinstance(plan, RlPlan) else "serve"
    if kind not in module.TARGET.kinds:
        able = ", ".join(name for name, target in known_targets().items() if kind in target.kinds)
        raise BadRequest(f"{to} takes plans of kind {', '.join(module.TARGET.kinds)}, not '{kind}'; {kind}: {able}")
    objective = getattr(plan.request, "objective", "sft")
    if objective not in module.TARGET.objectives:
        able = ", ".join(name for name, target in known_targets().items() if objective in target.objectives)
        raise BadRequest(f"{to} files here say nothing of {objective}; {objective}: {able or 'none'}")
    files: dict[str, str] = module.export(plan, option)
    return files
