"""
Do the numbers of one answer agree? Every contradiction between fields of a plan, or on its first screen, as a sentence.

    python -m tools.consistent [--questions N] [--seed S]

asks every example of `examples/` and N questions of each kind drawn as for `tools.choices`, as JSON has them, as a
terminal shows them, and those drawn as the page renders them, each option of its table chosen in turn
(`tools.rendered`). The exit code is 1 where anything contradicts.
"""

from __future__ import annotations

import argparse
import io
import math
import random
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Any, Final

from msgspec.structs import replace
from tools.choices import KINDS, TODAY, kind_of
from tools.rendered import contradictions_between

from tonnage.catalog.spreads import chance_of, end_within
from tonnage.core.ranking import EVEN, NEAR, Traits, traits_of
from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.calibration import FirstMeasurement
from tonnage.domain.metrics import objectives
from tonnage.domain.plan import PlanHeader, RankedOption, RankedPlan, ServeOption
from tonnage.domain.train_plan import RunOption, TrainOption
from tonnage.errors import TonnageError
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.questions.answers import document_of
from tonnage.questions.ask import answer
from tonnage.questions.train.job import PATIENCE_S
from tonnage.report.terminal import print_blocks

ROUNDED: Final = 1e-6
CLOSE: Final = 0.005
"""Of a chance that is said in whole per cent. [-]"""
STEP: Final = 0.04
"""More than a chance of one of forty equally likely results is off. [-]"""
READ_OFF: Final = 0.01
"""Of a service's chance, which is read off forty steady states, from that of the interval of one. [-]"""
LIKELY: Final = 0.95
"""Chance of being below the upper end of a 90 % interval. [-]"""
SHOWN: Final = 0.02
"""What three printed digits may be off, and two factors of a product together. [-]"""
EXPONENT: Final = re.compile(r"\de[+-]?\d")
RENTED: Final = re.compile(
    r"\$(?P<cost>[\d,.]+)(?P<k>[kM]?) in [\d,.]+ \w+ \((?P<took>[\d,.]+) (?P<unit>s|min|h|days) at "
    r"\$(?P<rate>[\d,.]+)/h(?: \+ \$(?P<beside>[\d,.]+) storage)?\)"
)
SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0}


def contradictions(plan: PlanHeader[Any]) -> list[str]:
    """What contradicts among the fields of a plan; empty where nothing does, or where the kind ranks no options."""
    if not isinstance(plan, RankedPlan):
        return []
    found = [f"option {i}: {said}" for i, o in enumerate(plan.options, 1) for said in _of_option(plan.request, o)]
    first = plan.measure_first
    measured = list(_of_measurement(first)) if first is not None else []
    return found + list(_of_choices(plan)) + list(_of_order(plan)) + measured


def _of_option(request: Any, option: Any) -> Iterator[str]:
    """Of one option: parts and sums, limits, chances."""
    if not isinstance(option, RankedOption):
        return
    yield from _of_quantities(option)
    yield from _of_chance(request, option)
    bill = option.bill
    if isinstance(option, ServeOption):
        if not math.isclose(option.cost.value, bill.usd_per_hour, rel_tol=ROUNDED):
            yield f"costs {option.cost.value} USD/h, and its bill {bill.usd_per_hour}"
        if not math.isclose(option.usd_per_month, option.cost.value * HOURS_PER_MONTH, rel_tol=ROUNDED):
            yield f"costs {option.usd_per_month} USD a month at {option.cost.value} USD/h"
        budget = request.budget_usd_per_h
        if budget is not None and bill.usd_per_hour > budget * (1.0 + ROUNDED):
            yield f"costs {bill.usd_per_hour} USD/h of {budget} allowed"
        if option.replicas * option.configuration.ranks != option.accelerators:
            yield f"{option.replicas} replicas of {option.configuration.ranks} are {option.accelerators} accelerators"
    elif isinstance(option, RunOption | BatchOption):
        wall = option.wall_s.value if isinstance(option, BatchOption) else option.run.wall_s.value
        if request.budget_usd is not None and option.cost.value > request.budget_usd * (1.0 + ROUNDED):
            yield f"costs {option.cost.value} USD of {request.budget_usd} allowed"
        if request.deadline_s is not None and wall > request.deadline_s * (1.0 + ROUNDED):
            yield f"takes {wall} s of {request.deadline_s} allowed"
    if bill.accelerators + 1e-9 < option.accelerators:
        yield f"{option.accelerators} accelerators at work on {bill.accelerators} rented"
    if isinstance(option, TrainOption) and not 0.0 < option.mfu <= 1.0:
        yield f"MFU {option.mfu}"


def _of_quantities(option: RankedOption[Any]) -> Iterator[str]:
    """Intervals hold their values, and parts of money add up."""
    for name in option.__struct_fields__:
        value = getattr(option, name)
        if not isinstance(value, Quantity):
            continue
        low, high = value.low, value.high
        if low is not None and high is not None and not low <= value.value * (1 + ROUNDED) <= high * (1 + ROUNDED) ** 2:
            yield f"{name} {value.value} is outside {low} to {high}"
        if name == "cost" and value.parts:
            whole = sum(part.value for part in value.parts)
            if not math.isclose(whole, value.value, rel_tol=ROUNDED):
                yield f"cost {value.value} of parts that are {whole}"


