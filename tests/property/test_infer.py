"""Laws of a batch through a network that hold for all inputs."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage import catalog
from tonnage.catalog.fitted import offline, silicon_of
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.case import InferCase
from tonnage.questions.predict.inference import Setup, batch_times, predict_infer, setup_of
from tonnage.simulation.offline import machine_of

MODELS = st.sampled_from(
    [
        "timm/resnet50.a1_in1k",
        "timm/efficientnet_b0.ra_in1k",
        "google/vit-base-patch16-224",
        "google-bert/bert-base-uncased",
        "stable-diffusion-v1-5/stable-diffusion-v1-5",
        "openai/whisper-small",
    ]
)
PARTS = st.sampled_from(["t4", "a100-sxm4-40gb", "rtx-4090", "h100-sxm5-80gb", "l4", "cpu-i9-10940x", "mi300x"])
ENGINES = st.sampled_from(["pytorch", "tensorrt", "onnxruntime", "fastertransformer"])
FORMATS = st.sampled_from(["fp32", "fp16", "int8"])
BATCHES = st.integers(1, 64)
RUN = settings(max_examples=60)


def setup(model: str, part: str, engine: str, precision: str, **asked: Any) -> Setup:
    return setup_of(InferCase(model=model, accelerator=part, engine=engine, precision=precision, **asked))


def latency(found: Setup, batch: int) -> float:
    return batch_times(found, batch).latency_s


def on(found: Setup, accelerator: Accelerator) -> Setup:
    facts = offline()
    machine = machine_of(accelerator, silicon_of(facts, accelerator), facts=facts)
    return msgspec.structs.replace(found, accelerator=accelerator, machine=machine)


@RUN
@given(MODELS, PARTS, ENGINES, FORMATS, BATCHES)
def test_more_bandwidth_never_slows(model: str, part: str, engine: str, precision: str, batch: int) -> None:
    found = setup(model, part, engine, precision)
    faster = msgspec.structs.replace(found.accelerator, memory_bytes_per_s=2 * found.accelerator.memory_bytes_per_s)
    assert latency(on(found, faster), batch) <= latency(found, batch) * (1 + 1e-9)


@RUN
@given(MODELS, PARTS, ENGINES, FORMATS, BATCHES)
def test_more_power_never_slows(model: str, part: str, engine: str, precision: str, batch: int) -> None:
    found = setup(model, part, engine, precision)
    stronger = msgspec.structs.replace(found.accelerator, power_w=2 * (found.accelerator.power_w or 100.0))
    assert latency(on(found, stronger), batch) <= latency(found, batch) * (1 + 1e-9)


@RUN
@given(MODELS, PARTS, ENGINES, FORMATS, BATCHES, st.integers(1, 64))
def test_a_larger_batch_is_never_faster(
    model: str, part: str, engine: str, precision: str, batch: int, more: int
) -> None:
    found = setup(model, part, engine, precision)
    assert latency(found, batch + more) >= latency(found, batch) * (1 - 1e-9)


@RUN
@given(MODELS, PARTS, ENGINES, FORMATS, BATCHES)
def test_twice_the_batch_costs_at_most_twice(model: str, part: str, engine: str, precision: str, batch: int) -> None:
    """Up to what a cache keeps: a batch that spills out of it may cost a little more than twice."""
    found = setup(model, part, engine, precision)
    assert latency(found, 2 * batch) <= 2.6 * latency(found, batch)


@RUN
@given(st.sampled_from(["timm/resnet50.a1_in1k", "google/vit-base-patch16-224", "stabilityai/stable-diffusion-2-base"]),
       PARTS, ENGINES, st.sampled_from([224, 384, 512]))  # fmt: skip
def test_more_pixels_take_longer(model: str, part: str, engine: str, side: int) -> None:
    near, far = (latency(setup(model, part, engine, "fp16", resolution=r), 16) for r in (side, 2 * side))
    assert far >= near


@RUN
@given(MODELS, PARTS, BATCHES)
def test_rate_and_latency_agree(model: str, part: str, batch: int) -> None:
    found = predict_infer(InferCase(model=model, accelerator=part, batch=batch))
    if not found.fits or found.samples_per_s is None or found.latency_s is None:
        return
    each = 30.0 if model.startswith("openai/whisper") else 1.0
    assert found.samples_per_s.value * found.latency_s.value == pytest.approx(each * batch)


@given(PARTS)
def test_a_saturated_system_is_no_slower_than_single_batches(part: str) -> None:
    engine = "tensorrt" if catalog.accelerator(part).vendor == "NVIDIA" else "onnxruntime"
    case = InferCase(model="timm/resnet50.a1_in1k", accelerator=part, engine=engine)
    single, full = predict_infer(case), predict_infer(msgspec.structs.replace(case, saturated=True))
    assert full.samples_per_s.value >= single.samples_per_s.value
    assert catalog.accelerator(part).id == part
