"""A plan of ranked options as a document: what is particular to its kind stands in a `Page`, the rest is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tonnage.catalog import part_name, provider_name
from tonnage.domain.answer import Quantity
from tonnage.domain.plan import PlanHeader, RankedPlan, option_at_rank
from tonnage.engines.registry import engine_title
from tonnage.record import Record
from tonnage.report.document import (
    Block,
    Contents,
    Document,
    Headline,
    Meter,
    Section,
    Table,
    Text,
    grid,
    sections,
)
from tonnage.report.screen import (
    LABELS,
    Pick,
    Ranking,
    first_screen,
    left_out,
    no_plan,
    rows_shown,
    short_names,
)
from tonnage.report.wording import (
    break_even_text,
    chance_text,
    decisions,
    interval,
    made_note,
    money,
    parts_table,
    rejections,
    shortages_text,
    spread_usd,
)
from tonnage.units import percent

if TYPE_CHECKING:
    from tonnage.report.charts.chart import Chart

Ranked = RankedPlan[Any, Any]
Charts = Callable[..., "tuple[Chart | None, ...]"]
"""Pictures of a plan, and None for those that have nothing to show."""
SHOWN: Final = 8
"""Options whose verdict stands under --why."""
TIE: Final = " [not distinguishable from option 1 (within error)]"


Cell = tuple[str, Callable[..., str]]
"""The head of a column of options, as `grid` reads it, and what it says of one."""


def at(cell: Cell, spare: int) -> Cell:
    """The column, left out so early where there is little room."""
    return f"{cell[0]}{spare}", cell[1]


def _wall_s(option: Any) -> Quantity:
    """Of a job, from its start to its end. [s]"""
    wall: Quantity = option.wall_s if hasattr(option, "wall_s") else option.run.wall_s
    return wall


TIME: Final = ("time~", lambda option: interval(_wall_s(option)))
COST: Final = ("cost~", lambda option: spread_usd(option.cost))
MEETS: Final = ("meets>", lambda option: chance_text(option.chance))
EVIDENCE: Final = ("evidence", lambda option: option.basis)
SURE: Final = ("evidence", lambda option: option.basis + ("" if option.sure else ", unsure"))
PROVIDER: Final = ("provider<", lambda option: provider_name(option.bill.provider))
REGION: Final = ("region<", lambda option: option.bill.region)
TERM: Final = ("term<", lambda option: option.bill.term)


class Page(Record, kw_only=True):
    """What a kind of plan says of itself."""

    question: Callable[..., list[str]]
    """The question again, in parts of a line."""
    ranking: Callable[..., Ranking] = lambda _: Ranking(lambda one: one.cost.value, lambda one: _wall_s(one).value)
    """How the options of a plan compare: jobs by cost and time."""
    answer: Callable[..., Headline]
    """(plan, chosen option) -> its headline."""
    meters: Callable[..., list[Meter]]
    cells: Callable[..., Sequence[Cell]]
    """Columns of the table after the choice and the accelerators."""
    risks: Callable[..., Sequence[str | Text]]
    why: Callable[..., Mapping[str, Contents]]
    """(plan, chosen option) -> reasons that other kinds do not have."""
    name: Callable[..., str] = lambda option: option.configuration.label(part_name, engine_title)
    """An option in the heading of what opens it."""
    parts: Callable[..., Mapping[str, Contents]]
    """(plan, option) -> what opens it."""
    lead: Callable[..., str] = lambda _: ""
    """What stands before the verdict of an option."""
    ruled_out: str = "Ruled out"
    looked: Callable[..., str] = lambda _: ""
    """How many were looked at; empty leaves out the inputs."""
    hosts: bool = True
    """Whether hosts that are too small have a section of their own."""
    few: Callable[..., Sequence[int]] = lambda _: ()
    """Places of the options that a first screen shows where no objective says which is best."""
    tried: str = "accelerators"
    """What is counted where nothing works."""
    lost: str = "configurations"
    """What is counted where something does."""
    used: Callable[..., str] = lambda option, name: f"{option.accelerators} x {name}"
    """(option, short name) -> its accelerators."""
    linked: bool = True
    """Rows lead to the option that they are."""
    charts: Charts = lambda *_: ()
    """(plan, rank of the chosen option) -> pictures."""

    def document(self, plan: Ranked, *, most: int | None, rank: int = 1) -> Document:
        """The plan as blocks: what is decided upon, and why it is so; of a `rank` beside the first, what is chosen."""
        return _document(plan, self, most=most, rank=rank)

    def opened(self, plan: Ranked, *, rank: int) -> Document:
        """
        The option of that rank opened into its parts, then how the plan was made; only that where it has no options.

        Raises
        ------
        BadRequest
            The plan has no option of that rank.
        """
        return _opened(plan, self, rank=rank)


class WholePage(Record, kw_only=True):
    """The page of a plan that ranks no options: `document` and `opened` as those of `Page`."""

    document: Callable[..., Document]
    opened: Callable[..., Document]
    charts: Charts = lambda _: ()


def _document(plan: Ranked, page: Page, *, most: int | None, rank: int) -> Document:
    """
    A plan as first screen and reasons, of the option of that rank; where it has no options, the screen says why.

    `most` rows of its table; None = those that a first screen shows.
    """
    question = page.question(plan)
    if plan.options:
        few, best = () if most else page.few(plan), option_at_rank(plan.options, rank)
        picks = [Pick("", i) for i in few] or rows_shown(plan, page.ranking(plan), top=most)
        picks += [Pick("", rank - 1)] if all(pick.place != rank - 1 for pick in picks) else []
        first = first_screen(
            question=question,
            answer=page.answer(plan, best),
            meters=page.meters(plan, best),
            table=_table(plan, page, picks, page.cells(plan, most)),
            risks=page.risks(plan, best),
            measure=plan.measure_first,
            rest=left_out(plan.rejected, what=page.lost, hidden=len(plan.options) - len(picks)),
        )
        first = (*first[:2], *_difference(plan, page, rank), *first[2:])
    else:
        first = no_plan(plan, question=question, what=page.tried)
    return Document(first, _reasons(plan, page, rank))


def _difference(plan: Ranked, page: Page, rank: int) -> tuple[Text, ...]:
    """A line on the chosen option against the recommended one: what it costs more, each figure beside the other."""
    if rank == 1:
        return ()
    first, chosen = plan.options[0], plan.options[rank - 1]
    lead, head = page.answer(plan, first), page.answer(plan, chosen)
    price = page.ranking(plan).price
    usd = price(chosen) - price(first)
    paid = f"${abs(usd):,.2f}/h" if "/h" in lead.price else money(abs(usd))
    told = [f"{paid} {'more' if usd > 0 else 'less'}" if abs(usd) >= 0.005 else "the same price"]
    pairs = zip(page.meters(plan, chosen), page.meters(plan, first), strict=False)
    told += [
        f"{own.name} {own.value} instead of {other.value}"
        for own, other in pairs
        if own.share is not None and own.name == other.name and own.value != other.value
    ]
    chances = chance_text(getattr(chosen, "chance", None)), chance_text(getattr(first, "chance", None))
    told += [f"chance {chances[0]} instead of {chances[1]}"] if all(chances) and chances[0] != chances[1] else []
    line = f"{head.text} against the recommended {lead.text} at {lead.price}: {', '.join(told)}."
    return (Text(line, kind="chosen"),)


def _table(plan: Ranked, page: Page, picks: Sequence[Pick], cells: Sequence[Cell]) -> Table:
    """Options under the heads of those cells, behind the choice that each is and its accelerators."""
    options = [plan.options[pick.place] for pick in picks]
    ids = [getattr(option, "configuration", option).accelerator for option in options]
    short = short_names(ids)
    rows = [
        (pick.name or str(pick.place + 1), page.used(option, short[id]), *(_cell(pick, of(option)) for _, of in cells))
        for pick, option, id in zip(picks, options, ids, strict=True)
    ]
    heads = ("<1", "accelerators~", *(head for head, _ in cells))
    return grid(heads, rows, options=[pick.place for pick in picks] if page.linked else ())


def _cell(pick: Pick, text: str) -> str:
    """What a row says of its option: of an even chance not once more that it is unsure, for which no line has room."""
    return text.removesuffix(", unsure") if pick.name == LABELS["even"] else text


def _reasons(plan: Ranked, page: Page, rank: int) -> tuple[Section, ...]:
    """Why it is so: the answer and the verdicts, what is particular to the kind, then what every kind ends with."""
    shown, dates = plan.options[:SHOWN], sorted(plan.provenance.catalogue.items())
    looked = page.looked(plan)
    return sections(
        {
            "Answer": plan.sentence if shown else None,
            "Why this one, why not the others": [
                f"{i}. {page.lead(o)}{o.verdict}{TIE if i > 1 and getattr(o, 'ties', False) else ''}"
                for i, o in enumerate(shown, 1)
            ],
            **(page.why(plan, plan.options[rank - 1]) if shown else {}),
            "What would change this": map(break_even_text, plan.break_even),
            "Hosts too small for the accelerators": [
                f"{i}. {text}" for i, o in enumerate(shown, 1) if page.hosts and (text := shortages_text(o.needs))
            ],
            "Quality impact of quantisation": [change.told for change in plan.quality],
            "Decisions": decisions(plan.trail),
            "What relaxing one constraint buys": plan.relaxing,
            **rejections(page.ruled_out, plan.rejected),
            "Assumptions": plan.provenance.assumed,
            "Inputs": [looked, *(f"{name}: {day}" for name, day in dates)] if looked else None,
        }
    )


def _opened(plan: Ranked, page: Page, *, rank: int) -> Document:
    opened: dict[str, Contents] = {}
    if plan.options:
        option = option_at_rank(plan.options, rank)
        opened = {f"Option {rank}: {page.name(option)}": option.verdict, **page.parts(plan, option)}
    opened |= {"Decisions": decisions(plan.trail), **rejections("Ruled out", plan.rejected, most=None)}
    opened["Assumptions"] = plan.provenance.assumed
    screen = first_screen(question=page.question(plan), answer=plan.sentence, good=plan.feasible)
    return Document(screen, (*sections(opened), made_note(plan.provenance)))


def usd_table(bill: Quantity) -> Table:
    """A sum of money in whole dollars with its parts: each with its share, and where it comes from."""
    rows = [(part.name, f"{part.value:,.0f}", percent(part.value / bill.value, 1), part.source) for part in bill.parts]
    return grid(["part~", "USD>", "share>", "from~"], [*rows, ("total", f"{bill.value:,.0f}", "", "")], total=True)


def explained_whole(
    plan: PlanHeader[Any], why: Sequence[Block], *, question: Sequence[str], bill: Quantity | None, title: str
) -> Document:
    """A plan without options to choose from: all its reasons, and its bill opened under that title."""
    opened = sections({title: parts_table(bill)}) if bill is not None and bill.parts else ()
    screen = first_screen(question=question, answer=plan.sentence, good=plan.feasible)
    return Document(screen, (*why, *opened, made_note(plan.provenance)))
