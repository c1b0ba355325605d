"""
A sweep from start to end: expand, skip what its file knows, work, keep, and write the table in the grid's order.

The file outlives an interruption; a sweep that is started again asks only what is not in it.

A sweep file is a grid: its points are every combination, in an order that never changes.
"""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from tonnage.catalog import gather
from tonnage.catalog.additions import file_states
from tonnage.core.reading import build, read_fields
from tonnage.domain.requests.tables import Ask, Sweep
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.record import Record
from tonnage.sqlitefile import SWEEP_ID, refuse_other, write_ahead
from tonnage.sweep.runners import on_processes, on_ray
from tonnage.version import __version__, can_simulate

Store = sqlite3.Connection
FORMAT: Final = 1
_decoder: Final = msgspec.json.Decoder(dict[str, Any])


@contextmanager
def open_store(path: Path) -> Iterator[Store]:
    """
    The store in a file, made when it is not there.

    Raises
    ------
    BadFact
        The file is something else, of a newer release, or cannot be written.
    """
    try:
        refuse_other(path, own=SWEEP_ID)
        with closing(sqlite3.connect(path, timeout=30.0)) as store:
            write_ahead(store, own=SWEEP_ID)
            version = store.execute("PRAGMA user_version").fetchone()[0]
            if version > FORMAT:
                raise BadFact(f"'{echo(path)}' was written by a newer release; use that, or another file")
            with store:
                store.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, row BLOB NOT NULL)")
                store.execute(f"PRAGMA user_version={FORMAT}")
            yield store
    except (sqlite3.Error, OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise BadFact(f"'{echo(path)}' cannot hold results: {reason}") from None


def answered_keys(store: Store) -> set[str]:
    """Keys of the questions that are answered; a damaged answer is none, so that it is asked again."""
    return {key for key, row in store.execute("SELECT key, row FROM answers") if _sound(row)}


def _sound(row: object) -> bool:
    try:
        _decoder.decode(row)  # type: ignore[arg-type]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
        return False
    return True


def keep_answers(store: Store, found: Iterable[tuple[str, bytes]]) -> None:
    """Keep answers; all of them or, when it fails, none."""
    with store:
        store.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", found)


def rows(store: Store, keys: Iterable[str]) -> Iterator[dict[str, Any] | str | None]:
    """The answers of these keys, in their order; None where there is none yet, of a damaged one what is wrong."""
    for key in keys:
        try:
            found = store.execute("SELECT row FROM answers WHERE key = ?", (key,)).fetchone()
            yield None if found is None else _decoder.decode(found[0])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, sqlite3.Error) as error:
            yield f"its answer in the file is damaged ({echo(error)})"


__all__ = ["Sweep"]


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
    with open_store(file) as store:
        there = answered_keys(store)
        missing = {point.key: point.request for point in points_of(sweep, folders) if point.key not in there}
        watch(sweep.size - len(missing), sweep.size)
        questions = tuple(missing.items())
        found = (
            on_processes(sweep.ask, questions, take=sweep.take, folders=folders, workers=workers)
            if ray is None
            else on_ray(sweep.ask, questions, take=sweep.take, folders=folders, address=ray)
        )
        done = sweep.size - len(missing)
        for answers in found:
            keep_answers(store, answers)
            done += len(answers)
            watch(done, sweep.size)
    return len(missing)


def table(sweep: Sweep, file: Path, *, folders: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """
    One row a point, in the grid's order: what was varied, then what was taken (NAME_found where both have it), and
    where measurements moved it, by how much (`calibrations`).

    A point that was refused, or whose answer is damaged, has `error` in place of numbers; one that is not answered yet
    has no row.
    """
    with open_store(file) as store:
        points: list[Point] = list(points_of(sweep, folders))
        for point, row in zip(points, rows(store, (point.key for point in points)), strict=True):
            if isinstance(row, str):
                yield point.varied | {"error": f"{row}; delete the file's row {point.key}, or sweep into another file"}
            elif row is not None:
                found = row
                yield point.varied | {f"{name}_found" if name in point.varied else name: found[name] for name in found}


ASKS: Final = get_args(Ask)
MAX_POINTS: Final = 1_000_000


class Point(Record, kw_only=True):
    """One question of a sweep."""

    index: int
    key: str
    """Of the question itself: the same question has the same key in any sweep."""
    request: dict[str, Any]
    varied: dict[str, Any]


def sweep_of(fields: Mapping[str, Any]) -> Sweep:
    """
    A sweep from a file's mapping.

    Raises
    ------
    BadRequest
        A group is missing or of the wrong shape, or the grid is empty or too large.
    """
    given = read_fields(fields, Sweep)
    if "sweep" not in given:
        raise BadRequest(f"sweep is missing: write {', '.join(ASKS[:-1])} or {ASKS[-1]}")
    if not given.get("grid"):
        raise BadRequest("grid is missing: name fields with lists of values, for example grid: {rate: [1/s, 2/s]}")
    for name, values in given["grid"].items():
        if not isinstance(values, list) or not values:
            raise BadRequest(f"grid.{echo(name)}: a list of values is expected, for example [1/s, 2/s]")
    made = build(
        Sweep,
        given,
        grid={name: tuple(values) for name, values in given["grid"].items()},
        take={name: str(path) for name, path in given.get("take", {}).items()},
    )
    if made.size > MAX_POINTS:
        raise BadRequest(f"the grid has {made.size:,} points; at most {MAX_POINTS:,} are asked at once")
    return made


def points_of(sweep: Sweep, folders: tuple[str, ...] = ()) -> Iterator[Point]:
    """Every combination, the last field of the grid varying fastest; `folders` as in `run`."""
    names, own = tuple(sweep.grid), _own_facts(folders)
    for index, values in enumerate(itertools.product(*sweep.grid.values())):
        varied = dict(zip(names, values, strict=True))
        request = sweep.base
        for name, value in varied.items():
            request = _with(request, name.split("."), value)
        key = key_of(sweep.ask, request, take=sweep.take, own=own)
        yield Point(index=index, key=key, request=request, varied=varied)


def _own_facts(folders: tuple[str, ...]) -> tuple[Any, ...]:
    """The state of the user's own files, and which calibrations count; empty where there are none."""
    additions = gather(paths=folders)
    files = file_states(additions)
    return (*files, additions.calibrated, additions.published) if files or additions.published else ()


def key_of(ask: str, request: Mapping[str, Any], *, take: Mapping[str, str], own: tuple[Any, ...] = ()) -> str:
    """
    The same for the same question to the same release, whatever the order of its fields.

    A plan by averages, for want of the simulator, is another answer: it is asked again where there is one. So is one
    with other facts of the user's own (`own`): without calibrations, say.
    """
    told = [__version__, ask, dict(request), dict(take), *(["by averages"] if _by_averages(ask, request) else [])]
    told += [own] if own else []
    return hashlib.sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()[:32]


def _by_averages(ask: str, request: Mapping[str, Any]) -> bool:
    return ask == "plan" and not request.get("quick") and not can_simulate()


def _with(request: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """The request with one field set, the groups on its way copied."""
    head, *rest = path
    if not rest:
        return {**request, head: value}
    inner = request.get(head, {})
    if not isinstance(inner, Mapping):
        raise BadRequest(f"grid.{'.'.join(path)}: base gives '{head}' as one value, not as a group")
    return {**request, head: _with(inner, rest, value)}
