"""The first screen of any plan: the question again, the recommendation, objectives, choices, risks, what is left out.

A kind of plan gives its words and its two numbers to compare by, what it costs and how fast it is; here stands what
all kinds share: which options are named (the plan's choices), which rows a table of five shows, how losers are
counted, and how old prices are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

from tonnage.catalog import part_name, product, rejected_name
from tonnage.domain.answer import Quantity
from tonnage.domain.calibration import FirstMeasurement
from tonnage.domain.plan import BY_AVERAGES, Bill, BreakEven, Provenance, Rejection
from tonnage.domain.refusal import FILTERED, ruled_out
from tonnage.report.document import (
    Block,
    Headline,
    Meter,
    Meters,
    Note,
    Table,
    Text,
    blocks,
    grid,
)
from tonnage.report.wording import break_even_at, commitment_text, contract_text, money, plural
from tonnage.units import percent, show

ROWS: Final = 5
"""Options of a first screen."""
MAX_TIMES: Final = 3.0
"""An option that costs more times as much as the first is shown when asked for. [-]"""
MAX_RISKS: Final = 3
TEXT_LINES: Final = 14
"""Of question, answer, the table's rows and the texts below it: what a screen of 24 lines leaves them, two being of
what is left out."""
TEXT_COLUMNS: Final = 96
EXPLAIN: Final = "; each number: tonnage explain"
SHORTEST_REASON: Final = 4
"""Reasons of a first screen, when nothing works."""
LABELS: Final = {"even": "even odds", "fastest": "faster", "soonest": "sooner", "resilient": "N+1 spare"}
"""Of choices whose name says too little, or too much, in the column of a table."""


class Ranking(NamedTuple):
    """How options compare: each function takes an option."""

    price: Callable[[Any], float]
    speed: Callable[[Any], float]
    """Time: less is better."""


class Pick(NamedTuple):
    """An option with the label of the choice it is; empty for the others of a table."""

    name: str
    place: int
    """In the options of the plan."""


def picks(plan: Any) -> list[Pick]:
    """The plan's choices, each of another option."""
    return [Pick(LABELS.get(choice.name, choice.name), choice.option) for choice in plan.choices]


def rows_shown(plan: Any, ranking: Ranking, *, top: int | None) -> list[Pick]:
    """
    Options of the table. Unless asked for so many or for all: the choices, then those by rank that no other beats in
    price and speed and that cost at least as much as the first and at most three times; five in all. What is cheaper
    and ranked below is less sure, which a line of its own says.
    """
    named, options = picks(plan), plan.options
    names = {pick.place: pick.name for pick in named}
    if top is not None:
        return [Pick(names.get(i, ""), i) for i in range(min(top, len(options)))]
    points = [(ranking.price(option), ranking.speed(option)) for option in options]
    most = MAX_TIMES * points[0][0] if points else math.inf
    rest = [
        Pick("", i)
        for i, (price, speed) in enumerate(points)
        if i not in names
        and points[0][0] <= price <= most
        and not any(p <= price and s <= speed and (p, s) != (price, speed) for p, s in points)
    ]
    kept = [pick for pick in named if points[pick.place][0] <= most or pick.name == LABELS["soonest"]]
    return [*kept, *rest[: max(0, ROWS - len(kept))]]


def first_screen(
    *,
    question: Sequence[str],
    answer: Headline | str,
    meters: Sequence[Meter] = (),
    table: Table | None = None,
    risks: Sequence[str | Text] = (),
    rest: Note | None = None,
    good: bool = True,
    measure: FirstMeasurement | None = None,
) -> tuple[Block, ...]:
    """
    The blocks of a first screen, in the order of all of them.

    An `answer` that is a text becomes the headline, and `good` says whether it is what was hoped for. Of the risks at
    most `MAX_RISKS` are shown, and fewer where what to measure first would find no room.
    """
    lead = answer if isinstance(answer, Headline) else Headline(answer, good=good)
    asked = " · ".join(filter(None, question))
    named = [one if isinstance(one, Text) else Text(one) for one in risks if one][:MAX_RISKS]
    if measure is not None:
        above = (len(table.rows) if table is not None else 0) + lines_of(asked) + lines_of(lead.line)
        above += max(0, lines_of(rest.full) - 2) if rest is not None else 0
        named = _what_fits(named, measure.sentence, lines=TEXT_LINES - above)
    return blocks(
        Text(asked, kind="asked") if asked else None,
        lead,
        Meters(tuple(meters)) if meters else None,
        table,
        named,
        measure.sentence if measure is not None else None,
        rest,
    )


