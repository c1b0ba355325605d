"""Which layouts of one serving replica are legal on an accelerator, and which are worth looking at.

A layout is legal when every matrix divides: tp divides the query heads, KV heads divide by tp or
are replicated, ep divides the experts, pp leaves every stage a layer. Illegal ones keep their
reason, so that a user who asks for one reads why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Verdict
from tonnage.domain.layout import Layout
from tonnage.domain.model import LatentAttention, Model, Moe
from tonnage.domain.refusal import refusal

_STAGES: Final = (1, 2, 3, 4, 6, 8)
"""Devices over which layers are spread."""
_HALVED: Final = (2, 4, 8)
"""Stages of a pipeline within a node."""
WIDEST_TP: Final = 16
"""Ranks of tensor parallelism, at most: an instance of today has no more, and shards of a rack would be slivers."""
WIDEST: Final = 64
"""Ranks of data-parallel attention with expert parallelism, at most: published deployments have 72 and fewer."""
LONGEST_PIPELINE: Final = 32
"""Accelerators of a replica of whole nodes behind each other, at most."""


def legal(model: Model, layout: Layout) -> Verdict:
    """Whether the model divides over this layout; the reason names the degree and the nearest legal one."""
    num_layers = sum(group.count for group in model.layers)
    if layout.pp > max(1, num_layers):
        return _no("pp", f"pp {layout.pp} exceeds the {num_layers} layers", f"pp {num_layers}")
    for heads in _head_counts(model):
        if heads % layout.tp:
            return _no(
                "tp", f"tp {layout.tp} does not divide {heads} attention heads", f"tp {_below(heads, layout.tp)}"
            )
    for experts in _expert_counts(model):
        if layout.ep > 1 and experts % layout.ep:
            return _no("ep", f"ep {layout.ep} does not divide {experts} experts", f"ep {_below(experts, layout.ep)}")
    if layout.ep > 1 and not any(True for _ in _expert_counts(model)):
        return _no("ep", f"ep {layout.ep} needs a mixture of experts, and {model.id} is dense", "ep 1")
    if layout.ep not in {1, layout.tp * layout.dp}:
        return _no(
            "ep", f"ep {layout.ep} must be 1 or tp x dp = {layout.tp * layout.dp}", f"ep {layout.tp * layout.dp}"
        )
    return Verdict(ok=True)


def replica_layouts(
    model: Model,
    accelerator: Accelerator,
    *,
    per_node: int,
    max_ranks: int,
    layered: bool = False,
    domain: int = 0,
    pipelines: bool = True,
) -> Iterator[Layout]:
    """
    Layouts of one replica worth evaluating, smallest first.

    A `layered` engine spreads layers over the devices of a node, and nothing else.

    Tensor parallelism stays inside a node, or the scale-up domain of `domain` accelerators whose trays are rented
    one by one (its all-reduces need the fast link); pipeline stages span nodes when one node is too small, and the
    accelerators of a node that no fast link joins, as PCIe carries what stages pass on and slows all-reduces (where
    `pipelines` are asked for). Latent
    attention adds data-parallel attention with expert parallelism, because its cache is replicated under tp; that
    exchange goes over the network too, up to `WIDEST` accelerators.
    """
    if layered:
        stages = (Layout(pp=n) for n in _STAGES if n <= min(per_node, max_ranks))
        yield from (layout for layout in stages if legal(model, layout).ok)
        return
    moe = any(True for _ in _expert_counts(model))
    latent = any(isinstance(group.mixer, LatentAttention) for group in model.layers)
    near, tp = max(per_node, domain), 1
    while tp <= min(near, max_ranks):
        options = [Layout(tp=tp)] if tp <= WIDEST_TP else []
        if moe and 1 < tp <= WIDEST_TP:
            options.append(Layout(tp=tp, ep=tp))
        if moe and latent and tp > 1:
            options.append(Layout(dp=tp, ep=tp))
        if pipelines and accelerator.link.domain < tp <= per_node:
            options += [Layout(tp=tp // stages, pp=stages) for stages in _HALVED if tp % stages == 0]
        yield from (layout for layout in options if legal(model, layout).ok)
        tp *= 2
    nodes = 2
    while accelerator.max_per_node and nodes * per_node <= max_ranks and per_node >= accelerator.max_per_node:
        ranks = nodes * per_node
        options = [Layout(tp=per_node, pp=nodes)] if ranks <= LONGEST_PIPELINE else []
        if moe and latent and near < ranks <= WIDEST:
            options.append(Layout(dp=ranks, ep=ranks))
        yield from (layout for layout in options if legal(model, layout).ok)
        nodes *= 2


def _head_counts(model: Model) -> Iterator[int]:
    for group in model.layers:
        if group.mixer is not None:
            heads = getattr(group.mixer, "num_attention_heads", None)
            if heads is not None:
                yield heads


def _expert_counts(model: Model) -> Iterator[int]:
    for group in model.layers:
        if isinstance(group.feed_forward, Moe):
            yield group.feed_forward.num_experts


def _below(whole: int, degree: int) -> int:
    return max(d for d in range(1, degree + 1) if whole % d == 0)


def _no(limit: str, reason: str, nearest: str) -> Verdict:
    return refusal(limit, reason, nearest=nearest)
