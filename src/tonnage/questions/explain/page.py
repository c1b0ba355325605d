"""Numbers opened, as an indented table: each part with its seconds, its share of the whole, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from tonnage.catalog import part_name
from tonnage.domain.answer import Breakdown, Evidence, Quantity
from tonnage.domain.metrics import METRICS, SPEEDS
from tonnage.engines.registry import engine_title
from tonnage.errors import UnknownName
from tonnage.report.document import (
    Block,
    Contents,
    Document,
    Headline,
    Note,
    Section,
    Table,
    blocks,
    grid,
    sections,
)
from tonnage.report.wording import limits
from tonnage.simulation.served_tree import E2E, TPOT, TTFT
from tonnage.units import percent, show

DEPTH: Final = 7
"""Levels below a number that are shown unless asked otherwise: operators of a steady state."""
PLAN_DEPTH: Final = 6
_FIRST: Final = frozenset(one.title for one in (*SPEEDS, METRICS["step_s"]))
_OF_REQUESTS: Final = (TTFT, TPOT, E2E)
_SHORTEST: Final = 0.0005
"""Of the whole; parts below are counted, not shown. [-]"""
_LARGEST: Final = 4
"""Parts of a number that a first screen names."""
_NAMED: Final = 0.01
"""Of the number, below which a part is not worth naming. [-]"""
_REST: Final = "Down to operators, shapes and sources: --why; one number: --number NAME; levels: --depth N."
_SHAPE: Final = ("m", "n", "k", "groups", "batch", "context", "heads", "kv_heads", "head_dim", "window", "ranks")


def breakdown_document(opened: Breakdown, *, depth: int = DEPTH, only: str | None = None) -> Document:
    """
    Every number of a configuration with its largest parts; then each opened to so many levels, and what the leaves
    rest on.

    What repeats others (the whole latency, rates) is opened one level, unless it is the one asked for by name.

    Raises
    ------
    UnknownName
        `only` is none of the numbers.
    """
    sources, why = dict[str, int](), list[Block]()
    for node in _choose_numbers(opened.numbers, only):
        levels = depth if only or node.name in _FIRST else min(depth, 1)
        parts = tree_table(node, depth=levels, sources=sources) if node.parts and levels > 0 else None
        why.append(Section(f"{_named(node)}: {_amount(node)}", blocks(node.how, parts)))
    cited = [f"[{number}] {source}" for source, number in sources.items()]
    why += sections({"Sources": cited, "Assumptions": opened.notes})
    lead = Headline(opened.label, good=bool(opened.numbers))
    rest: Contents = (_overview([opened]), Note(hint=_REST)) if opened.numbers else opened.notes[:1]
    return Document(blocks(lead, None if opened.numbers and only else rest), tuple(why))


def opened_to(opened: Breakdown, *, depth: int | None, only: str | None) -> Breakdown:
    """
    The same with so many levels below each number, all where `depth` is None, and with one number alone (`only`);
    refuses a name that is none of them.
    """
    numbers = (_to_depth(node, depth) for node in _choose_numbers(opened.numbers, only))
    return replace(opened, numbers=tuple(numbers))


def _to_depth(node: Quantity, depth: int | None) -> Quantity:
    if depth is None:
        return node
    return replace(node, parts=tuple(_to_depth(part, depth - 1) for part in node.parts) if depth > 0 else ())


def breakdown_answer(opened: Breakdown, *, top: int | None = None, every: bool = False) -> Document:
    """A configuration opened, as the page shows it: `top` and `every` choose among options, of which it has none."""
    return breakdown_document(opened)


def plan_breakdown(explanation: Document, plan: Any, *, rank: int, breakdowns: Sequence[Breakdown]) -> Document:
    """The explanation of a plan's option, with its numbers and their largest parts on the first screen."""
    options = getattr(plan, "options", ())
    option = options[rank - 1] if options else plan
    sums = [
        (field.removesuffix("_s"), value)
        for field in option.__struct_fields__
        if isinstance(value := getattr(option, field), Quantity) and value.parts
    ]
    table, label = _overview(breakdowns, sums), getattr(getattr(option, "configuration", None), "label", None)
    said = f"Option {rank} of {len(options)}: {label(part_name, engine_title)}" if label else ""
    moved = rank > 1 and bool(said)
    # The plan's own sentence speaks of the first option.
    first = [block for block in explanation.first if not (moved and isinstance(block, Headline))]
    opening = blocks(Headline(said) if moved else said, table, Note(hint=_REST))
    return replace(explanation, first=(*first, *opening))


