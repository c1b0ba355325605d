"""Plan for an inventory: what each group serves best, what workloads share, what is missing, and what it all draws."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, model_name, parts_name
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.standings import TASKS, task_of
from tonnage.core.calibration_use import Run, at_once
from tonnage.core.header import provenance
from tonnage.core.host import USUAL_LOAD
from tonnage.core.machine import host_of
from tonnage.core.measure_first import Rival, narrows
from tonnage.core.stock import tariff
from tonnage.domain.answer import Basis, Quantity, Verdict
from tonnage.domain.calibration import FirstMeasurement
from tonnage.domain.case import ServeCase
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import PLAN_SCHEMA, Configuration
from tonnage.domain.precision import Precision
from tonnage.domain.refusal import refusal
from tonnage.domain.requests.common import Lengths
from tonnage.engines.registry import find_engine, unlisted_engine
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.pricing.energy import IDLE_DRAW
from tonnage.questions.fleet.answer import FleetPlan, FleetRequest, OwnMachine, PoolInstances
from tonnage.questions.fleet.plan import plan_fleet
from tonnage.questions.fleet.stock import OWNED
from tonnage.questions.own.groups import answer_group, group_power, part_of, site_answer
from tonnage.questions.own.local import no_files
from tonnage.questions.own.mixed import mixed_rows
from tonnage.questions.own.question import Beside, Own, OwnedAnswer, OwnedGroup, OwnPlan, OwnRow
from tonnage.questions.serve.limits import check_context
from tonnage.units import percent, show


def plan_own(request: Own, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> OwnPlan:
    """
    What is owned, put to its best use.

    Raises
    ------
    TonnageError
        A name is unknown or the request contradicts itself. That nothing runs on it is an answer: `feasible` is False.
    """
    today = today or date.today()
    if request.model is not None:
        check_context(resolve(request.model, additions=additions), request.serve)
    groups = tuple(answer_group(request, group, additions=additions) for group in request.own)
    shared = _plan_shared(request, additions=additions, today=today) if request.workloads else None
    mixed = mixed_rows(request, additions=additions)
    rented = tuple(_rented_beside(request, one, additions) for one in _rented_pools(shared)) if shared else ()
    able = any(group.rows for group in groups) or bool(mixed)
    feasible = able and (shared is None or shared.feasible)
    whole = _electricity(groups)
    binding = shared.binding if shared is not None and not shared.feasible else None
    if not able and binding is None:
        binding = _nothing_runs(groups, request)
    return OwnPlan(
        schema=PLAN_SCHEMA,
        feasible=feasible,
        sentence=_sentence(groups, shared=shared, rented=rented, usd=whole.value if whole else None, binding=binding),
        request=request,
        groups=groups,
        benchmark=TASKS[task_of(request.serve.lengths.profile)][0],
        mixed=mixed,
        shared=shared,
        rented=rented,
        site=site_answer(request, groups, additions=additions),
        electricity=whole,
        measure_first=shared.measure_first if shared is not None else _best_use(groups),
        binding=binding,
        evaluated=shared.evaluated if shared else 0,
        provenance=provenance((), today=today, assumed=_assumptions(request, groups, shared)),
    )


def _best_use(groups: tuple[OwnedAnswer, ...]) -> FirstMeasurement | None:
    """
    The row whose output is known worst: nothing is bought, so a measurement settles what can be promised. None where no
    row has an interval.
    """
    able = [(row, group) for group in groups for row in group.rows[:1] if row.output_tokens_per_s.low]
    if not able:
        return None
    row, group = max(
        able, key=lambda one: (one[0].output_tokens_per_s.high or 0.0) / (one[0].output_tokens_per_s.low or 1.0)
    )
    out = row.output_tokens_per_s
    rival = Rival(
        place=groups.index(group),
        configuration=None,
        cost=lambda _: 0.0,
        margin=math.inf,
        measured=out,
        name="output tokens/s",
        what=f"{model_name(row.model)} {row.weights.upper()} with {row.engine} on {group.name}",
        load=f"{max(1, round(row.concurrency)):,} at once",
        usd=None,
    )
    return narrows(rival, f"until then it is {show(out.low or 0.0, 'count')} to {show(out.high or 0.0, 'count')}")


def _electricity(groups: tuple[OwnedAnswer, ...]) -> Quantity | None:
    """Of all groups working all the time; None where one part's power is not published. [USD/month]"""
    if any(group.usd_per_month is None for group in groups):
        return None
    parts = tuple(
        Quantity(
            name=group.name,
            value=group.usd_per_month or 0.0,
            basis=Basis.ASSUMED,
            source=f"{(group.power_w or 0.0) / 1e3:.3g} kW on average, 730 h",
        )
        for group in groups
    )
    return Quantity.of_parts("USD/month", parts)


