"""What a page shows of an answer, taken from its document: card, meters, choices, chart, options, changes, tabs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from tonnage.catalog import model_name
from tonnage.domain.machine import LocalAnswer
from tonnage.domain.metrics import OBJECTIVES, SPEEDS
from tonnage.domain.train_plan import TrainPlan
from tonnage.questions.adopt.question import Adoption
from tonnage.questions.answers import charts_of, document_of, explains, explanation_of, works
from tonnage.questions.rl.question import RlPlan
from tonnage.record import Record
from tonnage.report import html
from tonnage.report.charts.chart import Chart
from tonnage.report.document import Block, Document, Headline, Meter, Meters, Note, Section, Table, Text
from tonnage.report.screen import picks
from tonnage.version import can_simulate
from tonnage.web.changes import Suggestion, suggestions
from tonnage.web.matrix import Matrix, fastest, matrix_of

SCALE: Final = 1.25
"""Right end of every meter, in limits: so all limits stand in one line."""
WORDS: Final = {one.title: one.words for one in OBJECTIVES}
CHOICES: Final = {
    "recommended": "Recommended",
    "cheapest": "Cheapest",
    "even odds": "Cheapest with even odds",
    "faster": "Faster within 10 % of its price",
    "N+1 spare": "N+1 spare: survives a failure",
    "sooner": "Sooner",
}
LAZY: Final = ' loading="lazy"'
CONSTANT: Final = "term"
"""Column that is shown where it tells rows apart."""
BESIDE_PRICE: Final = (*(metric.title for metric in SPEEDS), "time", "latency")
"""First words of the columns that a choice shows beside its price."""
EVIDENCE: Final = ("measured", "calibrated", "derived", "assumed")
TABS: Final = {
    "Load": (
        "load",
        "utilisation",
        "scaling",
        "latency",
        "timeline",
        "hours",
        "varies",
        "computed",
        "headroom",
        "step",
        "cache buys",
        "sessions",
    ),
    "Memory": ("memory", "stack"),
    "Money": ("money", "cost", "price", "rent", "bill", "savings", "owning", "cheaper", "disaggregated"),
    "Kernels": ("roofline", "operator", "kernel"),
    "Why": ("why", "ruled out", "relaxing", "decisions", "quality", "host", "answer", "nearest", "one kind"),
    "Assumptions": ("assum", "input", "note"),
}
"""Tab -> words in the name of a chart or the title of a section that belongs there; what has none stands under Why."""
OPENED: Final = "Where numbers come from"
LEADING: Final = ("frontier", "fleet", "cost", "owning", "phases", "hits", "buys", "changes", "scores", "break-even")
"""Charts that stand beside the answer, not in a tab."""


class Card(Record, kw_only=True):
    """One of the choices."""

    name: str
    product: str
    price: str
    beside: str
    href: str = ""
    """Where it leads, where it is no option."""
    rank: int = 0
    """Of the option that it chooses."""
    shown: bool


class AnswerView(Record, kw_only=True):
    """What the template fills in."""

    good: bool
    sentence: str
    texts: Mapping[str, Sequence[Text]]
    """The sentences of the first screen by their kind, those that would change the answer under `change`."""
    product: str
    part: str
    """The accelerator that it is of, by its id; empty where it is none of the catalogue."""
    details: tuple[str, ...]
    price: str
    beside: str
    meters: tuple[Mapping[str, Any], ...]
    figures: tuple[Meter, ...]
    """Numbers without a limit."""
    evidence: str
    """What the first option's speed rests on: a mark that leads to the nearest measurements; empty = not said."""
    price_note: str
    """When the price was read, and who says it, where that is a reason to check it."""
    old: bool
    """The price is older than 90 days."""
    choices: tuple[Card, ...]
    estimate: bool
    """Price and chance are by averages: no simulation has confirmed them."""
    option: int
    """Rank of the option that is chosen."""
    address: str
    """Of the question, to choose an option by."""
    chart: Chart | None
    table: Table | None
    labels: tuple[str, ...]
    """The choice that each row of the table is; empty for the others."""
    lead: tuple[str, ...]
    """Columns of the table that hold evidence: which cells get a mark."""
    blocks: str
    """Other blocks of the first screen, as HTML."""
    changes: tuple[Suggestion, ...]
    rest: str
    matrix: Matrix | None
    tabs: tuple[tuple[str, str], ...]
    opens: bool
    """Its options have a page of their own."""


