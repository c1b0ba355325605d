"""Vision, diffusion, speech and encoder rows as cases, and which rows those are."""

import pytest
from tests.validation.samples import point, sample, training

from tonnage.domain.case import InferCase, ServeCase, TrainCase
from tonnage.domain.model import Model
from tonnage.errors import BadFact
from tonnage_accuracy.cases import case_of, infer_case, kind_of

VISION = {
    "kind": "vision", "model_id": "timm/resnet50.a1_in1k", "image_px": 224, "gmacs": 4.11, "activations_m": 11.11,
    "isl_tokens": None, "osl_tokens": None, "phase": None, "engine": "pytorch", "engine_mode": "compile",
}  # fmt: skip


def test_a_vision_row_carries_its_own_work() -> None:
    case = infer_case(point(**VISION))
    assert (case.batch, case.resolution, case.engine_mode) == (16, 224, "compile")
    assert case.flop == pytest.approx(8.22e9)
    assert case.activation_values == pytest.approx(11.11e6)
    assert (case.count, case.saturated, case.rate_per_s) == (1, False, None)


def test_an_encoder_row_has_a_length_and_runs_at_its_activations_precision() -> None:
    case = infer_case(point(kind="embedding", phase="encode", isl_tokens=178, act_precision="int8"))
    assert (case.seq_len, case.precision) == (178, "int8")


def test_a_diffusion_row_has_steps() -> None:
    assert infer_case(point(kind="diffusion", diffusion_steps=20, image_px=1024)).steps == 20


@pytest.mark.parametrize(
    ("load", "count", "saturated"),
    [("saturated", 8, True), ("open_loop", 8, True), ("single_stream", 1, False), ("static_batch", 1, False)],
)
def test_a_whole_system_counts_every_accelerator_a_single_stream_one(load: str, count: int, saturated: bool) -> None:
    case = infer_case(point(**VISION, load=load, num_accel_total=8, request_rate_qps=100))
    assert (case.count, case.saturated) == (count, saturated)
    assert case.rate_per_s == (100 if load == "open_loop" else None)


def test_multi_stream_sends_eight_at_once() -> None:
    row = point(**VISION, load="single_stream", concurrency_or_batch=None, notes="scenario=multistream; x")
    assert infer_case(row).batch == 8


def test_a_network_outside_the_catalogue_is_what_its_row_says() -> None:
    case = infer_case(point(**{**VISION, "model_id": None}, model="YOLOv8s", params_b=0.0112))
    assert isinstance(case.model, Model)
    assert case.model.kind == "cnn-detect"
    assert case.model.network is not None
    assert case.model.network.flop == pytest.approx(8.22e9)
    assert case.model.published_parameters == pytest.approx(11.2e6)


def test_without_work_or_batch_nothing_is_guessed() -> None:
    with pytest.raises(BadFact, match="model not in the catalogue"):
        infer_case(point(**{**VISION, "model_id": None, "gmacs": None}))
    with pytest.raises(BadFact, match="not stated: concurrency_or_batch"):
        infer_case(point(**VISION, concurrency_or_batch=None))


def test_each_row_becomes_the_kind_of_case_it_is() -> None:
    rows = [point(), sample(), training(), point(**VISION), point(phase="encode")]
    assert [kind_of(row) for row in rows] == ["serve", "serve", "train", "infer", "infer"]
    assert [type(case_of(row)) for row in rows] == [ServeCase, ServeCase, TrainCase, InferCase, InferCase]


def test_a_row_without_a_catalogue_accelerator_is_no_case() -> None:
    with pytest.raises(BadFact, match="accelerator not in the catalogue"):
        case_of(point(accelerator_id=None))
