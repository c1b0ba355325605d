"""
The words of a training plan: why it leads, what others cost, what binds, and what would change it.

Every sentence is made from the plan's own numbers; nothing here decides anything. Break-even points change no step, so
that everything already arranged is asked again: which of it is in time, which within the money, which is then the
cheapest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tonnage.catalog import accelerators_text, model_name, part_name, seller
from tonnage.catalog.spreads import chance_within
from tonnage.core.break_even import Axis, Contender, break_even_along, break_even_prices
from tonnage.core.header import COMMUNITY, names_taken, what_if
from tonnage.core.ranking import at_risk
from tonnage.domain.answer import Quantity
from tonnage.domain.plan import BreakEven, Decision
from tonnage.domain.precision import number_format
from tonnage.domain.train_plan import FineTune, Train, TrainOption
from tonnage.questions.train.job import PATIENCE_S, TrainContext
from tonnage.questions.train.machine import storage_text
from tonnage.questions.train.option import ROUNDING, chance_of_run, holds
from tonnage.questions.train.scaling import setup_of
from tonnage.questions.train.search import state_bytes, trained_parameters
from tonnage.units import percent, show, whole_percent

MOSTLY: Final = 0.05
"""By how much the chance of memory may exceed that of everything at once, to be the reason for it. [-]"""


def purpose(request: Train | FineTune) -> str:
    """The job in a few words."""
    if isinstance(request, Train):
        return f"train {model_name(request.model)} on {show(request.tokens, 'tokens')}"
    how = "fine-tune in full" if request.method == "full" else f"fine-tune with {request.method}"
    return f"{how}: {model_name(request.model)}"


def sentence(options: tuple[TrainOption, ...]) -> str:
    """The answer in one sentence."""
    best = options[0]
    run, made = best.run, best.bill
    old = ", an old price: check it" if made.stale else ""
    more = f", {run.spares} spare instances" if run.spares else ""
    useful = run.useful_time_fraction.value
    return (
        f"Rent {accelerators_text(best)} ({best.configuration.layout.label}, "
        f"{best.configuration.software}{more}) for {_show_bounds(run.wall_s)}: {_show_bounds(best.cost)} "
        f"at {seller(made)} ({made.term}, {show(made.usd_per_hour, 'USD/h')}, {made.as_of}{old}); "
        f"MFU {percent(best.mfu)}{_of_peak(best)}, training goodput {percent(useful, 1)}."
    )


def _of_peak(option: TrainOption) -> str:
    """What utilisation is counted on where products are narrower than that."""
    return " of the 16-bit peak" if number_format(option.configuration.precision).bits < 16 else ""


def describe_option(option: TrainOption) -> str:
    """An option in a few words."""
    return f"{_describe(option, option.run.wall_s, option.cost)} ({option.bill.term})"


def cheaper_at_risk(options: tuple[TrainOption, ...]) -> str:
    """The cheapest option that may miss, or that rests on no measured training, when it costs less than the first."""
    best = at_risk(options)
    if best is None:
        return ""
    told = f"{accelerators_text(best)} for {_show_bounds(best.cost)} in {show(best.run.wall_s.value, 's')}"
    return f"{told}: {_risk(best)}"


def ratios(option: TrainOption, known: str, *, first: TrainOption) -> str:
    """Its cost, with the interval of a tie, and time over the first's."""
    cost, time = option.cost.value / first.cost.value, option.run.wall_s.value / first.run.wall_s.value
    return f"{cost:.2f}x the first's cost{known}, {time:.2f}x its time"


def risk(option: TrainOption, *, first: TrainOption) -> str:
    """What may go wrong with an option that the first does not risk."""
    return "" if option.sure or not first.sure else _risk(option)


def _risk(option: TrainOption) -> str:
    """
    What an option that is not sure may miss: its speed is unmeasured, its memory nearly full, or its time and cost.
    """
    if option.basis != "calibrated":
        return "no training speed of this architecture has been published, so its peak is scaled by a general share"
    fits = chance_within(option.memory, option.limit_bytes)
    if fits - option.chance < MOSTLY:
        full = option.memory.value / option.limit_bytes
        return f"its peak fills {percent(full)} of the memory, which holds it with {whole_percent(fits)} only"
    return (
        f"keeps deadline and budget with {whole_percent(option.chance)} only; P90 of its time is "
        f"{show(option.run.wall_p90_s, 's')}"
    )


