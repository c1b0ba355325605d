"""FLOP of one sequence as a source counts them."""

import pytest
from tests.validation.samples import training

from tonnage.domain.answer import Quantity
from tonnage.domain.case import TrainResult
from tonnage.errors import BadFact
from tonnage_accuracy.quantities import flop_of_sequence, measured_numbers, predicted_number

GPT_2_XL = {
    "model_id": None, "model": "GPT", "layers": 48, "hidden": 1600, "ffn": 6400, "heads": 25, "kv_heads": 25,
    "head_dim": 64, "vocab": 51200, "seq_len": 1024, "arch_gated": 0, "arch_tied": 1, "arch_learned_pos": 1,
}  # fmt: skip


def test_megatrons_own_formula_is_met() -> None:
    """96 B s L h^2 (1 + s / 6h + V / 16 L h) with every layer recomputed (arXiv 2104.04473, section 5.1)."""
    row = training(**GPT_2_XL, tflops_definition="hardware", act_ckpt="full", attn_flops="noncausal")
    layers, h, s, vocabulary = 48, 1600, 1024, 51200
    stated = 96 * s * layers * h**2 * (1 + s / (6 * h) + vocabulary / (16 * layers * h))
    assert flop_of_sequence(row) == pytest.approx(stated, rel=0.01)


def test_model_flop_leave_recompute_out_and_causal_attention_is_half() -> None:
    hardware = flop_of_sequence(training(**GPT_2_XL, tflops_definition="hardware", act_ckpt="full"))
    model = flop_of_sequence(training(**GPT_2_XL, tflops_definition="model", act_ckpt="full"))
    causal = flop_of_sequence(training(**GPT_2_XL, tflops_definition="model", attn_flops="causal"))
    assert causal < model < hardware < model * 4 / 3


def test_a_row_without_a_length_says_so() -> None:
    with pytest.raises(BadFact, match="FLOP/s"):
        flop_of_sequence(training(seq_len=None))


def test_flop_rates_are_scored_only_where_nothing_else_is_printed() -> None:
    silent = {"step_time_s_eff": None, "tokens_per_s_per_accel_eff": None}
    assert "tflops_per_accel" not in [one.quantity for one in measured_numbers(training(tflops_per_accel=400))]
    rate = measured_numbers(training(tflops_per_accel=400, **silent))[0]
    assert (rate.quantity, rate.value) == ("tflops_per_accel", 400)
    each = Quantity(value=0.5, unit="samples/s", low=0.4, high=0.6)
    answer = predicted_number(TrainResult(fits=True, basis="calibrated", samples_per_s_per_accelerator=each), rate)
    assert answer is not None and answer.low is not None
    assert answer.value == pytest.approx(0.5 * rate.flop / 1e12)
    assert answer.low == pytest.approx(0.8 * answer.value)
    assert measured_numbers(training(tflops_per_accel=400, seq_len=None, **silent))[0].problem
