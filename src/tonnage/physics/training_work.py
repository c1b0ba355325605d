"""What one micro-batch makes one rank do: forward and backward pass of a layer, as operators.

Every matrix product runs three times, forward, for the gradient of its input and for that of its weight;
frozen matrices skip the last, recompute repeats the first. Attention's backward pass does 2.5 times the
forward work in flash kernels, twice without. Element-wise work is counted as the least a fused kernel
must read and write; how often a software really passes over it is a coefficient of `training_time.py`.

Shapes are those of one rank. Communication that tensor, context and expert parallelism need inside the
layer is listed with it; data and pipeline parallelism belong to the step (`tonnage.simulation.training`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.domain.model import Attention, FeedForward, LatentAttention, LayerGroup, Mixer, Mlp, Moe, StateSpace
from tonnage.domain.precision import number_format
from tonnage.domain.training import OBJECTIVES, TrainSetup
from tonnage.physics.matrices import Matrix, is_target, layer_matrices
from tonnage.physics.work import Kind, Operator
from tonnage.record import Record

FLASH_BACKWARD: Final = 2.5
"""Backward over forward work of flash attention: five products against two (arXiv 2307.08691)."""

_SCORE_BYTES: Final = 10.0
"""Bytes moved per attention score without a flash kernel: write, mask and softmax, read, at 16 bits."""


_RELATIVE_PASSES: Final = 3.0
"""Passes over scores with relative positions against plain ones: two score tensors, a shift, their sum."""

_CHUNK: Final = 128.0
"""Tokens that a chunked scan multiplies with each other: half of 256, the causal half."""


class LayerWork(Record, kw_only=True):
    """One layer on one rank: what runs forward, what runs backward, and what must be exchanged each way."""

    forward: tuple[Operator, ...]
    backward: tuple[Operator, ...]
    exchange: tuple[Operator, ...]
    """Collectives of one forward pass; the backward pass repeats them."""
    experts: bool = False
    quantised: bool = True
    """Its matrices are among those that QLoRA holds in 4 bits; the head's is not."""


def layer_work(group: LayerGroup, hidden_size: int, *, setup: TrainSetup) -> LayerWork:
    """Work of one layer for one micro-batch on one rank; recompute is the step's, not listed here."""
    hidden = group.hidden_size or hidden_size
    tokens = setup.sequences * setup.passed_len / setup.layout.cp
    forward: list[Operator] = []
    backward: list[Operator] = []
    matrices = layer_matrices(group, hidden)
    found = [_products(product, group.feed_forward, setup, tokens) for product in _merge_products(matrices)]
    found += [_core(mixer, setup, tokens) for mixer in (group.mixer, group.cross_attention)]
    for ahead, back in found:
        forward += ahead
        backward += back
    moved = _elementwise_bytes(group, hidden, setup) * tokens
    forward.append(_touch("element-wise", moved, setup))
    backward.append(_touch("element-wise backward", 2 * moved, setup))
    narrow = _cast_bytes(matrices, setup) * tokens
    if narrow:
        forward.append(_touch("casts", narrow, setup))
        backward.append(_touch("casts backward", narrow, setup))
    return LayerWork(
        forward=tuple(forward),
        backward=tuple(backward),
        exchange=_exchange(group, hidden, setup, tokens),
        experts=isinstance(group.feed_forward, Moe),
    )


def head_work(setup: TrainSetup) -> LayerWork:
    """
    Vocabulary projection and loss of one micro-batch on one rank, for the positions that are predicted.

    Nothing for models without a vocabulary projection; objectives that score have one column.
    """
    tokens = setup.sequences * setup.passed_len * setup.predicted_share / setup.layout.cp
    tp, model = setup.layout.tp, setup.model
    columns = 1 if OBJECTIVES[setup.objective].scores else model.logit_columns
    if not columns:
        return LayerWork(forward=(), backward=(), exchange=(), quantised=False)
    wide = msgspec.structs.replace(setup, precision=_sixteen(setup))
    matrix = Matrix(name="head", outputs=columns, inputs=model.embedding_size or model.hidden_size)
    ahead, back = _products(matrix, None, wide, tokens)
    moved = tokens * columns / tp
    return LayerWork(
        forward=(*ahead, _touch("loss", 10 * moved, setup)),
        backward=(*back, _touch("loss backward", 8 * moved, setup)),
        exchange=(),
        quantised=False,
    )


