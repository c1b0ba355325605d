"""
Models that do not decode text (cameras, images, audio, embeddings): the question, and the plan that answers it.

`tonnage plan infer` returns an `InferPlan`; its JSON is of the same schema as other plans, `kind` is "infer".
"""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Quantity
from tonnage.domain.cost import EnergyUse, SampleCosts
from tonnage.domain.plan import Bill, RankedPlan
from tonnage.domain.requests.common import FORMATS, MODEL, Confidence, Filters
from tonnage.domain.requests.field import MAY_BE_NOTHING, Field, Group, engine_field, objective_field, reliability_field
from tonnage.record import SparseRecord


class Video(SparseRecord, kw_only=True):
    """Live video: streams, their frames per second, the frame's size, and who decodes it."""

    streams: Annotated[int, Field("live video streams (cameras)", high=1e7)]
    frames_per_s: Annotated[float, Field("frames per second of a stream", name="fps", high=1e4)]
    frame_px: Annotated[tuple[int, int], Field("size of a frame: 1080p, 4k, 1280x720", name="frame")] = (1920, 1080)
    codec: Annotated[str, Field("of the streams", known="codecs")] = "h264"
    every: Annotated[int, Field("look at one frame in so many", high=1e5)] = 1
    """One frame in so many is looked at; all are decoded."""
    decode: Annotated[str, Field("who decodes the video", choices=("accelerator", "host", "none"))] = "accelerator"
    """accelerator (NVDEC), host, or none where frames come decoded."""


class Infer(SparseRecord, kw_only=True, tag="infer"):
    """Samples that arrive at a rate, through a model that does not decode text."""

    model: Annotated[str, replace(MODEL, help="catalogue id, Hugging Face id, path, or a profile that `trace` wrote")]
    rate_per_s: Annotated[
        float,
        Field("images, texts or clips that arrive: 400/s", "1/s", name="rate", high=1e9),
        Field("hours of audio to transcribe per hour (live channels)", name="audio", high=1e7),
    ]
    """Samples; seconds of audio for speech. [1/s]"""
    video: Annotated[Video | None, Group()] = None
    confidence: Confidence = 0.8
    """The plan is the cheapest option that carries the load in time with at least this chance. [-]"""
    latency_s: Annotated[
        float | None, objective_field("longest mean latency: 100 ms", "s", name="latency", high=86400.0)
    ] = None
    """Longest mean time from a sample's arrival to its answer. [s]"""
    resolution: Annotated[int | None, Field("side of the square that the network sees", high=65536)] = None
    """Side of the square the network sees. [px]"""
    seq_len: Annotated[int | None, Field("tokens of a text, or of an answer about an image or audio", high=1e7)] = None
    steps: Annotated[int | None, Field("denoising steps", high=1e4)] = None
    frames: Annotated[int | None, Field("frames of a clip that is generated", high=1e5)] = None
    """Of a clip that is generated."""
    beams: Annotated[int, Field("hypotheses of a speech decoder (faster-whisper: 5)", high=100)] = 1
    """Hypotheses of a speech decoder."""
    precisions: Annotated[tuple[str, ...], replace(FORMATS, help="formats that may be used: fp16, int8, fp8, fp32")] = (
        "fp16",
    )
    engine: Annotated[str | None, engine_field("tensorrt, pytorch, onnxruntime, …")] = None
    """Absent = TensorRT on NVIDIA parts for vision, PyTorch elsewhere."""
    headroom: Annotated[
        float, reliability_field("share of capacity kept free", "fraction", low=MAY_BE_NOTHING, high=0.9)
    ] = 0.2
    filters: Annotated[Filters, Group()] = Filters()
    battery_wh: Annotated[
        float | None, objective_field("it runs from a battery of this size", "Wh", name="battery", high=1e9)
    ] = None
    """Runs from a battery: how long it lasts is answered. [Wh]"""
    hours: Annotated[float | None, objective_field("hours that the battery must last", high=1e6)] = None
    """And how long it must last. [h]"""


__all__ = ["Infer", "Video"]


class InferOption(SparseRecord, kw_only=True):
    """One kind of accelerator in one format, as many as the load needs."""

    accelerator: str
    count: int
    precision: str
    engine: str
    batch: int
    """Samples that run together at this load."""
    capacity_per_s: Quantity
    """Of one accelerator. [1/s]"""
    latency_s: Quantity
    """Mean, at this load: filling the batch, waiting, running. [s]"""
    used: float
    """Share of the capacity that the load takes. [-]"""
    arithmetic_used: float
    """Share of the peak arithmetic that the load takes. [-]"""
    memory: Quantity
    """Of one accelerator. [bytes]"""
    basis: str
    binds: str
    """What sets the count: inference, decode, one is enough."""
    streams_per_accelerator: float | None = None
    """Streams that one could carry with the headroom kept."""
    decode_used: float | None = None
    """Share of the video decoders' capacity; absent where nobody published it or the host decodes. [-]"""
    bill: Bill | None = None
    """Absent where nobody rents it: a part to buy."""
    price_usd: float | None = None
    """What the parts cost to buy. [USD]"""
    power_w: float | None = None
    """Mean draw of all of them at this load, boards alone. [W]"""
    battery_h: float | None = None
    costs: SampleCosts | None = None
    """Absent where nobody rents it."""
    energy: EnergyUse | None = None
    """Hosts and cooling included; absent for parts that are bought."""
    source: str = ""
    """Of the decoders' rate."""
    limit_bytes: float | None = None
    """What a driver leaves of one accelerator's memory. [bytes]"""
    needs: tuple[HostNeed, ...] = ()
    """What one instance must bring; empty where nobody rents it."""
    chance: float | None = None
    """Of carrying the load, and in time where a latency is asked for. [-]"""
    sure: bool = True
    """The chance is at least the confidence asked for."""
    verdict: str = ""


class InferPlan(RankedPlan[Infer, InferOption], kw_only=True, tag_field="kind", tag="infer"):
    """The answer to a request for inference without decoding."""

    smaller: str = ""
    """The smallest part that would do alone, beside the first option."""