def _of_chance(request: Any, option: RankedOption[Any]) -> Iterator[str]:
    """The chance of everything is at most that of each limit, and at least the confidence where it is sure."""
    chance = option.chance
    if chance is None:
        return
    if not 0.0 <= chance <= 1.0:
        yield f"chance {chance}"
    if option.sure and chance < request.confidence - ROUNDED:
        yield f"sure with {chance} of {request.confidence}"
    if isinstance(option, ServeOption):
        # Queues bend what lies between the ends of an interval: only the ends say how likely a limit is.
        for metric, most in objectives(request.slo):
            latency = getattr(option.capacity, metric.name, None)
            if latency is not None and chance > LIKELY + READ_OFF and (latency.high or 0.0) > most * (1.0 + SHOWN):
                yield f"meets everything with {chance:.4f}, and {metric.name} may be {latency.high} of {most}"
        return
    if isinstance(option, RunOption):
        for name, quantity, limit in (
            ("memory", option.memory, option.limit_bytes),
            ("time", option.run.wall_s, request.deadline_s),
            ("cost", option.cost, request.budget_usd),
        ):
            alone = chance_of(end_within(quantity, limit))
            if chance > alone + CLOSE:
                yield f"keeps everything with {chance:.4f} and {name} alone with {alone:.4f}"


def _of_choices(plan: RankedPlan[Any, Any]) -> Iterator[str]:
    """A choice is what its name says, among the options of the plan."""
    traits = [_traits(plan, option) for option in plan.options]
    if not traits:
        return
    first = traits[0]

    def alike(one: Traits) -> bool:
        return (one.listed or not first.listed) and (first.late or not one.late)

    def able(one: Traits) -> bool:
        return (one.sure or not first.sure) and alike(one)

    named = {choice.name: traits[choice.option] for choice in plan.choices}
    if len({choice.option for choice in plan.choices}) < len(plan.choices):
        yield "one option is two choices"
    if first.sure:
        for name, among in (
            ("cheapest", [one for one in traits if able(one)]),
            ("even", [one for one in traits if alike(one) and (one.sure or (one.chance or 0.0) >= EVEN)]),
        ):
            if name in named and named[name].usd > min(one.usd for one in among) * (1.0 + ROUNDED):
                yield f"{name} costs {named[name].usd}, another {min(one.usd for one in among)}"
    if "fastest" in named:
        near = [one for one in traits if able(one) and one.usd <= NEAR * first.usd]
        if named["fastest"].seconds > min(one.seconds for one in near) * (1.0 + ROUNDED):
            yield "another is faster than the fastest"


def _of_measurement(found: FirstMeasurement) -> Iterator[str]:
    """A result on the far side of the prediction is the less likely half; of two ends the lower stands first."""
    if found.above is not None and found.below is not None:
        if not found.above < found.below:
            yield f"measures between {found.above} and {found.below}"
        return
    limit = found.above if found.above is not None else found.below
    if limit is None or found.predicted is None:
        return
    likely = (limit < found.predicted) == (found.above is not None)
    if (found.chance < 0.5) == likely and abs(found.chance - 0.5) > STEP:
        yield f"measures {found.predicted}, and {found.chance} is the chance of {limit} and beyond"


def _traits(plan: RankedPlan[Any, Any], option: Any) -> Traits:
    """The traits of an option; a run without a limit that ends beyond what its kind may take is late."""
    limited = any(getattr(plan.request, name, None) is not None for name in ("deadline_s", "budget_usd"))
    late = isinstance(option, TrainOption) and not limited and option.run.wall_s.value > PATIENCE_S[plan.kind]
    return replace(traits_of(plan.request, option), late=late)


def _of_order(plan: RankedPlan[Any, Any]) -> Iterator[str]:
    """Options with the confidence asked for stand before the others."""
    sure = [option.sure for option in plan.options if isinstance(option, RankedOption)]
    if sure != sorted(sure, reverse=True):
        yield "an option that is not sure stands before one that is"


def screen_of(answered: Any) -> str:
    """The first screen as a terminal of 160 columns shows it."""
    out = io.StringIO()
    with redirect_stdout(out):
        print_blocks(document_of(answered).first, width=160)
    return out.getvalue()


def contradictions_on(screen: str) -> list[str]:
    """What contradicts among printed numbers: exponents, and products that do not come to what stands beside them."""
    found = [f"an exponent: {one}" for one in EXPONENT.findall(screen)]
    flat = " ".join(screen.split())
    for one in RENTED.finditer(flat):
        number = {name: float((one[name] or "0").replace(",", "")) for name in ("cost", "took", "rate", "beside")}
        usd = number["cost"] * {"": 1.0, "k": 1e3, "M": 1e6}[one["k"]]
        product = number["took"] * SECONDS[one["unit"]] / 3600.0 * number["rate"] + number["beside"]
        if abs(usd - product) > SHOWN * usd + 0.01:
            found.append(f"{one[0]} comes to ${product:,.2f}")
    return found


def asked(questions: int, *, seed: int) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Questions of each kind drawn at random: kind, fields, answer; refused ones are left out."""
    for kind, draws in KINDS.items():
        draw = random.Random(seed)
        for _ in range(questions):
            fields = draws(draw)
            try:
                yield kind, fields, answer(kind_of(fields), fields, today=TODAY)
            except TonnageError:
                continue


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what contradicts and how many answers were looked at; 1 where anything does."""
    from tests.report.examples import answered, names

    parser = argparse.ArgumentParser(prog="python -m tools.consistent", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--questions", type=int, default=40, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    looked = rendered = bad = 0
    drawn = asked(given.questions, seed=given.seed)
    for name, fields, plan in [*((name, {}, answered(name)) for name in names()), *drawn]:
        looked, rendered = looked + 1, rendered + bool(fields)
        said = [*(contradictions(plan) if isinstance(plan, PlanHeader) else ()), *contradictions_on(screen_of(plan))]
        said += contradictions_between(plan, path=f"plan/{kind_of(fields)}", given=fields) if fields else []
        bad += bool(said)
        for one in said:
            print(f"{name} {fields or ''}: {one}", flush=True)
    print(f"{looked} answers, {rendered} of them drawn and rendered, {bad} with contradictions")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
