"""
Fit how far predictions are off and write it where predictions look it up: with every source, and without each in turn.

    python tools/calibration/left_out.py           first: what fits say that never saw the row's source
    python -m tools.calibration.widths             about two minutes
    python -m tools.calibration.widths_judged      seconds: do these intervals and chances hold?

The model is `tonnage_accuracy.intervals`; its residuals are those of tools/calibration/left_out.csv.gz, each row as
predicted without its source, and of measurements/first_contact (`first_scores`), sources as predicted before they were
opened. src/tonnage/catalog/data/intervals/errors.toml is rewritten but for errors that no measurement covers, and so is
tools/calibration/left_out_errors.json.gz: the same without each source and each family of measurements/groups.toml,
fitted from scratch. Structure that was set by hand with the rows in view stays; nothing can take it back.

Rows that contradict themselves (`contradictions`), that were served at a rate (`queueing`) or peaks of several devices
that do not say how the states were split (`undivided`) are scored like all others but teach no width.
"""

from __future__ import annotations

import datetime
import gzip
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from tonnage.catalog.spreads import KINDS, ErrorOf, errors
from tonnage_accuracy.contradictions import contradicting
from tonnage_accuracy.first_contact import first_scores
from tonnage_accuracy.grouping import read_grouping
from tonnage_accuracy.intervals import FITTED, Pooling, Residual, fit, pooled, residuals, tail_of, unknown_word
from tonnage_accuracy.left_out import WIDTHS, left_out_predictions
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, number, text, usable_rows
from tonnage_accuracy.scoring import Score, score_of

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = ROOT / "src" / "tonnage" / "catalog" / "data" / "intervals" / "errors.toml"

OTHER_QUESTION: Final = frozenset({"WHSP", "fmsacc", "interne"})
"""
Sources whose first predictions answered another question than was asked, and say nothing of how far an answer is off:
thirteen minutes of speech with five beams were given the time of one window of thirty seconds, InternEvo was read as
eager PyTorch, and fms-acceleration without the kernels that its rows name. What was wrong is refused or read today;
the errors stay in measurements/first_contact.csv.
"""
Errors = dict[tuple[str, str], list[Residual]]


def main() -> None:
    """Fit, print and write."""
    start, rows = time.monotonic(), taught()
    scores = [*left_out(rows), *(one for one in met() if one.block not in OTHER_QUESTION)]
    every = errors_of(scores)
    pooling = pooled(every.values())
    tail = tail_of(every.values(), pooling)
    print(f"{pooling}, tail {tail}")
    fitted = by_kind(every, pooling)
    for kind in KINDS:
        for name, one in fitted.get(kind, {}).items():
            print(f"{kind} {name}: bias {one.bias:+.3f}, width {one.width:.3f}, {one.sources} sources {one.evidence}")
    TABLE.write_text(as_toml(fitted, pooling, tail), encoding="utf-8")
    without = {kind: by_group(rows, scores, kind, pooling) for kind in ("source", "family")}
    with gzip.GzipFile(ROOT / WIDTHS, "wb", mtime=0) as file:
        file.write(msgspec.json.encode(without))
    print(f"{time.monotonic() - start:.0f} s")


def taught() -> list[Row]:
    """Rows that teach a width as predicted without their source; the others are in `met`."""
    unseen, blocks = read_grouping(ROOT).unseen, {one.block for one in met()}
    rows = [row for row in usable_rows(ROOT) if row.table not in unseen and row.block not in blocks]
    passed = doubtful(rows)
    return [row for row in rows if row.id not in passed]


@cache
def met() -> list[Score]:
    """Rows that teach a width as predicted before their source was opened."""
    scores = first_scores()
    ids = {one.id for one in scores}
    passed = doubtful(row for row in usable_rows(ROOT) if row.id in ids)
    return [one for one in scores if one.id not in passed]


def doubtful(rows: Iterable[Row]) -> set[str]:
    """Ids of rows that teach no width."""
    rows = list(rows)
    return contradicting(rows) | queueing(rows) | undivided(rows)