def _sixteen(setup: TrainSetup) -> str:
    """Format of what is not quantised: attention, head, router."""
    return setup.precision if number_format(setup.precision).bits >= 16 else "bf16"


def _bytes(setup: TrainSetup) -> float:
    return float(setup.value_bytes)


def _merge_products(matrices: tuple[Matrix, ...]) -> tuple[Matrix, ...]:
    """Neighbours with the same input become one product: query, key and value."""
    found: list[Matrix] = []
    for matrix in matrices:
        last = found[-1] if found else None
        same = last is not None and last.split == matrix.split == "outputs" and last.inputs == matrix.inputs
        if last is not None and same and last.copies == matrix.copies == 1 and "proj" in last.name:
            found[-1] = msgspec.structs.replace(last, outputs=last.outputs + matrix.outputs)
        else:
            found.append(matrix)
    return tuple(found)


def _products(
    matrix: Matrix, feed_forward: FeedForward | None, setup: TrainSetup, tokens: float
) -> tuple[list[Operator], list[Operator]]:
    """One matrix forward, and backward for its input and, when it is trained, for itself."""
    tp, layout = setup.layout.tp, setup.layout
    rows, groups, outputs, inputs = tokens, 1.0, float(matrix.outputs), float(matrix.inputs)
    if matrix.split == "experts":
        assert isinstance(feed_forward, Moe)
        # Every expert rank sees its share of all routed copies, and those of the ranks that cut the same experts.
        cut = layout.expert_tp
        groups = matrix.copies / layout.ep
        rows = tokens * cut / tp * feed_forward.num_experts_per_tok * setup.routed_load
        outputs, inputs = (outputs / cut, inputs) if "down" not in matrix.name else (outputs, inputs / cut)
    elif matrix.split == "outputs":
        outputs /= min(tp, matrix.parts or tp)
    elif matrix.split == "inputs":
        inputs /= min(tp, matrix.parts or tp)
    elif setup.sequence_parallel:
        rows /= tp
    narrow = setup.precision if matrix.name not in {"router", "conv"} else _sixteen(setup)
    kind: Kind = "grouped_gemm" if groups > 1 else "gemm"

    def product(name: str, m: float, n: float, k: float, extra_bytes: float = 0.0) -> Operator:
        size = _bytes(setup)
        stored = number_format(narrow)
        given = size if stored.bits >= 16 else stored.bytes
        weight = given * outputs * inputs * groups
        return Operator(
            kind=kind,
            name=f"{matrix.name} {name}",
            weights=narrow,
            compute=stored.compute,
            flop=2.0 * rows * outputs * inputs,
            read_bytes=weight + given * rows * inputs,
            write_bytes=size * rows * outputs + extra_bytes,
            m=m,
            n=n,
            k=k,
            groups=groups,
        )

    each = rows / groups
    forward = [product("forward", each, outputs, inputs)]
    backward = [product("input gradient", each, inputs, outputs)]
    if not setup.adapter:
        backward.append(product("weight gradient", outputs, inputs, each, 8.0 * outputs * inputs * groups))
    elif is_target(matrix.name, setup.lora_targets) or (
        # The product into which `_merge_products` put keys and values.
        matrix.name == "q_proj" and not {"k_proj", "v_proj"}.isdisjoint(setup.lora_targets)
    ):
        # The low-rank products read the input again and add into the output in place; backward the other way round.
        forward.append(_touch("adapter", _bytes(setup) * rows * (inputs + 2 * outputs), setup))
        backward.append(_touch("adapter backward", _bytes(setup) * rows * (2 * inputs + 2 * outputs), setup))
        if setup.method == "dora":
            # Every pass adds the low-rank product to the weight and takes the norm of each output's row.
            forward.append(_touch("magnitudes", 3 * _bytes(setup) * outputs * inputs * groups, setup))
    return forward, backward