def lead_reason(asked: TrainContext, first: TrainOption, *, least: str = "cheapest") -> str:
    """Why the first option leads, by what the request limits; `least` says of what it has the least."""
    request = asked.request
    certain = f"with a chance of {whole_percent(first.chance)}"
    certain += "" if first.sure else f", and none has {whole_percent(request.confidence)}"
    if request.deadline_s is not None and request.budget_usd is not None:
        return f"{least} that meets deadline and budget {certain}"
    if request.deadline_s is not None:
        return f"{least} that ends within {show(request.deadline_s, 's')} {certain}"
    patience, fits = PATIENCE_S[asked.job.kind], f"and fits into memory {certain}"
    if request.budget_usd is not None:
        fits = f"within {show(request.budget_usd, 'USD')} {fits}"
    if first.run.wall_s.value <= patience:
        return f"{least} that ends within {show(patience, 's')} (no deadline given) {fits}"
    return f"{least} {fits}; none as sure ends within {show(patience, 's')}"


def arithmetic(option: TrainOption) -> str:
    """How time and rental of an option come about."""
    run = option.run
    spare = f" with {run.spares} spare" if run.spares else ""
    count = option.bill.instances
    return (
        f"{run.steps:,.0f} steps of {show(option.step_s.value, 's')}, {percent(run.useful_time_fraction.value, 1)} "
        f"goodput; "
        f"{count} instance{'' if count == 1 else 's'}{spare} at {show(option.bill.usd_per_instance_hour, 'USD/h')} for "
        f"{show(run.billed_s, 's')}"
    )


def trail(asked: TrainContext, options: tuple[TrainOption, ...]) -> tuple[Decision, ...]:
    """The four questions (C2): one accelerator? how soon? how much at once? restartable?"""
    request, best = asked.request, options[0]
    single = [o for o in options if o.accelerators == 1]
    if single:
        alone = single[0]
        because = f"{part_name(alone.configuration.accelerator)} needs {show(alone.memory.value, 'bytes')}"
        fits = Decision(question="Does it fit one accelerator?", answer="yes", because=because)
    else:
        fits = Decision(question="Does it fit one accelerator?", answer="no", because=_too_much_for_one(asked, best))
    when = "no deadline given" if request.deadline_s is None else f"within {show(request.deadline_s, 's')}"
    soon = Decision(
        question="When must it be done?",
        answer=when,
        because=f"{accelerators_text(best)} take {show(best.run.wall_s.value, 's')}, "
        f"P90 {show(best.run.wall_p90_s, 's')}",
    )
    load = Decision(
        question="How is the load spread?",
        answer=best.configuration.layout.label,
        because=f"global batch {best.configuration.global_batch:,} as {best.configuration.micro_batch} x "
        f"{best.configuration.num_micro_batches} per rank, recompute {best.configuration.recompute}",
    )
    run = best.run
    again = Decision(
        question="Can it be interrupted?",
        answer="yes" if request.restartable else "no",
        because=f"{run.interruptions:.1f} interruptions expected, a checkpoint every "
        f"{show(run.checkpoint_interval_s, 's')} blocks {show(run.blocking_s, 's')}; restart "
        f"{show(run.recovery_s, 's')}",
    )
    return fits, soon, load, again


def _too_much_for_one(asked: TrainContext, best: TrainOption) -> str:
    """Memory if it is memory, else time."""
    state = state_bytes(setup_of(asked, best))
    if state > best.limit_bytes:
        name, memory = part_name(best.configuration.accelerator), show(best.limit_bytes, "bytes")
        return f"states alone are {show(state, 'bytes')}, and {name} has {memory}"
    return "one would take too long, cost more, or hold no useful batch"


def assumptions(asked: TrainContext, options: tuple[TrainOption, ...]) -> tuple[str, ...]:
    """Everything the answer takes as given that the user did not say."""
    request = asked.request
    said = [*asked.model.assumed, *asked.job.assumed]
    if request.deadline_s is None:
        patience = show(PATIENCE_S[asked.job.kind], "s")
        limits = "no deadline and no budget" if request.budget_usd is None else "no deadline"
        said.append(f"{limits}: runs of at most {patience} first, the cheapest of them")
    said.append(
        f"{percent(request.validation, 1)} of training time for validation, {percent(request.headroom)} of the run "
        f"as headroom for "
        f"retries and experiments, checkpoints {'asynchronous' if request.checkpoint == 'async' else 'synchronous'}"
    )
    if options:
        run, nodes = options[0].run, options[0].accelerators / 8
        said.append(
            f"a job-stopping interruption every {show(run.between_s, 's')} at {max(1.0, nodes):g} nodes of eight: "
            "published rates of clusters, not of this provider"
        )
        said.append(storage_text(options[0], parameters=trained_parameters(setup_of(asked, options[0]))))
        said += options[0].notes
    said += [*names_taken(request.filters, asked.additions), *what_if(asked.additions)]
    if not request.filters.community:
        said.append(COMMUNITY)
    said.append("prices exclude VAT; list prices, not stock")
    return tuple(said)


