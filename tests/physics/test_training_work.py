"""Training work: FLOP are 6 per parameter and token, and every degree divides what it should."""

import pytest
from msgspec.structs import replace
from tests.training_setups import train_setup

from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Mlp, Model, Moe, StateSpace
from tonnage.domain.training import TrainSetup
from tonnage.physics.matrices import matrix_parameters, mixer_matrices
from tonnage.physics.training_work import LayerWork, head_work, layer_work
from tonnage.physics.work import Operator

LAYER = LayerGroup(
    count=1,
    mixer=Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128),
    feed_forward=Mlp(intermediate_size=14336),
)
HIDDEN = 4096
SETUP = train_setup(seq_len=4096)


def products(work: LayerWork, way: str) -> float:
    return sum(op.flop for op in getattr(work, way) if op.kind in {"gemm", "grouped_gemm"})


def test_narrow_products_run_at_the_narrow_peak_and_pay_for_casts() -> None:
    work = layer_work(LAYER, HIDDEN, setup=replace(SETUP, precision="fp8"))
    assert {op.compute for op in work.forward if op.kind == "gemm"} == {"fp8"}
    assert any(op.name == "casts" for op in work.forward)
    head = head_work(
        replace(
            SETUP,
            precision="fp8",
            model=Model(id="m", family="f", kind="llm", hidden_size=HIDDEN, vocab_size=32000, layers=(LAYER,)),
        )
    )
    assert {op.compute for op in head.forward if op.kind == "gemm"} == {"bf16"}


def test_a_recurrent_layer_has_its_projections_and_a_scan() -> None:
    mamba = StateSpace(kind="mamba2", num_heads=64, head_dim=64, state_size=128, num_groups=8)
    work = layer_work(LayerGroup(count=1, mixer=mamba), HIDDEN, setup=SETUP)
    weights = matrix_parameters(mixer_matrices(mamba, HIDDEN))
    assert products(work, "forward") == pytest.approx(2 * weights * 4096)
    assert any(op.kind == "state_space" for op in work.forward)


def test_an_adaptive_head_multiplies_its_columns() -> None:
    model = Model(id="m", family="f", kind="llm", hidden_size=512, vocab_size=267735, layers=(LAYER,))
    full = head_work(replace(SETUP, model=model))
    short = head_work(replace(SETUP, model=replace(model, head_columns=33000)))
    assert products(short, "forward") == pytest.approx(products(full, "forward") * 33000 / 267735)


TINY = LayerGroup(
    count=1,
    mixer=Attention(num_attention_heads=4, num_key_value_heads=2, head_dim=8),
    feed_forward=Mlp(intermediate_size=12),
)
"""Width 10: query, key and value together 64 x 10, output 10 x 32, up 24 x 10, down 10 x 12."""
MIXTURE = replace(
    TINY,
    feed_forward=Moe(
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=12,
        shared_intermediate_size=4,
        dense_intermediate_size=6,
    ),
)
TWELVE = train_setup(micro_batch=2, seq_len=6)
"""Twelve tokens a micro-batch."""
PAIR = replace(TWELVE, layout=TrainLayout(tp=2))


def counted(operators: tuple[Operator, ...]) -> dict[str, object]:
    """FLOP, bytes read and written of each operator."""
    return {op.name: pytest.approx((op.flop, op.read_bytes, op.write_bytes)) for op in operators}


def named(operators: tuple[Operator, ...], name: str) -> Operator:
    return next(op for op in operators if op.name == name)


def matmul(rows: float, outputs: float, inputs: float, gradient: float = 0.0) -> tuple[float, float, float]:
    """16-bit product: reads weight and input, writes the output, and `gradient` bytes of a weight's gradient."""
    return 2 * rows * outputs * inputs, 2 * outputs * inputs + 2 * rows * inputs, 2 * rows * outputs + gradient


def moved(work: LayerWork, name: str = "element-wise") -> float:
    op = named(work.forward, name)
    assert op.read_bytes == op.write_bytes
    return 2 * op.read_bytes / 12


