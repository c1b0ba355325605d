"""Models that decode no text: what people write becomes an `Infer`; how the faces ask it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.load_fields import read_filters
from tonnage.core.reading import build, need_model, read_fields
from tonnage.domain.infer_plan import Infer, InferPlan, Video
from tonnage.errors import BadRequest, echo
from tonnage.questions.question import Form, Question

FRAMES: Final = {"480p": (854, 480), "720p": (1280, 720), "1080p": (1920, 1080), "1440p": (2560, 1440),
                 "4k": (3840, 2160), "2160p": (3840, 2160)}  # fmt: skip


def infer_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Infer:
    """
    An inference request from named texts; the rate of audio counts hours of it an hour.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range, no load, or two.
    """
    given = read_fields(values, Infer)
    need_model(given, "ultralytics/yolov8m' or 'openai/whisper-large-v3")
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
    return build(
        Infer, given, additions=additions, rate_per_s=rate, video=video, filters=read_filters(given, additions)
    )


def _video(given: Mapping[str, Any]) -> Video | None:
    """Streams of video; None where none are given."""
    if "streams" not in given:
        stray = [name for name in ("fps", "every", "frame", "codec", "decode") if name in given]
        if stray:
            raise BadRequest(f"{stray[0]} belongs to video; give streams as well, such as 20")
        return None
    if "fps" not in given:
        raise BadRequest("streams without fps: say how many frames a second each has, such as 25")
    return build(Video, {**given, "frame": _frame(given["frame"])} if "frame" in given else given)


def _frame(text: str) -> tuple[int, int]:
    """Width and height of a frame in pixels, from "1280x720" or a name."""
    name = text.strip().lower()
    sized = re.fullmatch(r"(\d{2,5})x(\d{2,5})", name)
    if sized:
        return int(sized.group(1)), int(sized.group(2))
    if name not in FRAMES:
        raise BadRequest(f"frame: '{echo(text)}' is no frame size; write 1280x720 or one of {', '.join(FRAMES)}")
    return FRAMES[name]


QUESTIONS = (
    Question(
        name="infer",
        room="infer",
        request=Infer,
        answer=InferPlan,
        help="""
    Accelerators for cameras, images, texts or audio through MODEL, which decodes no text, and how much is used.

    \b
    tonnage plan infer ultralytics/yolov8m --streams 20 --fps 25 --latency "200 ms"
    """,
        tool="plan_vision_speech_embeddings",
        form=Form(
            title="Vision, speech and embeddings",
            about="How many accelerators cameras, images, texts or audio need, and how much of them is used.",
            essentials=(
                "model",
                "streams",
                "fps",
                "rate",
                "audio",
                "latency",
                "resolution",
                "frame",
                "precision",
                "eu",
                "accelerator",
            ),
            example={
                "model": "ultralytics/yolov8m",
                "streams": "20",
                "fps": "25",
                "frame": "1080p",
                "resolution": "640",
                "latency": "200 ms",
                "precision": "fp16, int8",
            },
        ),
    ),
)
