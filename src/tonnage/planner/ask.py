"""A question as a file asks it: the kind and its fields become a plan, through the same door as the command line."""

from __future__ import annotations

from datetime import date
from typing import Any

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.planner.files import read_mapping
from tonnage.planner.plans import Plan

__all__ = ["KINDS", "answer_file"]

KINDS = ("serve", "batch", "train", "finetune", "lifecycle")


def answer_file(path: str, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> Plan:
    """
    The plan for the request in a YAML or JSON file (`-` = standard input).

    Raises
    ------
    TonnageError
        The file cannot be read, or the request is wrong.
    """
    fields = read_mapping(path)
    kind = fields.pop("plan", None)
    if kind is None:
        raise BadRequest(f"'{echo(path)}' does not say what to plan; add a line 'plan: serve' (or batch, train, …)")
    if kind not in KINDS:
        raise UnknownName("kind of plan", str(kind), known=KINDS)
    return _answer(str(kind), fields, additions, today)


def _answer(kind: str, fields: dict[str, Any], additions: Additions, today: date | None) -> Plan:
    from tonnage.planner import door

    if kind == "serve":
        from tonnage.planner.serve.plan import plan_serve

        return plan_serve(door.serve_request(fields, additions=additions), additions=additions, today=today)
    if kind == "batch":
        from tonnage.planner.batch.door import batch_request
        from tonnage.planner.batch.plan import plan_batch

        return plan_batch(batch_request(fields, additions=additions), additions=additions, today=today)
    if kind == "lifecycle":
        from tonnage.planner.lifecycle.door import lifecycle_request
        from tonnage.planner.lifecycle.plan import plan_lifecycle

        return plan_lifecycle(lifecycle_request(fields, additions=additions), additions=additions, today=today)
    from tonnage.planner.train.plan import plan_train

    read = door.train_request if kind == "train" else door.finetune_request
    return plan_train(read(fields, additions=additions), additions=additions, today=today)
