"""Counted FLOP of published models: one forward pass, a multiply-add as two (docs/why.md names the counting)."""

import pytest

from tonnage import catalog
from tonnage.catalog.fitted import offline, unet_of
from tonnage.domain.case import InferCase
from tonnage.domain.model import Model
from tonnage.physics.diffusion import denoiser_transformer_work, unet_work, vae_decoder_work
from tonnage.physics.network import network_totals
from tonnage.physics.vision import decoder_step_work, speech_encoder_work
from tonnage.physics.work import Work
from tonnage.questions.predict.infer_work import precision_of, stages_of

FP16 = precision_of("fp16")


def flop(work: Work) -> float:
    return sum(op.flop * op.count for op in work)


def one_pass(name: str) -> float:
    model = catalog.model(name)
    stages = stages_of(model, InferCase(model=model, accelerator=""), batch=1)
    return sum(flop(stage.work) * stage.times for stage in stages.stages)


@pytest.mark.parametrize(
    ("name", "giga"),
    [
        ("timm/resnet50.a1_in1k", 8.18),
        ("timm/convnext_base.fb_in1k", 30.7),
        ("timm/efficientnet_b0.ra_in1k", 0.77),
        ("google/vit-base-patch16-224", 35.1),
        ("google/vit-large-patch16-224", 123.2),
    ],
)
def test_vision_models_match_their_counted_flop(name: str, giga: float) -> None:
    assert one_pass(name) == pytest.approx(giga * 1e9, rel=0.045)


@pytest.mark.parametrize(
    ("name", "side", "tera"),
    [
        ("stable-diffusion-v1-5/stable-diffusion-v1-5", 512, 0.80),
        ("stabilityai/stable-diffusion-xl-base-1.0", 1024, 6.76),
    ],
)
def test_a_unet_call_from_its_layers(name: str, side: int, tera: float) -> None:
    unet = unet_of(offline(), catalog.model(name))
    assert unet is not None
    assert flop(unet_work(unet, resolution=side, batch=1, precision=FP16)) == pytest.approx(tera * 1e12, rel=0.006)


@pytest.mark.parametrize(
    ("name", "side", "tera"),
    [
        ("black-forest-labs/FLUX.1-dev", 1024, 74.4),
        ("stabilityai/stable-diffusion-3-medium", 1024, 8.91),
        ("black-forest-labs/FLUX.2-klein-base-4B", 1024, 34.8),
        ("Wan-AI/Wan2.1-T2V-14B", 480, 1678.0),
        ("Wan-AI/Wan2.1-T2V-1.3B", 480, 283.0),
        ("zai-org/CogVideoX-2b", 480, 120.0),
        ("zai-org/CogVideoX-5b", 480, 332.2),
    ],
)
def test_a_diffusion_transformer_call_from_its_layers(name: str, side: int, tera: float) -> None:
    work = denoiser_transformer_work(catalog.model(name), resolution=side, batch=1, precision=FP16)
    assert flop(work) == pytest.approx(tera * 1e12, rel=0.002)


def test_unet_weights_are_those_of_the_published_network() -> None:
    unet = unet_of(offline(), catalog.model("stabilityai/stable-diffusion-xl-base-1.0"))
    assert unet is not None
    work = unet_work(unet, resolution=1024, batch=1, precision=FP16)
    assert sum(op.n * op.k * op.count for op in work if op.kind in {"gemm", "convolution"}) == pytest.approx(
        2.567e9, rel=0.02
    )


def test_the_decoder_of_stable_diffusion_counts_its_layers() -> None:
    assert flop(vae_decoder_work(resolution=512, batch=1, precision=FP16)) == pytest.approx(2.51e12, rel=0.01)


def test_whisper_large_v3_transcribes_a_window() -> None:
    model: Model = catalog.model("openai/whisper-large-v3")
    encoder = flop(speech_encoder_work(model, windows=1, precision=FP16))
    step = flop(decoder_step_work(model, windows=1, context=224, precision=FP16))
    assert encoder + 448 * step == pytest.approx(3.45e12, rel=0.01)


def test_a_convolutional_network_grows_with_the_area_of_its_input() -> None:
    model = catalog.model("timm/resnet50.a1_in1k")
    flop, values = network_totals(model, image_px=None)
    assert network_totals(model, image_px=2 * model.network.input_px) == (4 * flop, 4 * values)
