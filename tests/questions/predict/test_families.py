"""Every model of the catalogue that does not chat answers a batch, and published sizes are exact."""

from typing import Any

import pytest
from tests.command import catalogue
from tests.every_row import every_row

import tonnage
from tonnage.errors import Unmeasured

KINDS = {
    "cnn",
    "cnn-detect",
    "cnn-segment",
    "vision",
    "vision-text",
    "diffusion",
    "video-diffusion",
    "asr",
    "tts",
    "encoder",
    "embedding",
    "recommender",
}


def is_of_size_only(model: Any) -> bool:
    return any(told.startswith("only its size is published") for told in model.assumed)


def predicted(name: str, **more: float) -> Any:
    case = {"model": name, "accelerator": "b200", "batch": 1, "precision": "fp16"}
    return tonnage.predict({"kind": "infer", **case, **more})


QUIET = sorted(m.id for m in catalogue() if m.kind in KINDS and not is_of_size_only(m))
SIZES_ONLY = sorted(m.id for m in catalogue() if is_of_size_only(m))
FAMILIES = (
    "ResNet",
    "EfficientNet",
    "ConvNeXt",
    "MobileNet",
    "YOLOv5",
    "YOLOv6",
    "YOLOv8",
    "YOLOv9",
    "YOLOv10",
    "YOLOv11",
    "SSD",
    "Mask R-CNN",
    "RetinaNet",
    "ViT",
    "Swin",
    "CLIP",
    "BERT",
    "SD1.5",
    "SD2",
    "SDXL",
    "SD3",
    "FLUX",
    "Wan",
    "CogVideoX",
    "Whisper",
    "wav2vec 2.0",
    "VITS",
    "DLRM",
)
SIZES = {
    "timm/resnet50.a1_in1k": 25_557_032,
    "timm/resnet18.a1_in1k": 11_689_512,
    "timm/efficientnet_b0.ra_in1k": 5_288_548,
    "timm/convnext_base.fb_in1k": 88_591_464,
    "timm/mobilenetv3_large_100.ra_in1k": 5_483_032,
    "timm/swin_tiny_patch4_window7_224": 28_288_354,
    "ultralytics/yolov8n": 3_157_200,
    "ultralytics/yolov8m": 25_902_640,
    "ultralytics/yolo11n": 2_624_080,
    "torchvision/ssd300_vgg16": 35_641_826,
    "torchvision/maskrcnn_resnet50_fpn": 44_401_393,
    "torchvision/retinanet_resnet50_fpn": 34_014_999,
    "facebook/wav2vec2-base-960h": 94_396_320,
    "openai/clip-vit-base-patch32": 151_277_313,
    "BAAI/bge-reranker-v2-m3": 567_755_777,
}


@every_row(SIZES_ONLY)
def test_a_model_of_which_only_the_size_is_known_is_refused_until_its_work_is_given(name: str) -> None:
    with pytest.raises(Unmeasured, match=r"only its size is published: .* give it in the case as 'flop'"):
        predicted(name)
    found = predicted(name, flop=1e13)
    assert found.fits, found.why
    assert 1e-3 < found.latency_s.value < 10


@every_row(QUIET)
def test_every_such_model_answers_a_batch(name: str) -> None:
    found = predicted(name)
    assert found.fits, found.why
    assert 1e-6 < found.latency_s.value < 3600
    assert (found.samples_per_s.low or 0) < found.samples_per_s.value


@every_row(FAMILIES)
def test_every_family_of_the_guides_is_here(family: str) -> None:
    assert any(tonnage.model(name).family == family for name in QUIET)


@every_row(SIZES)
def test_published_sizes_are_exact(name: str) -> None:
    assert tonnage.model(name).published_parameters == SIZES[name]
