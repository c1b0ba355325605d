"""What does llama.cpp's compute buffer hold, the one of its log that is neither weights nor cache?

Before anything runs, the graph of one piece of a prompt (`n_ubatch` tokens) is laid out in one buffer: a tensor takes
the place of those that nobody reads any more. Its size is therefore that of the widest moment: masks and a few hidden
states, and beside them the largest of a feed-forward, an attention, a state-space layer, and the logits. Values are in
32 bits; how many of each live at once was read off the log of 16 architectures (measurements/own/llamacpp_memory.csv).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.model import Attention, FeedForward, LatentAttention, LayerGroup, Mixer, Model, Moe, StateSpace

VALUE: Final = 4.0
"""Bytes of a value between two operations. [bytes]"""
HIDDEN: Final = 5.0
"""Hidden states of a piece that live beside the widest tensors: two inputs, the residual, the normed and the mixed."""

COPIES: Final = 4.0
"""Pieces of a prompt that are on their way through several devices (llama.cpp GGML_SCHED_MAX_COPIES)."""


def graph_buffer(
    model: Model,
    *,
    tokens: float,
    cells: Mapping[int | None, float],
    outputs: float,
    sequences: float = 1.0,
    fused: bool = True,
    devices: int = 1,
) -> Quantity:
    """
    Compute buffer of one device, its parts the masks and the widest moment.

    4 T (max(3 W [+ k D], attention, state space) + 5 D) + masks, at least 4 (O V + 2 T D): W is the inner width of a
    token, k D its experts' outputs where they are wider than what gate and up leave behind.

    Parameters
    ----------
    model : Model
        The architecture.
    tokens : number
        T, tokens of a piece (n_ubatch, at most the context). [tokens]
    cells : mapping
        Cells of one cache, which each of its tokens attends under a mask, by window (`cache.window_cells`). [tokens]
    outputs : number
        O, rows of logits that the graph has room for. [-]
    sequences : number
        Slots whose states pass a state-space layer. [-]
    fused : bool
        Attention without scores in memory (--flash-attn).
    devices : int
        Over which layers are spread: of several each keeps four copies of the masks (GGML_SCHED_MAX_COPIES). [-]

    Returns
    -------
    Quantity
        Parts masks and the widest moment. [bytes]

    Valid
    -----
    Within 1 % of builds of late 2026 on a processor, whose buffer also holds the inputs that other devices leave in
    host memory (one or two hidden states). Layers spread over devices each need a buffer as large.

    Source
    ------
    llama.cpp src/models/*.cpp, ggml-alloc.c; logs in measurements/own/llamacpp_memory.csv.

    Examples
    --------
    >>> from tonnage.domain.model import Mlp
    >>> mixer = Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128)
    >>> group = LayerGroup(count=32, mixer=mixer, feed_forward=Mlp(intermediate_size=14336))
    >>> llama = Model(id="x", family="Llama", kind="llm", hidden_size=4096, vocab_size=128256, layers=(group,))
    >>> graph_buffer(llama, tokens=512, cells={None: 4096}, outputs=1).value / 2**20
    128.0
    """
    depth = float(model.hidden_size)
    used = {mixer.window for mixer in _mixers(model) if isinstance(mixer, Attention)}
    used |= {None for mixer in _mixers(model) if isinstance(mixer, LatentAttention)}
    copies = 1.0 if devices == 1 else COPIES
    masks = copies * (2.0 if fused else VALUE) * tokens * sum(cells[window] for window in used)
    moments = {"logits": VALUE * (outputs * model.vocab_size + 2.0 * tokens * depth) - masks}
    for group in model.layers:
        for name, width in _widths(group, tokens / sequences, cells, fused=fused, depth=group.hidden_size or depth):
            moments[name] = max(moments.get(name, 0.0), VALUE * tokens * width)
    widest = max(moments, key=lambda name: moments[name])
    source = "llama.cpp's log of 16 architectures"
    return Quantity.of_parts(
        "bytes",
        (
            Quantity(name="masks", value=masks, basis=Basis.DERIVED, source=source),
            Quantity(name=widest, value=moments[widest], basis=Basis.DERIVED, source=source),
        ),
    )


def _mixers(model: Model) -> Iterator[Mixer | None]:
    return (group.mixer for group in model.layers)


def _widths(
    group: LayerGroup, tokens: float, cells: Mapping[int | None, float], *, fused: bool, depth: float
) -> Iterator[tuple[str, float]]:
    """Values alive at the widest moments of one layer for each of a sequence's tokens, hidden states included."""
    yield "feed-forward", _feed_forward(group.feed_forward, depth) + HIDDEN * depth
    match group.mixer:
        case Attention() as mixer:
            query = mixer.num_attention_heads * mixer.head_dim
            kept = 2.0 * query + mixer.num_key_value_heads * (mixer.head_dim + (mixer.v_head_dim or mixer.head_dim))
            if fused:
                yield "attention", kept + 3.0 * depth
            else:
                # Of the hidden states one lies where the query would, if that is no wider.
                beside = HIDDEN if query > depth else HIDDEN - 1.0
                yield "attention", mixer.num_attention_heads * cells[mixer.window] + kept + beside * depth
        case LatentAttention() as mixer:
            # Queries as projected, met with the latent, rotated, both joined; then what attention makes of the latent.
            head = mixer.qk_nope_head_dim + 3.0 * mixer.qk_rope_head_dim + 2.0 * mixer.kv_lora_rank
            scores = 0.0 if fused else cells[None]
            yield "attention", mixer.num_attention_heads * (head + scores) + HIDDEN * depth
        case StateSpace() as mixer if mixer.kind != "short_conv":
            # Projections of the input, convolved channels before and after, what leaves the scan, and the state.
            inner = float(mixer.num_heads * mixer.head_dim)
            keys = 0.0 if mixer.kind == "mamba1" else 2.0 * mixer.num_groups * mixer.state_size
            state = inner * mixer.state_size / tokens
            yield "state space", 5.0 * inner + 3.0 * keys + mixer.num_heads + state + HIDDEN * depth


def _feed_forward(layer: FeedForward | None, depth: float) -> float:
    """Gate, up and their product; of routed experts also their outputs, unless they fit where gate and up were."""
    if layer is None:
        return 0.0
    if not isinstance(layer, Moe):
        return 3.0 * layer.intermediate_size
    inner = layer.num_experts_per_tok * layer.moe_intermediate_size
    made = layer.num_experts_per_tok * (layer.latent_size or depth)
    return max(3.0 * inner + (made if made > 2.0 * inner else 0.0), 3.0 * layer.shared_intermediate_size)
