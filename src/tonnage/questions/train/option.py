"""One rented place, evaluated: its best arrangement, the run over time, the bill, and what stands in its way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, accelerators_text
from tonnage.catalog.failures import interruptions, run_fact, spot_uptime
from tonnage.catalog.spreads import end_within
from tonnage.core import train_estimate as estimate
from tonnage.core.error_model import joint_chance
from tonnage.core.ranking import EVEN
from tonnage.domain.answer import Basis, Quantity, Verdict
from tonnage.domain.model import Model
from tonnage.domain.plan import Bill
from tonnage.domain.refusal import refusal
from tonnage.domain.train_plan import FineTune, Milestone, Run, RunOption, Train, TrainConfiguration, TrainOption
from tonnage.domain.training import TrainSetup
from tonnage.optimize.train_layouts import Found
from tonnage.physics.goodput import checkpoint_write_s, poisson_quantile
from tonnage.pricing.bills import with_spares
from tonnage.pricing.terms import billing_rules, charged_hours, run_lines
from tonnage.questions.rl.question import Rl
from tonnage.questions.train.job import TrainContext
from tonnage.questions.train.machine import storage_line
from tonnage.questions.train.places import InfeasibleRun, Rental
from tonnage.questions.train.search import Place, fastest_arrangements, state_bytes, trained_parameters
from tonnage.simulation.run import Cluster, RunSpec, run_over_time
from tonnage.units import show

if TYPE_CHECKING:
    from tonnage.core.calibration_use import TrainRun


ACCELERATORS_PER_RATED_NODE: Final = 8
SPARES_FROM: Final = 16
"""Instances of a job from which spares are kept when the request does not say; BLOOM kept 4 for 48."""

ROUNDING: Final = 1e-9
"""By which a chance may miss the confidence asked for. [-]"""
Option = TypeVar("Option", bound=RunOption)


def measured_run(miss: InfeasibleRun, *, model: Model, asked: str, additions: Additions) -> Iterator[TrainRun]:
    """What was arranged, as calibrations know it; of what is too large, only where a measured memory had a say."""
    from tonnage.core.calibration_use import TrainRun

    if miss.option is not None:
        yield TrainRun(asked, miss.option.configuration)
    elif (lean := miss.leanest) is not None:
        part = catalog.accelerator(miss.accelerator, additions)
        own = estimate.own_factors(lean, model=model.id, accelerator=part, software=lean.software)
        if "memory_peak_bytes" in own:
            yield TrainRun(asked, lean)


def evaluate(asked: TrainContext, rental: Rental) -> list[TrainOption | InfeasibleRun]:
    """
    One outcome per term that the rental offers.

    Of the arrangements of each kind of software the fastest that has the confidence asked for, and what is faster with
    an even chance; where none has the confidence, the likeliest. Where none fits, one outcome for all terms says why.
    """
    found = fastest_arrangements(
        asked.model, rental.place, job=asked.job, known=asked.known, framework=asked.request.framework
    )
    if not found.best:
        if asked.job.largest_batch is not None and found.smallest is None:
            # Nobody asked for that batch: with a sequence each, is it still the batch that stops them?
            job = replace(asked.job, global_batch=rental.place.count, largest_batch=None)
            wider = fastest_arrangements(
                asked.model, rental.place, job=job, known={}, framework=asked.request.framework
            )
            found = found if wider.best else wider
        return [_no_arrangement(asked, rental, found)]
    return outcomes(asked.request, rental, options_of=partial(_options_of_term, asked, rental, found))


def outcomes(
    request: Train | FineTune | Rl, rental: Rental, *, options_of: Callable[[str], list[Option]]
) -> list[Option | InfeasibleRun]:
    """What is arranged on a rental, on the offers of each term: options, or the deadline or budget that they break."""
    options = [option for term in dict.fromkeys(made.term for made in rental.bills) for option in options_of(term)]
    return [option if (over := beyond(request, option)) is None else rental.misses(over, option) for option in options]


def _options_of_term(asked: TrainContext, rental: Rental, found: Found, term: str) -> list[TrainOption]:
    """
    Of each kind of software, plain scripts or not, the fastest arrangement on the offers of one term that has the
    confidence asked for, and the fastest with an even chance; where none at all has the confidence, the likeliest of
    those within deadline and budget, or of all. `found.best` is ordered fastest first.
    """
    confidence = asked.request.confidence - ROUNDING
    chosen, made = dict[tuple[bool, float], TrainOption](), list[TrainOption]()
    for best in found.best:
        plain = best.setup.software.plain_scripts
        if all((plain, level) in chosen for level in (EVEN, confidence)):
            continue
        option = option_of_setup(asked, rental, setup=best.setup, term=term)
        made.append(option)
        for level in (EVEN, confidence):
            if option.chance >= level:
                chosen.setdefault((plain, level), option)
    if not any(level == confidence for _, level in chosen):
        # A surer arrangement that costs more than the budget is no answer where another keeps it.
        chosen[False, confidence] = max(made, key=lambda o: (beyond(asked.request, o) is None, o.chance))
    return list({id(option): option for option in chosen.values()}.values())


def run_of(
    request: Train | FineTune | Rl,
    setup: TrainSetup,
    *,
    step: Quantity,
    steps: float,
    instances: int,
    instance_size: float,
    term: str,
) -> Run:
    """
    The run over time of so many steps of one setup, each `step` with its interval [s], on `instances` of
    `instance_size` accelerators at one term. Where the request names no spares, as many as 95 % of repairs ask for,
    from `SPARES_FROM` instances on and not on spot.
    """
    assert step.high is not None, "a step has an interval"
    count = setup.layout.ranks
    nodes = max(1.0, count / ACCELERATORS_PER_RATED_NODE)
    rate, restart = interruptions(nodes=nodes), run_fact("detect_and_restart")
    state = trained_parameters(setup) * run_fact("state_per_parameter").value
    write = checkpoint_write_s(
        state_bytes=state,
        storage_bytes_per_s=run_fact("storage_write").value,
        nodes=max(1.0, float(instances)),
        node_bytes_per_s=run_fact("storage_per_node").value,
    )
    blocking = write
    if request.checkpoint == "async":
        blocking = min(write, state / (count * run_fact("staging").value) + run_fact("barrier").value)
    spot = spot_uptime(instances=instances) if term == "spot" else None
    cluster = Cluster(
        nodes=nodes,
        per_node_day=rate.per_node_day,
        per_node_day_low=rate.low,
        per_node_day_high=rate.high,
        restart_s=restart.value,
        restart_low_s=restart.low,
        restart_high_s=restart.high,
        start_s=run_fact("start_up").value,
        spot_up_s=spot.mean_up_s if spot else None,
        spot_down_s=spot.mean_down_s if spot else 0.0,
    )
    spares = request.spares
    if spares is None:
        failing = nodes * rate.per_node_day * run_fact("repair").value / 86400.0
        broken = poisson_quantile(mean=failing, p=0.95) * ACCELERATORS_PER_RATED_NODE / instance_size
        spares = math.ceil(broken) if instances >= SPARES_FROM and term != "spot" else 0
    return run_over_time(
        RunSpec(
            steps=steps,
            step_s=step.value,
            step_factor=step.high / step.value,
            validation=request.validation,
            headroom=request.headroom,
            checkpoint_bytes=state,
            blocking_s=blocking,
            write_s=write,
            cluster=cluster,
            spares=spares,
        )
    )


def timeline(option: TrainOption, *, start: date) -> tuple[Milestone, ...]:
    """
    The run on a calendar that starts on `start`: trials, first step, halves, expected and late end; what never comes is
    left out.
    """
    run = option.run
    trials = run.headroom_s
    main = run.wall_s.value - trials
    points = [
        (0.0, "start: instances up"),
        *([(trials, f"trials and retries use their {show(trials, 's')}; the run starts")] if trials else []),
        (trials + run.start_s, "first step"),
        (trials + main / 2, "half of the steps"),
        (run.wall_s.value, "end, as expected (half of such runs)"),
        (run.wall_p90_s, "end, P90"),
    ]
    return tuple(
        Milestone(after_s=after, what=what, date=_date(start, after)) for after, what in points if after < 1e12
    )


def _date(start: date, after_s: float) -> str:
    try:
        return (start + timedelta(seconds=after_s)).isoformat()
    except OverflowError:
        return ""


def option_of_setup(asked: TrainContext, rental: Rental, *, setup: TrainSetup, term: str) -> TrainOption:
    """One setup on the offers of one term, which the rental must have: its step, its run, its bill."""
    request, place = asked.request, rental.place
    step, basis = estimate.step(setup), estimate.basis(setup)
    bills = [made for made in rental.bills if made.term == term]
    run = run_of(
        request,
        setup,
        step=step,
        steps=asked.job.steps_of(setup.global_batch),
        instances=bills[0].instances,
        instance_size=bills[0].accelerators_per_instance,
        term=term,
    )
    cheapest, cost = cost_of(bills, run, basis=basis, beside=lambda made: storage_line(asked.job, made=made, run=run))
    rate = asked.job.tokens / asked.job.sequences * setup.global_batch / place.count
    option = TrainOption(
        configuration=configuration_of(setup, place),
        accelerators=place.count,
        step_s=step,
        tokens_per_s_per_accelerator=estimate.rate(rate, step, unit="tokens/s"),
        mfu=estimate.mfu(setup, step_s=step.value),
        memory=estimate.memory(setup),
        limit_bytes=place.accelerator.driver_memory_bytes,
        run=run,
        bill=cheapest[0],
        cost=cost,
        basis=str(basis),
        other_offers=cheapest[1:4],
        notes=rental.notes,
    )
    chance = chance_of_run(option, deadline_s=request.deadline_s, budget_usd=request.budget_usd)
    return replace(option, chance=chance, sure=holds(option, chance, confidence=request.confidence))


def cost_of(
    bills: Sequence[Bill],
    run: Run,
    *,
    basis: Basis,
    beside: Callable[[Bill], tuple[Quantity, ...]] = lambda made: (),
) -> tuple[tuple[Bill, ...], Quantity]:
    """
    The bills of a run with its spares, cheapest first, and what the first comes to with its lines `beside` (storage).
    Each end of the interval is the time's end as the provider charges it. [USD]
    """
    with_lines = [
        (made, _lines(made, run), beside(made)) for made in (with_spares(b, spares=run.spares) for b in bills)
    ]
    with_lines.sort(key=lambda one: sum(line.value for line in (*one[1], *one[2])))
    made, lines, stored = with_lines[0]
    share = run.billed_s / run.wall_s.value if 0.0 < run.wall_s.value < math.inf else 1.0
    aside = sum(line.value for line in stored)
    low, high = (_charged_usd(made, (end or 0.0) * share) + aside for end in (run.wall_s.low, run.wall_s.high))
    usd = sum(line.value for line in (*lines, *stored))
    cost = Quantity(value=usd, unit="USD", low=min(usd, low), high=max(usd, high), basis=basis, parts=(*lines, *stored))
    return tuple(bill for bill, _, _ in with_lines), cost


def chance_of_run(
    option: RunOption,
    *,
    deadline_s: float | None,
    budget_usd: float | None,
    wall_s: Quantity | None = None,
    cost: Quantity | None = None,
) -> float:
    """
    Chance that memory fits and deadline and budget are kept, all at once; None limits nothing. [-]

    Time and cost follow from one step time, so that the less likely of them decides; `wall_s` and `cost` replace the
    option's own.
    """
    late = end_within(wall_s or option.run.wall_s, deadline_s)
    dear = end_within(cost or option.cost, budget_usd)
    return round(joint_chance([end_within(option.memory, option.limit_bytes), min(late, dear)]), 12)


def holds(option: TrainOption, chance: float, *, confidence: float) -> bool:
    """
    Whether an option with that chance has the confidence asked for.

    Widths of unmeasured architectures come from measured ones: their chance is no better known than their speed.
    """
    return option.basis == Basis.CALIBRATED and chance >= confidence - ROUNDING


def _charged_usd(made: Bill, billed_s: float) -> float:
    """
    What a run of that length is charged: the provider's steps and its least charge hold for a quick one too. [USD]
    """
    if not math.isfinite(billed_s):
        return math.inf
    rules = billing_rules(catalog.providers().get(made.provider))
    return made.usd_per_hour * charged_hours(billed_s, rules=rules, term=made.term, contract=made.contract)


def _lines(made: Bill, run: Run) -> tuple[Quantity, ...]:
    """
    Cost of the billed hours by what they are spent on, as the provider rounds them, of the job's instances and spares;
    one infinite line where the run never ends. [USD]
    """
    rules = billing_rules(catalog.providers().get(made.provider))
    if not math.isfinite(run.billed_s):
        return (Quantity(name="steps", value=math.inf),)
    hours = charged_hours(run.billed_s, rules=rules, term=made.term, contract=made.contract)
    named = {
        "steps": run.training_s,
        "validation": run.validation_s,
        "start": run.start_s,
        "headroom for retries and experiments": run.headroom_s,
    }
    named["checkpoints and interruptions"] = max(0.0, run.billed_s - sum(named.values()))
    spares = f", {run.spares} spare" if run.spares else ""
    return run_lines(
        named,
        charged_h=hours,
        usd_per_hour=made.usd_per_hour,
        told=f"{made.instances} x {made.usd_per_instance_hour:,.4g} USD/h{spares}",
    )


def configuration_of(setup: TrainSetup, place: Place) -> TrainConfiguration:
    """A setup as answers show it."""
    return TrainConfiguration(
        accelerator=place.accelerator.id,
        count=setup.layout.ranks,
        layout=setup.layout,
        micro_batch=setup.micro_batch,
        num_micro_batches=setup.num_micro_batches,
        seq_len=setup.seq_len,
        recompute=setup.recompute,
        recompute_share=setup.recompute_share,
        precision=setup.precision,
        weights=setup.weights,
        optimizer=setup.optimizer,
        software=setup.software.name,
        method=setup.method,
        intra_link=place.intra_link,
        inter_bytes_per_s=place.inter_bytes_per_s,
    )


_NOWHERE: Final = 1e-3
"""Useful share of its time below which a run is no plan: it takes a thousand times its steps. Chosen. [-]"""


def beyond(request: Train | FineTune | Rl, option: RunOption) -> Verdict | None:
    """
    What stops an option: interruptions that leave hardly any useful time, else the deadline, else the budget, by how
    much it is missed; None where both are kept.
    """
    deadline, budget = request.deadline_s, request.budget_usd
    name = accelerators_text(option)
    wall, usd = option.run.wall_s.value, option.cost.value
    if option.run.useful_time_fraction.value < _NOWHERE:
        between = show(option.run.between_s, "s")
        return refusal(
            "interruptions",
            f"{name} is interrupted every {between} and gets nowhere",
            nearest="fewer instances, or on-demand",
        )
    if deadline is not None and wall > deadline:
        return refusal(
            "deadline",
            f"{name} takes {show(wall, 's')}, and {show(deadline, 's')} are allowed",
            short_by=wall - deadline,
            nearest=f"deadline {show(wall, 's')} on {name} for {show(usd, 'USD')}",
        )
    if budget is not None and usd > budget:
        return refusal(
            "budget",
            f"{name} costs {show(usd, 'USD')}, and {show(budget, 'USD')} are allowed",
            short_by=usd - budget,
            nearest=f"budget {show(_rounded_up(usd), 'USD')} on {name} in {show(wall, 's')}",
        )
    return None


def _rounded_up(usd: float) -> float:
    """To the next dollar, or cent of a small sum: a budget that, typed as it is shown, buys the run. [USD]"""
    return math.ceil(usd) if usd >= 1000.0 else math.ceil(usd * 100.0) / 100.0


def _no_arrangement(asked: TrainContext, rental: Rental, found: Found) -> InfeasibleRun:
    """Why nothing can be arranged: memory, or a batch that the accelerators cannot share."""
    place = rental.place
    if found.smallest is None:
        usual = asked.job.largest_batch is not None
        default = f" (the default; --global-batch {place.count} sets another)" if usual else ""
        verdict = refusal(
            "layout",
            f"a global batch of {asked.job.global_batch} sequences{default} cannot be spread over {rental.what}",
            nearest=f"at most {asked.job.global_batch} accelerators, or a larger batch",
        )
        return rental.misses(verdict)
    state = state_bytes(found.smallest)
    each = place.accelerator.driver_memory_bytes
    left = place.count * each - state
    have = f"{place.count} x {show(each, 'bytes')}"
    room = (
        f"; {have} leave {show(left, 'bytes')} for activations and buffers"
        if left > 0
        else f", more than available: {have}"
    )
    verdict = refusal(
        "memory",
        f"needs {show(state, 'bytes')} of states{room}, and the leanest "
        f"layout ({found.smallest.layout.sharding}) is {show(found.short_bytes, 'bytes')} short on its fullest",
        short_by=found.short_bytes,
    )
    return rental.misses(verdict, leanest=configuration_of(found.smallest, place))
