"""What others measured and published, short enough to travel with the package, and what of it is near a question."""

from __future__ import annotations

import msgspec

__all__ = ["Near", "Published"]


class Published(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One published measurement: what ran, and what was measured. Absent = not stated."""

    id: str
    """Row of measurements/ in the repository."""
    kind: str
    """Kind of case: serve, train, infer."""
    model: str
    family: str
    parameters: float
    active_parameters: float
    accelerator: str
    count: float
    """Accelerators of the measured system."""
    engine: str
    version: str = ""
    weights: str = ""
    """Number format of the weights; of training and networks, of the products."""
    layout: str = ""
    """Degrees of one replica: tp8, tp4·pp2; pools joined by a slash."""
    load: str = ""
    """clients, batch, burst, requests/s, saturated; of training pretrain, full, lora."""
    size: float | None = None
    """How many clients, sequences of the batch, or requests a second; of training the global batch."""
    isl: float | None = None
    """Of training the sequence length, of networks the resolution or length."""
    osl: float | None = None
    date: str = ""
    measured: dict[str, float] = {}
    """By the names of `tonnage accuracy`: ttft_ms, tpot_ms, output_tokens_per_s, step_time_s …"""
    source: str = ""


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """A published result near a question: how far away, in what, and what it says."""

    distance: float
    """0 = the same question; 1 is about as far as another generation of accelerator or a factor of 5 in one size."""
    differs: tuple[str, ...]
    """What is not as asked, the largest first."""
    result: Published
