"""
Published rows as points of their model on their stack: what this release's own fits leave of each number.

`tools/calibration/published_points.py` writes the table: at most sixteen rows of one published run, each with its place
(requests in flight, lengths, degrees), its release and formats, and ln(measured / predicted). `published_points` makes
them a calibration of nothing but a drift, so that new rows move answers without a refit. On published rows left out,
other loads of a configuration cut its errors to a third or a quarter, and rows of another publisher tell nothing
(docs/accuracy.md): so they count where they are asked for, `--calibration published`.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Mapping
from functools import cache
from typing import Final

from tonnage.catalog.intervals import priors
from tonnage.catalog.rows import DATA
from tonnage.domain.calibration import Calibration, Learnt, Stretch
from tonnage.errors import BadFact

FILE: Final = DATA / "intervals" / "points.csv.gz"
COLUMNS: Final = ("accelerator", "engine", "model", "quantity", "setting", "place", "left", "id", "source", "date")
_CAUSES: Final = 7
_TOLD: Final = 2
"""Sources that a sentence names."""
_Stack = tuple[str, str, str]


def published_points(accelerator: str, engine: str, *, model: str) -> Calibration | None:
    """
    The published points of a model with an engine on an accelerator; absent where nobody published any.

    Raises
    ------
    BadFact
        The table is not what this release expects.

    Examples
    --------
    >>> published_points("h100-sxm5-80gb", "vllm", model="no/such-model") is None
    True
    """
    return _known().get((accelerator, engine, model))


@cache
def _known() -> Mapping[_Stack, Calibration]:
    reader = csv.DictReader(io.StringIO(gzip.decompress(FILE.read_bytes()).decode()))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise BadFact(f"intervals/points.csv.gz: columns must be {', '.join(COLUMNS)}")
    by: dict[_Stack, list[dict[str, str]]] = {}
    for line in reader:
        by.setdefault((line["accelerator"], line["engine"], line["model"]), []).append(line)
    return {stack: _calibration(stack, lines) for stack, lines in by.items()}


def _calibration(stack: _Stack, lines: list[dict[str, str]]) -> Calibration:
    accelerator, engine, model = stack
    noise, dates = priors("serve").noise, sorted({line["date"] for line in lines if line["date"]})
    sources = list(dict.fromkeys(line["source"] for line in lines))
    more = f" and {len(sources) - _TOLD} more" if len(sources) > _TOLD else ""
    return Calibration(
        accelerator=accelerator,
        engine=engine,
        stretch=Stretch(),
        models=(model,),
        points=len({line["id"] for line in lines}),
        date=" to ".join(dict.fromkeys((*dates[:1], *dates[-1:]))),
        source="; ".join(sources[:_TOLD]) + more,
        learnt=tuple(
            Learnt(
                model=model,
                quantity=line["quantity"],
                place=tuple(map(float, line["place"].split())),
                left=float(line["left"]),
                noise=noise[line["quantity"]],
                shares=(0.0,) * _CAUSES,
                setting=line["setting"],
            )
            for line in lines
        ),
    )
