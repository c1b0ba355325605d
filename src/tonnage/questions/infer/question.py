"""Models that decode no text, as the faces ask."""

from __future__ import annotations

from tonnage.domain.infer_plan import InferPlan
from tonnage.domain.requests.infer import Infer
from tonnage.questions.question import Form, Question

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
            about="Cameras, images, texts or audio in; how many accelerators and how much of them is used out.",
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
