"""Encoders of images and of speech: tokens, work and bytes."""

import pytest

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.layout import Layout
from tonnage.domain.model import Tower
from tonnage.domain.precision import Precision
from tonnage.errors import BadRequest
from tonnage.physics.vision import (
    WINDOW_TOKENS,
    decoder_step_work,
    encoder_of,
    encoder_work,
    image_of,
    speech_encoder_work,
    token_bytes,
)
from tonnage.physics.work import Work

# Model, width, height, tiles, tokens: examples of the makers' own pages and processors (sources in the comments).
SIZES = (
    ("Qwen2.5-VL-7B", 1024, 1024, 1, 1369),  # 37 x 37 squares of 28 px (smart_resize)
    ("Qwen2.5-VL-7B", 4032, 3024, 1, 15552),  # 144 x 108, within 16,384
    ("Qwen2.5-VL-7B", 8000, 6000, 1, 147 * 110),  # shrunk to max_pixels 12,845,056
    ("Qwen2.5-VL-7B", 20, 20, 1, 4),  # enlarged to min_pixels 3,136
    ("Qwen3-VL-30B-A3B", 1024, 1024, 1, 1024),  # squares of 32 px
    ("gemma-3-27b-it", 4032, 3024, 1, 256),  # one square of 896 px, 4,096 patches pooled 4 x 4
    ("llava-1.5-7b-hf", 640, 480, 1, 576),  # one square of 336 px
    ("InternVL3-8B", 448, 448, 1, 256),  # one tile and no thumbnail
    ("InternVL3-8B", 1024, 1024, 10, 2560),  # 3 x 3 tiles of 448 px and a thumbnail (dynamic_preprocess, max_num 12)
    ("InternVL3-8B", 800, 400, 3, 768),  # 2 x 1 and a thumbnail
    ("Llama-4-Scout-17B-16E", 336, 336, 1, 144),  # one tile
    ("Llama-4-Scout-17B-16E", 1024, 1024, 17, 2448),  # 4 x 4 of 336 px and the whole
    ("Mistral-Small-3.1-24B", 1024, 1024, 1, 36.0**2),  # squares of 28 px, 1,296 without the breaks
)


@pytest.mark.parametrize(("model", "width", "height", "tiles", "tokens"), SIZES)
def test_an_image_has_the_tokens_of_the_models_own_processor(
    model: str, width: float, height: float, tiles: int, tokens: float
) -> None:
    found = image_of(encoder_of(resolve(model)), width=width, height=height)
    assert (found.tiles, found.tokens) == (tiles, tokens)


@pytest.mark.parametrize(
    ("model", "side", "flop", "source"),
    [
        ("llava-1.5-7b-hf", 336, 2 * 191e9, "timm: vit_large_patch14_clip_336, 191.1 GMAC"),
        ("gemma-3-27b-it", 896, 2 * 2731e9, "timm: vit_so400m_patch14_siglip_896, 2,731.5 GMAC"),
    ],
)
def test_flop_of_an_encoder_are_those_that_were_counted(model: str, side: float, flop: float, source: str) -> None:
    noun = resolve(model)
    images = image_of(encoder_of(noun), width=side, height=side)
    work = encoder_work(noun, images, count=1.0, precision=Precision(), layout=Layout())
    assert sum(op.flop * op.count for op in work) == pytest.approx(flop, rel=0.08), source


def test_windows_keep_most_layers_of_qwens_encoder_from_attending_to_the_whole_image() -> None:
    tower = encoder_of(resolve("Qwen2.5-VL-7B"))
    assert [(group.count, getattr(group.mixer, "window", None)) for group in tower.layers] == [(4, None), (28, 64)]


def test_ranks_divide_an_encoders_work_and_deep_layers_are_handed_over_too() -> None:
    noun = resolve("Qwen3-VL-30B-A3B")
    images = image_of(encoder_of(noun), width=512, height=512)
    one, four = (
        sum(op.flop * op.count for op in encoder_work(noun, images, count=2.0, precision=Precision(), layout=at))
        for at in (Layout(), Layout(tp=4))
    )
    assert four == pytest.approx(one / 4.0, rel=0.02)
    assert token_bytes(noun) == 2.0 * 2048 * 4  # three deepstack layers beside the last


def test_a_model_without_a_known_encoder_is_told_so() -> None:
    for name, why in (("meta-llama/Llama-3.1-8B", "no vision encoder"), ("Ministral-3-8B-Instruct-2512", "size alone")):
        with pytest.raises(BadRequest, match=why):
            encoder_of(resolve(name))


FP16 = Precision(weights="fp16", kv="fp16", activations="fp16")
SMALL = catalog.model("openai/whisper-small")


def flop(work: Work) -> float:
    return sum(op.flop * op.count for op in work)


def test_encoder_is_linear_in_windows() -> None:
    one, three = (flop(speech_encoder_work(SMALL, windows=n, precision=FP16)) for n in (1, 3))
    assert three == pytest.approx(3 * one)


def test_every_decoder_step_reads_the_whole_window() -> None:
    work = decoder_step_work(SMALL, windows=2, context=10, precision=FP16)
    (cross,) = (op for op in work if op.name == "cross attention")
    assert (cross.context, cross.batch, cross.count) == (WINDOW_TOKENS, 2, 12)


def test_a_step_does_not_make_the_windows_keys_again() -> None:
    step = decoder_step_work(SMALL, windows=1, context=10, precision=FP16)
    assert not any(op.name == "cross key/value" for op in step)
    assert any(op.name == "cross key/value" for op in speech_encoder_work(SMALL, windows=1, precision=FP16))


def test_longer_texts_cost_more() -> None:
    short, long = (flop(decoder_step_work(SMALL, windows=1, context=c, precision=FP16)) for c in (10, 400))
    assert long > short


def test_beams_write_for_themselves_and_read_the_window_once() -> None:
    model = catalog.model("openai/whisper-large-v3")
    one, five = (
        decoder_step_work(model, windows=4, context=70, precision=Precision(), beams=beams) for beams in (1.0, 5.0)
    )
    own, crossed = (
        [sum(op.flop * op.count for op in work if ("cross" in op.name) is crossed) for work in (one, five)]
        for crossed in (False, True)
    )
    assert own[1] == pytest.approx(5 * own[0], rel=0.01)
    assert crossed[1] == pytest.approx(crossed[0])


def test_an_encoder_with_a_fixed_number_of_tokens_merges_patches_into_them() -> None:
    tower = Tower(name="vision", parameters=4e8, tokens_per_input=256, merge=4, patch_size=14)
    image = image_of(tower, width=640, height=480, per_request=3.0)
    assert (image.per_request, image.tiles, image.patches, image.tokens) == (3.0, 1.0, 256 * 16, 256)
