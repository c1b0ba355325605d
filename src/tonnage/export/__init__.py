"""
How is it started? A plan becomes the files that run it: one module of `targets` per engine or orchestrator.

A target is a module with a `TARGET` (what it is called, the version its files were written for, what it accepts) and a
function `export(reading)`, which gives the text of its file or several by name. It is given the option as its kind of
plan is read: a `Deployment`, a `Job`, an `RlJob`, or the `TrainingFiles` that it carries. A serving engine has
`serve(deployment) -> Server` instead, which the orchestrators start, and its own script is written here. Targets are
found by listing the folder.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.errors import BadRequest, NoCheckpoint
from tonnage.export.deployment import (
    Deployment,
    Option,
    Plan,
    check_deployment,
    check_units,
    checkpoint_of,
    deployment,
    script,
)
from tonnage.export.first_runs import first_runs
from tonnage.export.job import Job, RlJob, check_job, job, rl_job
from tonnage.export.target import Target, files_of, known_targets, target_module
from tonnage.export.text import Files
from tonnage.export.training_files import TrainingFiles, check_batch, training_files
from tonnage.questions.rl.question import RlOption, RlPlan

__all__ = [
    "EVERY",
    "LIST",
    "Offered",
    "Written",
    "archive",
    "check_target",
    "export",
    "known_targets",
    "offered",
    "target_module",
    "written",
]

EVERY: Final = "all"
"""In place of a target's name: every one that can start the option, each in a folder of its own."""
LIST: Final = "list"
"""And where it can be started, with the reason why not elsewhere; no file."""


class Offered(NamedTuple):
    """Where one option can be started."""

    ready: tuple[str, ...]
    """Targets whose files can be written."""
    lacking: dict[str, str]
    """Those whose files can be written once the checkpoint to load is named, and why it has to be."""
    refused: dict[str, str]
    """Other targets, and why they cannot start it."""
    starts: dict[str, str]
    """The command that uses the files, of each that is ready."""

    def told(self) -> list[str]:
        """A line for each target: what starts its files, what has to be named first, or why it writes none."""
        known = known_targets()
        lines = {name: f"{known[name].title} {known[name].version}: {self.starts[name]}" for name in self.ready}
        lines |= {name: f"once its checkpoint is named: {why}" for name, why in self.lacking.items()}
        lines |= {name: f"not for this option: {why}" for name, why in self.refused.items()}
        return [f"{name:<12} {line}" for name, line in lines.items()]


class Written(NamedTuple):
    """Files that were written, and what a reader does with them."""

    files: Files
    title: str
    start: str
    """The command that uses them."""
    then: tuple[str, ...] = ()
    """What to run before users come: the devices tried, then the plan's load; empty where nothing is served."""


def check_target(name: str) -> None:
    """
    Refuse what is no target, before a plan is read.

    Raises
    ------
    UnknownName
        No such target.
    """
    if name not in (EVERY, LIST):
        target_module(name)


def written(plan: Plan, option: Option, *, to: str) -> Written:
    """
    The files of one target, or of every one that can start the option (`EVERY`) with a page that says how.

    Raises
    ------
    BadRequest
        As `export`; of every target: none can start it, or what would serve needs a checkpoint named.
    """
    if to != EVERY:
        files, target = export(plan, option, to=to), known_targets()[to]
        return Written(files, target.title, target.start_of(files), _first_runs(plan, option))
    found = offered(plan, option)
    if found.lacking or not found.ready:
        why = f"no target starts {option.configuration.label()} rented at {option.bill.provider}; --to list says why"
        raise BadRequest(next(iter(found.lacking.values()), why))
    files, known = Files(), known_targets()
    told = [f"Files of {option.configuration.label()}, planned on {plan.provenance.made}.", "", "In its folder, start"]
    for name in found.ready:
        made = export(plan, option, to=name)
        files |= {f"{name}/{file}": text for file, text in made.items()}
        told.append(f"{name}: {known[name].start_of(made)}")
    then = _first_runs(plan, option)
    told += ["", *then] if then else []
    told += ["", "Not written:", *(f"{name}: {why}" for name, why in found.refused.items())]
    told += ["", "The head of each says what has to be there first, what was not tried, and which plan it is of."]
    return Written(
        {"README.txt": "\n".join(told) + "\n", **files}, "Every target", "the command that README.txt names", then
    )


