"""
What of a model lies in host memory, and what a token then reads from there?

As little as possible is moved. Of a mixture, experts go first, layer by layer, because a token reads few of them; whole
layers with their cache follow only when all experts have gone. `Shares` counts the bytes once for a model in its
formats; `placed` is arithmetic on them, so that a hundred placements cost nothing.
"""

from __future__ import annotations

import math

import msgspec

from tonnage.domain.machine import Offload
from tonnage.domain.model import Model, Moe
from tonnage.domain.precision import Precision
from tonnage.physics.feed_forward import experts_hit
from tonnage.physics.memory import cache_bytes_per_sequence, weight_bytes

__all__ = ["Shares", "place_layers", "shares_of", "smallest_placement"]

_ENDS = ("embedding", "head", "towers", "norms", "other")
"""Parts of the weights that belong to no layer."""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one model in its formats, as far as they can be moved, and as far as a token reads them."""

    layers: int
    expert_layers: int
    expert_bytes: float
    """All routed experts of all layers. [bytes]"""
    layer_bytes: float
    """What else lies in layers. [bytes]"""
    cache_bytes: float
    """Of the context that is allocated. [bytes]"""
    read_expert_bytes: float
    """Experts that one token reads. [bytes]"""
    read_layer_bytes: float
    """The rest of the layers and the cache behind a token. [bytes]"""
    read_end_bytes: float
    """Head: read for each token, never moved unless everything is. [bytes]"""
    streamed_share: float
    """Share of the experts that one piece of a prompt needs. [-]"""

    @property
    def read_bytes(self) -> float:
        """All that one token reads. [bytes]"""
        return self.read_expert_bytes + self.read_layer_bytes + self.read_end_bytes


def shares_of(model: Model, precision: Precision, *, cache_bytes: float, depth: float, piece_tokens: float) -> Shares:
    """Counts a model: the cache that is allocated, the tokens behind the one that is read, a piece of a prompt."""
    weights = weight_bytes(model, precision)
    experts = weights.part("experts")
    ends = sum(weights.part(name) for name in _ENDS)
    mixtures = [(group.count, group.feed_forward) for group in model.layers if isinstance(group.feed_forward, Moe)]
    of_mixtures = sum(count for count, _ in mixtures)
    active = sum(n * moe.num_experts_per_tok / moe.num_experts for n, moe in mixtures) / max(1, of_mixtures)
    hit = sum(
        n
        * experts_hit(num_experts=moe.num_experts, num_experts_per_tok=moe.num_experts_per_tok, tokens=piece_tokens)
        / moe.num_experts
        for n, moe in mixtures
    ) / max(1, of_mixtures)
    behind = cache_bytes_per_sequence(model, precision.kv, context=depth)
    return Shares(
        layers=sum(group.count for group in model.layers),
        expert_layers=of_mixtures,
        expert_bytes=experts,
        layer_bytes=weights.value - experts - ends,
        cache_bytes=cache_bytes,
        read_expert_bytes=experts * active,
        read_layer_bytes=weights.value - experts - ends + behind,
        read_end_bytes=weights.part("head") or weights.part("embedding"),
        streamed_share=hit,
    )


def place_layers(shares: Shares, *, layers: int, expert_layers: int) -> Offload:
    """
    The placement with so many whole layers, and the experts of so many layers, in host memory.

    Experts of moved layers have gone with them: with all layers moved nothing is left on the device.
    """
    whole = layers / shares.layers
    experts = max(whole, expert_layers / shares.expert_layers) if shares.expert_layers else 0.0
    moved_weights = experts * shares.expert_bytes + whole * shares.layer_bytes
    read = experts * shares.read_expert_bytes + whole * shares.read_layer_bytes
    everything = layers >= shares.layers
    return Offload(
        layers=layers,
        expert_layers=0 if everything else expert_layers,
        moved_bytes=moved_weights + whole * shares.cache_bytes,
        streamed_bytes=experts * shares.expert_bytes * shares.streamed_share + whole * shares.layer_bytes,
        read_share=1.0 if everything else read / shares.read_bytes,
    )


def smallest_placement(shares: Shares, *, short_by: float) -> Offload | None:
    """The placement that moves least and frees so many bytes; absent when not even all layers are enough."""
    if short_by <= 0.0:
        return Offload()
    if shares.expert_layers:
        each = shares.expert_bytes / shares.expert_layers
        needed = math.ceil(short_by / each)
        if needed <= shares.expert_layers:
            return place_layers(shares, layers=0, expert_layers=needed)
    rest = (shares.layer_bytes + shares.cache_bytes) / shares.layers
    left = short_by - shares.expert_bytes
    if rest <= 0.0:
        return None
    layers = max(1, math.ceil(left / rest))
    if layers >= shares.layers:
        return None
    return place_layers(shares, layers=layers, expert_layers=shares.expert_layers)