def _overview(breakdowns: Sequence[Breakdown], sums: Sequence[tuple[str, Quantity]] = ()) -> Table:
    """A line a number: its value and its largest parts, each with its share."""
    bounds = {name: limits(value) for name, value in sums}
    rows = [
        (
            _named(node),
            _amount(node),
            bounds.get(node.name, ""),
            _shares(_largest(node)),
        )
        for opened in breakdowns
        for node in opened.numbers
        if len(node.parts) > 1 or node.name in _FIRST
    ]
    opened_names = {node.name for opened in breakdowns for node in opened.numbers}
    for name, value in sums:
        if name in opened_names:
            continue
        parts = sorted(((part.value / value.value, part.name) for part in value.parts if value.value), reverse=True)
        rows.append((name, show(value.value, value.unit), limits(value), _shares(parts[:_LARGEST])))
    return grid(["number", "value>", "90 %<1", "largest parts~"], rows)


def _named(node: Quantity) -> str:
    """A number with its statistic: latencies of requests are means, where plans and comparisons have percentiles."""
    return f"mean {node.name}" if node.name in _OF_REQUESTS else node.name


def _shares(parts: Sequence[tuple[float, str]]) -> str:
    return ", ".join(f"{name} {percent(share)}" for share, name in parts)


def _largest(node: Quantity) -> list[tuple[float, str]]:
    """Shares and names of the largest parts: the largest is opened until there are enough to name."""
    whole = _seconds(node)
    if not whole or len(node.parts) < 2:
        return []
    found = _parts_of_sum(node, 1.0 / whole)
    while sum(own >= _NAMED for own, _, _ in found) < _LARGEST:
        able = [one for one in found if one[0] >= _NAMED and len(_through(one[1])[0].parts) > 1]
        if not able:
            break
        taken = max(able, key=lambda one: one[0])
        end, times, _ = _through(taken[1])
        found = [one for one in found if one is not taken] + _parts_of_sum(end, taken[2] * times)
    named_parts = sorted(((own, part.name) for own, part, _ in found), reverse=True)
    return [(own, name) for own, name in named_parts[:_LARGEST] if own >= _NAMED]


def _parts_of_sum(node: Quantity, share: float) -> list[tuple[float, Quantity, float]]:
    """
    Parts that add up to the number (of a maximum only the operand that binds): their share of the root, the part, and
    the root's share of each second below.
    """
    parts = [part for part in node.parts if node.rule != "max" or part.name == node.binds]
    return [(share * part.value, part, share) for part in parts]


def _choose_numbers(numbers: tuple[Quantity, ...], only: str | None) -> list[Quantity]:
    """The number of that name, all without one."""
    if only is None or not numbers:
        return list(numbers)
    found = [node for node in numbers if node.name.lower() == only.lower()]
    if not found:
        raise UnknownName("number", only, known=[node.name for node in numbers])
    return found


def tree_table(node: Quantity, *, depth: int, sources: dict[str, int]) -> Table:
    """The parts of a number, indented; `sources` collects what the leaves rest on."""
    heads = ("part", "time>", "share>", "count x time x engine's factor, shape~", "roofline~", "evidence~")
    whole = _seconds(node)
    return grid(heads, _rows(node, depth=depth, share=1.0 / whole if whole else 0.0, sources=sources))