def answer_view(
    answer: Any,
    *,
    key: str,
    every: bool = False,
    option: int = 1,
    path: str = "",
    given: Mapping[str, str] | None = None,
    known: frozenset[str] = frozenset(),
) -> AnswerView:
    """
    An answer as the page shows it.

    Parameters
    ----------
    answer : an answer that `questions.answers` shows
    key : str
        Under which it is kept: of its pictures and the pages of its options.
    every : bool
        All options in the table.
    option : int
        Rank of the option that is chosen: what card, charts and tabs are about.
    path, given, known
        The question as its form wrote it, and the names of the form's fields: what a change of it is made of.
    """
    document = document_of(answer, every=every, rank=option)
    lead = next((one for one in document.first if isinstance(one, Headline)), Headline("", good=works(answer)))
    meters = [one for block in document.first if isinstance(block, Meters) for one in block.meters]
    named = next((one for one in document.first if isinstance(one, Table) and one.options), None)
    table, labels = _label_choices(named)
    table = _without_constant(table)
    options = getattr(answer.leading if isinstance(answer, Adoption) else answer, "options", ())
    first = options[option - 1] if options else None
    charts = charts_of(answer, rank=option)
    leading = charts[0] if charts and charts[0].name in LEADING else None
    texts = _texts(document, answer)
    matrix = matrix_of(answer)
    others = [
        one
        for one in document.first
        if isinstance(one, Section) or (isinstance(one, Table) and one is not named and matrix is None)
    ]
    return AnswerView(
        good=lead.good,
        sentence=answer.sentence,
        texts=texts,
        product=lead.text if lead.text != lead.line else "",
        part=getattr(getattr(first, "configuration", first), "accelerator", ""),
        details=lead.details,
        price=lead.price,
        beside=f"{lead.price_note} {lead.beside}".strip(),
        meters=tuple(meter_view(one) for one in meters if one.share is not None),
        evidence=str(getattr(first, "basis", "")),
        **_price_note(getattr(first, "bill", None)),
        figures=tuple(one for one in meters if one.share is None),
        choices=_choices(answer, named, option=option) or _models(answer),
        estimate=_by_averages(answer),
        option=option,
        address=f"/{path}?{urlencode({**(given or {}), **({'all': 'true'} if every else {})})}" if path else "",
        matrix=matrix,
        chart=leading,
        table=table,
        labels=labels,
        lead=EVIDENCE,
        blocks=html.blocks(others),
        changes=suggestions(answer, texts["change"], path=path, given=given or {}, known=known),
        rest=without_commands(" ".join(one.text for one in document.first if isinstance(one, Note) and one.text)),
        tabs=_tabs(
            document, [chart for chart in charts if chart is not leading], answer=answer, key=key, option=option
        ),
        opens=explains(answer) and bool(table),
    )


def _texts(document: Document, answer: Any) -> Mapping[str, Sequence[Text]]:
    """Texts of the first screen but the answer's sentence, by their kind; those that offer a change under `change`."""
    found: defaultdict[str, list[Text]] = defaultdict(list)
    for one in document.first:
        if isinstance(one, Text) and one.text != answer.sentence:
            text = one.text if one.kind in {"asked", "relaxed"} else without_commands(one.text)
            text = re.sub(r" \(option \d+\)", "", text)  # rows have no numbers here
            text = text.replace("<=", "≤")
            kind = "change" if one.kind in {"", "flip", "relaxed"} else one.kind
            found[kind] += [msgspec.structs.replace(one, text=text)] if text else []
    return found


def without_commands(text: str) -> str:
    """
    A sentence of an error, a risk or a reason without what names options and commands: here links do that.

    Hints of documents stand apart, in their notes; these sentences are planning's own, the same for every face.

    Examples
    --------
    >>> without_commands("no model '7Z'; did you mean '7B'? 611 known: see `tonnage catalog models`")
    "no model '7Z'; did you mean '7B'?"
    >>> without_commands("no model 'abc'; 611 known: see `tonnage catalog models`")
    "no model 'abc'"
    >>> without_commands("load: 4/s (--rate states yours)")
    'load: 4/s'
    """
    text = re.sub(r" \(--\w[^()]*\)", "", text)
    parts = re.split(r"(?<=[.?;])\s+", text)
    return " ".join(part for part in parts if not re.search(r"(^|[\s:(])--\w|tonnage \w", part)).removesuffix(";")


