"""
An inventory as a document: what each group serves best; what is shared, rented, split, drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.catalog import model_name, parts_name, provider_name
from tonnage.catalog.standings import told_standings
from tonnage.core.quality import quality_kept
from tonnage.domain.plan import option_at_rank
from tonnage.questions.fleet.page import PAGE as FLEET_PAGE
from tonnage.questions.own.charts import format_name, own_charts
from tonnage.questions.own.local import score_cell
from tonnage.questions.own.question import MixedRow, OwnedAnswer, OwnPlan, OwnRow
from tonnage.report.document import (
    EVERY,
    UNKNOWN,
    Block,
    Document,
    Headline,
    Meter,
    Note,
    Section,
    Table,
    grid,
    sections,
)
from tonnage.report.page import WholePage, explained_whole
from tonnage.report.screen import first_screen
from tonnage.report.wording import money, plural
from tonnage.units import percent, show

LINES: Final = 10
"""Rows of a first screen, over all groups."""
WHOLE: Final = 0.995
"""Share of a workload from which on it is all of it. [-]"""
REST: Final = "Why, assumptions, sources: --why"


def _document(plan: OwnPlan, *, most: int | None) -> Document:
    """The plan as blocks; `most` models of each group, None = as many as a first screen has."""
    able = plan.able
    taken = 0 if plan.shared is None else 1 + len(_carriers(plan))
    shown = most or max(1, (LINES - taken) // max(1, len(able)))
    hidden = sum(max(0, len(group.rows) - shown) for group in able)
    first = first_screen(
        question=_question(plan),
        answer=_headline(plan),
        meters=_meters(plan),
        table=_best_of_groups(able if most else able[:LINES], most=shown, benchmark=plan.benchmark),
        risks=[_in_host(plan), _short_of(plan), _mixed_line(plan), *_idle(plan), *_placed(plan, shown)],
        measure=plan.measure_first,
        rest=Note(hint=(f"{plural(hidden, 'more row')}: --all. " if hidden else "") + f"{REST}."),
    )
    return Document(first, _why(plan))


def _opened(plan: OwnPlan, *, rank: int) -> Document:
    """
    Every group whole, and the bill of their power opened; `rank` is checked to be a group and changes nothing.

    Raises
    ------
    BadRequest
        There is no group of that rank.
    """
    option_at_rank(plan.groups, rank)
    title = "Electricity, opened"
    return explained_whole(plan, _why(plan), question=_question(plan), bill=plan.electricity, title=title)


def _question(plan: OwnPlan) -> list[str]:
    """What is owned and what it is judged by, in parts of a line."""
    request = plan.request
    named = ", ".join(group.name for group in request.own[:6]) + (", …" if len(request.own) > 6 else "")
    lengths = request.serve.lengths
    models = [model_name(one.serve.model) for one in request.workloads if one.serve is not None]
    work = [f"{plural(len(request.workloads), 'workload')}: {', '.join(dict.fromkeys(models))}"] if models else []
    box = ["in one machine"] if request.one_box else []
    return [
        named,
        *box,
        f"{lengths.prompt_tokens:,.0f} in / {lengths.output_tokens:,.0f} out",
        f"{request.min_speed:g} tokens/s a request",
        *work,
    ]


def _headline(plan: OwnPlan) -> Headline:
    """Whether what is owned carries the workloads, else the best model on it, by published score and output."""
    able = plan.able
    if not able:
        return Headline(plan.sentence, good=plan.feasible)
    best = max(able, key=lambda group: (_score(group.rows[0]), group.rows[0].output_tokens_per_s.value))
    row = best.rows[0]
    rate = f"{row.output_tokens_per_s.value:,.0f} tokens/s"
    if plan.shared is not None:
        carried = (
            "carries every workload"
            if plan.feasible and not plan.rented
            else "carries the workloads with what is rented beside"
            if plan.feasible
            else "does not carry the workloads"
        )
        about = f"best: {model_name(row.model)} on {best.name}, {rate}"
        return Headline(f"What is owned {carried}", details=(about,), good=plan.feasible)
    split = plan.mixed[0] if plan.mixed else None
    if split and (_score(split), split.decode_per_s.value) > (_score(row), row.per_request):
        each = (
            f"{split.decode_per_s.value:,.0f} tokens/s, {split.pipeline_per_s:,.0f} with {len(split.layers)} requests"
        )
        lead = f"{model_name(split.model)} over all cards"
        return Headline(lead, details=(format_name(split.weights), each), good=plan.feasible)
    return Headline(
        f"{model_name(row.model)} on {best.name}", details=(format_name(row.weights), rate), good=plan.feasible
    )


def _score(row: OwnRow | MixedRow) -> float:
    return row.stands.score if row.stands else 0.0


def _meters(plan: OwnPlan) -> list[Meter]:
    """Power of all groups at work, who carries which workload, and what power and renting cost in a month."""
    power = sum(group.power_w or 0.0 for group in plan.groups)
    limit = plan.request.site_power_w
    meters = (
        [
            Meter(
                "power at work",
                show(power, "W"),
                limit=show(limit, "W") if limit else "",
                share=power / limit if limit else None,
            )
        ]
        if power
        else []
    )
    meters += _carriers(plan)
    if plan.electricity is not None:
        meters.append(Meter("electricity", f"{money(plan.electricity.value)}/month"))
    rents = [group.rented_usd_per_month for group in plan.groups if group.rented_usd_per_month]
    if rents:
        meters.append(Meter("renting the same", f"{money(sum(rents))}/month"))
    return meters


def _best_of_groups(groups: Sequence[OwnedAnswer], *, most: int, benchmark: str) -> Table:
    named = len({row.model for group in groups for row in group.rows}) == 1
    score = "quality<2" if named else f"{benchmark}>2"
    heads = ("group", "model", "format", score, "layout<4", "tokens/s>", "at once>1", "each>", "evidence<3")
    rows = [
        (group.name if number == 0 else "", *_cells(row, named=named))
        for group in groups
        for number, row in enumerate(group.rows[:most])
    ]
    return grid(heads, rows)


def _cells(row: OwnRow, *, named: bool) -> tuple[str, ...]:
    """A row in words: rates are of the whole group but for `each`; of a named model what each format keeps."""
    layout = f"{row.replicas} x {row.layout.upper()}" if row.layout and not row.command else ""
    moved = f"{row.moved_bytes / 1e9:.0f} GB in host" if row.moved_bytes else layout
    return (
        model_name(row.model),
        format_name(row.weights),
        quality_kept(row.change) if named else score_cell(row) or UNKNOWN,
        moved,
        f"{row.output_tokens_per_s.value:,.0f}",
        f"{row.concurrency:,.{int(row.concurrency < 10.0 and row.concurrency % 1.0 >= 0.05)}f}",
        f"{row.per_request:.0f}",
        str(row.output_tokens_per_s.basis),
    )


def _carriers(plan: OwnPlan) -> list[Meter]:
    """Which group takes which workload, and the share of it where several do."""
    by_workload: dict[str, list[str]] = {}
    for one in plan.shared.replicas if plan.shared is not None and plan.feasible else ():
        share = sum(one.carries) / len(one.carries) if one.carries else 1.0
        part = f"{percent(share)} " if share < WHOLE else ""
        by_workload.setdefault(one.workload, []).append(f"{part}on {one.where}")
    return [Meter(f"{name}:", ", ".join(places)) for name, places in by_workload.items()]


def _in_host(plan: OwnPlan) -> str:
    """What of the leading models is not in the cards' memory: it decides the speed, and needs that much in the host."""
    told = [
        f"{group.rows[0].moved_bytes / 1e9:.0f} GB of {model_name(group.rows[0].model)} in host memory"
        for group in plan.groups
        if group.rows and group.rows[0].moved_bytes
    ]
    hint = "that much must be free there, --host-memory says how much is"
    return f"Not all in the cards: {'; '.join(told[:2])}; {hint}." if told else ""


