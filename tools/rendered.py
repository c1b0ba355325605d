"""
What a page of an answer shows, read back from its HTML, against the answer's own numbers and the terminal's screen.

`tools.consistent` asks. Every option of the table is chosen in turn: headline, meters, cards, rows, charts and the bar
below must then say what JSON holds of that option, and the terminal what the page says.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from typing import Any, Final

from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.infer_plan import InferOption
from tonnage.domain.metrics import LATENCIES, objectives
from tonnage.domain.plan import ServeOption
from tonnage.domain.train_plan import RunOption
from tonnage.questions.answers import choosable, document_of
from tonnage.report.terminal import print_blocks
from tonnage.web.pages import Shown, question_page
from tonnage.web.questions import QUESTIONS

UNITS: Final = {
    "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "day": 86400.0, "days": 86400.0, "years": 31557600.0,
    "%": 0.01, "k": 1e3, "M": 1e6, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
}  # fmt: skip
NUMBER: Final = re.compile(r"(?P<usd>\$)?(?P<value>\d[\d,]*(?:\.\d+)?)\s?(?P<unit>[a-zA-Zµ%]+)?")
DIGITS: Final = 0.005
"""What three printed digits may be off. [-]"""
WHOLE: Final = 0.01
"""What whole per cent, rounded down, may be off. [-]"""
MONEY: Final = ("$/h", "cost", "price", "USD/h", "USD of the job")


class Page:
    """The parts of a page that hold numbers, as texts."""

    def __init__(self, source: str) -> None:
        self.price = _first(r'<p class="price">.*?<b>(.*?)</b>', source)
        self.beside = _first(r'<p class="price">.*?<small>(.*?)</small>', source)
        self.product = _first(r'<p class="product">(.*?)</p>', source)
        self.details = [
            _plain(one) for one in re.findall(r"<span>(.*?)</span>", _raw(r'class="details">(.*?)</p>', source))
        ]
        self.sentence = _first(r'<p class="sentence.*?>(.*?)</p>', source)
        self.bar = _first(r'class="actions".*?<p>(.*?)</p>', source)
        self.meters = {
            _first(r"<small>(.*?)</small>", name) or _plain(name): (_plain(value), _plain(odds))
            for name, value, odds in re.findall(
                r'class="name">(.*?)</div>.*?aria-valuetext="(.*?)".*?(?:class="odds">([^<]*)<|\n</div>\n)',
                source,
                re.S,
            )
        }
        self.figures = {
            _plain(name).removesuffix("estimate").strip(): _plain(value)
            for name, value in re.findall(r"<dt>(.*?)</dt><dd><b>(.*?)</b>", source)
        }
        self.cards = {
            int(rank): _plain(price)
            for rank, price in re.findall(r'class="choice opt"[^>]*data-rank="(\d+)".*?class="end">(.*?)</b>', source)
        }
        self.rows = {
            int(rank): {
                _plain(head): _plain(re.sub(r'<small class="label">.*?</small>', "", cell))
                for head, cell in re.findall(r'<td data-label="(.*?)"[^>]*>(.*?)</td>', row)
            }
            for rank, row in re.findall(r'<tr id="option-(\d+)"(.*?)</tr>', source)
        }
        chart = _raw(r'<figure id="chart-frontier">(.*?)</figure>', source)
        heads = [_plain(one) for one in re.findall(r"<th[^>]*>(.*?)</th>", chart)]
        self.points = [
            dict(zip(heads, map(_plain, re.findall(r"<td[^>]*>(.*?)</td>", row)), strict=True))
            for row in re.findall(r"<tr>(<td.*?)</tr>", chart)
        ]


def _raw(pattern: str, source: str) -> str:
    found = re.search(pattern, source, re.S)
    return found[1] if found else ""


def _plain(source: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", source)).split())


def _first(pattern: str, source: str) -> str:
    return _plain(_raw(pattern, source))


def page_of(answered: Any, *, path: str, given: Mapping[str, Any], option: int) -> str:
    """The HTML that the server sends for a question, with that option chosen."""
    fields = {name: ",".join(value) if isinstance(value, list) else str(value) for name, value in given.items()}
    return question_page(QUESTIONS[path], given=fields, shown=Shown(key="key", answer=answered, option=str(option)))


def contradictions_between(answered: Any, *, path: str, given: Mapping[str, Any]) -> Iterator[str]:
    """What page, JSON and terminal say differently of one answer, with each option of the table chosen in turn."""
    first = Page(page_of(answered, path=path, given=given, option=1))
    ranks = list(first.rows) or [1]
    for rank in ranks if choosable(answered) > 1 else ranks[:1]:
        page = first if rank == 1 else Page(page_of(answered, path=path, given=given, option=rank))
        option = (getattr(answered, "options", ()) or (None,))[rank - 1]
        if option is None:
            continue
        for said in (*_of_card(page, answered.request, option, rank), *_of_terminal(page, answered, rank)):
            yield f"page of option {rank}: {said}"
    yield from (f"page: {said}" for said in _of_table(first, answered))


def _of_card(page: Page, request: Any, option: Any, rank: int) -> Iterator[str]:
    """Headline, meters and the bar below."""
    usd = _usd(option)
    if page.price and usd is not None:
        yield from _unlike("price", page.price, usd)
    if page.price and page.price not in page.bar:
        yield f"the bar says {page.bar}, the card {page.price}"
    if rank in page.cards and usd is not None:
        yield from _unlike("choice", page.cards[rank], usd)
    if page.beside.endswith("/month") and isinstance(option, ServeOption):
        yield from _unlike("month", page.beside, option.usd_per_month)
    yield from _unlike(
        "accelerators", page.product, option.count if isinstance(option, InferOption) else option.accelerators
    )
    if isinstance(option, ServeOption | BatchOption) and page.details:
        yield from _unlike("replicas", page.details[0], option.replicas)
    known, limits = _figures(option), _limits(request, option)
    for name, (value, odds) in page.meters.items():
        yield from _unlike(name, value, known.get(name))
        yield from _unlike(f"limit of {name}", value.partition(" of ")[2], limits.get(name))
        chance = getattr(option, "chance", None)
        alone = NUMBER.search(odds)
        if alone is not None and chance is not None and float(alone["value"]) < 100.0 * (chance - WHOLE):
            yield f"{name} alone is kept with {odds}, everything with {chance:.4f}"
    for name, value in page.figures.items():
        yield from _unlike(name, value, known.get(name))
        if name.startswith("chance of meeting"):
            yield from _unlike(name, value, option.chance, off=WHOLE)


def _of_table(page: Page, answered: Any) -> Iterator[str]:
    """Rows and points of the chart."""
    for rank, row in page.rows.items():
        option = answered.options[rank - 1]
        known = _figures(option) | {"cost": _usd(option), "$/h": _usd(option), "meets": getattr(option, "chance", None)}
        if "layout" in row and isinstance(option, ServeOption | BatchOption):
            known["layout"] = option.replicas
        known["accelerators"] = option.count if isinstance(option, InferOption) else option.accelerators
        for head, cell in row.items():
            off = WHOLE if head == "meets" else 0.0
            yield from (f"row {rank}: {said}" for said in _unlike(head, cell, known.get(head), off=off))
    prices = [usd for option in getattr(answered, "options", ()) if (usd := _usd(option)) is not None]
    for point in page.points:
        for head in MONEY:
            if head in point and not any(not [*_unlike(head, point[head], usd)] for usd in prices):
                yield f"chart: {point} is no option's price"


def _of_terminal(page: Page, answered: Any, rank: int) -> Iterator[str]:
    """What the page says and the terminal's first screen of the same option does not."""
    out = io.StringIO()
    with redirect_stdout(out):
        print_blocks(document_of(answered, rank=rank).first, width=300)
    screen = " ".join(out.getvalue().split())
    for text in (page.product, *page.details, page.price, *page.figures.values()):
        if text not in screen:
            yield f"the terminal does not say '{text}'"
    for name, (value, odds) in page.meters.items():
        for part in (*re.split(r" of |, (?:90 % )?interval ", value), odds.strip()):
            if part and part not in screen:
                yield f"the terminal does not say '{part}' of {name}"


