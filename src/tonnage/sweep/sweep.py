"""A sweep from start to end: expand, skip what is known, work, keep, and write the table in the grid's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tonnage.sweep import store as stores
from tonnage.sweep.points import Point, Sweep, points_of
from tonnage.sweep.runners import on_processes, on_ray

__all__ = ["run", "table"]


def run(
    sweep: Sweep,
    file: Path,
    *,
    workers: int = 1,
    ray: str | None = None,
    folders: tuple[str, ...] = (),
    watch: Callable[[int, int], None] = lambda *_: None,
) -> int:
    """
    Ask what the file does not hold yet; the number of questions that were asked now.

    Parameters
    ----------
    sweep : Sweep
    file : Path
        Results, kept as they come.
    workers : int
        Processes of this machine.
    ray : str, optional
        Address of a cluster to work on instead.
    folders : tuple of str
        The user's own accelerators and offers.
    watch : callable
        Told (done, all) after each chunk.
    """
    with stores.opened(file) as store:
        there = stores.known(store)
        missing = {point.key: point.request for point in points_of(sweep) if point.key not in there}
        watch(sweep.size - len(missing), sweep.size)
        questions = tuple(missing.items())
        found = (
            on_processes(sweep.ask, questions, take=sweep.take, folders=folders, workers=workers)
            if ray is None
            else on_ray(sweep.ask, questions, take=sweep.take, folders=folders, address=ray)
        )
        done = sweep.size - len(missing)
        for answers in found:
            stores.put(store, answers)
            done += len(answers)
            watch(done, sweep.size)
    return len(missing)


def table(sweep: Sweep, file: Path) -> Iterator[dict[str, Any]]:
    """One row a point, in the grid's order: what was varied, then what was taken (NAME_found where both have it)."""
    with stores.opened(file) as store:
        points: list[Point] = list(points_of(sweep))
        for point, row in zip(points, stores.rows(store, (point.key for point in points)), strict=True):
            if isinstance(row, str):
                yield point.varied | {"error": f"{row}; delete the file's row {point.key}, or sweep into another file"}
            elif row is not None:
                found = row
                yield point.varied | {f"{name}_found" if name in point.varied else name: found[name] for name in found}