def _nothing_runs(groups: tuple[OwnedAnswer, ...], request: Own) -> Verdict:
    """The verdict where no model runs on any group, with the first group's reason."""
    nearest = "host memory beside a card (--host-memory), or fewer bits; `tonnage local --why` says what each lacks"
    if request.model is not None:
        nearest = f"`tonnage fit {request.model}` says what holds it; without --model the best that is served is told"
    if request.serve.precisions:
        nearest = "other formats (--precision), or none stated"
    return refusal("memory", groups[0].none_because, nearest=nearest)


def _plan_shared(request: Own, *, additions: Additions, today: date) -> FleetPlan:
    """All workloads on what is owned, at the price of its power, and on what may be rented."""
    own = [
        machine
        for number, group in enumerate(request.own, 1)
        for machine in _machines(request, group, number, additions)
    ]
    fleet = FleetRequest(workloads=request.workloads, filters=request.serve.filters, own=tuple(own), quick=True)
    return plan_fleet(fleet, additions=additions, today=today)


def _machines(request: Own, group: OwnedGroup, number: int, additions: Additions) -> Iterator[OwnMachine]:
    """A group as machines of one size, and smaller ones for what is left over, at the price of their power."""
    part, left = part_of(group, additions), group.count
    name = f"{group.name} ({number})" if sum(one.name == group.name for one in request.own) > 1 else group.name
    for size in (group.per_node, *(n for n in (8, 4, 2, 1) if n < group.per_node)):
        count = left // size * size
        if not count:
            continue
        power = group_power(request, part, count=size)
        yield OwnMachine(
            name=name if left == group.count else f"{name}, the other {left}",
            accelerator=part.id,
            count=count,
            per_node=size,
            usd_per_hour=power.usd_per_month / HOURS_PER_MONTH if power else 0.0,
        )
        left -= count


def _rented_pools(shared: FleetPlan) -> list[PoolInstances]:
    """Of the fleet, what is not owned."""
    return [one for one in shared.instances if one.term != OWNED]


def _rented_beside(request: Own, one: PoolInstances, additions: Additions) -> Beside:
    """What is rented, and what buying as many would take; rent less the power of owning pays for it."""
    count = max(hour.count for hour in one.hours) * one.accelerators_per_instance
    part = catalog.accelerator(one.accelerator, additions)
    price = _purchase(part.id, count, street=part.street_price_usd)
    power = group_power(request, part, count=max(1, round(count)))
    saved = one.usd_per_month - (power.usd_per_month if power else 0.0)
    return Beside(
        accelerator=one.accelerator,
        accelerators=count,
        provider=one.provider,
        term=one.term,
        usd_per_month=one.usd_per_month,
        purchase_usd=price,
        months=price / saved if price is not None and saved > 0 else None,
    )


def _purchase(part: str, count: float, *, street: float | None) -> float | None:
    """
    Price of as many accelerators: their share of the usual server, else of the boards alone; None where neither is
    known. [USD]
    """
    prices: Mapping[tuple[str, str], object] = catalog.tco()
    for name, server in catalog.servers().items():
        if server.accelerator == part and ("server_price", name) in prices:
            return catalog.parameter("server_price", name).value / server.count * count
    return None if street is None else street * count


