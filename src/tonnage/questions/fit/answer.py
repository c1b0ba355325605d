"""What must be resident, and does it fit: the question of `tonnage fit` and its answer.

One `FitRow` is one accelerator type in one arrangement: the memory of its fullest rank opened into parts, the limit
those parts share, and the largest context, concurrency or batch that stays under it.
"""

from __future__ import annotations

from typing import Any

from tonnage.domain.answer import Quantity, Verdict
from tonnage.questions.fit.request import FitRequest, Goal, Solve
from tonnage.record import Record, SparseRecord

__all__ = ["FitRequest", "Goal", "Solve"]

FIT_SCHEMA = "tonnage.fit/1"


class Rule(SparseRecord, kw_only=True):
    """A rule of thumb beside the real number."""

    name: str
    rule_bytes: float
    real_bytes: float
    why: str
    """What the rule leaves out or overstates."""

    @property
    def off(self) -> float:
        """Rule over real, less one: -0.3 = the rule is 30 % too low. [-]"""
        return self.rule_bytes / self.real_bytes - 1.0


class Largest(SparseRecord, kw_only=True):
    """The largest x that still fits, and what stops it."""

    what: str
    """context, concurrency, batch, seq-len, model."""
    value: float
    unit: str
    binds: str
    """memory, or the model's own limit."""
    given: str = ""
    """What was held fixed."""
    name: str | None = None
    """Of the model, when a model was looked for."""


class FitRow(SparseRecord, kw_only=True):
    """One accelerator type in one arrangement."""

    accelerator: str
    name: str
    count: int
    layout: dict[str, Any]
    precision: dict[str, Any]
    verdict: Verdict
    total_bytes: float
    """Memory a process sees on one accelerator. [bytes]"""
    limit_bytes: float
    """What the engine or framework may use of it. [bytes]"""
    memory: Quantity
    """Needed on the fullest accelerator. [bytes]"""
    kv_tokens: float | None = None
    """Cache the engine would keep. [tokens]"""
    largest: tuple[Largest, ...] = ()
    remedies: tuple[str, ...] = ()
    """What would make it fit, each tried."""
    engine: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def free_bytes(self) -> float:
        """Limit less need; negative = short by that much. [bytes]"""
        return self.limit_bytes - self.memory.value


class FitAnswer(Record, kw_only=True):
    """The answer of `tonnage fit`."""

    sentence: str
    fits: bool
    goal: Goal
    model: str
    parameters: float
    active_parameters: float
    rows: tuple[FitRow, ...]
    rules: tuple[Rule, ...]
    request: FitRequest
    schema: str = FIT_SCHEMA
    version: str = ""
    assumed: tuple[str, ...] = ()
    """Everything that was not said and had to be chosen."""
    too_small: int = 0
    """Accelerator types left out because no count looked at holds the model."""