def _core(mixer: Mixer | None, setup: TrainSetup, tokens: float) -> tuple[list[Operator], list[Operator]]:
    """Attention's own products, or the scan of a recurrent mixer, forward and backward, on one rank's heads."""
    tp = setup.layout.tp
    match mixer:
        case Attention(num_attention_heads=heads, head_dim=width):
            return _attention(heads / tp, (width, mixer.v_head_dim or width), mixer, setup, tokens)
        case LatentAttention(num_attention_heads=heads):
            width = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim
            return _attention(heads / tp, (width, mixer.v_head_dim), mixer, setup, tokens)
        case StateSpace(num_heads=heads, head_dim=width):
            # A state update and read per token, and products inside a chunk (arXiv 2405.21060, section 6).
            inside = 2.0 * _CHUNK * (mixer.state_size + width) if mixer.kind != "short_conv" else 0.0
            flop = tokens * heads / tp * (6.0 * width * mixer.state_size + inside)
            moved = 2.0 * _bytes(setup) * tokens * heads / tp * width * 3
            scan = Operator(
                kind="state_space",
                name="scan",
                compute=_sixteen(setup),
                flop=flop,
                read_bytes=moved / 2,
                write_bytes=moved / 2,
                m=tokens,
            )
            back = msgspec.structs.replace(
                scan, name="scan backward", flop=2.5 * flop, read_bytes=moved, write_bytes=moved
            )
            return [scan], [back]
        case None:
            return [], []


def _attention(
    heads: float, widths: tuple[int, int], mixer: Attention | LatentAttention, setup: TrainSetup, tokens: float
) -> tuple[list[Operator], list[Operator]]:
    """
    Attention's own products, forward and backward; without a flash kernel its scores pass through memory.

    `heads` are those of one rank, `widths` those of a key and of a value.
    """
    # A mask that kernels read keeps them out of other examples; without such a kernel every score is computed.
    seen = setup.attended_len if setup.flash_attention else setup.passed_len
    window = mixer.window if isinstance(mixer, Attention) else None
    causal = not isinstance(mixer, Attention) or mixer.causal
    flash = setup.flash_attention
    attended = min(seen, window) if window else seen * (0.5 if causal and flash else 1.0)
    recurrent = isinstance(mixer, Attention) and mixer.segment_recurrence
    if recurrent:
        attended, flash = 2.0 * seen, False  # this segment and the one before, with a product of relative positions
    flop = 2.0 * tokens * attended * heads * (widths[0] * (2 if recurrent else 1) + widths[1])
    moved = _bytes(setup) * tokens * heads * 2 * (widths[0] + widths[1])
    forward = Operator(
        kind="attention_prefill",
        name="attention",
        compute=_sixteen(setup),
        flop=flop,
        read_bytes=moved,
        m=tokens,
        context=attended,
        heads=heads,
        head_dim=widths[0],
        batch=float(setup.sequences),
    )
    if flash:
        back = msgspec.structs.replace(
            forward, name="attention backward", flop=FLASH_BACKWARD * flop, read_bytes=3 * moved
        )
        return [forward], [back]
    scores = tokens * heads * attended * _bytes(setup) / 2 * (_RELATIVE_PASSES if recurrent else 1)
    plain = msgspec.structs.replace(
        forward, kind="gemm", weights=_sixteen(setup), n=attended, k=float(widths[0]), m=setup.passed_len
    )
    twice = msgspec.structs.replace(plain, name="attention backward", flop=2 * flop)
    return (
        [plain, _touch("scores", _SCORE_BYTES * scores, setup)],
        [twice, _touch("scores backward", _SCORE_BYTES * scores, setup)],
    )


def _touch(name: str, moved_bytes: float, setup: TrainSetup) -> Operator:
    half = moved_bytes / 2
    return Operator(kind="elementwise", name=name, compute=_sixteen(setup), read_bytes=half, write_bytes=half)