def _sentence(
    groups: tuple[OwnedAnswer, ...],
    *,
    shared: FleetPlan | None,
    rented: tuple[Beside, ...],
    usd: float | None,
    binding: Verdict | None,
) -> str:
    """The best model of a few groups, what carries the workloads, and the power bill."""
    best = [
        f"{group.name}: {model_name(group.rows[0].model)} at {group.rows[0].output_tokens_per_s.value:,.0f} tokens/s"
        for group in groups[:3]
        if group.rows
    ]
    more = len([group for group in groups if group.rows]) - len(best)
    said = ["; ".join(best) + (f"; {more} more groups" if more > 0 else "")]
    if not best:
        said = [f"Nothing runs: {binding.reason}" if binding else "Nothing runs"]
    if shared is not None and not shared.feasible:
        said.append(f"The workloads are not carried: {shared.binding.reason if shared.binding else shared.sentence}")
    elif shared is not None and rented:
        names = ", ".join(parts_name(one.accelerators, one.accelerator) for one in rented)
        said.append(f"Short of what the workloads need: rent {names} beside it")
    elif shared is not None:
        said.append("What is owned carries every workload")
    if usd is not None:
        said.append(f"${usd:,.0f} a month of power")
    return ". ".join(said) + "."


def _assumptions(request: Own, groups: tuple[OwnedAnswer, ...], shared: FleetPlan | None) -> list[str]:
    """Everything the answer takes as given that the user did not say."""
    said = [
        f"electricity at ${tariff(request.electricity):.3g}/kWh" + ("" if request.electricity else " (--electricity)"),
        f"power of a group: its first row at the output shown, all the time; what waits draws {percent(IDLE_DRAW)} "
        f"of its "
        "limit; PUE 1.2 in a data centre, 1.0 at a desk",
        f"an hour of what is owned, before its workload is known: {percent(USUAL_LOAD.value)} of the accelerators' "
        f"limit",
        f"rows: the most output at {request.min_speed:g} tokens/s for each request (--min-speed), by averages",
        "data-centre and workstation cards run a serving engine, a person's own cards (and what a workstation's "
        "serving engine does not run) llama.cpp with one request",
    ]
    said += [group.taken for group in request.own if group.taken]
    if request.host_bytes is None and any(row.moved_bytes for group in groups for row in group.rows):
        for text in host_of().assumed:
            own = "; --host-memory says another" if text.startswith("host memory of") else ""
            said.append(text.partition("; --")[0] + own)
    if any(" -m " in row.command for group in groups for row in group.rows):
        said.append(no_files(str(request.model)))
    if request.one_box or request.network_bytes_per_s:
        said.append("models over unlike cards: whole layers, times add, nothing overlaps for one request")
    if request.site_power_w:
        said.append("power caps: 30 % of a board's limit does not depend on its clock, the rest goes with its cube")
    if shared is not None:
        said += [text for text in shared.provenance.assumed if text not in said]
    return said


_AT_HOME: Final = re.compile(r"one card|layers over (\d+)")
"""Layout of a model on a person's own cards, as an `OwnRow` has it."""


_DEGREE: Final = re.compile(r"(tp|pp|dp|ep)(\d+)")


def _degrees(words: Iterable[str]) -> dict[str, int]:
    return {found[1]: int(found[2]) for word in words if (found := _DEGREE.fullmatch(word))}


def runs(plan: OwnPlan, _: Additions) -> Iterator[Run]:
    """The configurations that its numbers rest on, as calibrations know them: the best option first."""
    for group in plan.groups:
        for row in group.rows:
            yield _owned(row, group.accelerator, plan.request.serve.lengths)


def _owned(row: OwnRow, accelerator: str, lengths: Lengths) -> ServeCase:
    """A row as the case that it is; its layout stands there as a table has it."""
    spread = _AT_HOME.fullmatch(row.layout)
    tp = int(spread[1] or 1) if spread else 1
    degrees = {"tp": tp} if spread else _degrees(row.layout.split())
    case = at_once(
        Configuration(
            accelerator=accelerator,
            layout=Layout(**degrees),
            precision=Precision(weights=row.weights),
            engine=Engine(name=(find_engine(row.engine) or unlisted_engine()).name),
        ),
        model=row.model,
        lengths=lengths,
        concurrency=row.concurrency / row.replicas,
    )
    return replace(case, split_mode="layer" if spread and tp > 1 else case.split_mode)
