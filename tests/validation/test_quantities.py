"""Measured and predicted numbers of a row, and FLOP rates as sources count them."""

import pytest
from msgspec.structs import replace
from tests.validation.samples import point, sample, training

from tonnage.domain.answer import Quantity
from tonnage.domain.case import InferResult, Latency, ServeResult, TrainResult
from tonnage.errors import BadFact
from tonnage.units import GiB
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.quantities import NAMES, Measured, Predicted, flop_of_sequence, measured_numbers, predicted_number


def names(found: list[Measured]) -> list[str]:
    return [item.quantity for item in found]


def test_an_inference_row_is_scored_in_the_order_of_the_tables() -> None:
    row = point(ttft_mean_ms=100, tpot_p50_ms=20, total_tokens_per_s=900, samples_per_s=2, kv_tokens=5000)
    assert names(measured_numbers(row)) == [
        "ttft_ms",
        "tpot_ms",
        "e2e_ms",
        "output_tokens_per_s",
        "total_tokens_per_s",
        "samples_per_s",
        "kv_tokens",
    ]
    assert set(names(measured_numbers(row))) <= set(NAMES)


def test_a_mean_is_scored_before_a_median_and_a_median_as_one() -> None:
    both = measured_numbers(point(ttft_mean_ms=100, ttft_p50_ms=80))
    assert both[0] == Measured(quantity="ttft_ms", value=100, statistic="mean")
    median = measured_numbers(point(ttft_p50_ms=80))
    assert median[0] == Measured(quantity="ttft_ms", value=80, statistic="p50")


def test_first_tokens_of_clients_are_scored_by_their_median_which_no_first_request_raises() -> None:
    both = {"ttft_mean_ms": 8465, "ttft_p50_ms": 600, "tpot_mean_ms": 20, "tpot_p50_ms": 19}
    assert measured_numbers(point(load="closed_loop", **both))[:2] == [
        Measured(quantity="ttft_ms", value=600, statistic="p50"),
        Measured(quantity="tpot_ms", value=20, statistic="mean"),
    ]
    assert measured_numbers(point(load="closed_loop", ttft_mean_ms=8465))[0].statistic == "mean"
    assert measured_numbers(point(load="open_loop", **both))[0].statistic == "mean"


def test_only_memory_that_was_needed_is_scored() -> None:
    assert "memory_gb" in names(measured_numbers(point(memory_gb=20, memory_kind="need")))
    assert "memory_gb" not in names(measured_numbers(point(memory_gb=76, memory_kind="pool")))
    held = next(m for m in measured_numbers(point(memory_gb=20, memory_kind="tensors")) if m.quantity == "memory_gb")
    assert held.value == pytest.approx(20 * GiB / 1e9) and held.tensors, "PyTorch prints GiB of weights and cache"
    assert "memory_gb" not in names(measured_numbers(point(memory_gb=76)))


def test_a_serving_row_has_two_means() -> None:
    assert measured_numbers(sample()) == [
        Measured(quantity="ttft_ms", value=500),
        Measured(quantity="tpot_ms", value=20),
    ]


@pytest.mark.parametrize(
    ("usable_for", "expected"),
    [
        ("speed", ["step_time_s", "tokens_per_s_per_accel", "fits"]),
        ("memory", ["peak_mem_gb", "fits"]),
        ("speed+memory", ["step_time_s", "tokens_per_s_per_accel", "peak_mem_gb", "fits"]),
    ],
)
def test_training_is_scored_where_its_row_is_usable(usable_for: str, expected: list[str]) -> None:
    assert names(measured_numbers(training(usable_for=usable_for, peak_mem_gb=60))) == expected


def test_the_columns_ending_in_eff_are_the_measured_ones() -> None:
    row = training(step_time_s=99, tokens_per_s_per_accel=1, samples_per_s_per_accel=4)
    values = {item.quantity: item.value for item in measured_numbers(row)}
    assert values == {"step_time_s": 10, "tokens_per_s_per_accel": 13000, "samples_per_s_per_accel": 4, "fits": 1}


@pytest.mark.parametrize(("outcome", "fits"), [("ok", 1.0), ("max_fit", 1.0), ("oom", 0.0)])
def test_the_outcome_is_a_verdict(outcome: str, fits: float) -> None:
    assert measured_numbers(training(outcome=outcome))[-1] == Measured(quantity="fits", value=fits)


