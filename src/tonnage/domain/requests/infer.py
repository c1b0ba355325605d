"""The question of `tonnage plan infer`: samples that arrive at a rate, through a model that decodes no text."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tonnage.domain.requests.common import CONFIDENCE, FORMATS, MODEL, Filters
from tonnage.domain.requests.field import Field, Group

__all__ = ["Infer", "Video"]


class Video(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Live video: streams, their frames per second, the frame's size, and who decodes it."""

    streams: Annotated[int, Field(reads="integer", high=1e7, help="live video streams (cameras)")]
    frames_per_s: Annotated[float, Field(name="fps", reads="count", high=1e4, help="frames per second of a stream")]
    frame_px: Annotated[tuple[int, int], Field(name="frame", help="size of a frame: 1080p, 4k, 1280x720")] = (
        1920,
        1080,
    )
    codec: Annotated[str, Field(help="of the streams", known="codecs")] = "h264"
    every: Annotated[int, Field(reads="integer", high=1e5, help="look at one frame in so many")] = 1
    """One frame in so many is looked at; all are decoded."""
    decode: Annotated[str, Field(help="who decodes the video", choices=("accelerator", "host", "none"))] = "accelerator"
    """accelerator (NVDEC), host, or none where frames come decoded."""


class Infer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="infer"):
    """Samples that arrive at a rate, through a model that does not decode text."""

    model: Annotated[
        str, msgspec.structs.replace(MODEL, help="catalogue id, Hugging Face id, path, or a profile that `trace` wrote")
    ]
    rate_per_s: Annotated[
        float,
        Field(name="rate", reads="1/s", high=1e9, help="images, texts or clips that arrive: 400/s"),
        Field(name="audio", reads="count", high=1e7, help="hours of audio to transcribe per hour (live channels)"),
    ]
    """Samples; seconds of audio for speech. [1/s]"""
    video: Annotated[Video | None, Group()] = None
    confidence: Annotated[float, CONFIDENCE] = 0.8
    """The plan is the cheapest option that carries the load in time with at least this chance. [-]"""
    latency_s: Annotated[
        float | None,
        Field(name="latency", reads="s", group="Objectives", high=86400.0, help="longest mean latency: 100 ms"),
    ] = None
    """Longest mean time from a sample's arrival to its answer. [s]"""
    resolution: Annotated[
        int | None, Field(reads="integer", high=65536, help="side of the square that the network sees")
    ] = None
    """Side of the square the network sees. [px]"""
    seq_len: Annotated[
        int | None, Field(reads="integer", high=1e7, help="tokens of a text, or of an answer about an image or audio")
    ] = None
    steps: Annotated[int | None, Field(reads="integer", high=1e4, help="denoising steps")] = None
    frames: Annotated[int | None, Field(reads="integer", high=1e5, help="frames of a clip that is generated")] = None
    """Of a clip that is generated."""
    beams: Annotated[
        int, Field(reads="integer", high=100, help="hypotheses of a speech decoder (faster-whisper: 5)")
    ] = 1
    """Hypotheses of a speech decoder."""
    precisions: Annotated[
        tuple[str, ...], msgspec.structs.replace(FORMATS, help="formats that may be used: fp16, int8, fp8, fp32")
    ] = ("fp16",)
    engine: Annotated[str | None, Field(group="Model and engine", help="tensorrt, pytorch, onnxruntime, …")] = None
    """Absent = TensorRT on NVIDIA parts for vision, PyTorch elsewhere."""
    headroom: Annotated[
        float, Field(reads="fraction", group="Reliability", low=-1e-9, high=0.9, help="share of capacity kept free")
    ] = 0.2
    filters: Annotated[Filters, Group()] = Filters()
    battery_wh: Annotated[
        float | None,
        Field(name="battery", reads="Wh", group="Objectives", high=1e9, help="it runs from a battery of this size"),
    ] = None
    """Runs from a battery: how long it lasts is answered. [Wh]"""
    hours: Annotated[
        float | None, Field(reads="count", group="Objectives", high=1e6, help="hours that the battery must last")
    ] = None
    """And how long it must last. [h]"""