def _what_fits(risks: Sequence[Text], last: str, *, lines: int) -> list[Text]:
    """The first of the risks that leave the screen's last line its room; --why has all of them."""
    left = lines - lines_of(last)
    kept: list[Text] = []
    for risk in risks:
        left -= lines_of(risk.text)
        if left < 0:
            break
        kept.append(risk)
    return kept


def lines_of(text: str) -> int:
    """Lines that a text takes on a screen."""
    return math.ceil(len(text) / TEXT_COLUMNS)


def by_averages(plan: Any) -> list[str]:
    """That a plan would have been simulated where numba is installed; nothing of one that was, or was not to be."""
    return [f"Note: {BY_AVERAGES}."] if BY_AVERAGES in plan.provenance.assumed else []


def no_plan(plan: Any, *, question: Sequence[str], what: str) -> tuple[Block, ...]:
    """The first screen where nothing works: the reasons with how many each rules out, and what would work."""
    grouped: dict[str, list[Rejection]] = {}
    for loser in plan.rejected:
        grouped.setdefault(ruled_out(loser.verdict), []).append(loser)
    # What the user's own filters exclude says nothing about the question: it stands last, and has no nearest.
    largest = sorted(grouped.items(), key=lambda item: (item[0] == FILTERED, -len(item[1])))[:SHORTEST_REASON]
    rows = [(reason, str(len(losers)), "" if reason == FILTERED else _nearest(losers)) for reason, losers in largest]
    table = grid(["ruled out because", f"{what}>", "nearest~"], rows)
    return first_screen(
        question=question,
        answer=plan.sentence,
        good=False,
        table=table,
        risks=[Text(f"Would work: {text}", kind="relaxed") for text in getattr(plan, "relaxing", ())],
        rest=left_out(plan.rejected, what=what, opened=""),
    )


def loads_text(facts: Mapping[str, Any], weights: str) -> Text | str:
    """Which checkpoint an option in these weights loads, where it is not the model's own; empty where it is."""
    named: dict[str, str | None] = facts.get("checkpoints", {})
    if weights not in named:
        return ""
    if found := named[weights]:
        terms = facts.get("checkpoint_terms", {}).get(weights, "licence: see its card")
        said = f"Loads {found} ({terms}), made of the model by others: evaluate it before it answers users."
        return Text(said, kind="check")
    return risk(f"no checkpoint in {weights} is known here: quantise one first, or plan another --precision.")


def cheaper_stored(rejected: Sequence[Rejection]) -> list[str]:
    """What another checkpoint would save, and how to plan with it."""
    return [
        f"Cheaper: {one.what}, {one.verdict.reason}; {one.verdict.nearest} plans it."
        for one in rejected
        if one.verdict.limit == "checkpoint"
    ]


def _nearest(losers: Sequence[Rejection]) -> str:
    """What comes nearest among those ruled out for one reason, in words."""
    known = [loser for loser in losers if loser.verdict.short_by is not None]
    best = min(known, key=lambda loser: loser.verdict.short_by or 0.0) if known else losers[0]
    said = best.verdict.nearest or best.verdict.reason or ""
    what = rejected_name(best.what)
    return f"{what}: {said}" if said else what


def left_out(
    rejected: Sequence[Rejection], *, what: str = "configurations", hidden: int = 0, opened: str = EXPLAIN
) -> Note:
    """How many are ruled out or not shown, by reason, and how to see them."""
    counts = Counter(ruled_out(loser.verdict) for loser in rejected)
    named = counts.most_common(SHORTEST_REASON - (len(counts) > SHORTEST_REASON))
    rest = len(rejected) - sum(count for _, count in named)
    reasons = ", ".join(f"{count} {reason}" for reason, count in (*named, *[("for other reasons", rest)][:rest]))
    every = f" {FILTERED}" if set(counts) == {FILTERED} else f" ruled out ({reasons})"
    out = f"{plural(len(rejected), what.removesuffix('s'))}{every}." if rejected else ""
    more = f"{plural(hidden, 'more option')}: --all. " if hidden > 0 else ""
    return Note(out, hint=f"{more}Why, assumptions, sources: --why{opened}.")


# Lines that several kinds share


def price_dates(made: Provenance) -> str:
    """ "prices to 2026-06-18": the newest price that the plan could know."""
    return dates_to([made.catalogue.get("newest price", "")])


def dates_to(days: Iterable[str]) -> str:
    """ "prices to 2026-06-18": the newest of some prices' days; empty where none is known."""
    newest = max(days, default="")
    return f"prices to {newest}" if newest else ""


