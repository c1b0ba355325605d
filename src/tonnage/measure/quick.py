"""
Three loads in five minutes, and what they amount to.

Alone tells memory and host, many at once tells arithmetic and host work for each sequence, the middle what lies
between; few and long answers would tell less than the same time at three loads. They are measured there and back (1, 6,
32, 32, 6, 1): a machine that grows slower or faster meanwhile moves all three alike, and no cause against another. Of
each the faster half of its rounds counts, for what disturbs only adds.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Load, Measurement, Point, ServerState
from tonnage.errors import BadRequest
from tonnage.measure.client import key_of, open_connection, target_of
from tonnage.measure.records import Log, Spec, read_log
from tonnage.measure.scrape import engine_at
from tonnage.measure.serve import check, measure_serve
from tonnage.measure.served import of_model, served_at
from tonnage.measure.summary import MIN_REQUESTS, drifts_between, undisturbed

_EACH: Final = 12
"""Requests of each place that count, after one of warm-up, each time that a load is measured. [requests]"""
_LEAST_S: Final = 3.0
"""Shorter than this no load is steady. [s]"""


def quick_specs(
    url: str,
    model: str,
    *,
    lengths: tuple[int, int],
    most: int = 32,
    duration_s: float = 300.0,
    busy: bool = False,
) -> tuple[Spec, ...]:
    """
    What to ask for the three points: alone, the root of `most` at once, and `most`; fewer where two of them are equal.

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
    busy : bool
        Other load on the machine is told, and forbids nothing.

    Raises
    ------
    BadRequest
        The time is too short for three loads, or one of them cannot be measured.

    Examples
    --------
    >>> [spec.load.concurrency for spec in quick_specs("http://h/v1", "m", lengths=(64, 16), most=64)]
    [1, 8, 64]
    """
    if duration_s < 3 * _LEAST_S:
        raise BadRequest(f"--time: {duration_s:g} s is too short for three loads; give {3 * _LEAST_S:g} s at least")
    prompt, answer = lengths
    loads = dict.fromkeys((1, max(1, round(most**0.5)), most))
    specs = tuple(
        Spec(
            url=url,
            kind="completions",
            model=model,
            prompt_tokens=prompt,
            output_tokens=answer,
            load=Load(
                concurrency=places,
                requests=max(_EACH * places, MIN_REQUESTS),
                warmup=places,
                duration_s=duration_s / len(loads),
            ),
            busy=busy,
        )
        for places in loads
    )
    for spec in specs:
        check(spec)
    return specs


def served_there(spec: Spec, *, key_env: str | None = None) -> tuple[str, float | None] | None:
    """The name that the asked model's checkpoint has on the server, and its parameters; None where no list says."""
    target = target_of(spec.url, model=spec.model, kind=spec.kind)
    found = of_model(asyncio.run(served_at(open_connection(target, key=key_of(key_env)))), spec.model)
    return None if found is None else (found.root or found.id, found.parameters)


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
    The loads there and back, each time in a file of its own, as one measurement of undisturbed rounds.

    Raises
    ------
    TonnageError
        The endpoint cannot be measured.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    end_s = time.perf_counter() + sum(spec.load.duration_s for spec in specs)
    found: list[Measurement] = []
    logs: dict[Spec, list[Log]] = {spec: [] for spec in specs}
    order = (*specs, *reversed(specs))
    for place, spec in enumerate(order, start=1):
        now_s = time.perf_counter()
        until_s = now_s + (end_s - now_s) / (len(order) + 1 - place)  # what one leaves is the next one's
        output = folder / f"quick-{stamp}-{place}-{spec.load.concurrency}.jsonl"
        found.append(measure_serve(spec, output, key_env=key_env, until_s=until_s))
        logs[spec].append(read_log(output))
        if not found[-1].points or not found[-1].points[-1].completed:
            raise BadRequest(
                f"no answer to {spec.load.concurrency} requests at once was whole within {until_s - now_s:.0f} s; give "
                "more --time, or shorter lengths"
            )
    stopped = next((one.stopped for one in found if one.stopped), None)
    if stopped:
        raise BadRequest(f"stopped early: {stopped}; what was measured is in {folder}")
    between = (note for own in logs.values() for note in drifts_between(own))
    notes = tuple(dict.fromkeys([*(note for one in found for note in one.notes), *between]))
    return replace(found[0], points=tuple(map(undisturbed, logs.values())), knee=None, notes=notes)
