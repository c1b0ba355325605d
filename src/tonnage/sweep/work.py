"""What a worker does: ask each question of a chunk, keep the numbers that were asked for.

A worker gets plain values and gives plain values, so that a process, another machine and this one do the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage.catalog import Additions, gather
from tonnage.errors import TonnageError, UnknownName, echo

__all__ = ["USUAL", "Chunk", "answered", "taken"]

Chunk = tuple[tuple[str, dict[str, Any]], ...]
"""Key and request of each question."""

USUAL: Final[dict[str, dict[str, str]]] = {
    "plan": {
        "feasible": "feasible", "accelerator": "options.0.configuration.accelerator",
        "accelerators": "options.0.accelerators", "cost": "options.0.cost.value", "cost_low": "options.0.cost.low",
        "cost_high": "options.0.cost.high", "unit": "options.0.cost.unit", "provider": "options.0.bill.provider",
        "sentence": "sentence",
    },
    "fit": {
        "fits": "fits", "accelerator": "rows.0.accelerator", "count": "rows.0.count", "bytes": "rows.0.memory.value",
        "limit_bytes": "rows.0.limit_bytes", "sentence": "sentence",
    },
    "simulate": {
        "fits": "fits", "requests": "requests", "ttft_p95_s": "ttft_s.p95", "tpot_p95_s": "tpot_s.p95",
        "e2e_p95_s": "e2e_s.p95", "requests_per_s": "requests_per_s", "preemptions": "preemptions",
        "capacity_per_s": "capacity.rate_per_s", "sentence": "sentence",
    },
    "predict": {
        "fits": "fits", "ttft_s": "ttft_s.mean", "tpot_s": "tpot_s.mean",
        "output_tokens_per_s": "output_tokens_per_s.value", "step_s": "step_s.value",
        "samples_per_s": "samples_per_s.value", "why": "why",
    },
}  # fmt: skip
"""Columns of a sweep that names none."""


def answered(ask: str, chunk: Chunk, *, take: dict[str, str], folders: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """Key and row (JSON) of every question of a chunk; a wrong request is a row that says why."""
    additions = gather(paths=folders)
    return [(key, msgspec.json.encode(_row(ask, request, take, additions))) for key, request in chunk]


def taken(answer: Any, take: Mapping[str, str]) -> dict[str, Any]:
    """
    The named numbers of an answer; a place it has not (an option of an infeasible plan) is null.

    Raises
    ------
    UnknownName
        No such answer has a figure of that name.
    """
    return {name: msgspec.to_builtins(_at(answer, path)) for name, path in take.items()}


def _row(ask: str, request: dict[str, Any], take: Mapping[str, str], additions: Additions) -> dict[str, Any]:
    try:
        return taken(_asked(ask, request, additions), take or USUAL[ask])
    except TonnageError as wrong:
        return {"error": str(wrong)}


def _asked(ask: str, request: dict[str, Any], additions: Additions) -> Any:
    if ask == "plan":
        from tonnage.planning.ask import answer, kind_of

        kind, fields = kind_of(request, source="base")
        return answer(kind, fields, additions=additions)
    if ask == "fit":
        from tonnage.planning.fit.fit import fit
        from tonnage.planning.requests.fit import fit_request

        return fit(fit_request(request), additions=additions)
    if ask == "simulate":
        from tonnage.planning.requests.simulate import simulation_of
        from tonnage.planning.simulate.simulate import simulate

        return simulate(simulation_of(request), additions=additions)
    from tonnage.planning.predict.case_lines import case_of_object
    from tonnage.planning.predict.predict import predict

    return predict(case_of_object(request), additions=additions)


def _at(answer: Any, path: str) -> Any:
    """The value at a path of names and places: fields and figures of nouns, keys of mappings, items of lists."""
    value = answer
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list | tuple):
            value = value[int(name)] if name.isdecimal() and int(name) < len(value) else None
        elif isinstance(value, msgspec.Struct):
            value = _figure(value, name, path=path)
        else:
            return None
    return value


def _figure(noun: msgspec.Struct, name: str, *, path: str) -> Any:
    """A field of a noun, or a figure derived from its fields."""
    kind = type(noun)
    derived = [own for own in dir(kind) if isinstance(getattr(kind, own), property)]
    known = [*kind.__struct_fields__, *derived]
    if name not in known:
        raise UnknownName(f"figure in take, '{echo(path)}'", name, known=known)
    return getattr(noun, name)
