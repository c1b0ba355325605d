"""What runs today and what should run, and what to change in a service, as documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from tonnage.catalog import accelerators_text, model_name, parts_name, provider_name
from tonnage.domain.metrics import SPEEDS, Metric
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.domain.train_plan import TrainOption
from tonnage.engines.registry import engine_title
from tonnage.questions.adopt.question import Action, Adoption, Advice, Running, State
from tonnage.questions.registry import kind_of_answer
from tonnage.report.charts.chart import Chart, along, axis, limit_line, log_axis, named_points
from tonnage.report.document import (
    Block,
    Command,
    Document,
    Headline,
    Meter,
    Meters,
    Note,
    Table,
    Text,
    document,
    grid,
)
from tonnage.report.wording import chance_text, degrees, money, plural
from tonnage.units import percent, show

MOST_SETTINGS: Final = 10
"""On the first screen; all of them stand under --why."""
QUIET: Final = frozenset({"model", "block_tokens", "save_steps", "file"})
"""Settings that say little of speed and cost."""
SHOWN: Final = 3
ASSUMED: Final = 2
"""Findings and assumptions on the first screen, of these one fewer where changes are told; the rest: --why."""


def adoption_document(answer: Adoption) -> Document:
    """The adoption as blocks."""
    running = answer.running
    return document(
        Text(_read(running), kind="asked"),
        _lead(answer),
        _today_and_better(answer),
        Text(f"New beside today's: {', '.join(answer.changes)}; compare answers first.", kind="check")
        if answer.changes
        else None,
        (Text(f"! {finding}", kind="check") for finding in answer.findings[:SHOWN]),
        (Text(f"assumed: {text}", kind="fact") for text in _telling(answer)[: ASSUMED - bool(answer.changes)]),
        Text(f"! Unknown to {running.program}: {', '.join(running.unknown)}", kind="check")
        if running.unknown
        else None,
        f"{answer.upgrade.name}: {answer.upgrade.change}" if answer.upgrade else None,
        Command(answer.command) if answer.command else None,
        why={
            "Answer": answer.sentence,
            "Settings that were read": [f"{s.written}: {s.name} {s.value}" for s in running.settings],
            "Where it runs": running.machine.words,
            "What was noticed": answer.findings,
            "Assumptions": answer.assumed,
            "Settings that change no number here": running.ignored,
            "Settings that the listed release does not know": running.unknown,
            "Today": answer.current.sentence if answer.current is not None else None,
            "Better": answer.better.sentence if answer.better is not None else None,
            "Upgrade": _line(answer.upgrade) if answer.upgrade is not None else None,
        },
    )


def _telling(answer: Adoption) -> list[str]:
    """What was assumed, the load and the objectives, on which most rests, first."""
    return sorted(answer.assumed, key=lambda text: not text.startswith(("load", "objectives")))


def _lead(answer: Adoption) -> tuple[Block, ...]:
    """
    What should run as its own plan's page says it, and what that saves; the sentence alone where what runs today
    cannot go on as it is.
    """
    today, plan = answer.current, answer.leading
    if today is None or plan is None:
        return (Headline(answer.sentence, good=answer.feasible),)
    kind = kind_of_answer(plan)
    assert kind is not None, "it is a plan"
    page, best, runs = kind.find("page", "PAGE"), plan.options[0], today.options[0]
    now = f"{accelerators_text(runs)} at {show(runs.bill.usd_per_hour, 'USD/h')} ({provider_name(runs.bill.provider)})"
    head, saved = page.answer(plan, best), Meter("instead", "nothing cheaper does the same")
    if answer.saving:
        usd, share = money(answer.saving.usd), percent(answer.saving.share)
        per = "a month" if answer.saving.unit == "month" else "on the run"
        saved = Meter("saves", f"{usd} {per} ({share}), against {now} today")
    else:
        head = replace(head, text=f"Keep {head.text}")
    return (head, Meters((*page.meters(plan, best), saved)))


def adoption_charts(answer: Adoption) -> tuple[Chart | None, ...]:
    """What runs today, ringed, among the options of the better plan; nothing where either is missing."""
    current, better = answer.current, answer.better
    if current is None or better is None or not current.options:
        return ()
    both = replace(better, options=(*better.options, *current.options))
    kind = kind_of_answer(both)
    assert kind is not None, "both are plans"
    chart = kind.find("page", "PAGE").charts(both, len(both.options))[0]
    return (chart and replace(chart, title="What runs today (ringed), and what would do the same"),)


def _read(running: Running) -> str:
    """What the file is, and the settings that count, in a line or two."""
    telling = [s for s in running.settings if s.name not in QUIET and s.value not in (1, "auto")]
    words = [f"{setting.name} {setting.value}" for setting in telling[:MOST_SETTINGS]]
    words += [f"{len(telling) - MOST_SETTINGS} more"] if len(telling) > MOST_SETTINGS else []
    release = f" {running.version}" if running.version else ""
    many = "{} to {} replicas".format(*running.scaled) if running.scaled else plural(running.replicas, "replica")
    copies = f", {many}" if running.kind == "serve" else ""
    program = engine_title(running.program)
    model = model_name(running.model) if running.model else "a network by its widths"
    return f"Read: {running.format}, {program}{release}, {model}{copies}: " + ", ".join(words)


def _today_and_better(answer: Adoption) -> Table:
    """
    Today's option and those of the better plan, a row each: cost a month of servers, of the whole run in training.
    """
    rows: list[tuple[str, ...]] = []
    if answer.current is not None:
        rows.append(_row("today", answer.current.options[0]))
    for label, option in _better(answer):
        rows.append(_row(label, option))
    if isinstance(answer.current or answer.better, ServePlan):
        p = f"p{(answer.current or answer.better).request.slo.percentile:g}"  # type: ignore[union-attr]
        numbers = ("$/month>", *(f"{metric.title} {p}" for metric in SPEEDS), "req/s", "meets>")
    else:
        numbers = ("$ run>", "step", "MFU", "time")
    return grid(("", "accelerators", "layout~", "$/h>", *numbers, "provider<2"), rows)


def _better(answer: Adoption) -> list[tuple[str, Any]]:
    """
    The better plan's first option, the best at today's provider where that saves too, and the best on today's
    accelerators where it is another; empty without a better plan.
    """
    if answer.better is None or not answer.better.options:
        return []
    options = answer.better.options
    found: list[tuple[str, Any]] = [("better" if answer.saving or answer.current is None else "next", options[0])]
    if _cheaper_nearby(answer):
        assert answer.sides.nearby is not None
        found.append(("same provider", answer.sides.nearby.options[0]))
    if answer.current is not None:
        own = answer.current.options[0].configuration.accelerator
        same = next((option for option in options if option.configuration.accelerator == own), None)
        if same is not None and all(same is not option for _, option in found):
            found.append(("same accelerator", same))
    return found


def _cheaper_nearby(answer: Adoption) -> bool:
    """Whether staying at today's provider saves something, too."""
    if answer.sides.nearby is None or not answer.sides.nearby.options or answer.current is None:
        return False
    return answer.sides.nearby.options[0].cost.value < answer.current.options[0].cost.value