def errors_of(scores: Iterable[Score]) -> Errors:
    """Residuals by kind of case and quantity, each with its publisher, those of first contact marked."""
    first = {one.id for one in met()}
    return residuals(scores, source=read_grouping(ROOT).publisher, first=first)


def by_kind(every: Errors, pooling: Pooling) -> dict[str, dict[str, ErrorOf]]:
    """The error of every quantity, by kind of case and name."""
    found: dict[str, dict[str, ErrorOf]] = {}
    for (kind, name), own in every.items():
        found.setdefault(kind, {})[name] = fit(own, pooling)
    return found


def by_group(
    rows: Iterable[Row], scores: Sequence[Score], kind: str, pooling: Pooling
) -> dict[str, dict[str, dict[str, ErrorOf]]]:
    """By source or family: the errors of the quantities that it has, fitted without it."""
    grouping = read_grouping(ROOT)
    name = grouping.leaves_with if kind == "source" else grouping.family
    group = {row.id: name(row) for row in rows}
    if kind == "source":
        group = {one.id: grouping.publisher(one.block) for one in scores}
    found = {}
    for hidden in dict.fromkeys(group.values()):
        own, rest = (
            errors_of(one for one in scores if (group.get(one.id) == hidden) is inside) for inside in (True, False)
        )
        found[hidden] = by_kind({key: rest[key] for key in own if key in rest}, pooling)
    return found


def left_out(rows: Iterable[Row]) -> list[Score]:
    """Every measured number as predicted without its source."""
    stored = left_out_predictions(ROOT, "source")
    found = []
    for row in rows:
        for wanted in measured_numbers(row):
            known = stored.get((row.id, wanted.quantity))
            if known is not None:
                found.append(replace(score_of(row, wanted), predicted=known.predicted, level=known.level))
    return found


def undivided(rows: Iterable[Row]) -> set[str]:
    """
    Ids of peaks on several devices without a degree or a kind of sharding.

    Whether each of four devices holds all states or a quarter decides the peak; of what was not stated an error says
    nothing (LitGPT's page says of such rows that every run was on one GPU).
    """
    return {
        row.id
        for row in rows
        if row.layout == "training"
        and number(row, "peak_mem_gb")
        and (number(row, "num_accel") or 1.0) > 1.0
        and not any(text(row, name) for name in ("sharding", "tp", "pp", "cp", "ep", "dp"))
    }


def queueing(rows: Iterable[Row]) -> set[str]:
    """
    Ids of rows that were served at a rate.

    Their intervals are those of a closed loop and, on top, what a rate near the knee makes of its error
    (`core.replica.with_queueing`): as teachers of the first part they would count the second twice.
    """
    return {row.id for row in rows if text(row, "load") == "open_loop"}


def as_toml(fitted: dict[str, dict[str, ErrorOf]], pooling: Pooling, tail: float) -> str:
    """The table as `catalog.spreads` reads it; errors that were not fitted stay as they are."""
    lines = [
        "# Errors of predictions, written by tools/calibration/widths.py (docstring of tonnage.catalog.spreads).",
        f'source = "{datetime.date.today()}: sources left out of the fits, t with {pooling.source:g} (source) and '
        f"{pooling.number:g} (number) degrees of freedom, words drawn to 1 by {pooling.words:g}, "
        f'first contact by {pooling.first:g}"',
        f"tail = {tail}",
        f"unknown = {unknown_word(pooling):.4f}",
    ]
    for kind in KINDS:
        known: dict[str, ErrorOf] = getattr(errors(), kind)
        kept = {name: one for name, one in known.items() if name not in FITTED[kind]}
        for name, one in (fitted.get(kind, {}) | kept).items():
            lines += ["", f"[{kind}.{name}]", *(f"{key} = {value}" for key, value in _plain(one).items())]
    return "\n".join(lines) + "\n"


def _plain(one: ErrorOf) -> dict[str, object]:
    inline = lambda table: "{ " + ", ".join(f'"{key}" = {value}' for key, value in table.items()) + " }"  # noqa: E731
    return {
        key: inline(value) if isinstance(value, dict) else value for key, value in msgspec.structs.asdict(one).items()
    }


if __name__ == "__main__":
    main()