def _short_of(plan: OwnPlan) -> str:
    """What is rented beside what is owned, and what buying it would take; empty where nothing is."""
    if not plan.rented:
        return ""
    said = []
    for one in plan.rented[:2]:
        buy = f", or buy for {money(one.purchase_usd)}" if one.purchase_usd else ""
        pays = f" ({one.months:.0f} months of rent)" if buy and one.months else ""
        said.append(
            f"{parts_name(one.accelerators, one.accelerator)} at {provider_name(one.provider)}, "
            f"{one.term}, {money(one.usd_per_month)}/month{buy}{pays}"
        )
    more = f"; {len(plan.rented) - 2} more" if len(plan.rented) > 2 else ""
    return f"Rent beside it: {'; '.join(said)}{more}."


def _placed(plan: OwnPlan, most: int) -> list[str]:
    """Models shown that another benchmark places, or none; nothing about one that is named."""
    stands = {row.model: row.stands for group in plan.able for row in group.rows[:most]}
    return [] if plan.request.model else [f"{text}." for text in told_standings(stands, plan.benchmark)]


def _mixed_line(plan: OwnPlan) -> str:
    if not plan.mixed:
        return ""
    best = plan.mixed[0]
    return (
        f"Over all cards: {model_name(best.model)} {format_name(best.weights)}, layers {_split(best.layers)}"
        f"{f' and {best.host_layers} in host memory' if best.host_layers else ''}: "
        f"{best.decode_per_s.value:.0f} tokens/s alone, {best.pipeline_per_s:.0f} with {len(best.layers)} requests."
    )


