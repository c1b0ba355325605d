"""Three loads in about five minutes, spread as a calibration wants them: alone, the middle, many at once.

Alone tells memory and host, many at once tells arithmetic and host work for each sequence, the middle what lies
between; few and long answers would tell less than the same time at three loads.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Load, Measurement, Point, ServerState
from tonnage.errors import BadRequest
from tonnage.measure.client import target_of
from tonnage.measure.records import Spec
from tonnage.measure.scrape import engine_at
from tonnage.measure.serve import measure_serve

_EACH: Final = 6
"""Requests of each place that count, after one of warm-up. [requests]"""
_LEAST_S: Final = 3.0
"""Shorter than this no load is steady. [s]"""


def quick_specs(
    url: str, model: str, *, lengths: tuple[int, int], most: int = 32, duration_s: float = 300.0
) -> tuple[Spec, ...]:
    """
    What to ask for the three points.

    Parameters
    ----------
    url, model : str
        The endpoint, and the model as it knows it.
    lengths : tuple
        Prompt and answer. [tokens]
    most : int
        Requests at once of the third point.
    duration_s : float
        Of all three together, at most. [s]

    Raises
    ------
    BadRequest
        The time is too short for three loads.

    Examples
    --------
    >>> [spec.load.concurrency for spec in quick_specs("http://h/v1", "m", lengths=(64, 16), most=64)]
    [1, 8, 64]
    """
    if duration_s < 3 * _LEAST_S:
        raise BadRequest(f"--time: {duration_s:g} s is too short for three loads; give {3 * _LEAST_S:g} s at least")
    prompt, answer = lengths
    loads = dict.fromkeys((1, max(1, round(most**0.5)), most))
    return tuple(
        Spec(
            url=url,
            kind="completions",
            model=model,
            prompt_tokens=prompt,
            output_tokens=answer,
            load=Load(concurrency=places, requests=_EACH * places, warmup=places, duration_s=duration_s / len(loads)),
        )
        for places in loads
    )


def planned(specs: tuple[Spec, ...], *, engine: str | None) -> Measurement:
    """
    The three points before they are measured, to check the stack by.

    Parameters
    ----------
    specs : tuple of Spec
        What will be asked.
    engine : str, optional
        As the user names it; absent = as the server's metrics page does.
    """
    first = specs[0]
    seen = engine or engine_at(target_of(first.url, model=first.model, kind=first.kind))
    points = tuple(
        Point(
            concurrency=spec.load.concurrency,
            completed=0,
            prompt_tokens=spec.prompt_tokens,
            output_tokens=spec.output_tokens,
            server=ServerState(engine=seen) if seen else None,
        )
        for spec in specs
    )
    return Measurement(schema=MEASUREMENT_SCHEMA, tool="tonnage", points=points)


def measure_quick(specs: tuple[Spec, ...], folder: Path, *, key_env: str | None = None) -> Measurement:
    """
    The loads one after another, each in a file of its own, as one measurement.

    Raises
    ------
    TonnageError
        The endpoint cannot be measured.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    found = [
        measure_serve(spec, folder / f"quick-{stamp}-{spec.load.concurrency}.jsonl", key_env=key_env) for spec in specs
    ]
    stopped = next((one.stopped for one in found if one.stopped), None)
    if stopped:
        raise BadRequest(f"stopped early: {stopped}; what was measured is in {folder}")
    notes = tuple(dict.fromkeys(note for one in found for note in one.notes))
    return replace(found[0], points=tuple(point for one in found for point in one.points), knee=None, notes=notes)
