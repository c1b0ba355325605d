"""What should be changed in a service that runs, by what it was seen to do: the answer of `tonnage advise`."""

from __future__ import annotations

from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.diagnosis import Verdict
from tonnage.domain.layout import Layout
from tonnage.domain.precision import Precision
from tonnage.questions.adopt.answer import Running
from tonnage.record import SparseRecord

ADVICE_SCHEMA = "tonnage.advice/1"


class Seen(SparseRecord, kw_only=True):
    """The traffic and the latencies of the service, as its own metrics tell them."""

    rate_per_s: float
    """Of the whole service. [requests/s]"""
    prompt_tokens: float
    output_tokens: float
    """Means of a request. [tokens]"""
    ttft_s: float | None = None
    tpot_s: float | None = None
    """Means. [s]"""
    reused_share: float | None = None
    """Of a prompt's tokens, that an earlier prompt began with; absent = not known. [-]"""
    log: str = ""
    """File of the requests that were replayed; empty = they were drawn at the rate and the lengths above."""


class Replayed(SparseRecord, kw_only=True):
    """The service's traffic, played request by request."""

    requests: int
    ttft_s: float
    tpot_s: float
    """At the objectives' percentile. [s]"""
    keeps: bool
    """Every objective holds."""


class State(SparseRecord, kw_only=True):
    """One way to run the service under the traffic seen, by prediction."""

    accelerator: str
    layout: Layout
    precision: Precision
    replicas: int
    accelerators: int
    usd_per_month: float
    most_per_s: float
    """What all replicas take within the objectives. [requests/s]"""
    ttft_s: float
    tpot_s: float
    """At the objectives' percentile. [s]"""
    keeps: bool
    """Whether it carries the traffic within the objectives: as replayed, else by averages."""
    replayed: Replayed | None = None
    """The traffic on these replicas; absent where no simulator is installed, or for another accelerator."""


class Action(SparseRecord, kw_only=True):
    """One change, what it brings, what it risks, and the check to run before."""

    name: str
    """batch limit, prefix cache, replicas, number format, accelerator, all settings, warm-up, autoscaling."""
    change: str
    state: State | None = None
    """After the change, with as many replicas as the traffic then needs; absent where money and load stay."""
    usd_per_month: float = 0.0
    """Saved; negative = dearer. [USD/month]"""
    risk: str = ""
    check: str = ""


class Advice(SparseRecord, kw_only=True):
    """What the service does, what limits it, and what to change, the most money first."""

    schema: str
    sentence: str
    running: Running
    seen: Seen
    today: State
    verdicts: tuple[Verdict, ...] = ()
    actions: tuple[Action, ...] = ()
    calibrated: str = ""
    """How far predictions were from what was measured, before it was taken into account; empty = not calibrated."""
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    assumed: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    replayed: str = ""
    """Which requests were played on what runs and on every change; empty = none were."""
