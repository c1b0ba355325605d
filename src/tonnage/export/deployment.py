"""
What a target needs to know of an option: the plan's own words, read once, checked, and counted out over machines.

A replica has tp x pp x dp ranks. The bill says how many accelerators one instance has, so it says whether an instance
holds several replicas or a replica spans several instances.
"""

from __future__ import annotations

import math
import re
from typing import Final

import msgspec

from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.domain.precision import Precision
from tonnage.errors import BadRequest, echo
from tonnage.export.text import label, safe_name

__all__ = ["SIXTEEN_BIT", "Deployment", "deployment"]

PORT: Final = 8000
SIXTEEN_BIT: Final = ("bf16", "fp16", "fp32")
"""Formats that every checkpoint can be loaded in."""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """One option, ready to be written down."""

    model: str
    """The checkpoint to load: an id on the Hugging Face Hub."""
    name: str
    """A label made of it."""
    accelerator: str
    layout: Layout
    precision: Precision
    engine: Engine
    checkpoint: str | None
    """Format the checkpoint is stored in; absent = unknown."""
    named: bool
    """The user named the checkpoint himself, so it is the one that fits."""
    max_model_len: int | None
    replicas: int
    per_node: int
    """Accelerators of one instance."""
    nodes: int
    """Instances that one replica spans."""
    instances: int
    provider: str
    region: str
    instance_type: str
    spot: bool
    concurrency: float
    lines: tuple[str, ...]
    """The plan in a few sentences, for the head of a file."""
    port: int = PORT

    @property
    def replicas_per_node(self) -> int:
        """Replicas that one instance holds; 1 where a replica fills or exceeds it."""
        return max(1, self.per_node // self.layout.ranks)

    @property
    def ranks_per_node(self) -> int:
        """Accelerators of a replica on one instance."""
        return math.ceil(self.layout.ranks / self.nodes)


def deployment(plan: ServePlan, option: ServeOption) -> Deployment:
    """
    The option as targets read it.

    Raises
    ------
    BadRequest
        The plan names no checkpoint that can be loaded, or one that no file can hold safely.
    """
    configuration, bill = option.configuration, option.bill
    layout = configuration.layout
    model = safe_name(_checkpoint(plan), what="model")
    per_node = max(1, int(bill.accelerators_per_instance))
    nodes = max(1, math.ceil(layout.ranks / per_node))
    return Deployment(
        model=model,
        name=label(model),
        accelerator=configuration.accelerator,
        layout=layout,
        precision=configuration.precision,
        engine=configuration.engine,
        checkpoint=plan.model.get("checkpoint"),
        named=bool(plan.model.get("named")),
        max_model_len=_max_model_len(option),
        replicas=option.replicas,
        per_node=per_node,
        nodes=nodes,
        instances=bill.instances,
        provider=bill.provider,
        region=bill.region,
        instance_type=bill.instance_type,
        spot=bill.term == "spot",
        concurrency=option.capacity.concurrency,
        lines=_lines(plan, option, model),
    )


def _checkpoint(plan: ServePlan) -> str:
    """The Hub id the user asked for, or that of the catalogue's model; a path or a bare size is no checkpoint."""
    if plan.model.get("named"):
        return str(plan.model["named"])
    asked = re.sub(r"^https?://(?:www\.)?(?:huggingface\.co|hf\.co)/", "", plan.request.model).rstrip("/")
    if asked.startswith(("/", "./", "../", "~")) or asked.lower().endswith((".json", ".gguf", ".safetensors")):
        raise BadRequest(
            f"model '{echo(asked)}' is a file where the plan was made; name the checkpoint to load with --checkpoint ID"
        )
    if "/" in asked:
        return asked
    known = str(plan.model.get("id", ""))
    if "/" not in known:
        raise BadRequest(
            f"model '{echo(asked)}' is a size or a shape, not a checkpoint; name the one to load with --checkpoint ID"
        )
    return known


def _max_model_len(option: ServeOption) -> int | None:
    """The engine's longest context, cut to what the cache of one rank holds: engines refuse to start beyond it."""
    longest = option.configuration.engine.max_model_len
    holds = math.floor(option.kv_tokens / option.configuration.layout.dp)
    return min(longest, holds) if longest is not None and holds > 0 else longest


def _lines(plan: ServePlan, option: ServeOption, model: str) -> tuple[str, ...]:
    bill, configuration = option.bill, option.configuration
    longest, engine = _max_model_len(option), configuration.engine
    cut = longest is not None and engine.max_model_len is not None and longest < engine.max_model_len
    lines = [
        f"Plan of {plan.provenance.made}: {model}, {option.replicas} x {configuration.label()}.",
        f"{bill.instances} x {bill.instance_type}, {bill.provider} {bill.region}, {bill.term}: "
        f"${bill.usd_per_hour:,.2f}/h (price of {bill.as_of}).",
    ]
    if cut:
        lines.append(f"Context is cut to {longest:,} of {engine.max_model_len:,} tokens: the KV cache holds no more.")
    return tuple(lines)
