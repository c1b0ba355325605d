"""Accelerator-hours of a training run, from what one node was measured to do, with headroom and a timeline."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["TRAIN_BUDGET_SCHEMA", "Phase", "TrainBudget"]

TRAIN_BUDGET_SCHEMA = "tonnage.train_budget/1"


class Phase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the work, after the one before it."""

    name: str
    begin_s: float
    """Since the start. [s]"""
    end_s: float
    accelerator_hours: float
    begin: str | None = None
    """Date, when the start is known."""
    end: str | None = None


class TrainBudget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run needs, all headroom included."""

    schema: str
    devices: int
    steps: int
    """Of the run itself. [steps]"""
    step_s: float
    """At this number of devices. [s]"""
    run_s: float
    """The run alone, uninterrupted. [s]"""
    total_s: float
    """With experiments, validation and retries. [s]"""
    accelerator_hours: float
    """All of it."""
    run_accelerator_hours: float
    """The run alone."""
    scaling: float
    """Throughput per device against the smallest measured run. [-]"""
    basis: Literal["measured", "assumed"]
    """Of the scaling: measured at this number of devices, or assumed beyond it."""
    fits_deadline: bool | None = None
    phases: tuple[Phase, ...] = ()
    reasons: tuple[str, ...] = ()