def weeks_old(as_of: str, made: str) -> int | None:
    """Whole weeks from a price's day to that of the plan, a month's from its middle; None = no such date."""
    try:
        then, now = date.fromisoformat(f"{as_of}-15"[:10]), date.fromisoformat(made[:10])
    except ValueError:
        return None
    return max(0, round((now - then).days / 7))


def held_text(bill: Bill | None, *, run: bool = False) -> str:
    """What a committed term of the recommendation means; empty where nothing is committed."""
    if bill is None:
        return ""
    return " ".join(filter(None, (contract_text(bill), commitment_text(bill.commitment, run=run))))


def risk(text: str) -> Text:
    """What may go wrong."""
    return Text(f"Risk: {text}", kind="check")


def stale_text(bill: Bill | None, made: str) -> Text | str:
    """The risk in a price that is old on the plan's day (`made`), not its seller's own or not known; else empty."""
    if bill is None or not (bill.stale or bill.trust != "primary"):
        return ""
    if bill.trust == "unknown":
        return risk(
            f"no price of it is known: the money is {bill.notes}; add yours "
            "(--price, or tonnage catalog offers --template)."
        )
    weeks = weeks_old(bill.as_of, made) if bill.stale else None
    age = f"{plural(weeks, 'week')} old ({bill.as_of})" if weeks else f"of {bill.as_of}"
    if bill.trust != "primary":
        who = "its seller's own list contradicts" if bill.trust == "contradicted" else "no seller's own page confirms"
        return risk(f"{who} this price, which is {age}; add yours (tonnage catalog offers --template).")
    return risk(f"the price is {age}; check it before you count on it.")


def closest_break_even(points: Iterable[BreakEven]) -> Text | str:
    """The smallest change of an input that changes the answer, as a sentence."""
    known = [one for one in points if one.now and one.value > 0 and one.now > 0 and not one.ties]
    if not known:
        return ""
    closest = min(known, key=lambda one: abs(math.log(one.value / (one.now or 1.0))))
    now = f", now {show(closest.now or 0.0, closest.unit)}"
    return Text(f"Would change with {break_even_at(closest)}{now}: {closest.becomes}.", kind="flip")


def capacity_meter(*, load: float, most: float) -> Meter:
    """The most requests that the recommendation takes, and the share of it in use. [1/s]"""
    share = load / most if most else 0.0
    return Meter("capacity", f"{show(most, 'count')} req/s", used=percent(share), share=share)


def short_names(ids: Iterable[str]) -> dict[str, str]:
    """Names for one table: without the memory, and the words of the maker, where these tell no two of them apart."""
    parts = {id: part_name(id) for id in ids}
    bare = {id: " ".join(name.split()[:-2]) if name.endswith(" GB") else name for id, name in parts.items()}
    plain = {id: name.removesuffix(" Grace Hopper") for id, name in bare.items()}
    found = dict(parts)
    for names in (bare, plain):
        counts = Counter(names.values())
        found |= {id: name for id, name in names.items() if name and counts[name] == 1}
    return found


def parts_of(count: float, id: str) -> str:
    """ "2 x NVIDIA B200 180 GB"."""
    return f"{count:g} x {product(id)}"


def used_of(option: Any, name: str) -> str:
    """Accelerators that work, and those that are rented where these are more: "4 of 8 x H100"."""
    used, bill = option.accelerators, option.bill
    rented = f" of {bill.accelerators:g}" if bill.accelerators > used else ""
    return f"{used:g}{rented} x {name}"


def run_price(cost: Quantity, *, wall_s: float, usd_per_hour: float) -> tuple[str, str]:
    """
    What a run costs, and beside it how long it takes and the product that makes the cost.

    Hours are charged while instances stand: fewer than it takes where spot capacity is away, more where they are
    rounded up or kept for retries. Storage is charged beside them.

    Examples
    --------
    >>> run_price(Quantity(value=315.0, unit="USD"), wall_s=6.0 * 3600, usd_per_hour=90.0)
    ('$315', 'in 6 h (3.5 h at $90.00/h)')
    >>> run_price(Quantity(value=540.0, unit="USD"), wall_s=6.0 * 3600, usd_per_hour=90.0)
    ('$540', 'in 6 h ($90.00/h)')
    """
    beside = sum(part.value for part in cost.parts if part.name == "storage")
    charged = show((cost.value - beside) / usd_per_hour * 3600.0, "s") if usd_per_hour else ""
    taken, price = show(wall_s, "s"), f"${usd_per_hour:,.2f}/h"
    product = price if charged in {taken, ""} else f"{charged} at {price}"
    stored = f" + {money(beside)} storage" if beside > 0.005 * cost.value else ""
    return money(cost.value), f"in {taken} ({product}{stored})"
