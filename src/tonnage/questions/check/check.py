"""
What changed since a plan was kept? Each figure of its leading option, before and now, against a tolerance.

Plans of one kind are compared by their leading options: that is what a team has built. A configuration that changed is
a change whatever the figures say; prices and formulas move figures, and only moves beyond the tolerance count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.domain.train_plan import TrainPlan
from tonnage.errors import BadRequest
from tonnage.questions.compare.answer import CHECK_SCHEMA, Change, Check
from tonnage.questions.plans import Plan
from tonnage.units import show

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
    """What is compared, in the order it is told."""
    yield "feasible", "", "yes" if plan.feasible else "no", None
    yield "model", "", str(plan.model.get("id", plan.request.model)), None
    if not plan.options:
        return
    option = plan.options[0]
    bill = option.bill
    yield "configuration", "", option.configuration.label(), None
    yield "offer", "", f"{bill.provider} {bill.instance_type} {bill.region} {bill.term}", None
    if isinstance(option, ServeOption):
        yield "replicas", "count", float(option.replicas), None
    yield "accelerators", "count", float(option.accelerators), True
    yield "cost", option.cost.unit, option.cost.value, True
    if isinstance(option, ServeOption):
        yield "cost of 1M output tokens", "USD", option.usd_per_million_output_tokens, True
        yield "ttft", "s", option.capacity.ttft_s.value, True
        yield "tpot", "s", option.capacity.tpot_s.value, True
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
    return f"{plan.provenance.version}, {plan.provenance.made}"
