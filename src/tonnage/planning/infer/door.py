"""The door of `tonnage plan infer`: text that people write becomes an `Infer`, from the same rows as other plans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.hardware import CODECS
from tonnage.domain.infer_plan import Infer, Video
from tonnage.domain.precision import number_format
from tonnage.errors import BadRequest, echo
from tonnage.planning.door import FILTER_FIELDS, Field, read_fields, read_filters

__all__ = ["INFER_FIELDS", "infer_request"]

DECODES: Final = ("accelerator", "host", "none")
FRAMES: Final = {"480p": (854, 480), "720p": (1280, 720), "1080p": (1920, 1080), "1440p": (2560, 1440),
                 "4k": (3840, 2160), "2160p": (3840, 2160)}  # fmt: skip

INFER_FIELDS: Final[tuple[Field, ...]] = (
    Field(name="model", reads="text", help="catalogue id, Hugging Face id, path, or a profile that `trace` wrote"),
    Field(name="rate", reads="1/s", help="images, texts or clips that arrive: 400/s", high=1e9),
    Field(name="streams", reads="integer", help="live video streams (cameras)", high=1e7),
    Field(name="fps", reads="count", help="frames per second of a stream", high=1e4),
    Field(name="every", reads="integer", help="look at one frame in so many", high=1e5),
    Field(name="frame", reads="text", help="size of a frame: 1080p, 4k, 1280x720"),
    Field(name="codec", reads="text", help="of the streams", choices=CODECS),
    Field(name="decode", reads="text", help="who decodes the video", choices=DECODES),
    Field(name="audio", reads="count", help="hours of audio to transcribe per hour (live channels)", high=1e7),
    Field(name="latency", reads="s", help="longest mean time to an answer: 100 ms", high=86400.0),
    Field(name="resolution", reads="integer", help="side of the square that the network sees", high=65536),
    Field(name="seq_len", reads="integer", help="tokens of a text, or of an answer about an image or audio", high=1e7),
    Field(name="steps", reads="integer", help="denoising steps", high=1e4),
    Field(name="frames", reads="integer", help="frames of a clip that is generated", high=1e5),
    Field(name="beams", reads="integer", help="hypotheses of a speech decoder (faster-whisper: 5)", high=100),
    Field(name="precision", reads="list", help="formats that may be used: fp16, int8, fp8, fp32"),
    Field(name="engine", reads="text", help="tensorrt, pytorch, onnxruntime, …"),
    Field(name="headroom", reads="fraction", help="share of capacity kept free", low=-1e-9, high=0.9),
    Field(name="battery", reads="Wh", help="it runs from a battery of this size", high=1e9),
    Field(name="hours", reads="count", help="hours that the battery must last", high=1e6),
    *FILTER_FIELDS,
)
"""Every field of a request for inference."""


def infer_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Infer:
    """
    An inference request from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range, no load, or two.
    """
    given = read_fields(values, INFER_FIELDS)
    if "model" not in given:
        raise BadRequest("model is missing: name one, for example 'ultralytics/yolov8m' or 'openai/whisper-large-v3'")
    loads = [name for name in ("rate", "streams", "audio") if name in given]
    if len(loads) != 1:
        said = f"{' and '.join(loads)} contradict each other" if loads else "no load is given"
        raise BadRequest(
            f"{said}; say one of rate (400/s), streams with fps (20 cameras at 25), or audio (hours per hour)"
        )
    video = _video(given)
    rate = given.get("rate") or given.get("audio") or 0.0
    if video is not None:
        rate = video.streams * video.frames_per_s / video.every
    if "hours" in given and "battery" not in given:
        raise BadRequest("hours is how long a battery must last; give battery as well, such as '90 Wh'")
    return Infer(
        model=given["model"],
        rate_per_s=rate,
        video=video,
        latency_s=given.get("latency"),
        resolution=given.get("resolution"),
        seq_len=given.get("seq_len"),
        steps=given.get("steps"),
        frames=given.get("frames"),
        beams=given.get("beams", 1),
        precisions=tuple(number_format(name).name for name in given.get("precision", ("fp16",))),
        engine=given.get("engine"),
        headroom=given.get("headroom", 0.2),
        filters=read_filters(given, additions),
        battery_wh=given.get("battery"),
        hours=given.get("hours"),
    )


def _video(given: Mapping[str, Any]) -> Video | None:
    if "streams" not in given:
        stray = [name for name in ("fps", "every", "frame", "codec", "decode") if name in given]
        if stray:
            raise BadRequest(f"{stray[0]} belongs to video; give streams as well, such as 20")
        return None
    if "fps" not in given:
        raise BadRequest("streams without fps: say how many frames a second each has, such as 25")
    return Video(
        streams=given["streams"],
        frames_per_s=given["fps"],
        frame_px=_frame(given.get("frame", "1080p")),
        codec=given.get("codec", "h264"),
        every=given.get("every", 1),
        decode=given.get("decode", "accelerator"),
    )


def _frame(text: str) -> tuple[int, int]:
    name = text.strip().lower()
    sized = re.fullmatch(r"(\d{2,5})x(\d{2,5})", name)
    if sized:
        return int(sized.group(1)), int(sized.group(2))
    if name not in FRAMES:
        raise BadRequest(f"frame: '{echo(text)}' is no frame size; write 1280x720 or one of {', '.join(FRAMES)}")
    return FRAMES[name]