def _split(layers: Sequence[int]) -> str:
    return "+".join(map(str, layers))


def _idle(plan: OwnPlan) -> list[str]:
    """Groups that run nothing, and those on which nothing is as fast as was asked for; of none at all, what would."""
    if plan.binding is not None and plan.binding.nearest and not any(group.rows for group in plan.groups):
        return [f"What would work: {plan.binding.nearest}."]
    least = plan.request.min_speed
    slow = [group.name for group in plan.groups if group.rows and group.rows[0].per_request < least]
    none = [f"{group.name}: {group.none_because}." for group in plan.groups if not group.rows]
    return [
        *none[:1],
        *([f"{len(none) - 1} more run nothing: --why."] if none[1:] else []),
        *([f"No model makes {least:g} tokens/s a request on {', '.join(slow)}."] if slow else []),
    ]


def _why(plan: OwnPlan) -> tuple[Block, ...]:
    """Sections of `--why`."""
    able = plan.able
    commands = [f"{group.name}: {group.rows[0].command}" for group in able if group.rows[0].command]
    shared = FLEET_PAGE.document(plan.shared, most=None).why if plan.shared is not None else ()
    return sections(
        {
            "Answer": plan.sentence,
            "Every group": _best_of_groups(able, most=EVERY, benchmark=plan.benchmark),
            "Nothing runs on": [f"{group.name}: {group.none_because}" for group in plan.groups if not group.rows],
            "Power and money": _power(plan),
            "One model over all cards": _mixed_table(plan),
            "The site": _site(plan),
            "What starts the first model": commands,
            **{f"Workloads: {one.title}": one.blocks for one in shared if isinstance(one, Section)},
            "Assumptions": plan.provenance.assumed,
        }
    )


def _power(plan: OwnPlan) -> Table:
    """What each group draws and costs in a month; machines that a rack feeds."""
    rows = [
        (
            group.name,
            UNKNOWN if group.power_w is None else show(group.power_w, "W"),
            UNKNOWN if group.usd_per_month is None else f"{group.usd_per_month:,.0f}",
            UNKNOWN if group.rented_usd_per_month is None else f"{group.rented_usd_per_month:,.0f}",
            UNKNOWN
            if not group.rows or not group.rows[0].tokens_per_joule
            else f"{group.rows[0].tokens_per_joule:.3g}",
            UNKNOWN if group.nodes_per_rack is None else str(group.nodes_per_rack),
        )
        for group in plan.groups
    ]
    return grid(
        ["group", "at work>", "electricity, $/month>", "rented, $/month>", "tokens/J>", "machines a rack>"], rows
    )


def _mixed_table(plan: OwnPlan) -> Table:
    """Models over all cards by layers: alone, and with as many requests as devices."""
    rows = [
        (
            model_name(one.model),
            format_name(one.weights),
            _split(one.layers),
            str(one.host_layers),
            f"{one.decode_per_s.value:.0f}",
            f"{one.pipeline_per_s:.0f}",
            one.alone or "none",
            one.command,
        )
        for one in plan.mixed
    ]
    heads = ["model", "format", "layers", "in host>", "one request>", "all at work>", "holds it alone~", "command~"]
    return grid(heads, rows)


def _site(plan: OwnPlan) -> tuple[Table | str | None, ...]:
    """What the site's power feeds of one kind, held at or below its board limit; nothing without a site limit."""
    site = plan.site
    if site is None:
        return ()
    rows = [
        (
            percent(cap.share),
            f"{cap.accelerators:,}",
            f"{cap.tokens_per_s:,.0f}",
            f"{cap.tokens_per_s_per_mw:,.0f}",
        )
        for cap in site.caps
    ]
    left = site.site_power_w - site.owned_power_w
    said = f"owned draws {show(site.owned_power_w, 'W')} of {show(site.site_power_w, 'W')}"
    said += f"; {show(left, 'W')} are free" if left >= 0 else f": {show(-left, 'W')} too much"
    told = f"{said}. Were all of it like {site.group} with {model_name(site.model)}:"
    return told, grid(["board limit", "accelerators>", "tokens/s>", "tokens/s per MW>"], rows)


PAGE: Final = WholePage(document=_document, opened=_opened, charts=own_charts)
