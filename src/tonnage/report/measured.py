"""
Measurements that an answer rests on, in words: a line of the first screen, and a table among the reasons.

One wording for every kind of answer and every face. "Calibrated" is the name of a degree of evidence, whoever measured;
what a person measured on their own stack is "your measurements", rows that others published "published measurements".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tonnage.catalog import model_name, part_name
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.metrics import METRICS
from tonnage.engines.registry import engine_title
from tonnage.report.document import Block, Document, Headline, Meters, Section, Table, Text, grid
from tonnage.report.screen import TEXT_LINES, lines_of
from tonnage.report.wording import plural
from tonnage.units import percent

OWN: Final = "Your measurements"
PUBLISHED: Final = "Published measurements"
NAMED: Final = 2
"""Stacks that the line names."""
NUMBERS: Final = 2
"""Numbers of a stack that the line names; rates follow from times where clients wait, and stay where a rate arrives."""
SHOWN: Final = 5e-3
"""Change of a number that the line names. [-]"""
HINT: Final = "--calibration none leaves them out."


def measured_line(uses: Sequence[CalibrationUse]) -> str:
    """
    By how much measurements moved which numbers, and which they were; empty where none did.

    Examples
    --------
    >>> from tonnage.domain.calibration import Moved
    >>> use = CalibrationUse(accelerator="h200-sxm-141gb", engine="vllm", model="m", models=("m",), points=3,
    ...                      date="2026-11-20", moved=(Moved(quantity="tpot_s", factor=1.119),))
    >>> measured_line([use])
    'Your measurements: TPOT x1.12 (H200 SXM 141 GB, vLLM, 3 points of 2026-11-20). --calibration none leaves them out.'
    """
    own, others = ([use for use in uses if use.published is published] for published in (False, True))
    said = [f"{title}: {_stacks(found)}." for title, found in ((OWN, own), (PUBLISHED, others)) if found]
    return " ".join([*said, HINT]) if said else ""


def _stacks(uses: Sequence[CalibrationUse]) -> str:
    named = [f"{_moved(use, NUMBERS)} ({_which(use)})" for use in uses[:NAMED]]
    left = len(uses) - len(named)
    return "; ".join([*named, *([plural(left, "more stack")] if left else [])])


def _moved(use: CalibrationUse, most: int | None = None) -> str:
    """Numbers that measurements moved, each with its factor: the first `most`, or all where it is None."""
    told = [
        f"{METRICS[one.quantity].title if one.quantity in METRICS else one.quantity} x{one.factor:.2f}"
        for one in use.moved
        if abs(math.log(one.factor)) >= SHOWN
    ]
    return ", ".join(told[:most]) or "no number moves by 0.5 %"


def _which(use: CalibrationUse) -> str:
    """Stack, count and day, and whose they are where another model was measured."""
    other = use.models and use.model not in use.models
    models = [model_name(name) for name in use.models]
    whose = f" with {models[0]}{f' and {len(models) - 1} more' if len(models) > 1 else ''}" if other else ""
    day = f" of {use.date}" if use.date else ""
    version = f" {use.engine_version}" if use.engine_version else ""
    what = "row" if use.published else "run" if use.training else "point"
    return f"{part_name(use.accelerator)}, {engine_title(use.engine)}{version}, {plural(use.points, what)}{whose}{day}"


def with_measured(document: Document, answer: Any, *, uses: Sequence[CalibrationUse] | None = None) -> Document:
    """
    The document with the line behind its numbers and the table before its reasons; as it is where nothing was measured.

    The line takes the room of the last risk where a screen would be full.
    """
    found = getattr(answer, "calibrations", ()) if uses is None else uses
    if not found:
        return document
    ends = getattr(getattr(answer, "measure_first", None), "sentence", "")
    first = _with_line(document.first, measured_line(found), ends=ends)
    return msgspec.structs.replace(document, first=first, why=(_section(found), *document.why))


def _with_line(first: Sequence[Block], line: str, *, ends: str) -> tuple[Block, ...]:
    """
    A first screen with the line of measurements below its numbers, without the last risks where it would be too long.

    `ends` is the text that closes the screen and always stays; where it is empty no risk is left out.
    """
    told = Text(line, kind="measured")
    place = max((i for i, block in enumerate(first) if isinstance(block, Headline | Meters | Table)), default=-1) + 1
    before, after = list(first[:place]), list(first[place:])
    risks = [block for block in after if isinstance(block, Text) and block.text != ends]
    while ends and risks and _lines((*before, told, *after)) > TEXT_LINES:
        after.remove(risks.pop())
    return (*before, told, *after)


def _lines(blocks: Sequence[Block]) -> int:
    """Lines that rows of tables and texts take on a screen; heads, meters and notes are not counted."""
    rows = sum(len(block.rows) for block in blocks if isinstance(block, Table))
    return rows + sum(
        lines_of(block.line if isinstance(block, Headline) else block.text)
        for block in blocks
        if isinstance(block, Text | Headline)
    )


def _section(uses: Sequence[CalibrationUse]) -> Section:
    """Every stack with all that is known of what was measured."""
    columns = ["accelerator", "software", "model~", "moves~", "measured~", "of what holds>", "from~"]
    rows = [
        (
            part_name(use.accelerator),
            " ".join(filter(None, (engine_title(use.engine), use.engine_version))),
            model_name(use.model),
            _moved(use),
            ", ".join(filter(None, (plural(use.points, "row" if use.published else "point"), use.date, use.machine))),
            percent(use.carried),
            use.source or "not stored",
        )
        for use in uses
    ]
    published = [use.published for use in uses]
    title = PUBLISHED if all(published) else f"{OWN} and published ones" if any(published) else OWN
    said = ["Factors compare a number with that without them, at as many requests in flight."]
    said += ["Published ones leave intervals as they are: one publisher's rows tell little of another's."] * any(
        published
    )
    return Section(title, (grid(columns, rows), *(Text(text) for text in said)))
