"""What must be resident, as a document: the memory against its limit; then the stack, the largest x, rules of thumb."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tonnage.catalog import model_name, product
from tonnage.domain.layout import Engine
from tonnage.engines.registry import engine_release
from tonnage.questions.fit.question import FitAnswer, FitRow, Rule
from tonnage.report.charts.chart import Chart, memory_chart
from tonnage.report.document import (
    Block,
    Document,
    Meter,
    Note,
    Table,
    grid,
    sections,
)
from tonnage.report.screen import first_screen, risk
from tonnage.report.wording import limits, meter, plural
from tonnage.units import percent, show

MOST_STACKS: Final = 6
"""Accelerators whose memory is opened one by one; beyond, one line each."""
SMALL: Final = 0.002
"""Parts under this share of the limit are put together. [-]"""
FIRST_PARTS: Final = 5
FIRST_ROWS: Final = 8
LARGEST_FIRST: Final = 3
MODELS_FIRST: Final = 6


def fit_document(answer: FitAnswer, *, most: int | None = None) -> Document:
    """The answer as blocks; at most `most` accelerators in the first table, `FIRST_ROWS` without it."""
    shown = answer.rows[: most or FIRST_ROWS]
    asked = bool(answer.request.accelerators)
    single = len(answer.rows) == 1
    hidden = len(answer.rows) - len(shown)
    small = f"{plural(answer.too_small, 'accelerator')} too small." if answer.too_small else ""
    more = f"{plural(hidden, 'more accelerator')}: --all. " if hidden > 0 else ""
    first = first_screen(
        question=_question(answer),
        answer=_recommendation(answer),
        good=answer.fits,
        meters=[_meter(answer.rows[0])] if answer.rows else [],
        table=_stack(answer.rows[0], most=FIRST_PARTS) if single and asked else _overview(shown),
        risks=[
            _models(answer.rows[:1]),
            *(risk(note) for note in (answer.rows[0].notes[:2] if answer.rows else ())),
            f"Nearest: {nearest}" if (nearest := _nearest(answer)) else "",
            *(f"Would fit: {text}" for text in _remedies(answer.rows)[:2] if text != _nearest(answer)),
            *(f"Largest {text}" for text in _largest(answer.rows[:1], models=False)[:LARGEST_FIRST] if asked),
        ],
        rest=Note(small, hint=f"{more}Every part, its source, rules of thumb, assumptions: --why."),
    )
    return Document(first, _why(answer))


def _question(answer: FitAnswer) -> list[str]:
    """What was asked, a phrase each: the model and its size, the kind of job, every number given, the engine."""
    request = answer.request
    numbers = (("context", request.context, "tokens"), ("", request.concurrency, "concurrent sequences"),
               ("batch", request.batch, ""), ("sequences of", request.seq_len, "tokens"),
               ("", request.resolution, "px"))  # fmt: skip
    asked = [f"{lead} {number:,} {unit}".strip() for lead, number, unit in numbers if number]
    stated = Engine(name=request.engine, version=request.engine_version)
    engine = [engine_release(request.engine, stated)] if answer.goal == "serve" else []
    active = answer.active_parameters
    moe = f", {active / 1e9:,.3g} B active" if active < 0.95 * answer.parameters else ""
    goal = {"serve": "serving", "train": "training", "finetune": f"{request.method} fine-tune"}.get(
        answer.goal, str(answer.goal)
    )
    if not answer.model:
        return ["largest model", goal, *asked, *engine]
    return [f"{model_name(answer.model)} ({answer.parameters / 1e9:,.3g} B parameters{moe})", goal, *asked, *engine]


def _recommendation(answer: FitAnswer) -> str:
    """The first row and its verdict; the whole sentence where there is no row, or a largest value was looked for."""
    if not answer.rows or answer.request.solve is not None:
        return answer.sentence
    row = answer.rows[0]
    verdict = "fits" if row.verdict.ok else f"short by {show(row.verdict.short_by or 0.0, 'bytes')}"
    lead = "" if answer.request.accelerators else "Smallest that fits: " if row.verdict.ok else ""
    return f"{lead}{row.count} x {product(row.accelerator)} ({_degrees(row)}, {_weights(row)}): {verdict}"


def _nearest(answer: FitAnswer) -> str:
    """What would fit instead, where the first does not."""
    verdict = answer.rows[0].verdict if answer.rows else None
    return "" if verdict is None or verdict.ok else verdict.nearest or ""


def _weights(row: FitRow) -> str:
    """The format of the weights, of a mixture that has another for its experts theirs."""
    return str(row.precision.get("experts") or row.precision.get("weights", "")).upper()


def _meter(row: FitRow) -> Meter:
    where = "memory of each" if row.count > 1 else "memory"
    return meter(where, row.memory, limit=row.limit_bytes, of=f"{show(row.limit_bytes, 'bytes')} usable")


def _stack(row: FitRow, *, most: int | None = None) -> Table:
    """
    Parts of one accelerator's memory from the largest, what is needed together, the headroom (or what is short), and
    the limit, of which all shares are.

    With `most`, the smaller parts beyond so many share one line, and neither sources nor a title are shown.
    """
    parts = list(_parts(row))
    if most is not None and len(parts) > most + 1:
        rest = sum(value for _, value, _, _ in parts[most:])
        parts = [*parts[:most], (f"{len(parts) - most} smaller parts", rest, "", "")]
    rows = [
        (name, show(value, "bytes"), _share(value, row), basis, source if most is None else "")
        for name, value, basis, source in parts
    ]
    rows.append(
        (
            "needed",
            show(row.memory.value, "bytes"),
            _share(row.memory.value, row),
            row.memory.basis.value,
            f"90 % within {limits(row.memory)}" if limits(row.memory) else "",
        )
    )
    rows.append(
        (
            "headroom" if row.free_bytes >= 0 else "short",
            show(abs(row.free_bytes), "bytes"),
            _share(abs(row.free_bytes), row),
            "",
            "",
        )
    )
    kept = row.total_bytes - row.limit_bytes
    outside = f"{show(kept, 'bytes')} of {show(row.total_bytes, 'bytes')} are outside the engine's memory limit"
    rows.append(("limit", show(row.limit_bytes, "bytes"), "100 %", "", outside if kept > 0 else ""))
    heads = ("on each accelerator" if row.count > 1 else "part", "size>", "of limit>", "basis", "from~")
    title = "" if most is not None else f"{row.count} x {product(row.accelerator)} ({_degrees(row)}, {_weights(row)})"
    return grid(heads, rows, title=title, total=True)


def _share(value: float, row: FitRow) -> str:
    return percent(value / row.limit_bytes, 1)


def _parts(row: FitRow) -> Iterator[tuple[str, float, str, str]]:
    """Parts worth a line, largest first; the rest of one kind together."""
    small = 0.0
    for part in sorted(row.memory.parts, key=lambda part: -part.value):
        if part.value < SMALL * row.limit_bytes:
            small += part.value
        else:
            yield part.name, part.value, part.basis.value, part.source
    if small:
        yield "small parts", small, "", "each under 0.2 % of the limit (all in the JSON)"


def _overview(rows: Sequence[FitRow]) -> Table:
    """One line for each row: accelerators, layout, and on each accelerator what is needed, usable and left."""
    cells = []
    for row in rows:
        room = show(row.free_bytes, "bytes") if row.free_bytes >= 0 else f"short {show(-row.free_bytes, 'bytes')}"
        tokens = f"{row.kv_tokens:,.0f}" if row.kv_tokens is not None else ""
        cells.append(
            (f"{row.count} x {product(row.accelerator)}", _degrees(row), _weights(row),
             show(row.memory.value, "bytes"), limits(row.memory), show(row.limit_bytes, "bytes"), room, tokens)
        )  # fmt: skip
    heads = ("accelerators~", "layout<3", "weights<2", "needed on each>", "90 %<1", "usable>4", "headroom>",
             "KV cache, tokens>5")  # fmt: skip
    return grid(heads, cells)


def _degrees(row: FitRow) -> str:
    """The layout in short, as "TP8 PP2 sharding zero3"; degrees of one are left out."""
    degrees = [
        f"{name.upper()}{value}" if name in ("tp", "pp", "dp", "ep", "cp") else f"{name} {value}"
        for name, value in row.layout.items()
        if value not in (1, "none", None)
    ]
    return " ".join(degrees) or "single accelerator"


# Why


def _why(answer: FitAnswer) -> tuple[Block, ...]:
    """What `--why` adds; memory part by part of the first accelerators that were named, else of the smallest alone."""
    asked = bool(answer.request.accelerators)
    stacks = answer.rows[:MOST_STACKS] if asked or len(answer.rows) == 1 else answer.rows[:1]
    return sections(
        {
            "Answer": answer.sentence,
            "Memory, part by part": (_stack(row) for row in stacks),
            "Largest that fits": _largest(answer.rows) if asked else None,
            "What would make it fit": _remedies(answer.rows),
            "Rules of thumb beside it": _rules(answer.rules),
            "Notes": dict.fromkeys(note for row in answer.rows[: MOST_STACKS if asked else 1] for note in row.notes),
            "Assumptions": answer.assumed,
        }
    )


def _models(rows: tuple[FitRow, ...]) -> str:
    """The models that fit, best first, in a line; empty where one model was asked about."""
    found = [
        f"{one.name} ({one.value / 1e9:,.3g} B{f', {one.given}' if one.given else ''})"
        for row in rows
        for one in row.largest
        if one.name is not None and "/" in one.name
    ]
    return f"Models that fit, best first: {', '.join(found[:MODELS_FIRST])}." if found else ""


def _largest(rows: tuple[FitRow, ...], *, models: bool = True) -> list[str]:
    """A line for each x whose largest value that fits was looked for (context, batch, …); `models`: the model, too."""
    found = []
    for row in rows[:MOST_STACKS]:
        where = f"{row.count} x {row.name}: " if len(rows) > 1 else ""
        for largest in row.largest:
            if largest.name is not None and not models:
                continue
            if largest.value < 1:
                found.append(f"{where}{largest.what}: none ({largest.given})")
            elif largest.name is not None:
                given = f", {largest.given}" if largest.given else ""
                found.append(f"{where}{largest.what}: {largest.name}, {largest.value / 1e9:,.3g} B parameters{given}")
            else:
                given = f"{largest.given}; " if largest.given else ""
                unit = largest.unit.removesuffix("s") if largest.value == 1 else largest.unit
                found.append(f"{where}{largest.what}: {largest.value:,.0f} {unit} ({given}{largest.binds} binds)")
    return found


def _remedies(rows: tuple[FitRow, ...]) -> list[str]:
    losers = [row for row in rows[:MOST_STACKS] if not row.verdict.ok]
    return [f"{row.name}: {remedy}" if len(rows) > 1 else remedy for row in losers for remedy in row.remedies]


def _rules(rules: tuple[Rule, ...]) -> Table:
    """Rules of thumb against what really fills the memory."""
    rows = [
        (
            rule.name,
            show(rule.rule_bytes, "bytes"),
            show(rule.real_bytes, "bytes"),
            percent(rule.off, sign="+"),
            rule.why,
        )
        for rule in rules
    ]
    return grid(["rule~", "by the rule>", "computed>", "rule off by>", "because it~"], rows)


def fit_charts(answer: FitAnswer) -> tuple[Chart | None, ...]:
    """What fills the memory of each accelerator."""
    return (memory_chart(answer.rows, lambda row: f"{row.count} x {row.name}"),)