def test_every_operator_of_a_small_layer() -> None:
    work = layer_work(TINY, 10, setup=TWELVE)
    # Attention: half of 6 keys, 4 heads, widths 8 + 8; query, key, value and output of 4 heads are moved.
    # Element-wise: two norms and two residuals of 10 (2 x 2 + 2 x 3), rotary of 6 heads, three of 12: 232 values.
    assert counted(work.forward) == {
        "q_proj forward": matmul(12, 64, 10),
        "o_proj forward": matmul(12, 10, 32),
        "gate_up_proj forward": matmul(12, 24, 10),
        "down_proj forward": matmul(12, 10, 12),
        "attention": (2 * 12 * 3 * 4 * 16, 2 * 12 * 4 * 2 * 16, 0),
        "element-wise": (0, 12 * 232, 12 * 232),
    }
    assert counted(work.backward) == {
        "q_proj input gradient": matmul(12, 64, 10),
        "q_proj weight gradient": matmul(12, 64, 10, 8 * 640),
        "o_proj input gradient": matmul(12, 10, 32),
        "o_proj weight gradient": matmul(12, 10, 32, 8 * 320),
        "gate_up_proj input gradient": matmul(12, 24, 10),
        "gate_up_proj weight gradient": matmul(12, 24, 10, 8 * 240),
        "down_proj input gradient": matmul(12, 10, 12),
        "down_proj weight gradient": matmul(12, 10, 12, 8 * 120),
        "attention backward": (2.5 * 2 * 12 * 3 * 4 * 16, 3 * 2 * 12 * 4 * 2 * 16, 0),
        "element-wise backward": (0, 2 * 12 * 232, 2 * 12 * 232),
    }
    sides = {op.name: (op.m, op.n, op.k, op.groups) for op in (*work.forward, *work.backward) if "q_proj" in op.name}
    assert sides == {
        "q_proj forward": (12, 64, 10, 1),
        "q_proj input gradient": (12, 10, 64, 1),
        "q_proj weight gradient": (64, 10, 12, 1),
    }
    core = named(work.forward, "attention")
    assert (core.m, core.context, core.heads, core.head_dim, core.batch) == (12, 3, 4, 8, 2)
    assert not work.experts


def test_two_tensor_ranks_halve_what_is_cut() -> None:
    work = layer_work(TINY, 10, setup=PAIR)
    assert counted(work.forward) == {
        "q_proj forward": matmul(12, 32, 10),
        "o_proj forward": matmul(12, 10, 16),
        "gate_up_proj forward": matmul(12, 12, 10),
        "down_proj forward": matmul(12, 10, 6),
        "attention": (2 * 12 * 3 * 2 * 16, 2 * 12 * 2 * 2 * 16, 0),
        "element-wise": (0, 12 * 116, 12 * 116),
    }
    whole_norms = replace(PAIR, layout=TrainLayout(tp=2, sequence_parallel=False))
    assert moved(layer_work(TINY, 10, setup=whole_norms)) == 2 * (100 + 66)
    (tensor,) = work.exchange
    assert (tensor.kind, tensor.count, tensor.message_bytes, tensor.ranks) == ("all_reduce", 2, 2 * 12 * 10, 2)
    # Eight ranks hold four heads twice.
    eight = layer_work(TINY, 10, setup=replace(TWELVE, layout=TrainLayout(tp=8)))
    assert named(eight.forward, "q_proj forward").n == 16
    assert named(eight.forward, "o_proj forward").k == 8


def test_element_wise_values_of_each_kind_of_layer() -> None:
    def values(mixer: object, feed_forward: object, setup: TrainSetup = TWELVE) -> float:
        group = LayerGroup(count=1, mixer=mixer, feed_forward=feed_forward)  # type: ignore[arg-type]
        return moved(layer_work(group, 10, setup=setup)) / 2

    plain = Mlp(intermediate_size=12, gated=False)
    latent = LatentAttention(
        num_attention_heads=4, kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6
    )
    mamba = StateSpace(kind="mamba2", num_heads=4, head_dim=8, state_size=16)
    assert values(TINY.mixer, plain) == 100 + 96 + 24
    assert values(TINY.mixer, plain, PAIR) == 50 + 48 + 12
    assert values(replace(TINY.mixer, qk_norm=True), None) == 100 + 2 * 96
    assert values(latent, None) == 100 + 4 * 4 * 12
    assert values(latent, None, PAIR) == 50 + 2 * 4 * 12
    assert values(mamba, None) == 100 + 12 * 32
    assert values(mamba, None, PAIR) == 50 + 6 * 32
    # A mixture: both copies are permuted (4 x 10) and gated (3 x 12), 8 router scores, 4 + 6 beside the experts.
    assert values(None, MIXTURE.feed_forward) == 100 + 2 * (40 + 36) + 8 + 3 * 10
    assert values(None, MIXTURE.feed_forward, PAIR) == 50 + 2 * (40 + 36) + 4 + 15
    assert values(None, replace(MIXTURE.feed_forward, latent_size=5)) == 100 + 2 * (20 + 36) + 8 + 30
    assert values(None, None) == 100


