"""Which passes a case asks for, by kind of model."""

import msgspec
import pytest

import tonnage
from tonnage import catalog
from tonnage.domain.case import InferCase
from tonnage.domain.model import Model
from tonnage.errors import BadRequest, Unmeasured
from tonnage.questions.predict.infer_work import Stages, precision_of, stages_of


def stages(name: str, batch: int = 1, **asked: object) -> Stages:
    model = catalog.model(name)
    return stages_of(model, InferCase(model=name, accelerator="", **asked), batch=batch)  # type: ignore[arg-type]


def flop(found: Stages) -> float:
    return sum(op.flop * op.count * stage.times for stage in found.stages for op in stage.work)


def test_guidance_shows_each_image_twice_and_distilled_models_do_without() -> None:
    guided = stages("stabilityai/stable-diffusion-xl-base-1.0", steps=20)
    assert guided.stages[0].times == 20
    assert any("guidance" in note for note in guided.notes)
    assert not any("guidance" in note for note in stages("black-forest-labs/FLUX.1-schnell").notes)
    assert stages("black-forest-labs/FLUX.1-schnell").stages[0].times == 4


def test_a_diffusion_answer_has_its_decoder_and_text_encoder() -> None:
    names = [stage.name for stage in stages("stable-diffusion-v1-5/stable-diffusion-v1-5").stages]
    assert names == ["denoiser", "image decoder", "text encoder"]


def test_steps_that_were_assumed_are_said() -> None:
    assert "50 denoising steps assumed" in stages("stable-diffusion-v1-5/stable-diffusion-v1-5").notes


def test_a_batch_of_windows_is_decoded_until_its_longest_ends() -> None:
    alone, eight, many = (stages("openai/whisper-small", batch=n).stages[1].times for n in (1, 8, 64))
    assert 1.15 * alone < eight < 1.3 * alone < many < 1.5 * alone


def test_a_speech_sample_is_thirty_seconds() -> None:
    found = stages("openai/whisper-small", seq_len=200)
    assert found.per_sample == 30.0 and found.stages[1].times == 200


def test_a_recording_is_as_many_batches_of_windows_as_it_takes() -> None:
    one, whole = (stages("openai/whisper-small", seq_len=200, batch=8, audio_s=audio) for audio in (None, 790.0))
    assert [stage.times for stage in whole.stages] == [4 * stage.times for stage in one.stages]  # 27 windows
    assert whole.per_sample * 8 == 790.0
    with pytest.raises(BadRequest, match="reads no audio"):
        stages("google/vit-base-patch16-224", audio_s=60.0)


def test_resolution_changes_the_tokens_of_a_vision_transformer() -> None:
    near, far = (flop(stages("google/vit-base-patch16-224", resolution=side)) for side in (224, 448))
    assert far > 4 * near


def test_patches_are_guessed_from_the_position_table() -> None:
    found = stages("facebook/dinov2-giant", resolution=224)
    assert found.notes == ("patches of 14 px assumed for dinov2 giant",)
    assert 5.5 < flop(stages("facebook/dinov2-giant")) / flop(found) < 8


def test_the_cases_own_flop_wins() -> None:
    assert flop(stages("ultralytics/yolov8n", flop=1e10)) == pytest.approx(1e10)


def test_a_network_nobody_counted_asks_for_its_flop() -> None:
    unknown = Model(id="my-net", family="", kind="cnn", published_parameters=1e6)
    with pytest.raises(Unmeasured, match="give it in the case as 'flop'"):
        stages_of(unknown, InferCase(model="my-net", accelerator=""), batch=1)


def test_tensor_parallel_convolutions_are_refused() -> None:
    with pytest.raises(BadRequest, match="set tp to 1 and use count"):
        stages("timm/resnet50.a1_in1k", tp=2)


def test_a_denoiser_known_by_its_totals_scales_with_the_image() -> None:
    sd = catalog.model("stable-diffusion-v1-5/stable-diffusion-v1-5")
    other = msgspec.structs.replace(sd, id="my/diffuser", family="mine")
    case = InferCase(model=other, accelerator="", resolution=512, steps=1)
    assert stages_of(other, case, batch=1).stages[0].work[0].flop * 300 == pytest.approx(2 * 0.803e12)


@pytest.mark.parametrize(
    ("name", "compute", "wide"), [("int8", "int8", "fp16"), ("fp32", "fp32", "fp32"), ("awq", "fp16", "fp16")]
)
def test_formats_of_one_precision(name: str, compute: str, wide: str) -> None:
    found = precision_of(name)
    assert (found.activations, found.kv) == (compute, wide)


def test_recommender_gathers_rows_and_multiplies_little() -> None:
    found = stages("mlperf/dlrm-dcnv2", batch=8, precision="fp32")
    gather, dense = found.stages[0].work
    assert gather.read_bytes == 8 * 214 * 128 * 4 and dense.flop * dense.count == pytest.approx(8 * 3.2e7)


def test_twice_the_replicas_take_twice_the_texts_in_the_same_time() -> None:
    case = {"kind": "serve", "model": "BAAI/bge-large-en-v1.5", "accelerator": "H100", "isl": 256, "osl": 1}
    one, four = (
        tonnage.predict({**case, "replicas": n, "traffic": {"concurrency": 32 * n}}) for n in (1, 4)
    )  # fmt: skip
    assert four.ttft_s.mean == one.ttft_s.mean
    assert four.requests_per_s.value == pytest.approx(4 * one.requests_per_s.value)
