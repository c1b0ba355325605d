"""What a budget buys: the largest rate, the best models, sizes of a training run, fine-tunes.

`tonnage plan budget` returns a `BudgetPlan`.
"""

from __future__ import annotations

from tonnage.domain.answer import Quantity
from tonnage.domain.plan import PlanHeader, ServeOption
from tonnage.domain.train_plan import TrainConfiguration
from tonnage.questions.budget.request import Budget
from tonnage.record import Record, SparseRecord


class Affordable(SparseRecord, kw_only=True):
    """One model within the budget, at the largest rate or at the one asked for."""

    model: str
    rate_per_s: float
    """Mean arrivals within objectives, confidence and budget. [1/s]"""
    output_tokens_per_s: float
    usd_per_month: float
    option: ServeOption
    quality: float | None = None
    """Published score of the released weights; absent = none in the catalogue."""
    next_rate_per_s: float | None = None
    """The least rate looked at that costs more than the budget; absent = none does. [1/s]"""
    next_usd_per_month: float | None = None
    """What that rate costs; absent = nothing serves it. [USD/month]"""


class LossLaw(Record, kw_only=True):
    """Loss against parameters and tokens: L = E + A / N^a + B / D^b, with the source of its five numbers."""

    name: str
    source: str
    irreducible: float
    parameter_factor: float
    parameter_exponent: float
    token_factor: float
    token_exponent: float


class AffordableRun(SparseRecord, kw_only=True):
    """One size of model with the tokens that the budget trains it on."""

    name: str
    """compute-optimal, or how many times more tokens than that."""
    parameters: float
    tokens: float
    loss: float
    """By the law. [nats/token]"""
    loss_low: float
    """Least and most of the published laws. [nats/token]"""
    loss_high: float
    cost: Quantity
    """Of the run. [USD]"""
    wall_s: float
    configuration: TrainConfiguration
    usd_per_million_output_tokens: float | None = None
    """Of serving it afterwards, at full machines. [USD]"""
    saves_share: float | None = None
    """Of the serving bill, against the compute-optimal size. [-]"""
    pays_after_tokens: float | None = None
    """Output tokens after which a compute-optimal model of the same loss would have cost more in all. [tokens]"""


class AffordableTune(SparseRecord, kw_only=True):
    """One fine-tune of a current model, and how much of it the budget buys."""

    model: str
    method: str
    tokens: float
    """One pass over so many within budget and deadline. [tokens]"""
    cost: Quantity
    wall_s: float
    configuration: TrainConfiguration


class BudgetPlan(PlanHeader[Budget], kw_only=True, tag_field="kind", tag="budget"):
    """The answer to a budget."""

    bill: Quantity | None = None
    """Of the first: of a service by the hour, of a run whole. [USD/h] or [USD]"""
    benchmark: str = ""
    """That `quality` is a score of."""
    models: tuple[Affordable, ...] = ()
    """Best first."""
    runs: tuple[AffordableRun, ...] = ()
    """The compute-optimal first, then smaller models on more tokens."""
    tunes: tuple[AffordableTune, ...] = ()
    laws: tuple[LossLaw, ...] = ()
    """The first leads; the others say how far published laws differ."""
    optimal_range: tuple[float, float] | None = None
    """Compute-optimal sizes of the published laws for the same arithmetic, smallest and largest. [parameters]"""