def _first_runs(plan: Plan, option: Option) -> tuple[str, ...]:
    if isinstance(plan, ServePlan | BatchPlan) and isinstance(option, ServeOption | BatchOption):
        return first_runs(plan, option, model=checkpoint_of(plan))
    return ()


def archive(files: Files) -> bytes:
    """A zip archive of the files, the same for the same files."""
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return kept.getvalue()


def export(plan: Plan, option: Option, *, to: str) -> Files:
    """
    The files that start one option of a plan on a target, by their names.

    Raises
    ------
    BadRequest
        The target cannot express the option, or the plan names something no file can hold safely.
    """
    module, kind = target_module(to), _kind(plan)
    if kind not in module.TARGET.kinds:
        able = _able(lambda target: kind in target.kinds)
        raise BadRequest(f"{to} takes plans of kind {', '.join(module.TARGET.kinds)}, not '{kind}'; {kind}: {able}")
    objective = getattr(plan.request, "objective", "sft")
    if objective not in module.TARGET.objectives:
        able = _able(lambda target: objective in target.objectives)
        raise BadRequest(f"{to} files here say nothing of {objective}; {objective}: {able or 'none'}")
    if plan.model.get("pools") and not module.TARGET.pools:
        able = _able(lambda target: target.pools)
        other = "leave out --pools" if getattr(plan, "pools", None) else "choose an option without them (--option)"
        raise BadRequest(f"{to} files cannot keep prefill and decode workers apart; export to {able}, or {other}")
    found = _reading(plan, option, target=module.TARGET)
    if isinstance(found, Deployment) and hasattr(module, "serve"):
        return {"serve.sh": script(found, module.TARGET)}
    return files_of(to, found)


def _able(takes: Callable[[Target], bool]) -> str:
    return ", ".join(name for name, target in known_targets().items() if takes(target))


def _reading(plan: Plan, option: Option, *, target: Target) -> Deployment | Job | RlJob | TrainingFiles:
    """The option as a target's files take it, refused where they cannot say it."""
    if isinstance(plan, TrainPlan) and isinstance(option, TrainOption):
        made = job(plan, option)
        check_job(made, target, kind=plan.kind)
        return training_files(plan, option, made=made) if target.carries else made
    if isinstance(plan, RlPlan) and isinstance(option, RlOption):
        return rl_job(plan, option)
    assert isinstance(plan, ServePlan | BatchPlan) and isinstance(option, ServeOption | BatchOption)
    found = deployment(plan, option)
    if isinstance(plan, BatchPlan):
        check_batch(found, title=target.title)
    check_deployment(found, target)
    check_units(found, target)
    return found


def offered(plan: Plan, option: Option) -> Offered:
    """Where a launchable option can be started: tried at every target that takes its kind of plan."""
    stated = msgspec.structs.replace(plan, model={**plan.model, "named": "OWNER/CHECKPOINT"})
    starts, lacking, refused = dict[str, str](), dict[str, str](), dict[str, str]()
    for name, target in ((name, target) for name, target in known_targets().items() if _kind(plan) in target.kinds):
        try:
            try:
                starts[name] = target.start_of(export(plan, option, to=name))
            except NoCheckpoint as missing:
                export(stated, option, to=name)
                lacking[name] = str(missing)
        except BadRequest as why:
            refused[name] = str(why)
    return Offered(tuple(starts), lacking, refused, starts)


def _kind(plan: Plan) -> str:
    """As targets name the kinds that they take."""
    return plan.kind if isinstance(plan, TrainPlan) else str(plan.__struct_config__.tag)