def test_experts_that_are_cut_and_experts_that_are_whole() -> None:
    cut = layer_work(MIXTURE, 10, setup=PAIR)
    # Eight experts of half the width; 24 copies, 3 each. The router sees a rank's share of the tokens.
    up, down = named(cut.forward, "expert_gate_up_proj forward"), named(cut.forward, "expert_down_proj forward")
    assert (up.kind, up.m, up.n, up.k, up.groups) == ("grouped_gemm", 3, 12, 10, 8)
    assert (up.flop, up.read_bytes, up.write_bytes) == (2 * 24 * 120, 2 * 120 * 8 + 2 * 24 * 10, 2 * 24 * 12)
    assert (down.m, down.n, down.k) == (3, 10, 6)
    gradient = named(cut.backward, "expert_gate_up_proj weight gradient")
    assert (gradient.m, gradient.n, gradient.k) == (12, 10, 3)
    assert gradient.write_bytes == 2 * 24 * 12 + 8 * 120 * 8
    assert named(cut.forward, "router forward").m == 6
    assert [(op.name, op.count) for op in cut.exchange] == [("tensor", 2)]
    # Two expert ranks: four whole experts each, half of the tokens' copies, half as many again on the fullest.
    setup = replace(TWELVE, layout=TrainLayout(tp=2, dp=2, ep=2), expert_load=1.5)
    whole = layer_work(MIXTURE, 10, setup=setup)
    up = named(whole.forward, "expert_gate_up_proj forward")
    assert (up.m, up.n, up.k, up.groups) == (18 / 4, 24, 10, 4)
    assert moved(whole) == 2 * (50 + 48 + 1.5 * (40 + 36) + 4 + 15)
    tensor, experts = whole.exchange
    assert (tensor.count, tensor.message_bytes) == (1, 240)
    assert (experts.kind, experts.count, experts.ranks, experts.groups) == ("all_to_all", 2, 2, 2)
    assert experts.message_bytes == 2 * 6 * 2 * 1.5 * 10
    assert whole.experts
    latent = replace(MIXTURE, feed_forward=replace(MIXTURE.feed_forward, latent_size=5))
    assert layer_work(latent, 10, setup=setup).exchange[1].message_bytes == 2 * 6 * 2 * 1.5 * 5


def test_casts_and_products_of_eight_bits() -> None:
    narrow = replace(TWELVE, precision="fp8")
    work = layer_work(TINY, 10, setup=narrow)
    up = named(work.forward, "gate_up_proj forward")
    assert (up.read_bytes, up.write_bytes) == (240 + 120, 2 * 12 * 24)
    # Inputs of 10 + 32 + 10 + 12 values: read at 2 bytes, written at 1, and once more transposed.
    assert moved(work, "casts") == 64 * 4
    assert named(work.backward, "casts backward").read_bytes == named(work.forward, "casts").read_bytes
    assert moved(layer_work(TINY, 10, setup=replace(narrow, method="lora")), "casts") == 64 * 3
    assert moved(layer_work(TINY, 10, setup=replace(narrow, layout=TrainLayout(tp=2))), "casts") == 42 * 4
    experts = replace(
        MIXTURE,
        mixer=None,
        feed_forward=replace(MIXTURE.feed_forward, shared_intermediate_size=0, dense_intermediate_size=0),
    )
    assert moved(layer_work(experts, 10, setup=narrow), "casts") == (10 + 2 * 22) * 4
    spread = replace(narrow, layout=TrainLayout(tp=2, dp=2, ep=2))
    assert moved(layer_work(experts, 10, setup=spread), "casts") == (10 + 22) * 4
    router = named(layer_work(experts, 10, setup=narrow).forward, "router forward")
    assert (router.compute, router.read_bytes) == ("bf16", 2 * 80 + 2 * 120)
    assert named(layer_work(TINY, 10, setup=TWELVE).forward, "element-wise").compute == "bf16"
    wide = layer_work(TINY, 10, setup=replace(TWELVE, precision="fp32"))
    assert named(wide.forward, "gate_up_proj forward").read_bytes == 4 * 240 + 4 * 120
    assert named(wide.forward, "attention").compute == "fp32"
    assert "casts" not in counted(wide.forward)


