"""Training work: FLOP are 6 per parameter and token, and every degree divides what it should."""

import pytest
from msgspec.structs import replace

from tonnage.nouns.layout import TrainLayout
from tonnage.nouns.model import Attention, LayerGroup, Mlp, Model, Moe, StateSpace
from tonnage.nouns.training import TrainSetup
from tonnage.physics.parameters import layer_parameters, matrix_parameters, mixer_matrices
from tonnage.physics.training_work import LayerWork, head_work, layer_work

LAYER = LayerGroup(
    count=1,
    mixer=Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128),
    feed_forward=Mlp(intermediate_size=14336),
)
HIDDEN = 4096
SETUP = TrainSetup(seq_len=4096)


def products(work: LayerWork, way: str) -> float:
    return sum(op.flop for op in getattr(work, way) if op.kind in {"gemm", "grouped_gemm"})


def test_forward_is_two_and_backward_four_per_parameter_and_token() -> None:
    work = layer_work(LAYER, HIDDEN, setup=SETUP)
    weights = layer_parameters(LAYER, HIDDEN) - 2 * HIDDEN
    assert products(work, "forward") == pytest.approx(2 * weights * 4096)
    assert products(work, "backward") == pytest.approx(4 * weights * 4096)


def test_causal_attention_counts_half_and_flash_recomputes() -> None:
    work = layer_work(LAYER, HIDDEN, setup=SETUP)
    ahead = next(op for op in work.forward if op.name == "attention")
    back = next(op for op in work.backward if op.name == "attention backward")
    assert ahead.flop == pytest.approx(4 * 4096 * (4096 / 2) * 32 * 128)
    assert back.flop == pytest.approx(2.5 * ahead.flop)


def test_without_flash_scores_are_written_and_nothing_is_skipped() -> None:
    work = layer_work(LAYER, HIDDEN, setup=replace(SETUP, flash_attention=False))
    plain = next(op for op in work.forward if op.name == "attention")
    assert plain.flop == pytest.approx(4 * 4096 * 4096 * 32 * 128)
    assert any(op.name == "scores" for op in work.forward)


def test_frozen_matrices_have_no_weight_gradient() -> None:
    lora = layer_work(LAYER, HIDDEN, setup=replace(SETUP, method="lora"))
    assert products(lora, "backward") == pytest.approx(products(lora, "forward"))
    assert any(op.name == "adapter" for op in lora.forward)


def test_tensor_ranks_share_the_products_and_exchange_activations() -> None:
    work = layer_work(LAYER, HIDDEN, setup=replace(SETUP, layout=TrainLayout(tp=4)))
    whole = layer_work(LAYER, HIDDEN, setup=SETUP)
    assert products(work, "forward") == pytest.approx(products(whole, "forward") / 4)
    (tensor,) = work.exchange
    assert tensor.count == 2
    assert tensor.message_bytes == 2 * 4096 * HIDDEN
    assert whole.exchange == ()


def test_context_ranks_share_tokens_and_gather_keys_and_values() -> None:
    work = layer_work(LAYER, HIDDEN, setup=replace(SETUP, layout=TrainLayout(cp=2)))
    whole = layer_work(LAYER, HIDDEN, setup=SETUP)
    assert products(work, "forward") == pytest.approx(products(whole, "forward") / 2)
    assert [op.name for op in work.exchange] == ["context"]


def test_a_mixture_computes_only_chosen_experts() -> None:
    moe = replace(LAYER, feed_forward=Moe(num_experts=64, num_experts_per_tok=4, moe_intermediate_size=1024))
    work = layer_work(moe, HIDDEN, setup=SETUP)
    routed = [op for op in work.forward if op.kind == "grouped_gemm"]
    assert sum(op.flop for op in routed) == pytest.approx(2 * 4096 * 4 * 3 * HIDDEN * 1024)
    assert all(op.groups == 64 for op in routed)


def test_expert_ranks_exchange_twice_a_pass() -> None:
    moe = replace(LAYER, feed_forward=Moe(num_experts=64, num_experts_per_tok=4, moe_intermediate_size=1024))
    work = layer_work(moe, HIDDEN, setup=replace(SETUP, layout=TrainLayout(ep=8, dp=8)))
    exchange = next(op for op in work.exchange if op.name == "experts")
    assert exchange.count == 2
    assert exchange.message_bytes == 2 * 4096 * 4 * HIDDEN


def test_narrow_products_run_at_the_narrow_peak_and_pay_for_casts() -> None:
    work = layer_work(LAYER, HIDDEN, setup=replace(SETUP, precision="fp8"))
    assert {op.compute for op in work.forward if op.kind == "gemm"} == {"fp8"}
    assert any(op.name == "casts" for op in work.forward)
    head = head_work(
        Model(id="m", family="f", kind="llm", hidden_size=HIDDEN, vocab_size=32000, layers=(LAYER,)),
        setup=replace(SETUP, precision="fp8"),
    )
    assert {op.compute for op in head.forward if op.kind == "gemm"} == {"bf16"}


def test_a_recurrent_layer_has_its_projections_and_a_scan() -> None:
    mamba = StateSpace(kind="mamba2", num_heads=64, head_dim=64, state_size=128, num_groups=8)
    work = layer_work(LayerGroup(count=1, mixer=mamba), HIDDEN, setup=SETUP)
    weights = matrix_parameters(mixer_matrices(mamba, HIDDEN))
    assert products(work, "forward") == pytest.approx(2 * weights * 4096)
    assert any(op.kind == "state_space" for op in work.forward)


def test_segment_recurrence_doubles_what_is_attended() -> None:
    mixer = replace(LAYER.mixer, segment_recurrence=True)
    old = layer_work(LAYER, HIDDEN, setup=replace(SETUP, flash_attention=False))
    new = layer_work(replace(LAYER, mixer=mixer), HIDDEN, setup=SETUP)

    def core(work: LayerWork) -> float:
        return next(op.flop for op in work.forward if op.name == "attention")

    assert core(new) == pytest.approx(3 * core(old))


def test_an_adaptive_head_multiplies_its_columns() -> None:
    model = Model(id="m", family="f", kind="llm", hidden_size=512, vocab_size=267735, layers=(LAYER,))
    full = head_work(model, setup=SETUP)
    short = head_work(replace(model, head_columns=33000), setup=SETUP)
    assert products(short, "forward") == pytest.approx(products(full, "forward") * 33000 / 267735)