def _usd(option: Any) -> float | None:
    """What an option is priced by: an hour of service, or a whole job."""
    if isinstance(option, ServeOption | InferOption):
        return option.bill.usd_per_hour if option.bill is not None else getattr(option, "price_usd", None)
    return float(option.cost.value) if hasattr(option, "cost") else None


def _figures(option: Any) -> dict[str, float | None]:
    """Numbers of an option by the names that meters and columns have."""
    if isinstance(option, ServeOption):
        seen = option.capacity
        latencies = {
            f"{one.title} p{rank}": value.value
            for one in LATENCIES
            if (value := getattr(seen, one.name, None)) is not None
            for rank in (50, 90, 95, 99)
        }
        return {**latencies, "req/s": option.replicas * seen.max_rate_per_s.value}
    if isinstance(option, InferOption):
        return {"Mean latency": option.latency_s.value, "latency": option.latency_s.value, "used": option.used,
                "Capacity": option.used, "capacity": option.count * option.capacity_per_s.value}  # fmt: skip
    wall = option.wall_s.value if isinstance(option, BatchOption) else option.run.wall_s.value
    found: dict[str, float | None] = {"Time": wall, "time": wall, "Cost": option.cost.value, "cost": option.cost.value}
    if isinstance(option, RunOption):
        found |= {"Memory": option.memory.value, "MFU": getattr(option, "mfu", None), "step": option.step_s.value}
    return found


def _limits(request: Any, option: Any) -> dict[str, float]:
    """Limits of the request by the names of their meters."""
    slo = getattr(request, "slo", None)
    found = {f"{one.title} p{slo.percentile:g}": most for one, most in objectives(slo)} if slo is not None else {}
    fields = {"Time": "deadline_s", "Cost": "budget_usd", "Mean latency": "latency_s"}
    named = [(name, getattr(request, field, None)) for name, field in fields.items()]
    named.append(("Memory", getattr(option, "limit_bytes", None)))
    return found | {name: value for name, value in named if value is not None}


def _unlike(name: str, text: str, value: float | None, *, off: float = 0.0) -> Iterator[str]:
    """A sentence where the first number of a text is not that value, as exactly as it is printed; none of no value."""
    found = NUMBER.search(text)
    if value is None or not text:
        return
    if found is None:
        yield f"{name} '{text}' is {value:g}"
        return
    digits = found["value"].replace(",", "")
    unit = found["unit"] or ""
    if not unit and " (" in text:  # "17 (5.5-188) s": the unit stands at the end
        unit = text.rsplit(" ", 1)[-1] if text.rsplit(" ", 1)[-1] in UNITS else ""
    scale = UNITS.get(unit, 1.0)
    shown, last = float(digits) * scale, 0.5 * 10.0 ** -len(digits.partition(".")[2]) * scale
    if abs(shown - value) > max(last, DIGITS * abs(value), off) * (1.0 + 1e-6):
        yield f"{name} '{text}' is {value:g}"