def test_kernels_of_attention() -> None:
    def core(changes: dict[str, object], setup: TrainSetup = TWELVE) -> LayerWork:
        return layer_work(LayerGroup(count=1, mixer=replace(TINY.mixer, **changes)), 10, setup=setup)

    one = 2 * 12 * 4 * 16  # FLOP of twelve queries for one key
    assert named(core({"window": 2}).forward, "attention").flop == 2 * one
    assert named(core({"window": 20}).forward, "attention").flop == 6 * one
    assert named(core({"causal": False}).forward, "attention").flop == 6 * one
    assert named(core({"v_head_dim": 6}).forward, "attention").flop == 3 * 2 * 12 * 4 * 14
    slow = core({}, replace(TWELVE, flash_attention=False))
    plain, scores = named(slow.forward, "attention"), named(slow.forward, "scores")
    assert (plain.kind, plain.flop, plain.m, plain.n, plain.k) == ("gemm", 6 * one, 6, 6, 8)
    assert named(slow.backward, "attention backward").flop == 12 * one
    # Ten bytes for each of 12 x 4 x 6 scores, half of them read; backward as many.
    assert scores.read_bytes == scores.write_bytes == 5 * 288
    assert named(slow.backward, "scores backward").read_bytes == 5 * 288
    # With the segment before: 12 keys, positions as a third product, scores passed three times.
    recurrent = core({"segment_recurrence": True})
    assert named(recurrent.forward, "attention").flop == 2 * 12 * 12 * 4 * (8 + 8 + 8)
    assert named(recurrent.forward, "scores").read_bytes == 5 * 12 * 4 * 12 * 3
    latent = LatentAttention(
        num_attention_heads=4, kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6
    )
    found = named(layer_work(LayerGroup(count=1, mixer=latent), 10, setup=PAIR).forward, "attention")
    assert (found.flop, found.read_bytes) == (2 * 12 * 3 * 2 * 18, 2 * 12 * 2 * 2 * 18)


def test_a_scan_updates_its_state_and_multiplies_inside_chunks() -> None:
    mamba = StateSpace(kind="mamba2", num_heads=4, head_dim=8, state_size=16)
    work = layer_work(LayerGroup(count=1, mixer=mamba), 10, setup=PAIR)
    scan, back = named(work.forward, "scan"), named(work.backward, "scan backward")
    # A token and head: 6 x 8 x 16 for the state, 2 x 128 x (16 + 8) in its chunk; three values of width 8 each way.
    assert (scan.flop, scan.read_bytes, scan.write_bytes) == (24 * (768 + 6144), 2 * 24 * 24, 2 * 24 * 24)
    assert (back.flop, back.read_bytes, back.write_bytes) == (2.5 * scan.flop, 4 * 24 * 24, 4 * 24 * 24)
    short = StateSpace(kind="short_conv", num_heads=4, head_dim=8, state_size=1)
    assert named(layer_work(LayerGroup(count=1, mixer=short), 10, setup=TWELVE).forward, "scan").flop == 48 * 48


def test_adapters_read_and_add_beside_their_matrix() -> None:
    setup = replace(TWELVE, method="lora", lora_targets=("q_proj",))
    work = layer_work(TINY, 10, setup=setup)
    (ahead,) = (op for op in work.forward if op.name == "adapter")
    (back,) = (op for op in work.backward if op.name == "adapter backward")
    assert ahead.read_bytes == ahead.write_bytes == 12 * (10 + 2 * 64)
    assert back.read_bytes == back.write_bytes == 12 * (2 * 10 + 2 * 64)
    assert not any("weight gradient" in op.name or op.name == "magnitudes" for op in (*work.forward, *work.backward))
    dora = layer_work(TINY, 10, setup=replace(setup, method="dora"))
    assert named(dora.forward, "magnitudes").read_bytes == 3 * 640
    every = layer_work(TINY, 10, setup=replace(setup, lora_targets=()))
    assert sum(op.name == "adapter" for op in every.forward) == 4


def test_context_ranks_gather_every_key_and_value() -> None:
    alone = layer_work(TINY, 10, setup=replace(TWELVE, layout=TrainLayout(cp=2)))
    assert named(alone.forward, "gate_up_proj forward").m == 6
    (gather,) = alone.exchange
    assert (gather.kind, gather.message_bytes, gather.ranks) == ("all_gather", 2 * 12 * 2 * 2 * 8, 2)
    pair = layer_work(TINY, 10, setup=replace(TWELVE, layout=TrainLayout(cp=2, tp=4)))
    assert pair.exchange[1].message_bytes == 2 * 12 * 2 * 8  # at least one head


def test_the_head_on_two_ranks() -> None:
    model = Model(id="m", family="f", kind="llm", hidden_size=10, vocab_size=100, layers=(TINY,))
    work = head_work(replace(PAIR, model=model))
    assert counted(work.forward) == {"head forward": matmul(12, 50, 10), "loss": (0, 5 * 600, 5 * 600)}
    assert counted(work.backward) == {
        "head input gradient": matmul(12, 50, 10),
        "head weight gradient": matmul(12, 50, 10, 8 * 500),
        "loss backward": (0, 4 * 600, 4 * 600),
    }
    assert work.exchange == ()
    spread = head_work(replace(TWELVE, layout=TrainLayout(cp=2), model=replace(model, embedding_size=6)))
    assert counted(spread.forward)["head forward"] == matmul(6, 100, 6)
    assert head_work(replace(PAIR, model=replace(model, has_head=False))).forward == ()