def _elementwise_bytes(group: LayerGroup, hidden: int, setup: TrainSetup) -> float:
    """Bytes per token of norms, residual additions, rotary and the non-linearity, each fused to one pass."""
    tp = setup.layout.tp
    spread = tp if setup.sequence_parallel else 1
    values = (group.norms * 2 * hidden + 2 * 3 * hidden) / spread
    match group.mixer:
        case Attention(num_attention_heads=n, num_key_value_heads=k, head_dim=d):
            values += 2 * (n + k) * d / tp * (2 if group.mixer.qk_norm or group.mixer.qk_norm_all_heads else 1)
        case LatentAttention(num_attention_heads=n):
            values += 4 * n * (group.mixer.qk_nope_head_dim + group.mixer.qk_rope_head_dim) / tp
        case StateSpace(num_heads=n, head_dim=d):
            values += 12 * n * d / tp
        case None:
            pass
    match group.feed_forward:
        case Mlp(intermediate_size=width, gated=gated):
            values += width * (3 if gated else 2) / tp
        case Moe() as moe:
            inner = moe.latent_size or hidden
            layout = setup.layout
            copies = moe.num_experts_per_tok * layout.expert_tp / tp * setup.routed_load
            inside = moe.moe_intermediate_size / (layout.expert_tp if layout.etp else 1)
            # Permuted on the way in, unpermuted and weighted on the way out.
            values += copies * (4 * inner + 3 * inside) + moe.num_experts / spread
            values += 3 * (moe.shared_intermediate_size + moe.dense_intermediate_size) / tp
        case None:
            pass
    return values * _bytes(setup)


def _cast_bytes(matrices: tuple[Matrix, ...], setup: TrainSetup) -> float:
    """Bytes per token of quantising each product's input: read at 16 bits, written narrow, and transposed to train."""
    if number_format(setup.precision).bits >= 16:
        return 0.0
    narrow = number_format(setup.precision).bytes
    tp = setup.layout.tp
    values = 0.0
    for matrix in _merge_products(matrices):
        copies = matrix.active or 1
        cut = {"inputs": tp, "experts": tp / setup.layout.expert_tp}.get(matrix.split, 1)
        values += copies * matrix.inputs / cut
    return values * (2.0 + (1.0 if setup.adapter else 2.0) * narrow)


def _exchange(group: LayerGroup, hidden: int, setup: TrainSetup, tokens: float) -> tuple[Operator, ...]:
    """
    Collectives of one forward pass through the layer.

    Tensor parallelism exchanges after each block, context parallelism gathers keys and values, experts send tokens
    there and back, and ranks that cut the same experts sum their answers. Messages are of one micro-batch on one rank.
    """
    layout, size = setup.layout, _bytes(setup)
    found = []
    blocks = sum(part is not None for part in (group.mixer, group.cross_attention, group.feed_forward))
    spread = layout.ep > 1 or layout.expert_tp < layout.tp
    if isinstance(group.feed_forward, Moe) and spread:
        blocks -= 1  # whole experts need no all-reduce; shared experts are small
    if layout.tp > 1 and blocks:
        found.append(
            Operator(
                kind="all_reduce",
                name="tensor",
                count=float(blocks),
                message_bytes=size * tokens * hidden,
                ranks=layout.tp,
            )
        )
    if layout.cp > 1 and isinstance(group.mixer, Attention):
        width = (
            2 * group.mixer.num_key_value_heads * group.mixer.head_dim / min(layout.tp, group.mixer.num_key_value_heads)
        )
        found.append(
            Operator(
                kind="all_gather", name="context", message_bytes=size * tokens * layout.cp * width, ranks=layout.cp
            )
        )
    if isinstance(group.feed_forward, Moe) and layout.ep > 1:
        moe = group.feed_forward
        copies = tokens / (layout.tp if setup.sequence_parallel else 1) * moe.num_experts_per_tok
        found.append(
            Operator(
                kind="all_to_all",
                name="experts",
                count=2.0,
                ranks=layout.ep,
                groups=float(moe.num_experts_per_tok),
                message_bytes=size * copies * setup.routed_load * (moe.latent_size or hidden),
            )
        )
    if isinstance(group.feed_forward, Moe) and spread and layout.expert_tp > 1:
        # What arrives is gathered by the ranks that cut the same experts, and their answers are summed.
        moe = group.feed_forward
        copies = tokens * layout.expert_tp / layout.tp * moe.num_experts_per_tok * setup.routed_load
        found.append(
            Operator(
                kind="all_reduce",
                name="expert tensor",
                ranks=layout.expert_tp,
                message_bytes=size * copies * (moe.latent_size or hidden),
            )
        )
    return tuple(found)
