"""Calibrations, the history of measurements and refreshes of the catalogue as documents."""

from __future__ import annotations

import math

import msgspec

from tonnage.catalog import part_name
from tonnage.domain.calibration import Calibrated, CalibrationError, MeasurePlan
from tonnage.domain.listing import Refresh, Refreshed, RefreshedModel, RefreshedModels
from tonnage.domain.measurement import History, HistoryComparison
from tonnage.domain.metrics import METRICS
from tonnage.report.document import Command, Document, Headline, Note, document, grid
from tonnage.units import percent, plural, show

FIRST_ROWS = 10
"""Loads of the first screen."""

_NUMBERS = (
    ("memory", "what memory bounds"),
    ("compute", "what arithmetic bounds"),
    ("step_s", "host time of a step"),
    ("request_s", "start of a request"),
)
_NINETY = 1.645


def calibrated_document(found: Calibrated, *, path: str = "", own: bool = False) -> Document:
    """
    A calibration: its numbers, and the error of every measured one with and without it.

    `path` is the file that was written, empty = none; `own` = it lies where every later answer looks for it.
    """
    numbers = []
    for name, said in _NUMBERS if found.calibration.spread else ():
        value, error = getattr(found.calibration.stretch, name), found.calibration.spread.get(name)
        wide = math.exp(_NINETY * error) if error is not None else 1.0
        numbers.append(
            (
                said,
                _value(name, getattr(found.prior, name)),
                _value(name, value),
                f"{_value(name, value / wide)} – {_value(name, value * wide)}",
            )
        )
    loads = grid(["model", "load", "quantity", "measured>", "before>", "after>", "left out>"], map(_row, found.errors))
    use = "every later answer takes it" if own else f"use it with --calibration {path}"
    more = len(loads.rows) - FIRST_ROWS
    return document(
        Headline(found.sentence),
        grid(["number", "catalogue>", "this stack>", "90 % between>"], numbers),
        msgspec.structs.replace(loads, rows=loads.rows[:FIRST_ROWS]),
        Command(f"Written to {path}; {use}.") if path else None,
        Note(hint=(f"{more} more loads and n" if more > 0 else "N") + "otes: --why."),
        why={"Every load": loads if more > 0 else None, "Notes": found.notes},
    )


def _value(name: str, value: float) -> str:
    return show(value, "s") if name.endswith("_s") else f"x{value:.3g}"


def _row(error: CalibrationError) -> tuple[str, ...]:
    """A measured number, and by how much each prediction of it misses, over the measured one."""
    timed = error.unit in {"s", "bytes"}
    measured = show(error.measured, error.unit) if timed else f"{error.measured:,.3g} tokens/s"
    shares = (error.before, error.after, error.left_out)
    name = METRICS[error.quantity].title if timed else "throughput"
    model = error.model.rpartition("/")[2]
    return (
        model,
        error.load,
        name,
        measured,
        *("–" if x is None else percent(x / error.measured - 1.0, sign="+") for x in shares),
    )


def measure_plan_document(found: MeasurePlan) -> Document:
    """What to measure, in order, and what it makes of the chance that the choice is right."""
    rows = [
        (
            str(place),
            part_name(p.accelerator),
            p.engine,
            p.layout,
            p.precision,
            ", ".join(f"{load:g}" for load in p.loads),
            f"{p.minutes:g}",
            f"{p.usd:.2f}",
            percent(p.sure_after),
        )
        for place, p in enumerate(found.proposals, start=1)
    ]
    heads = ["", "accelerator~", "engine", "layout", "format", "at once", "min>", "USD>", "then right>"]
    return document(
        Headline(found.sentence),
        grid(heads, rows),
        Command("Measure with `tonnage measure quick URL`; plan again with what it wrote.") if rows else None,
        Note(f"{found.competing} options compete.", hint="Notes: --why."),
        why={"Notes": found.notes},
    )


def history_document(history: History) -> Document:
    """Entries of the history, in the order that they come in."""
    rows = [
        (
            str(entry.id),
            entry.kind,
            entry.date,
            entry.machine,
            entry.model or "–",
            entry.subject or "–",
            ", ".join(f"{name} {version}" for name, version in entry.versions.items()),
        )
        for entry in history.entries
    ]
    heads = ["no>", "kind", "date", "machine~", "model~", "of~", "versions~"]
    return document(Headline(f"{plural(len(rows), 'measurement')} in {history.place}."), grid(heads, rows))


def comparison_document(found: HistoryComparison) -> Document:
    """Two runs side by side: what was another, then every number of the loads that both have."""
    heads = ["load~", "", f"{found.first.id}>", f"{found.second.id}>", "ratio>"]
    rows = [
        (
            pair.load,
            NAMES.get(pair.name, pair.name),
            *(_number(pair.name, value) for value in (pair.first, pair.second)),
            "–" if pair.ratio is None else f"{pair.ratio:.3f}",
        )
        for pair in found.pairs
    ]
    other = grid(["another", f"{found.first.id}~", f"{found.second.id}~"], found.differs)
    return document(Headline(found.sentence), grid(heads, rows), other, map(Note, found.notes))


NAMES = {name: METRICS[name].title for name in ("ttft_s", "tpot_s")}
NAMES |= {"output_tokens_per_s": "output tokens/s", "cached_share": "from the cache"}


def _number(name: str, value: float | None) -> str:
    """A number of a comparison in its unit."""
    if value is None:
        return "–"
    return show(value, {"cached_share": "fraction", "output_tokens_per_s": "count"}.get(name, "s"))


# What a refresh fetched


def refreshed_document(found: Refreshed) -> Document:
    """One line a provider: those with new prices (`kept` counts them), then those whose known prices stay."""
    fetched = [one for one in found.refreshed if one.kept]
    prices = sum(one.kept for one in fetched)
    lead = Headline(f"{prices:,} prices of {len(fetched)} providers fetched from {found.source}.")
    rest = sorted(found.refreshed, key=lambda one: (not one.kept, one.provider))
    return document(lead, map(_line, rest))


def _line(one: Refresh) -> str:
    if not one.kept:
        return f"{one.provider}: keeps what is known; {one.why}"
    moved = "" if one.moved is None else f", {percent(one.moved - 1, sign='+')} at the middle against those known"
    left = f", {one.left_out} instances with unknown accelerators left out" if one.left_out else ""
    return f"{one.provider}: {one.kept:,} prices of {one.as_of}{moved}{left}"


def refreshed_models_document(found: RefreshedModels) -> Document:
    """One line a model."""
    read = sum(not one.why for one in found.refreshed)
    lead = Headline(f"{plural(read, 'model')} read from {found.source}.")
    return document(lead, (f"{one.model}: {_of_model(one)}" for one in found.refreshed))


def _of_model(one: RefreshedModel) -> str:
    if one.why:
        return f"keeps what is known; {one.why}"
    if not one.known:
        return "kept in this machine's cache, and known without a network from now on"
    if not one.differs:
        return "as the catalogue says"
    return (
        f"the hub differs in {', '.join(one.differs)}; the catalogue holds, a config.json given as a path overrides it"
    )