def test_sixteen_bits_of_another_kind_and_two_targets() -> None:
    half = layer_work(TINY, 10, setup=replace(TWELVE, precision="fp16"))
    up = named(half.forward, "gate_up_proj forward")
    assert (up.compute, up.read_bytes) == ("fp16", 2 * 240 + 2 * 120)
    assert named(half.forward, "attention").compute == "fp16"
    setup = replace(TWELVE, method="lora", lora_targets=("q_proj", "down_proj"))
    assert sum(op.name == "adapter" for op in layer_work(TINY, 10, setup=setup).forward) == 2
    two = replace(MIXTURE, feed_forward=Moe(num_experts=2, num_experts_per_tok=1, moe_intermediate_size=12))
    work = layer_work(two, 10, setup=replace(TWELVE, method="dora", lora_targets=("expert_gate_up_proj",)))
    assert named(work.forward, "expert_gate_up_proj forward").kind == "grouped_gemm"
    assert named(work.forward, "magnitudes").read_bytes == 3 * 240 * 2


@pytest.mark.parametrize(
    ("targets", "adapters"),
    [(("o_proj",), 1), (("v_proj",), 1), (("q_proj", "v_proj"), 1), (("q_proj", "o_proj"), 2), (("down_proj",), 1),
     (("up_proj",), 1), ((), 4)],
)  # fmt: skip
def test_a_target_is_its_own_matrix_or_the_product_that_it_was_merged_into(
    targets: tuple[str, ...], adapters: int
) -> None:
    """Query, key and value are one product of a dense layer; a name within another's name is not it."""
    work = layer_work(TINY, 10, setup=replace(TWELVE, method="lora", lora_targets=targets))
    assert sum(op.name == "adapter" for op in work.forward) == adapters


def test_batches_grouped_by_length_pass_their_mean() -> None:
    padded, grouped = (layer_work(LAYER, HIDDEN, setup=replace(SETUP, mean_seq_len=n)) for n in (None, 1024))
    assert products(grouped, "forward") == pytest.approx(products(padded, "forward") / 4)
    core = [next(op.flop for op in work.forward if op.name == "attention") for work in (padded, grouped)]
    assert core[1] == pytest.approx(core[0] / 16)


def test_packed_examples_attend_to_themselves_where_a_kernel_reads_the_mask() -> None:
    whole, packed = (layer_work(LAYER, HIDDEN, setup=replace(SETUP, document_len=n)) for n in (None, 256))
    assert products(packed, "forward") == products(whole, "forward")
    core = [next(op.flop for op in work.forward if op.name == "attention") for work in (whole, packed)]
    assert core[1] == pytest.approx(core[0] * 256 / SETUP.seq_len)
    scores = replace(SETUP, flash_attention=False)
    assert layer_work(LAYER, HIDDEN, setup=replace(scores, document_len=256)) == layer_work(LAYER, HIDDEN, setup=scores)


def test_only_predicted_tokens_have_logits() -> None:
    model = Model(id="m", family="", kind="llm", hidden_size=HIDDEN, vocab_size=32000, layers=(LAYER,))
    every, masked = (head_work(replace(SETUP, predicted_share=share, model=model)) for share in (1.0, 0.15))
    assert products(masked, "forward") == pytest.approx(0.15 * products(every, "forward"))


def test_ranks_that_cut_an_expert_share_its_products_and_sum_its_answers() -> None:
    moe = replace(LAYER, feed_forward=Moe(num_experts=64, num_experts_per_tok=4, moe_intermediate_size=2048))
    whole, cut = (
        layer_work(moe, HIDDEN, setup=replace(SETUP, layout=TrainLayout(tp=4, ep=8, etp=etp, dp=8))) for etp in (1, 2)
    )
    # Twice the copies arrive, each multiplies half of the width.
    assert products(cut, "forward") == pytest.approx(products(whole, "forward"))
    routed = [
        next(op for op in work.forward if op.name.startswith("experts") or op.groups > 1) for work in (whole, cut)
    ]
    assert routed[1].m == pytest.approx(2 * routed[0].m)
    assert [op.name for op in whole.exchange] == ["tensor", "experts"]
    assert [(op.name, op.ranks) for op in cut.exchange][-1] == ("expert tensor", 2)
