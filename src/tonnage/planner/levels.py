"""
How sure may a prediction be? Its level: what it rests on, the load, the structure of the model, and the software.

`catalog.intervals.factor` looks the width of an interval up by it and drops the last word until it finds a row, so
the words come in order of how much they tell: `calibrated:steady:dense:vllm`.
"""

from __future__ import annotations

from typing import Final

from tonnage.nouns.case import InferCase, ServeCase
from tonnage.nouns.model import Model, Moe

__all__ = ["crowding", "infer_level", "serve_level", "structure", "train_level"]

_ONE_STEP_TOKENS: Final = 8192.0
"""Prompts that one step takes, by the usual chunk budget."""
_MANY_STEPS: Final = 16.0
"""Steps of prompts from which a first token is mostly waiting for other clients' prompts."""


def serve_level(case: ServeCase, model: Model, *, basis: str, engine: str, saturated: bool) -> str:
    """
    Of a served language model. Loads: `steady` (a batch, clients below the knee), of which `light` (the prompts of all
    clients fit into one step) and `crowded` (they need sixteen and more), `saturated` (offline, or clients above the
    knee), `open` (arrivals, whose latency depends on how near the knee is), `split` (separate pools).
    """
    if case.disaggregation is not None:
        load = "split"
    elif case.traffic.rate_per_s is not None:
        load = "open"
    else:
        load = "saturated" if saturated or case.traffic.saturated else _steady(case)
    return ":".join((basis, load, structure(model), engine))


def _steady(case: ServeCase) -> str:
    """How long clients that send together wait for each other's prompts; a batch given as such does not vary."""
    clients = case.traffic.concurrency
    if clients is None or case.phase == "decode":
        return "steady"
    return crowding(clients / case.replicas, case.isl)


def crowding(clients: float, prompt_tokens: float) -> str:
    """
    The load of so many requests at once on a replica: `light`, `steady` or `crowded`.

    Examples
    --------
    >>> crowding(4, 1000), crowding(64, 1000), crowding(512, 1000)
    ('light', 'steady', 'crowded')
    """
    steps = clients * prompt_tokens / _ONE_STEP_TOKENS
    return "light" if steps <= 1.0 else "steady" if steps <= _MANY_STEPS else "crowded"


def train_level(model: Model, *, basis: str, method: str, software: str) -> str:
    """Of training: whole models and adapters apart, then the structure and the software."""
    return ":".join((basis, "whole" if method in {"pretrain", "full"} else "adapter", structure(model), software))


def infer_level(case: InferCase, model: Model, *, basis: str, engine: str) -> str:
    """Of a batch through a network."""
    load = "open" if case.rate_per_s is not None else "saturated" if case.saturated else "steady"
    return ":".join((basis, load, structure(model), engine))


def structure(model: Model) -> str:
    """mixture (routed experts), dense, or network (known by its totals, not by layers)."""
    groups = (*model.layers, *model.encoder)
    if not groups:
        return "network"
    return "mixture" if any(isinstance(group.feed_forward, Moe) for group in groups) else "dense"
