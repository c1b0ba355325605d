"""
A kept plan asked again: each figure of its leading option against a tolerance, or the whole held byte by byte.

Checked, plans of one kind are compared by their leading options: that is what a team has built. A configuration that
changed is a change whatever the figures say; prices and formulas move figures, and only moves beyond the tolerance
count.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, part_name
from tonnage.catalog.rows import SHIPPED, data_version, folder_in, installed_versions
from tonnage.core.files import read_text
from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.metrics import SPEEDS
from tonnage.domain.plan import BY_AVERAGES, PLAN_SCHEMA, Provenance, ServeOption, ServePlan
from tonnage.domain.train_plan import TrainPlan
from tonnage.engines.registry import engine_title
from tonnage.errors import BadRequest
from tonnage.questions.ask import Plan, plan_of_text, planner_of, with_measurements
from tonnage.questions.compare.answer import CHECK_SCHEMA, VERIFY_SCHEMA, Change, Check, Verification, to_what
from tonnage.report.document import as_json
from tonnage.units import show
from tonnage.version import __version__

DEFAULT_TOLERANCE: Final = 0.05
Comparable = ServePlan | BatchPlan | TrainPlan
Figure = tuple[str, str, float | str | None, bool | None]
"""Name, unit, value, and whether more is worse (absent: neither way is)."""


def check(baseline: Plan, fresh: Plan, *, tolerance: float = DEFAULT_TOLERANCE) -> Check:
    """
    The kept plan against the one made now.

    Raises
    ------
    BadRequest
        The two answer different kinds of question.
    """
    if not isinstance(baseline, Comparable) or not isinstance(fresh, Comparable):
        raise BadRequest(
            "plans of this kind cannot be compared; check plans to serve, to run a batch, to train or to fine-tune"
        )
    if type(baseline) is not type(fresh):
        raise BadRequest("the baseline answers another kind of question than the request; keep a new one with --output")
    before, now = ({figure[0]: figure for figure in figures(plan)} for plan in (baseline, fresh))
    changes = tuple(_changes(before, now, tolerance))
    beyond = [change for change in changes if change.beyond]
    return Check(
        schema=CHECK_SCHEMA,
        changed=bool(beyond),
        feasible=fresh.feasible,
        sentence=_sentence(beyond, tolerance, feasible=fresh.feasible),
        tolerance=tolerance,
        changes=changes,
        calibrations=fresh.calibrations,
        before=baseline.sentence,
        now=fresh.sentence,
        made_before=_describe_plan(baseline),
        made_now=_describe_plan(fresh),
    )


def figures(plan: Comparable) -> Iterator[Figure]:
    """
    What is compared of a plan, in the order it is told: its model and leading option; without options whether it is
    feasible and the model alone.
    """
    yield "feasible", "", "yes" if plan.feasible else "no", None
    yield "model", "", str(plan.model.get("id", plan.request.model)), None
    if not plan.options:
        return
    option = plan.options[0]
    bill = option.bill
    yield "configuration", "", option.configuration.label(part_name, engine_title), None
    yield "offer", "", f"{bill.provider} {bill.instance_type} {bill.region} {bill.term}", None
    if isinstance(option, ServeOption):
        yield "replicas", "count", float(option.replicas), None
    yield "accelerators", "count", float(option.accelerators), True
    yield "cost", option.cost.unit, option.cost.value, True
    if isinstance(option, ServeOption):
        yield "cost of 1M output tokens", "USD", option.usd_per_million_output_tokens, True
        for metric in SPEEDS:
            value = getattr(option.capacity, metric.name).value
            yield metric.title.lower(), metric.unit, value, metric.less_is_better
        yield "capacity of a replica", "1/s", option.capacity.max_rate_per_s.value, False
        yield "headroom", "fraction", option.headroom, None
    elif isinstance(option, BatchOption):
        yield "duration", "s", option.wall_s.value, True
        yield "rate of a replica", "1/s", option.items_per_s.value, False
    else:
        yield "duration", "s", option.run.wall_s.value, True
        yield "step", "s", option.step_s.value, True
    yield "memory of an accelerator", "bytes", option.memory.value, None
    if isinstance(option, ServeOption):
        yield "kv cache", "tokens", option.kv_tokens, False


def _changes(before: dict[str, Figure], now: dict[str, Figure], tolerance: float) -> Iterator[Change]:
    """
    Figures of both sides by name; numbers that moved beyond the tolerance (a share), texts that differ. What one side
    lacks has moved.
    """
    for name in dict.fromkeys((*before, *now)):
        _, unit, _, more_is_worse = now.get(name) or before[name]
        old, new = (side[name][2] if name in side else None for side in (before, now))
        if isinstance(old, float) and isinstance(new, float):
            relative = new / old - 1.0 if old else None if new else 0.0
            moved = relative is None or abs(relative) > tolerance
            worse = (new > old) == more_is_worse if moved and more_is_worse is not None else None
            yield Change(what=name, unit=unit, before=old, now=new, relative=relative, beyond=moved, worse=worse)
        else:
            differs = old != new
            lost = new == "no" if name == "feasible" and differs else None
            yield Change(what=name, unit=unit, before=old, now=new, beyond=differs, worse=lost)


def _sentence(beyond: list[Change], tolerance: float, *, feasible: bool) -> str:
    if not feasible:
        return "The plan is infeasible now."
    if not beyond:
        return f"Nothing moved by more than {show(tolerance, 'fraction')}." if tolerance else "Nothing moved."
    return f"Changed: {', '.join(change.what for change in beyond)}."


def _describe_plan(plan: Comparable) -> str:
    """Version and day of a plan."""
    return f"{plan.provenance.version}, {plan.provenance.made}"


FIRST: Final = 12
"""Differences that are named."""
SHORT: Final = 60
"""Characters of a value that are shown."""
ABSENT: Final = "(absent)"


def verify(path: str, *, additions: Additions = catalog.NOTHING) -> Verification:
    """
    The plan in a file against the one that its request and day give, from the data that it names where that is here.

    Raises
    ------
    TonnageError
        The file is no plan, or its request can no longer be read.
    """
    found = _verified_here(path, additions=additions)
    if found.same or not found.data_before or found.data_before == found.data_now or path == "-":
        return found
    return _from_its_data(found, path, additions=additions)


AGAIN: Final = "from tonnage.questions.check.check import verify_asked; verify_asked()"
"""The program of the process that makes a plan again from other data: loaders keep what they read."""


class Asked(msgspec.Struct):
    """What that process is to hold against its plan."""

    path: str
    additions: Additions


def verify_asked() -> None:
    """Reads what is asked from standard input, and writes its verification with the data of this process."""
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    sys.stdout.buffer.write(msgspec.json.encode(_verified_here(asked.path, additions=asked.additions)))


def _from_its_data(found: Verification, path: str, *, additions: Additions) -> Verification:
    """
    The verification repeated with the data that the plan names, in a process of its own; as it was where that data is
    not on this machine or the process fails.
    """
    release = release_of(found.data_before)
    if release is None:
        return found
    again = subprocess.run(
        [sys.executable, "-c", AGAIN],
        input=msgspec.json.encode(Asked(path, additions)),
        capture_output=True,
        check=False,
        env={**os.environ, "TONNAGE_DATA": release},
    )
    if again.returncode:
        return found
    then = msgspec.json.decode(again.stdout, type=Verification)
    said = f"{then.sentence.rstrip('.')}, from data {release} ({found.data_before})."
    with_now = f" With the data in use ({found.data_now}) {found.differences:,} values differ." if then.same else ""
    return replace(found, same=then.same, identical=then.identical, sentence=said + with_now, release=release)


def _verified_here(path: str, *, additions: Additions) -> Verification:
    """The plan in a file against the one that its request and day give with the data of this process."""
    text = read_text(path, what="plan")
    kept = plan_of_text(text, path)
    fresh = remake(kept, additions=additions)
    before, now = kept.provenance, fresh.provenance
    # Values are compared as read: what is the default's own object is left out of a file that is written for the first
    # time, and not of one that was read. Then as written, for a file may hold names that no plan has; one of an older
    # schema does.
    again = plan_of_text(msgspec.json.encode(fresh).decode(), path)
    found = list(_differences(msgspec.to_builtins(kept), msgspec.to_builtins(again)))
    stated, made = (msgspec.json.decode(one) for one in (text, as_json(fresh)))
    if not found and stated["schema"] == PLAN_SCHEMA:
        found = list(_differences(stated, made))
    identical = text.strip() == as_json(fresh)
    changes: tuple[Change, ...] = ()
    if found and isinstance(kept, Comparable) and isinstance(fresh, Comparable):
        changes = tuple(one for one in check(kept, fresh, tolerance=0.0).changes if one.beyond)
    return Verification(
        schema=VERIFY_SCHEMA,
        same=not found,
        identical=identical,
        question=question_of(kept),
        version_before=before.version,
        version_now=__version__,
        data_before=before.catalogue.get("data", ""),
        data_now=data_version(),
        made=now.made,
        differences=len(found),
        first=tuple(found[:FIRST]),
        changes=changes,
        sentence=_verification_sentence(before, now, differences=len(found), identical=identical),
    )


def release_of(data: str) -> str | None:
    """The release on this machine that gives those twelve digits, the shipped data included; absent = none does."""
    folders = {SHIPPED: None, **{version: folder_in(version) for version in installed_versions()}}
    return next((version for version, folder in folders.items() if data_version(folder) == data), None)


def question_of(plan: Plan) -> str:
    """Twelve digits that name the question of a plan: over its kind and its request, whatever was answered."""
    asked = {"kind": type(plan).__name__, "request": plan.request}
    return hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()[:12]


def remake(plan: Plan, *, additions: Additions) -> Plan:
    """
    The plan that the same request gives on the same day, with today's program and data.

    Raises
    ------
    BadRequest
        Its day cannot be read.
    """
    try:
        day = date.fromisoformat(plan.provenance.made[:10])
    except ValueError:
        raise BadRequest(f"the plan does not say on which day it was made: '{plan.provenance.made[:20]}'") from None
    kind = str(msgspec.json.decode(msgspec.json.encode(plan))["kind"])
    return with_measurements(planner_of(kind)(plan.request, additions=additions, today=day), additions)


def _verification_sentence(before: Provenance, now: Provenance, *, differences: int, identical: bool) -> str:
    """Whether the plan is the same, or how many values differ and what may have caused it."""
    if not differences:
        return f"Verified: the same plan, {to_what(identical)}."
    version, data = before.version, before.catalogue.get("data", "")
    causes = [f"made by tonnage {version}, this is {__version__}"] if version != __version__ else []
    if data and data != data_version():
        causes.append(f"from data {data}, this has {data_version()}")
    if (BY_AVERAGES in before.assumed) != (BY_AVERAGES in now.assumed):
        causes.append("one of the two was made without the simulator")
    if not data:
        causes.append("the file does not say which data it was made from")
    why = "; ".join(causes) or "program and data are the same: accelerators, prices or fits of one's own differ"
    return f"Not the same: {differences:,} value{'s differ' if differences > 1 else ' differs'} ({why})."


def _differences(before: Any, now: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """Where two decoded documents differ: the path, then both values in short, in the order of the first."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in (*before, *(name for name in now if name not in before)):
            yield from _differences(
                before.get(name, ABSENT), now.get(name, ABSENT), f"{where}.{name}" if where else str(name)
            )
    elif isinstance(before, list | tuple) and isinstance(now, list | tuple):
        for place in range(max(len(before), len(now))):
            yield from _differences(
                before[place] if place < len(before) else ABSENT,
                now[place] if place < len(now) else ABSENT,
                f"{where}[{place}]",
            )
    elif before != now:
        yield where, _show_value(before), _show_value(now)


def _show_value(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"
