"""Whole predictions: what fits, what each load means, and how close published measurements are."""

import json
import time
from typing import Any

import pytest
from tests.command import told
from tests.patience import assert_quick

import tonnage
from tonnage.errors import BadRequest

RESNET, BERT = "timm/resnet50.a1_in1k", "google-bert/bert-large-uncased"
SDXL = "stabilityai/stable-diffusion-xl-base-1.0"


def ask(model: str, accelerator: str, **asked: object) -> Any:
    return tonnage.predict({"kind": "infer", "model": model, "accelerator": accelerator, **asked})


def value(found: Any) -> float:
    return float(found.value)


@pytest.mark.parametrize(
    ("asked", "measured"),
    [
        ({"model": RESNET, "accelerator": "rtx-3090", "batch": 1024, "year": 2024}, 3474.0),
        ({"model": "google/vit-base-patch16-224", "accelerator": "rtx-4090", "batch": 1024, "engine_mode": "compile"},
         3375.6),
        ({"model": BERT, "accelerator": "a100-sxm4-40gb", "batch": 32, "seq_len": 128, "engine": "tensorrt"}, 2310.0),
        ({"model": BERT, "accelerator": "t4", "batch": 128, "seq_len": 128, "engine": "tensorrt", "precision": "int8"},
         530.9),
        ({"model": RESNET, "accelerator": "l40s", "count": 2, "saturated": True, "engine": "tensorrt",
          "precision": "int8"}, 87978.0),
        ({"model": SDXL, "accelerator": "h200-sxm-141gb", "count": 8, "saturated": True, "engine": "tensorrt",
          "precision": "fp8", "steps": 20}, 17.4),
    ],
)  # fmt: skip
def test_published_rates_lie_inside_the_interval(asked: dict[str, Any], measured: float) -> None:
    """timm results pt240 and pt291; NVIDIA TensorRT demo BERT 8.4; MLPerf inference v4.1, closed division."""
    found = ask(**asked).samples_per_s
    assert found.low < measured < found.high


def test_parts_sum_to_the_latency() -> None:
    for found in (ask(RESNET, "t4", batch=8), ask(SDXL, "l40s"), ask(RESNET, "h100-sxm5-80gb", rate_per_s=5e3)):
        assert sum(part.value for part in found.latency_s.parts) == pytest.approx(found.latency_s.value)


def test_memory_parts_sum_and_name_the_weights() -> None:
    found = ask(RESNET, "t4", batch=8).memory
    assert sum(part.value for part in found.parts) == pytest.approx(found.value)
    assert found.part("weights") == pytest.approx(2 * 25.6e6, rel=0.01)


def test_what_does_not_fit_says_by_how_much_and_gives_no_times() -> None:
    found = ask("black-forest-labs/FLUX.1-dev", "rtx-4090", precision="bf16")
    assert not found.fits and found.samples_per_s is None and found.latency_s is None
    assert "GeForce RTX 4090 has 24 GiB" in found.why


def test_a_step_is_one_call_of_the_denoiser() -> None:
    few, many = (ask(SDXL, "h100-sxm5-80gb", steps=steps) for steps in (10, 20))
    assert value(few.step_s) == pytest.approx(value(many.step_s))
    assert value(many.latency_s) - value(few.latency_s) == pytest.approx(10 * value(few.step_s))


def test_replicas_multiply_the_rate_and_leave_the_latency() -> None:
    one, eight = (ask(RESNET, "l4", saturated=True, count=count) for count in (1, 8))
    assert value(eight.samples_per_s) == pytest.approx(8 * value(one.samples_per_s))
    assert value(eight.latency_s) == value(one.latency_s)


def test_a_server_completes_what_arrives_until_it_is_full() -> None:
    calm, full = (ask(RESNET, "l4", engine="tensorrt", rate_per_s=rate) for rate in (500.0, 1e6))
    most = ask(RESNET, "l4", engine="tensorrt", saturated=True)
    assert value(calm.samples_per_s) == 500.0
    assert value(full.samples_per_s) == pytest.approx(value(most.samples_per_s))
    assert value(calm.latency_s) < value(full.latency_s)


def test_tensor_parallel_ranks_are_one_replica() -> None:
    one = ask(BERT, "a100-sxm4-80gb", batch=64, seq_len=384, engine="tensorrt")
    two = ask(BERT, "a100-sxm4-80gb", batch=64, seq_len=384, engine="tensorrt", tp=2, count=2)
    assert 1.2 < value(one.latency_s) / value(two.latency_s) < 2.0


def test_a_single_image_uses_a_sliver_of_a_large_card() -> None:
    """Requirement B11: how much of the accelerator a workload really uses."""
    assert "uses 0.7 % of the peak" in ask(RESNET, "a100-sxm4-40gb").why
    assert "% of its time on host" in ask(RESNET, "a100-sxm4-40gb").why


def test_half_a_card_is_half_as_fast_at_most() -> None:
    whole, half = (ask(RESNET, "a100-sxm4-40gb", batch=256, accelerator_fraction=share) for share in (1.0, 0.5))
    assert 1.7 < value(half.latency_s) / value(whole.latency_s) < 2.1


def test_stand_ins_are_said_and_widen_the_interval() -> None:
    known, unknown = ask(RESNET, "t4"), ask(RESNET, "mi300x")
    assert (known.basis, unknown.basis) == ("calibrated", "derived")
    assert any("no measurements of CDNA3" in note for note in unknown.notes)
    assert any("mlc-llm" in note for note in ask(RESNET, "t4", engine="mlc-llm").notes)


def test_old_frameworks_keep_attention_scores_in_memory() -> None:
    old, new = (ask("google/vit-base-patch16-384", "a100-sxm4-40gb", batch=32, year=year) for year in (2022, 2024))
    assert value(old.latency_s) > 1.3 * value(new.latency_s)


@pytest.mark.parametrize("field", ["batch", "count", "resolution", "steps", "seq_len", "flop"])
def test_numbers_must_be_positive(field: str) -> None:
    with pytest.raises(BadRequest, match=f"{field}: 0 is out of range; expected a positive number"):
        ask(RESNET, "t4", **{field: 0})


def test_what_if_bandwidth_changes_the_answer() -> None:
    case = {"kind": "infer", "model": RESNET, "accelerator": "t4", "batch": 64, "engine": "pytorch"}
    changed = told("predict", "--set", "t4.memory_bw=640 GB/s", "--json", given=json.dumps(case))
    assert json.loads(changed.stdout)["latency_s"]["value"] < value(
        ask(RESNET, "t4", batch=64, engine="pytorch").latency_s
    )


def test_a_prediction_takes_less_than_five_milliseconds() -> None:
    models = (RESNET, BERT, SDXL, "openai/whisper-large-v3")
    for model in models:
        ask(model, "l40s")
    start = time.process_time()
    for model in models:
        ask(model, "l40s")
    assert_quick((time.process_time() - start) / len(models), 5e-3)


def test_another_name_of_an_engine_runs_as_that_engine_does() -> None:
    assert ask(SDXL, "l40s", engine="diffusers").samples_per_s == ask(SDXL, "l40s", engine="pytorch").samples_per_s