def _row(label: str, option: ServeOption | TrainOption) -> tuple[str, ...]:
    """
    An option's row under a label: of a server the USD of a month and the rate that all replicas carry together [1/s],
    of a job the USD and the time of the whole run.
    """
    price = f"{option.bill.usd_per_hour:,.2f}"
    where = provider_name(option.bill.provider)
    if isinstance(option, ServeOption):
        seen, c = option.capacity, option.configuration
        most = option.replicas * seen.max_rate_per_s.value
        return (
            label,
            accelerators_text(option),
            f"{option.replicas}x{degrees(c)} {c.precision.stored.upper()}",
            price,
            f"{option.usd_per_month:,.0f}",
            *(show(getattr(seen, metric.name).value, metric.unit, digits=2) for metric in SPEEDS),
            show(most, "count"),
            chance_text(option.chance),
            where,
        )
    return (
        label,
        accelerators_text(option),
        option.configuration.layout.label,
        price,
        f"{option.cost.value:,.0f}",
        show(option.step_s.value, "s"),
        percent(option.mfu),
        show(option.run.wall_s.value, "s"),
        where,
    )


ACTIONS_SHOWN = 5
"""Actions on the first screen; the rest stand under --why."""


def advice_document(answer: Advice, *, most: int | None = None) -> Document:
    """The advice as blocks; `most` actions, None = as many as a first screen has."""
    shown = answer.actions[: most or ACTIONS_SHOWN]
    seen = answer.seen
    known = [(metric, s) for metric in SPEEDS if (s := getattr(seen, metric.name))]
    measured = [f"mean {metric.title} {show(s, metric.unit)}" for metric, s in known]
    return document(
        Text(
            f"Seen: {show(seen.rate_per_s, '1/s')}, {seen.prompt_tokens:,.0f} prompt and "
            f"{seen.output_tokens:,.0f} output tokens" + (", " + ", ".join(measured) if measured else ""),
            kind="asked",
        ),
        Headline(answer.sentence, good=answer.today.keeps and not answer.unexplained),
        (f"! {missed}" for missed in answer.unexplained),
        _actions(answer, shown),
        (f"{action.name}: {action.change}" for action in shown),
        (Note(f"check first: {action.check}") for action in answer.actions[:1]),
        Note(f"replayed: {answer.replayed}") if answer.replayed else None,
        Note(answer.calibrated) if answer.calibrated else None,
        (Note(f"assumed: {text}") for text in answer.assumed[:2]),
        why={
            "Answer": answer.sentence,
            "What limits it": [f"{verdict.name}: {verdict.sentence}" for verdict in answer.verdicts],
            "Actions": map(_line, answer.actions),
            "Assumptions": answer.assumed,
            "What was noticed": answer.findings,
        },
    )


