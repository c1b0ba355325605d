"""Ways to serve the same requests: by default batches as they were, as they are, and prompts apart from answers.

A way is the simulation with some of its fields changed. Its traffic is not among them: every side answers the same
requests, drawn from the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage.domain.compare import Comparing
from tonnage.errors import BadRequest, echo
from tonnage.planning.simulate.door import simulation_of

__all__ = ["DYNAMIC_WAIT", "MOST_SIDES", "comparing_of"]

MOST_SIDES: Final = 12
DYNAMIC_WAIT: Final = "50 ms"
"""How long the first of a dynamic batch waits for others unless a way says otherwise."""
MOST_SPLITS: Final = 7
"""Divisions of the replicas into prefill and decode that are tried; more are spread evenly."""


def comparing_of(fields: Mapping[str, Any]) -> Comparing:
    """
    The ways that a file or a set of flags asks for: `ways`, a mapping of name -> changed fields, or those by default.

    Raises
    ------
    TonnageError
        A way changes the traffic, is no mapping, or is no simulation.
    """
    base = {name: value for name, value in fields.items() if name != "ways"}
    given = fields.get("ways")
    notes: tuple[str, ...] = ()
    if given is None:
        simulation_of(base)  # a wrong field is the request's, not a way's
        given, notes = _usual(base)
    if not isinstance(given, Mapping) or not given:
        raise BadRequest(f"ways must hold 'name: {{changed fields}}' lines, not '{echo(given)}'")
    if len(given) > MOST_SIDES:
        raise BadRequest(f"ways: {len(given)} are more than the {MOST_SIDES} that can be read side by side")
    return Comparing(ways=tuple((str(name), _way(base, str(name), changes)) for name, changes in given.items()),
                     notes=notes)  # fmt: skip


def _way(base: Mapping[str, Any], name: str, changes: Any) -> Any:
    """The simulation of one way."""
    changes = {} if changes is None else changes
    if not isinstance(changes, Mapping):
        raise BadRequest(f"ways.{echo(name)} must hold 'field: value' lines, not '{echo(changes)}'")
    if "traffic" in changes:
        raise BadRequest(f"ways.{echo(name)}: traffic cannot change; every way answers the same requests")
    merged = _merged(base, changes)
    if merged.get("disaggregation") is not None and "replicas" not in changes:
        merged.pop("replicas", None)  # workers are counted instead
    try:
        return simulation_of(merged)
    except BadRequest as error:
        raise BadRequest(f"ways.{echo(name)}: {error}") from None


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with changes laid over them; mappings field by field."""
    found = dict(base)
    for name, value in changes.items():
        own = found.get(name)
        found[name] = _merged(own, value) if isinstance(own, Mapping) and isinstance(value, Mapping) else value
    return found


def _usual(base: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """Static, dynamic and continuous batching, and every division of the same accelerators into two pools."""
    given = base.get("disaggregation")
    whole: dict[str, Any] = {}
    if given is not None:
        split = simulation_of(base).disaggregation
        assert split is not None
        if split.prefill != split.decode:
            raise BadRequest("ways are missing: workers of unlike layouts have no usual ways to be compared with")
        whole = {"disaggregation": None, "layout": given["prefill"],
                 "replicas": split.prefill_workers + split.decode_workers}  # fmt: skip
    ways: dict[str, dict[str, Any]] = {
        "static": {**whole, "scheduler": {"batching": "static"}},
        "dynamic": {**whole, "scheduler": {"batching": "dynamic", "batch_wait": DYNAMIC_WAIT}},
        "continuous": whole,
    }
    notes = [f"dynamic batches wait {DYNAMIC_WAIT} to be filled; static ones start with whoever is there"]
    if given is not None:
        return {**ways, "disaggregated": {}}, tuple(notes)
    replicas = int(base.get("replicas") or 1)
    apart = _why_not_apart(base, replicas)
    if apart:
        return ways, (*notes, apart)
    layout = base.get("layout") or {}
    step = max(1, -(-(replicas - 1) // MOST_SPLITS))
    for prefill in range(1, replicas, step):
        ways[f"disaggregated {prefill}+{replicas - prefill}"] = {
            "disaggregation": {"prefill_workers": prefill, "prefill": layout, "decode_workers": replicas - prefill,
                               "decode": layout}
        }  # fmt: skip
    return ways, (*notes, "disaggregated P+D: P workers for prompts, D for answers")


def _why_not_apart(base: Mapping[str, Any], replicas: int) -> str:
    """Why prompts apart from answers are not among the ways; empty = they are."""
    traffic = base.get("traffic")
    if base.get("scaling") is not None:
        return "prompts apart from answers are not compared: pools apart do not scale here"
    if isinstance(traffic, Mapping) and "concurrency" in traffic:
        return "prompts apart from answers are not compared: they need a rate, and clients set their own"
    if replicas < 2:
        return "prompts apart from answers are not compared: they need two replicas' accelerators (replicas: 2)"
    return ""
