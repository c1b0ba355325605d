"""What images cost: each place where a vision encoder may run."""

from __future__ import annotations

from tonnage.domain.requests.images import Images
from tonnage.record import SparseRecord


class EncoderWay(SparseRecord, kw_only=True):
    """One place for the vision encoder: what it takes there, and what the plan then costs."""

    name: str
    configuration: str
    encode_s: float
    """Of the mean first token: encoding alone, without queues. [s]"""
    move_s: float
    """Moving the encodings of a request to where its prompt is computed. [s]"""
    hits: float
    """Share of images whose encoding is kept there. [-]"""
    memory_bytes: float
    """Of the fullest accelerator that encodes: encoder, its activations and kept encodings. [bytes]"""
    rate_per_s: float
    """That one replica or unit takes surely enough within the objectives, by averages; 0 = misses them. [1/s]"""
    accelerators: int
    """Of the replica or unit."""
    usd_per_hour: float | None = None
    """Of the fleet for the whole load; absent = it misses the objectives or no offer holds it. [USD/h]"""


class ImageCosts(SparseRecord, kw_only=True):
    """What images cost on the first option's accelerators."""

    images: Images
    encoder_parameters: float
    flop: float
    """To encode one image. [FLOP]"""
    token_bytes: float
    """Of one token's encoding. [bytes]"""
    ttft_share: float
    """Of the mean time to first token: encoding. [-]"""
    sentence: str
    ways: tuple[EncoderWay, ...] = ()