def _by_averages(answer: Any) -> bool:
    """Whether an answer that is simulated elsewhere holds averages: as asked at first, or for want of a simulator."""
    plan = (answer.current or answer.better) if isinstance(answer, Adoption) else answer
    request = getattr(plan, "request", None)
    return bool(getattr(request, "quick", False)) or (hasattr(request, "quick") and not can_simulate())


def meter_view(meter: Meter) -> dict[str, Any]:
    """A meter with its bar in percent of the common scale; ends of the interval outside it have no cap."""
    word, _, rest = meter.name.partition(" ")
    long = WORDS.get(word, meter.name[:1].upper() + meter.name[1:])
    low, high = meter.low, meter.high
    # Of a capacity the share is what the bar shows; the most stands behind it, as limits do.
    value, limit = (meter.used, meter.value) if meter.used else (meter.value, meter.limit)
    ends = None if low is None or high is None else (_at(low), _at(high), high <= SCALE)
    return {
        "name": long,
        "short": f"{word} {rest}".strip() if word in WORDS else "",
        "value": value,
        "limit": limit,
        "interval": meter.interval,
        "chance": meter.chance,
        "fill": _at(meter.share or 0.0),
        "ends": ends,
        "over": (meter.share or 0.0) > 1.0,
        "now": f"{min(SCALE, meter.share or 0.0):.3f}",
    }


def _label_choices(table: Table | None) -> tuple[Table | None, tuple[str, ...]]:
    """The table without its column of choices, and the choice that each row is."""
    if table is None or table.columns[0].head:
        return table, ()
    labels = tuple(CHOICES.get(row[0], "") for row in table.rows)
    rows = tuple(row[1:] for row in table.rows)
    return msgspec.structs.replace(table, columns=table.columns[1:], rows=rows), labels


def _without_constant(table: Table | None) -> Table | None:
    """The table without its column of terms where all rows say the same, as the card does already."""
    heads = [column.head for column in table.columns] if table is not None else []
    if table is None or CONSTANT not in heads or len(table.rows) < 2:
        return table
    place = heads.index(CONSTANT)
    if len({row[place] for row in table.rows}) > 1:
        return table
    return msgspec.structs.replace(
        table,
        columns=table.columns[:place] + table.columns[place + 1 :],
        rows=tuple(row[:place] + row[place + 1 :] for row in table.rows),
    )


def _price_note(bill: Any) -> dict[str, Any]:
    """The day of a price, and whether it is old."""
    if bill is None:
        return {"price_note": "", "old": False}
    if bill.trust == "unknown":
        return {"price_note": "no price known", "old": True}
    who = {"primary": "", "contradicted": ", contradicted by its seller's list"}.get(bill.trust, ", not its seller's")
    return {"price_note": f"price of {bill.as_of}{who}" if bill.as_of else "", "old": bool(bill.stale)}


def _at(share: float) -> str:
    return f"{100.0 * min(SCALE, max(0.0, share)) / SCALE:.1f}%"


def _choices(answer: Any, table: Table | None, *, option: int) -> tuple[Card, ...]:
    """The named rows of the table as cards, three at most; none where only one is named."""
    names = {pick.place: pick.name for pick in picks(answer)} if hasattr(answer, "choices") else {}
    if table is None or len(names) < 2:
        return ()
    heads = [column.head for column in table.columns]
    cards = []
    for place, row in zip(table.options, table.rows, strict=True):
        if place not in names:
            continue
        cells = dict(zip(heads, row, strict=True))
        cost, _, bounds = cells.get("$/h", cells.get("cost", "")).partition(" (")
        speeds = [
            f"{word.replace('time', '')} {cell}".strip()
            for head, cell in cells.items()
            if (word := head.partition(" ")[0]) in BESIDE_PRICE
        ]
        beside = " · ".join(filter(None, (*speeds, bounds.removesuffix(")"))))
        cards.append(
            Card(
                name=CHOICES[names[place]],
                product=cells["accelerators"],
                price=f"${cost}/h" if "$/h" in cells else cost,
                beside=beside,
                rank=place + 1,
                shown=place == option - 1,
            )
        )
    return tuple(cards[:3])