def _show_bounds(quantity: Quantity) -> str:
    if quantity.low is None or quantity.high is None:
        return _show_value(quantity.value, quantity.unit)
    low, high = (_show_value(end, quantity.unit, digits=2) for end in (quantity.low, quantity.high))
    return f"{_show_value(quantity.value, quantity.unit)} ({low}-{high})"


def _show_value(value: float, unit: str, *, digits: int = 3) -> str:
    """Millions of dollars by their leading digits: the others are within the error."""
    for letter, size in (("B", 1e9), ("M", 1e6)):
        if unit == "USD" and size <= value < 1e12:
            return f"${value / size:.3g}{letter}"
    return show(value, unit, digits=digits)


MAX_OPTIONS: Final = 60
"""Arranged options that are asked again, by cost."""
NOTHING: Final = "nothing that was looked at does it"


def train_break_even(
    options: Sequence[TrainOption],
    *,
    evaluated: Iterable[TrainOption],
    deadline_s: float,
    budget_usd: float | None,
    stated: bool,
    confidence: float,
) -> tuple[BreakEven, ...]:
    """
    Every input at which the first option stops being the first.

    Parameters
    ----------
    options : sequence of TrainOption
        Ranked.
    evaluated : iterable of TrainOption
        Everything that was arranged, in time and within the money or not.
    deadline_s : float
        By which the run shall end: the request's, else what is called patience. [s]
    budget_usd : float, optional
    stated : bool
        Whether the deadline is the request's own.
    confidence : float
        The least chance of fitting and of keeping both. [-]
    """
    cheapest = sorted((o for o in evaluated if math.isfinite(o.cost.value)), key=lambda o: o.cost.value)[:MAX_OPTIONS]
    contenders_at = _value_function(cheapest, stated=stated, confidence=confidence)
    found = [*break_even_prices(options)]
    if stated:
        least = min(option.run.wall_s.value for option in cheapest)
        until = Axis(name="deadline", now=deadline_s, unit="s", least=least)
        found += break_even_along(until, at=lambda s: contenders_at(s, budget_usd, 1.0), nothing=NOTHING)
    if budget_usd is not None:
        spent = Axis(name="budget", now=budget_usd, unit="USD")
        found += break_even_along(spent, at=lambda usd: contenders_at(deadline_s, usd, 1.0), nothing=NOTHING)
    run, c = options[0].run, options[0].configuration
    tokens = run.steps * c.global_batch * c.seq_len
    # Beyond what the fastest arranged option does in time, larger counts would have to be looked at.
    most = tokens * deadline_s / min(option.run.wall_s.value for option in cheapest)
    longer = Axis(name="tokens to train on", now=tokens, unit="tokens", most=most)
    found += break_even_along(longer, at=lambda n: contenders_at(deadline_s, budget_usd, n / tokens), nothing=NOTHING)
    return tuple(found)


def _value_function(
    cheapest: Sequence[TrainOption], *, stated: bool, confidence: float
) -> Callable[[float, float | None, float], list[Contender]]:
    """
    A function of deadline [s], budget [USD or None] and multiple of the work; it gives what keeps both, with its cost.
    """

    def at(deadline_s: float, budget_usd: float | None, work: float) -> list[Contender]:
        """What keeps this deadline and budget at so many times the work."""
        found = []
        for option in cheapest:
            wall, usd = _times(option.run.wall_s, work), _times(option.cost, work)
            if wall.value > deadline_s or (budget_usd is not None and usd.value > budget_usd):
                continue
            until = deadline_s if stated else None
            chance = chance_of_run(option, deadline_s=until, budget_usd=budget_usd, wall_s=wall, cost=usd)
            found.append(
                Contender(
                    name=accelerators_text(option),
                    cost=usd,
                    told=_describe(option, wall, usd),
                    sure=holds(option, chance, confidence=confidence),
                    chance=None if chance >= confidence - ROUNDING else chance,
                    listed=option.bill.trust == "primary",
                    configuration=option.configuration,
                )
            )
        return found

    return at


def _times(quantity: Quantity, work: float) -> Quantity:
    """So many times the work takes so many times as long and as much: start-up is a matter of minutes."""
    low, high = (end * work if end is not None else None for end in (quantity.low, quantity.high))
    return Quantity(value=quantity.value * work, unit=quantity.unit, low=low, high=high, basis=quantity.basis)


def _describe(option: TrainOption, wall: Quantity, usd: Quantity) -> str:
    return f"{accelerators_text(option)} for {show(usd.value, 'USD')} in {show(wall.value, 's')}"