def _rows(
    node: Quantity, *, depth: int, share: float | None, sources: dict[str, int], level: int = 0
) -> Iterator[tuple[str, ...]]:
    """
    Parts above the threshold, `share` of the root for each second of the node's parts.

    What runs beside the longest operand of a maximum has no share.
    """
    if level >= depth:
        return

    def line(part: Quantity, own: float | None, *more: str) -> tuple[str, ...]:
        inside = "beside" if own is None else percent(own, 1)
        return ("  " * level + part.name, show(part.value, part.unit), inside, *more)

    small: list[Quantity] = []
    for part in node.parts:
        inside = None if node.rule == "max" and part.name != node.binds else share
        own = None if inside is None else inside * part.value
        if own is not None and abs(own) < _SHORTEST:
            small.append(part)
            continue
        end, times, how = _through(part)
        yield line(part, own, how, *_evidence(end.evidence, sources))
        beside = None if inside is None else inside * times
        yield from _rows(end, depth=depth, share=beside, sources=sources, level=level + 1)
    if small:
        rest = Quantity.total(f"{len(small)} smaller", tuple(small), unit=node.parts[0].unit)
        yield line(rest, None if share is None else share * rest.value, "", "", "")


def _through(node: Quantity) -> tuple[Quantity, float, str]:
    """Where a chain of single parts ends, how many of the last a node is, and how it is written in one line."""
    times, steps = node.times, [_how(node)]
    while True:
        only = node.parts[0] if len(node.parts) == 1 else _binding(node)
        if only is None:
            steps += [f"{node.binds} binds, the other runs beside it"] if node.rule == "max" else []
            return node, times, "; ".join(filter(None, steps))
        if node.rule == "max":
            beside = ", ".join(f"{part.name} {show(part.value, part.unit)}" for part in node.parts if part is not only)
            steps.append(f"{only.name} binds over {beside}")
        elif node.times != 1.0:
            steps[-1] = f"{node.times:.3g} x {show(only.value, only.unit)}" + (f", {steps[-1]}" if steps[-1] else "")
        node = only
        times *= node.times
        steps.append(_how(node))


def _binding(node: Quantity) -> Quantity | None:
    """The operand of a maximum that binds, where the others have no parts to show."""
    if node.rule != "max" or any(part.parts and part.name != node.binds for part in node.parts):
        return None
    return next(part for part in node.parts if part.name == node.binds)


def _how(node: Quantity) -> str:
    """How a leaf comes about: count x time x engine's factor and its shape, or what its rule says."""
    run = node.execution
    if run is None:
        return "" if node.rule == "max" else node.how
    named = [
        name for name in _SHAPE if name in run.shape and not (name == "m" and run.shape["m"] == run.shape.get("batch"))
    ]
    shape = " ".join(f"{name}={_size(run.shape[name])}" for name in named)
    if "message_bytes" in run.shape:
        shape = f"{show(run.shape['message_bytes'], 'bytes')} {shape}"
    factor = f" x {run.factor:.3f}" if abs(run.factor - 1.0) >= 5e-4 else ""
    return f"{run.count:g} x {show(run.once_s, 's')}{factor}  {shape}".strip()


def _seconds(node: Quantity) -> float:
    """What a number's parts add up to: shares are of it."""
    return node.value / node.times if node.rule == "sum" else sum(part.value for part in node.parts)


def _amount(node: Quantity) -> str:
    return show(node.value, node.unit) if node.unit in {"s", "1/s"} else f"{node.value:,.4g} {node.unit}"


def _size(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _evidence(evidence: Evidence | None, sources: dict[str, int]) -> tuple[str, str]:
    """How near the datasheet's limit a leaf comes, and what it rests on."""
    if evidence is None:
        return "", ""
    share = evidence.roofline_share
    date = "" if evidence.date in evidence.source else evidence.date
    where = ", ".join(filter(None, (evidence.file, evidence.source, date)))
    number = f" [{sources.setdefault(where, len(sources) + 1)}]" if where else ""
    near = "" if share is None else f"{percent(share)} {evidence.bound}"
    return near, f"{evidence.tier} {evidence.grid}".strip() + number