def _models(answer: Any) -> tuple[Card, ...]:
    """The models of a machine that lead in something; none of another answer."""
    rows = answer.rows if isinstance(answer, LocalAnswer) else ()
    return tuple(
        Card(
            name=name,
            product=model_name(row.model),
            price=f"{row.decode_per_s.value:,.0f} tokens/s",
            beside=f"{row.format.upper()} · {row.most_context // 1024}k context",
            href="#matrix",
            shown=place == 0,
        )
        for place, (name, row) in enumerate(fastest(rows))
    )


def _tabs(
    document: Document, charts: Sequence[Chart], *, answer: Any, key: str, option: int
) -> tuple[tuple[str, str], ...]:
    """Name and HTML of each tab that holds something: charts and sections of the reasons by what they are about."""
    held: dict[str, list[str]] = {name: [] for name in TABS}
    drawn: dict[str, list[Chart]] = defaultdict(list)
    for chart in charts:
        drawn[_tab(chart.name + " " + chart.title)].append(chart)
    for name, own in drawn.items():
        held[name].append(linked_figures(own, key=key, option=option))
    for block in document.why:
        title = block.title if isinstance(block, Section) else ""
        held[_tab(title)].append(_section(block, without=answer.sentence))
    if explains(answer) and bool(getattr(answer, "options", False)):
        held[OPENED] = [
            "".join(_section(block, without=answer.sentence) for block in explanation_of(answer, rank=option).why)
        ]
    of_job = {"Load": "Run"} if isinstance(answer, TrainPlan | RlPlan) else {}
    return tuple((of_job.get(name, name), "".join(parts)) for name, parts in held.items() if any(parts))


def _tab(title: str) -> str:
    return next((tab for tab, words in TABS.items() if any(word in title.lower() for word in words)), "Why")


def _section(block: Block, *, without: str) -> str:
    block = _here(block)
    if not isinstance(block, Section):
        return html.blocks([block], without=without)
    inner = html.blocks(block.blocks, without=without)
    return f"<section><h3>{html.escape(block.title)}</h3>{inner}</section>" if inner else ""


def _here(block: Block) -> Block:
    """The block without what tells how to go on in a terminal."""
    if isinstance(block, Note):
        return Note(without_commands(block.text))
    if isinstance(block, Text):
        return msgspec.structs.replace(block, text=without_commands(block.text))
    if isinstance(block, Section):
        kept = [_here(one) for one in block.blocks]
        return msgspec.structs.replace(block, blocks=tuple(one for one in kept if getattr(one, "text", "kept")))
    return block


def linked_figures(charts: Sequence[Chart], *, key: str, option: int = 1) -> str:
    """Charts with their pictures; two stand beside each other, and one that is left is as wide as both."""
    return "".join(
        html.figures(
            [chart],
            picture=partial(linked_picture, key=key, wide=place == len(charts) and place % 2 == 1, option=option),
        )
        for place, chart in enumerate(charts, 1)
    )


def linked_picture(chart: Chart, *, key: str, at_once: bool = False, wide: bool = True, option: int = 1) -> str:
    """
    A picture fetched by itself, in the reader's light or dark; scripts draw the same chart to be explored.

    Where it stands on the first screen it is fetched at once, elsewhere when it comes near; `wide` where nothing stands
    beside it.
    """
    base = f"/chart/{key}/{chart.name}" + (f"-{option}" if option > 1 else "")
    sized = "".join(
        f'<source media="{media}{dark}" srcset="{base}-{width}-{theme}.svg">'
        for media, width in (("(min-width:75rem)", "wide"), ("(max-width:40rem)", "narrow"))[not wide :]
        for dark, theme in ((" and (prefers-color-scheme: dark)", "dark"), ("", "light"))
    )
    return (
        f'<picture data-chart="{base}">{sized}'
        f'<source media="(prefers-color-scheme: dark)" srcset="{base}-dark.svg">'
        f'<img src="{base}-light.svg" alt="{html.escape(chart.says)}"'
        f"{'' if at_once else LAZY}></picture>"
    )
