"""A training case in, a prediction out: rates agree with the step, bad input teaches."""

import time
from math import prod
from typing import Any

import pytest
from tests.patience import assert_quick

import tonnage
from tonnage.errors import BadRequest, UnknownName

CASE: dict[str, Any] = {
    "kind": "train", "model": "meta-llama/Meta-Llama-3-8B", "accelerator": "h100-sxm5-80gb", "count": 16,
    "seq_len": 4096, "global_batch": 128, "micro_batch": 1, "layout": {"tp": 1, "pp": 1}, "id": "a case",
}  # fmt: skip


def predicted(**changes: Any) -> Any:
    return tonnage.predict({**CASE, **changes})


def test_rates_agree_with_the_step() -> None:
    found = predicted()
    assert found.fits
    assert found.id == "a case"
    assert found.tokens_per_s_per_accelerator.value == pytest.approx(128 * 4096 / 16 / found.step_s.value)
    assert found.samples_per_s_per_accelerator.value == pytest.approx(128 / 16 / found.step_s.value)
    assert 0.3 < found.mfu < 0.7


def test_intervals_hold_the_value_and_turn_round() -> None:
    found = predicted()
    for quantity in (found.step_s, found.tokens_per_s_per_accelerator, found.memory_peak_bytes):
        assert quantity.low < quantity.value < quantity.high


def test_the_layout_names_every_degree() -> None:
    found = predicted(layout={})
    assert prod(found.layout[name] for name in ("tp", "pp", "cp", "dp")) == 16
    assert {"vpp", "ep", "sharding", "micro_batch", "recompute", "software"} <= set(found.layout)


def test_no_is_an_answer_with_the_shortfall_and_the_largest_part() -> None:
    found = predicted(model="meta-llama/Meta-Llama-3-70B", count=1, method="full")
    assert not found.fits
    assert "too much" in found.why
    assert "largest part: " in found.why
    assert found.step_s is not None


def test_a_network_needs_no_sequence_length() -> None:
    case = {"kind": "train", "model": "timm/resnet50.a1_in1k", "accelerator": "a100-sxm4-80gb", "count": 8,
            "micro_batch": 256, "precision": "fp16", "optimizer": "sgd"}  # fmt: skip
    found: Any = tonnage.predict(case)
    assert found.tokens_per_s_per_accelerator is None
    assert 1000 < found.samples_per_s_per_accelerator.value < 3500


def test_a_ragged_global_batch_is_said() -> None:
    found = predicted(global_batch=130)
    assert any("not a multiple" in note for note in found.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seq_len": None}, "seq_len: a model with layers needs"),
        ({"count": 0}, "count: 0 is out of range"),
        ({"micro_batch": -1}, "micro_batch: -1 is out of range"),
        ({"accelerator_fraction": 0.0}, "accelerator_fraction"),
    ],
)
def test_bad_requests_name_the_field(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        predicted(**changes)


@pytest.mark.parametrize("changes", [{"precision": "bf17"}, {"optimizer": "adanw"}])
def test_unknown_names_suggest(changes: dict[str, str]) -> None:
    with pytest.raises(UnknownName):
        predicted(**changes)


def test_half_a_card_is_half_as_fast_and_half_as_large() -> None:
    whole, half = predicted(), predicted(accelerator_fraction=0.5)
    assert half.step_s.value > 1.7 * whole.step_s.value


def test_a_stated_case_costs_milliseconds() -> None:
    predicted()
    begin = time.process_time()
    for _ in range(10):
        predicted()
    assert_quick((time.process_time() - begin) / 10, 0.005)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean_seq_len": 5000.0}, "mean_seq_len: 5000 must be at least 1 and at most seq_len, 4,096"),
        ({"document_len": 5000.0}, "document_len: 5000 must be at least 1 and at most seq_len, 4,096"),
        ({"predicted_ahead": 17}, "predicted_ahead: 17 must be 0 to 16"),
        ({"predicted_ahead": 1, "model": "resnet50"}, "predicted_ahead: .* has no layers with attention and a head"),
        ({"predicted_share": 1.5}, "predicted_share: 1.5 must be above 0"),
        ({"layout": {"etp": 2}}, "layout.etp: .* has no experts to cut"),
        (
            {"model": "Qwen/Qwen3-30B-A3B", "layout": {"ep": 16, "etp": 2}},
            "layout.etp: ep 16 x etp 2 does not divide the 16 accelerators",
        ),
        (
            {"model": "Qwen/Qwen3-30B-A3B", "layout": {"etp": 7}},
            "layout.etp: 7 does not divide the width of an expert",
        ),
    ],
)
def test_what_passes_and_what_cuts_an_expert_is_checked(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        predicted(**changes)


def test_packed_examples_take_less_time_and_the_same_memory() -> None:
    whole, packed = (predicted(document_len=mean) for mean in (None, 256.0))
    assert 0.8 * whole.step_s.value < packed.step_s.value < 0.98 * whole.step_s.value
    assert packed.memory_peak_bytes.value == whole.memory_peak_bytes.value


def test_every_further_prediction_costs_time_and_memory() -> None:
    steps = [predicted(predicted_ahead=depth, recompute="full") for depth in (0, 1, 2)]
    times = [step.step_s.value for step in steps]
    peaks = [step.memory_peak_bytes.value for step in steps]
    assert times == sorted(times) and peaks == sorted(peaks) and times[0] < times[1]
    assert times[1] - times[0] == pytest.approx(times[2] - times[1], rel=0.05)


def test_grouped_lengths_take_less_time_and_the_same_memory() -> None:
    padded, grouped = (predicted(mean_seq_len=mean) for mean in (None, 2048.0))
    assert grouped.step_s.value < 0.65 * padded.step_s.value
    assert grouped.memory_peak_bytes.value == padded.memory_peak_bytes.value


def test_a_diffusion_transformer_is_trained_on_the_tokens_of_its_image_and_text() -> None:
    def step(**size: int) -> Any:
        asked = {"model": "FLUX.1-dev", "accelerator": "B200", "count": 8, "global_batch": 64, "micro_batch": 8}
        return tonnage.predict({"kind": "train", **asked, **size})

    by_size = step(image_px=512)
    assert by_size == step(image_px=512, seq_len=32 * 32 + 512)
    assert by_size.step_s.value < step(image_px=1024).step_s.value
    with pytest.raises(BadRequest, match="seq_len"):
        step()