SERVED = ServeResult(
    fits=True,
    basis="calibrated",
    memory={"total_bytes": 20e9, "parts": [{"name": "KV cache", "value": 2e9}, {"name": "logits", "value": 1e9}]},
    kv_cache_tokens=1000.0,
    ttft_s=Latency(mean=0.2, p50=0.1, low=0.1, high=0.4),
    tpot_s=Latency(mean=0.02),
    output_tokens_per_s=Quantity(value=500.0, unit="tokens/s", low=400.0, high=600.0),
    requests_per_s=Quantity(value=2.0, unit="1/s"),
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Measured(quantity="ttft_ms", value=1), Predicted(value=200, low=100, high=400)),
        (Measured(quantity="ttft_ms", value=1, statistic="p50"), Predicted(value=100, low=50, high=200)),
        (Measured(quantity="tpot_ms", value=1), Predicted(value=20)),
        (Measured(quantity="tpot_ms", value=1, statistic="p50"), None),
        (Measured(quantity="e2e_ms", value=1), None),
        (Measured(quantity="output_tokens_per_s", value=1), Predicted(value=500, low=400, high=600)),
        (Measured(quantity="samples_per_s", value=1), Predicted(value=2)),
        (Measured(quantity="kv_tokens", value=1), Predicted(value=1000)),
        (Measured(quantity="memory_gb", value=1), Predicted(value=20)),
        (Measured(quantity="memory_gb", value=1, tensors=True), Predicted(value=2)),
        (Measured(quantity="fits", value=1), Predicted(value=1)),
    ],
)
def test_a_serving_result_answers_in_the_rows_units(wanted: Measured, expected: Predicted | None) -> None:
    assert predicted_number(SERVED, wanted) == expected


def test_energy_is_what_the_accelerators_draw_over_the_tokens_answered() -> None:
    row = point(energy_per_token_joules=0.4, output_tokens_per_s_total=None, e2e_ms=None)
    (wanted,) = measured_numbers(row)
    assert wanted == Measured(quantity="energy_per_token_j", value=0.4)
    case = case_of(row)
    rate = Quantity(value=1000.0, unit="tokens/s", low=500.0, high=2000.0)
    drawn = Quantity(value=240.0, unit="W", low=200.0, high=300.0)
    result = ServeResult(fits=True, basis="measured", output_tokens_per_s=rate, board_w=drawn)
    found = predicted_number(result, wanted, case=case)
    assert found.value == pytest.approx(240 / 1000)
    assert found.low < found.value / 2 and found.high > found.value * 2, "the rate alone is unsure by a factor of two"
    for absent in (replace(result, output_tokens_per_s=None), replace(result, board_w=None)):
        assert predicted_number(absent, wanted, case=case) is None


def test_a_training_result_answers_in_the_rows_units() -> None:
    result = TrainResult(
        fits=False,
        basis="derived",
        step_s=Quantity(value=9.0, unit="s", low=8.0, high=10.0),
        memory_peak_bytes=Quantity(value=60e9, unit="bytes", low=50e9, high=70e9),
    )
    assert predicted_number(result, Measured(quantity="step_time_s", value=1)) == Predicted(value=9, low=8, high=10)
    memory = predicted_number(result, Measured(quantity="peak_mem_gb", value=1))
    assert (memory.value, memory.low, memory.high) == pytest.approx((60, 50, 70))
    assert predicted_number(result, Measured(quantity="tokens_per_s_per_accel", value=1)) is None
    assert predicted_number(result, Measured(quantity="fits", value=1)) == Predicted(value=0)


def test_a_denoising_iteration_stands_in_the_column_of_the_time_per_token() -> None:
    result = InferResult(
        fits=True,
        basis="derived",
        step_s=Quantity(value=0.03, unit="s"),
        latency_s=Quantity(value=1.5, unit="s", low=1.0, high=2.0),
    )
    assert predicted_number(result, Measured(quantity="tpot_ms", value=1)) == Predicted(value=30)
    assert predicted_number(result, Measured(quantity="e2e_ms", value=1)) == Predicted(value=1500, low=1000, high=2000)


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
    assert answer.value == pytest.approx(0.5 * rate.flop / 1e12)
    assert answer.low == pytest.approx(0.8 * answer.value)
    assert measured_numbers(training(tflops_per_accel=400, seq_len=None, **silent))[0].problem
