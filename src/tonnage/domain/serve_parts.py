"""
Parts of a serving plan: operators under the roof, a fleet while its load rises and falls, where images are encoded.
"""

from __future__ import annotations

from tonnage.domain.answer import Quantity
from tonnage.domain.money import Commitment
from tonnage.domain.requests.groups import Images
from tonnage.record import SparseRecord


class RooflinePoint(SparseRecord, kw_only=True):
    """One operator of a step, all its executions together."""

    phase: str
    """decode or prefill."""
    operator: str
    compute: str
    """Format of the peak that it runs under."""
    flop_per_byte: float
    flop_per_s: float
    share: float
    """Of the step's time. [-]"""


class Roofline(SparseRecord, kw_only=True):
    """What one accelerator allows, and how near to it the operators of the first option come."""

    accelerator: str
    memory_bytes_per_s: float
    peaks: dict[str, float]
    """Format -> arithmetic at most. [FLOP/s]"""
    points: tuple[RooflinePoint, ...]


class FleetWay(SparseRecord, kw_only=True):
    """One way to size the fleet."""

    name: str
    """peak, average, autoscaled, scale-to-zero, base and burst."""
    replicas_mean: float
    """Paid for, on average."""
    replicas_most: int
    usd_per_hour: float
    """On average over the period."""
    usd_per_month: float
    arithmetic: str
    """How the replicas follow from rates and capacity."""
    meets: bool
    """Whether the objectives hold all the time, at their percentile."""
    cold_share: float = 0.0
    """Requests that wait for a start, wholly or in part. [-]"""
    note: str = ""
    committed: int = 0
    """Replicas of it that a term pays for in every hour; the others come and go on demand."""
    base: str = ""
    """Whose those are, and on which term."""
    commitment: Commitment | None = None
    """What their term means; absent where it is too short for prices to move."""
    saves: float = 0.0
    """Of what the same fleet costs all on demand. [-]"""


class Valleys(SparseRecord, kw_only=True):
    """What a fixed fleet could answer besides, while its load is low."""

    replica_hours_per_day: float
    requests_per_day: float
    output_tokens_per_day: float
    usd_per_day: float
    """Paid anyway, for capacity that the load leaves free."""


class FleetDay(SparseRecord, kw_only=True):
    """The first option over the period that its load repeats."""

    shape: str
    source: str
    period_s: float
    interval_s: float
    rates_per_s: tuple[float, ...]
    """Mean arrivals of each interval. [1/s]"""
    replicas: tuple[int, ...]
    """On in each interval when the fleet follows the load, those that start included."""
    usable_per_s: float
    """What one replica is given at most: its capacity less the headroom. [1/s]"""
    cold_start: Quantity
    """From the decision to the first token, opened. [s]"""
    ways: tuple[FleetWay, ...]
    wasted_share: float
    """Of the cost for the peak, what following the load saves. [-]"""
    valleys: Valleys
    best: str
    """The cheapest way that meets the objectives."""


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
