"""
How is it started? A plan becomes the files that run it: one module of `targets` per engine or orchestrator.

A target is a module with a `TARGET` (what it is called, the version its files were written for, the plans it accepts)
and a function `export(plan, option) -> {path: text}`. Targets are found by listing the folder, so a new one is one new
file. A target that is a serving engine also has `serve(deployment) -> Server`, which the orchestrators start.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import NamedTuple

import msgspec

from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.errors import BadRequest, NoCheckpoint, UnknownName
from tonnage.export.target import Target, names
from tonnage.questions.rl.answer import RlOption, RlPlan


class Offered(NamedTuple):
    """Where one option can be started."""

    ready: tuple[str, ...]
    """Targets whose files can be written."""
    lacking: dict[str, str]
    """Those whose files can be written once the checkpoint to load is named, and why it has to be."""
    refused: dict[str, str]
    """Other targets, and why they cannot start it."""


@cache
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
    plan: ServePlan | TrainPlan | BatchPlan | RlPlan,
    option: ServeOption | TrainOption | BatchOption | RlOption,
    *,
    to: str,
) -> dict[str, str]:
    """
    The files that start one option of a plan on a target, by their names.

    Raises
    ------
    BadRequest
        The target cannot express the option, or the plan names something no file can hold safely.
    """
    module, kind = target_module(to), _kind(plan)
    if kind not in module.TARGET.kinds:
        able = ", ".join(name for name, target in known_targets().items() if kind in target.kinds)
        raise BadRequest(f"{to} takes plans of kind {', '.join(module.TARGET.kinds)}, not '{kind}'; {kind}: {able}")
    objective = getattr(plan.request, "objective", "sft")
    if objective not in module.TARGET.objectives:
        able = ", ".join(name for name, target in known_targets().items() if objective in target.objectives)
        raise BadRequest(f"{to} files here say nothing of {objective}; {objective}: {able or 'none'}")
    if plan.model.get("pools") and not module.TARGET.pools:
        able = ", ".join(name for name, target in known_targets().items() if target.pools)
        raise BadRequest(
            f"{to} files cannot keep prefill and decode workers apart; export to {able}, leave out --pools, or"
            " choose an option without them (--rank)"
        )
    if isinstance(plan, TrainPlan) and isinstance(option, TrainOption):
        _runs_there(plan, option, target=module.TARGET)
    files: dict[str, str] = module.export(plan, option)
    return files


def offered(
    plan: ServePlan | TrainPlan | BatchPlan | RlPlan, option: ServeOption | TrainOption | BatchOption | RlOption
) -> Offered:
    """Where a launchable option can be started: tried at every target that takes its kind of plan."""
    stated = msgspec.structs.replace(plan, model={**plan.model, "named": "OWNER/CHECKPOINT"})
    ready, lacking, refused = list[str](), dict[str, str](), dict[str, str]()
    for name in (name for name, target in known_targets().items() if _kind(plan) in target.kinds):
        try:
            try:
                export(plan, option, to=name)
                ready.append(name)
            except NoCheckpoint as missing:
                export(stated, option, to=name)
                lacking[name] = str(missing)
        except BadRequest as why:
            refused[name] = str(why)
    return Offered(tuple(ready), lacking, refused)


def _kind(plan: ServePlan | TrainPlan | BatchPlan | RlPlan) -> str:
    """As targets name the kinds that they take."""
    if isinstance(plan, TrainPlan):
        return plan.kind
    return "batch" if isinstance(plan, BatchPlan) else "rl" if isinstance(plan, RlPlan) else "serve"


def _runs_there(plan: TrainPlan, option: TrainOption, *, target: Target) -> None:
    """Refuse files of a framework that has no backend for the planned accelerator, and name those that have one."""
    part = option.configuration.accelerator
    vendor = str(plan.model.get("vendor") or names(part).vendor)
    if not vendor or vendor in target.vendors:
        return
    able = [other.name for other in known_targets().values() if plan.kind in other.kinds and vendor in other.vendors]
    instead = (
        f"export to {' or '.join(able)}" if able else "no target here writes files for it; plan with --vendor nvidia"
    )
    raise BadRequest(f"{target.title} does not run on {part} ({vendor}); {instead}")
