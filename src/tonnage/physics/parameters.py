"""How many parameters does a model have, and how many does one token use?

Counts are sums over the lists of `physics.matrices`. *Active* counts leave out what a token does not pass: the experts
not chosen, and towers that see no text. The embedding table is inside, as makers count it (Mixtral: 12.9 B); gpt-oss
alone publishes its figure without the table.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.model import (
    FeedForward,
    LayerGroup,
    Mixer,
    Model,
    Moe,
    StateSpace,
)
from tonnage.physics.matrices import (
    feed_forward_matrices,
    feed_forward_vectors,
    matrix_parameters,
    mixer_matrices,
    mixer_vectors,
)

UNIT = "parameters"


def mixer_parameters(mixer: Mixer | None, hidden_size: int) -> float:
    """Parameters of one token mixer, its biases and inner norms included."""
    return matrix_parameters(mixer_matrices(mixer, hidden_size)) + mixer_vectors(mixer, hidden_size)


def feed_forward_parameters(feed_forward: FeedForward | None, hidden_size: int) -> float:
    """Parameters of one feed-forward."""
    matrices = feed_forward_matrices(feed_forward, hidden_size)
    return matrix_parameters(matrices) + feed_forward_vectors(feed_forward, hidden_size)


def norm_parameters(group: LayerGroup, hidden_size: int) -> float:
    """Parameters of the norms of one layer that work on its whole width."""
    return float(group.norms * hidden_size * (2 if group.norm_bias else 1))


def layer_parameters(group: LayerGroup, hidden_size: int, *, active: bool = False) -> float:
    """Parameters of one layer of the group: all of them, or those one token passes."""
    width = group.hidden_size or hidden_size
    return sum(part.value for part in _layer_parts(group, width, active))


def embedding_parameters(model: Model) -> float:
    """Parameters of the token embedding, with its projection to the model width when it has another one."""
    width = model.embedding_size or model.hidden_size
    projection = width * model.hidden_size if width != model.hidden_size else 0
    return float(model.vocab_size * width + projection)


def position_parameters(model: Model) -> float:
    """Parameters of learned position tables."""
    return float(model.learned_positions * model.hidden_size)


def head_parameters(model: Model) -> float:
    """Parameters of the vocabulary projection that are not shared with the embedding."""
    if not model.has_head:
        return 0.0
    width = model.embedding_size or model.hidden_size
    projection = width * model.hidden_size if width != model.hidden_size else 0
    own = 0 if model.tie_word_embeddings else model.vocab_size * width
    return float(own + projection + (model.vocab_size if model.head_bias else 0))


def parameters(model: Model) -> Quantity:
    """
    Parameters of a model, opened into its parts.

    P = V D + S D + sum over layers of (mixer + feed-forward + norms) + final norms + head + towers + rest

    Parameters
    ----------
    model : Model
        The architecture.

    Returns
    -------
    Quantity
        Total with parts embedding, positions, attention, state_space, cross_attention, feed_forward, experts,
        shared_experts, router, norms, head, towers and other. [parameters]

    Valid
    -----
    Every model with layers. A network without layers carries its published count as one part. Layers for
    multi-token prediction are beside the model and not in the total.

    Source
    ------
    The shapes of each architecture's reference implementation; totals in tests/paper/test_parameters.py.

    Examples
    --------
    >>> from tonnage.domain.model import Attention, Mlp
    >>> layer = LayerGroup(
    ...     count=32,
    ...     mixer=Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128),
    ...     feed_forward=Mlp(intermediate_size=14336),
    ... )
    >>> llama = Model(id="x", family="Llama", kind="llm", hidden_size=4096, vocab_size=128256, layers=(layer,))
    >>> f"{parameters(llama).value:,.0f}"
    '8,030,261,248'
    """
    return _count(model, active=False)


def active_parameters(model: Model) -> Quantity:
    """
    Parameters one token of text passes: all but the experts not chosen and the towers.

    Parameters
    ----------
    model : Model
        The architecture.

    Returns
    -------
    Quantity
        The same parts as `parameters`, the experts cut to those chosen, towers left out. [parameters]

    Valid
    -----
    As `parameters`. The embedding table counts whole, as most makers count it.

    Source
    ------
    Mixtral of Experts (arXiv 2401.04088), section 2.1: 13 B active of 47 B.

    Examples
    --------
    >>> from tonnage.domain.model import Attention
    >>> layer = LayerGroup(
    ...     count=32,
    ...     mixer=Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128),
    ...     feed_forward=Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=14336),
    ... )
    >>> mixtral = Model(id="x", family="Mixtral", kind="llm-moe", hidden_size=4096, vocab_size=32000, layers=(layer,))
    >>> f"{active_parameters(mixtral).value / 1e9:.1f} of {parameters(mixtral).value / 1e9:.1f} B"
    '12.9 of 46.7 B'
    """
    return _count(model, active=True)


def _count(model: Model, active: bool) -> Quantity:
    """Parameters by part, all or those that a token passes; of a network without layers the published count."""
    parts = [
        Quantity(name="embedding", value=embedding_parameters(model)),
        Quantity(name="positions", value=position_parameters(model)),
    ]
    for group in (*model.encoder, *model.layers):
        width = group.hidden_size or model.hidden_size
        parts += [
            msgspec.structs.replace(part, value=part.value * group.count) for part in _layer_parts(group, width, active)
        ]
    norms = model.final_norms * model.hidden_size * (2 if model.norm_bias else 1)
    parts.append(Quantity(name="norms", value=float(norms)))
    parts.append(Quantity(name="head", value=head_parameters(model)))
    if not active:
        parts += [Quantity(name="towers", value=tower.parameters, source=tower.name) for tower in model.towers]
    parts.append(Quantity(name="other", value=model.extra_parameters))
    total = Quantity.of_parts(UNIT, merge_parts(parts))
    if total.value == 0 and model.published_parameters is not None:
        published = model.published_active_parameters if active else model.published_parameters
        whole = Quantity(
            name="network", value=published or model.published_parameters, basis=Basis.ASSUMED, source=model.source
        )
        return Quantity.of_parts(UNIT, (whole,))
    return total


def _layer_parts(group: LayerGroup, hidden: int, active: bool) -> list[Quantity]:
    mixer_name = "state_space" if isinstance(group.mixer, StateSpace) else "attention"
    return [
        Quantity(name=mixer_name, value=mixer_parameters(group.mixer, hidden)),
        Quantity(name="cross_attention", value=mixer_parameters(group.cross_attention, hidden)),
        *_feed_forward_parts(group.feed_forward, hidden, active),
        Quantity(name="norms", value=norm_parameters(group, hidden)),
        Quantity(name="other", value=group.extra_parameters),
    ]


def _feed_forward_parts(feed_forward: FeedForward | None, hidden: int, active: bool) -> list[Quantity]:
    if not isinstance(feed_forward, Moe):
        return [Quantity(name="feed_forward", value=feed_forward_parameters(feed_forward, hidden))]
    sums = {"router": 0.0, "experts": feed_forward_vectors(feed_forward, hidden, active=active)}
    for matrix in feed_forward_matrices(feed_forward, hidden):
        name = _EXPERT_PARTS[matrix.name.split("_")[0]]
        sums[name] = sums.get(name, 0.0) + matrix_parameters((matrix,), active)
    return [Quantity(name=name, value=value) for name, value in sums.items()]


_EXPERT_PARTS = {
    "router": "router",
    "latent": "experts",
    "expert": "experts",
    "shared": "shared_experts",
    "dense": "feed_forward",
}


def merge_parts(parts: Iterable[Quantity]) -> list[Quantity]:
    """Parts of the same name added up, in the order of their first appearance."""
    sums: dict[str, Quantity] = {}
    for part in parts:
        seen = sums.get(part.name)
        sums[part.name] = part if seen is None else msgspec.structs.replace(seen, value=seen.value + part.value)
    return list(sums.values())