def advice_charts(answer: Advice) -> tuple[Chart | None, ...]:
    """
    Today, ringed, and each change by its cost a month over the latency that changes most, with what was seen of it;
    nothing where no change has a state of its own.
    """
    states = [("today", answer.today), *((one.name, one.state) for one in answer.actions if one.state is not None)]
    if len(states) < 2:
        return ()

    def told(metric: Metric) -> list[float]:
        return [1e3 * getattr(state.replayed or state, metric.name) for _, state in states]

    metric = max(SPEEDS, key=lambda one: max(told(one)) / min(told(one)))
    seen = getattr(answer.seen, metric.name)
    times = told(metric)
    name = f"p{answer.percentile:g} {metric.title}"
    x = log_axis("x", f"predicted {name}, ms (left is faster), log scale", over=[*times, 1e3 * (seen or 0)],
                 room=1.6)  # fmt: skip
    y = axis("y", "USD/month (down is cheaper)", scale={"domainMin": 0})
    points = [(change, time, state.usd_per_month) for (change, state), time in zip(states, times, strict=True)]
    says = f"seen today, mean: {show(seen or 0.0, 's')}"
    under = (limit_line("x", 1e3 * seen, says=says, left=along(x, times)(1e3 * seen) > 0.5),) if seen else ()
    return (
        Chart(
            "changes",
            f"Cost of each change against its {name}",
            "Each point is a change by what it costs a month and by its predicted latency; what runs today is ringed, "
            "the dashed line is the mean that was seen.",
            body=named_points(x, y, points=points, under=under),
            columns=("change", f"{name} [ms]", "USD/month"),
            rows=tuple((change, f"{time:,.3g}", f"{usd:,.0f}") for change, time, usd in points),
        ),
    )


def _actions(answer: Advice, shown: Sequence[Action]) -> Table:
    rows = [_state_row("today", answer.today, 0.0)]
    rows += [_state_row(a.name, a.state, a.usd_per_month) for a in shown if a.state is not None]
    latencies = (f"{metric.title} p{answer.percentile:g}" for metric in SPEEDS)
    return grid(["~", "accelerators", "format<2", "$/month>", "saves>", *latencies, "req/s>1", "meets>"], rows)


def _state_row(name: str, state: State, saved: float) -> tuple[str, ...]:
    """A state of the service; latencies as replayed where they were, else by averages."""
    return (
        name,
        parts_name(state.accelerators, state.accelerator),
        state.precision.stored.upper(),
        f"{state.usd_per_month:,.0f}",
        f"{saved:,.0f}" if saved else "",
        *(show(getattr(state.replayed or state, metric.name), metric.unit, digits=2) for metric in SPEEDS),
        show(state.most_per_s, "count"),
        chance_text(state.chance),
    )


def _line(action: Action) -> str:
    money = f" Saves ${action.usd_per_month:,.0f} a month." if action.usd_per_month > 0 else ""
    risk = f" Risk: {action.risk}." if action.risk else ""
    return f"{action.name}: {action.change}.{money}{risk} Check: {action.check}."
