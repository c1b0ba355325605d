"""
What so much money buys: request, answer, how it is read from what people write, and how the faces ask it.

`tonnage plan budget` returns a `BudgetPlan`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from tonnage import catalog, units
from tonnage.catalog import Additions
from tonnage.core.reading import build, read_fields
from tonnage.domain.answer import Quantity
from tonnage.domain.plan import PlanHeader, ServeOption
from tonnage.domain.published import Standing
from tonnage.domain.requests.common import MODEL
from tonnage.domain.requests.field import (
    Field,
    Group,
    objective_field,
    training_field,
)
from tonnage.domain.requests.serve import Serve
from tonnage.domain.train_plan import LongDeadline, TrainConfiguration
from tonnage.errors import BadRequest, echo
from tonnage.questions.question import LLAMA_8B, Form, Question
from tonnage.questions.serve.question import serve_request, service_fields
from tonnage.record import Record, SparseRecord

FOUND: Final = frozenset({
    "model", "rate", "concurrency", "users", "think_time", "budget", "pools", "quick", "day", "on_for", "off_for",
})  # fmt: skip
"""Fields of a serving request whose load or money is found, or given otherwise."""


class Budget(SparseRecord, kw_only=True):
    """The largest load, the best model, or the best training run that an amount of money buys."""

    amount: Annotated[str, objective_field('what may be spent: "$3,000/month", "$4/h", "$50,000"')]
    """As written."""
    purpose: Annotated[
        Literal["serving", "training", "finetuning"],
        objective_field("what it is for: serving, training or finetuning; money without a time trains"),
    ] = "serving"
    model: Annotated[str | None, MODEL] = None
    """Absent = the best of those that people run, by published quality."""
    serve: Annotated[Serve | None, Group(without=FOUND)] = None
    """Lengths, objectives and filters of the service."""
    rate_per_s: Annotated[
        float | None, Field("requests that the best model must carry: 2/s", "1/s", name="rate", high=1e7)
    ] = None
    tokens: Annotated[
        float | None, training_field("tokens there are to train on; else as many as pay", "tokens", high=1e16)
    ] = None
    deadline_s: LongDeadline = None
    usd_per_h: float | None = None
    """Of a service. [USD/h]"""
    usd: float | None = None
    """Of a training run. [USD]"""


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
    stands: Standing | None = None
    """By which published score of the released weights it is ranked; absent = none places it."""
    next_rate_per_s: float | None = None
    """The least rate looked at that costs more than the budget; absent = none does. [1/s]"""
    next_usd_per_month: float | None = None
    """What that rate costs; absent = over twice the budget. [USD/month]"""
    priced: tuple[tuple[float, float], ...] = ()
    """Rates within the budget that the search priced, and what each costs. [1/s, USD/month]"""

    @property
    def written_rate_per_s(self) -> float:
        """The rate in four digits, rounded down: what was found holds at it. [1/s]"""
        digit = 10.0 ** (math.floor(math.log10(self.rate_per_s)) - 3)
        return math.floor(self.rate_per_s / digit + 1e-9) * digit


class LossLaw(Record, kw_only=True):
    """Loss against parameters and tokens: L = E + A / N^a + B / D^b, with the source of its five numbers."""

    name: str
    source: str
    irreducible: float
    parameter_factor: float
    parameter_exponent: float
    token_factor: float
    token_exponent: float


OPTIMAL: Final = "compute-optimal"
ALL_TOKENS: Final = "largest, on all tokens"
"""Of the first run: a loss law's size for its arithmetic, or a larger one where tokens are short."""


class AffordableRun(SparseRecord, kw_only=True):
    """One size of model with the tokens that the budget trains it on."""

    name: str
    """`OPTIMAL`, `ALL_TOKENS`, or which part of that size."""
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
    """That `stands` is a score of."""
    models: tuple[Affordable, ...] = ()
    """Best first."""
    runs: tuple[AffordableRun, ...] = ()
    """The compute-optimal first, then smaller models on more tokens."""
    tunes: tuple[AffordableTune, ...] = ()
    laws: tuple[LossLaw, ...] = ()
    """The first leads; the others say how far published laws differ."""
    optimal_range: tuple[float, float] | None = None
    """Compute-optimal sizes of the published laws for the same arithmetic, smallest and largest. [parameters]"""


_PER_TIME: Final = re.compile(r"/\s*[a-z]+|\bper\s+[a-z]+|\ba\s+(?:month|day|hour|year|week)\b", re.IGNORECASE)


_OF_TIME: Final = re.compile(r"\s*(?:/|\bper\b|\ba\b)\s*", re.IGNORECASE)


_HOURS: Final = {"h": 1.0, "hr": 1.0, "hour": 1.0, "d": 24.0, "day": 24.0, "week": 168.0, "mo": 730.0, "month": 730.0,
                 "yr": 8760.0, "year": 8760.0}  # fmt: skip


MOST_USD: Final = 1e12


def budget_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Budget:
    """
    A budget from named values.

    Raises
    ------
    BadRequest
        The amount is missing or none, or a field is unknown, out of range or contradicts another.
    """
    given = read_fields(values, Budget)
    if "amount" not in given:
        raise BadRequest('amount is missing: give what may be spent, such as "$3,000/month" or "$50,000"')
    per_h, usd = read_amount(given["amount"])
    purpose = given.get("purpose") or ("serving" if per_h is not None else "training")
    if purpose == "serving" and per_h is None:
        raise BadRequest(f"amount: '{echo(given['amount'])}' names no time; a service costs by the month: $3,000/month")
    if purpose != "serving" and usd is None:
        raise BadRequest(f"amount: '{echo(given['amount'])}' is by time; a run costs a sum, such as $50,000")
    if purpose == "serving" and (stray := [name for name in ("tokens", "deadline") if name in given]):
        raise BadRequest(f"{stray[0]} only means something for --purpose training or finetuning")
    if purpose == "serving" and "model" not in given and "rate" not in given:
        raise BadRequest("name a model for its largest rate, or a rate (2/s) for the best model that carries it")
    if purpose != "serving" and "rate" in given:
        raise BadRequest("rate only means something for --purpose serving")
    if "purpose" not in given and purpose == "training" and "model" in given:
        said = f"amount: '{echo(given['amount'])}' names no time"
        raise BadRequest(
            f"{said}: write '{echo(given['amount'])}/month' for what serves, or say what a run is for (purpose)"
        )
    if purpose == "training" and "model" in given:
        raise BadRequest("model: training finds the size itself; for a given model ask `tonnage plan train --budget`")
    serve = serve_request(service_fields(values, model=given.get("model")), additions=additions)
    return build(
        Budget,
        given,
        additions=additions,
        purpose=purpose,
        serve=serve,
        usd_per_h=per_h,
        usd=usd,
    )


def read_amount(text: str) -> tuple[float | None, float | None]:
    """
    USD an hour, or USD, whichever the text names.

    Raises
    ------
    BadRequest
        It is no amount of money.

    Examples
    --------
    >>> read_amount("$3,650/month"), read_amount("$50,000"), read_amount("$48/day")
    ((5.0, None), (None, 50000.0), (2.0, None))
    """
    if not _PER_TIME.search(text):
        usd = units.read(text, "USD", field="amount")
        if not 1.0 <= usd <= MOST_USD:
            raise BadRequest(f"amount: '{echo(text)}' is out of range; give $1 to $1,000,000,000,000")
        return None, usd
    money, time = _OF_TIME.split(text.strip(), maxsplit=1)
    hours = _HOURS.get(time.strip().lower().removesuffix("s"))
    if hours is None:
        raise BadRequest(f"amount: '{echo(text)}' is by no time that is known; write /month, /h, /day or /year")
    per_h = units.read(money, "USD", field="amount") / hours
    if not 1e-4 <= per_h <= 1e7:
        raise BadRequest(f"amount: '{echo(text)}' is out of range; give $0.0001/h to $10,000,000/h")
    return per_h, None


QUESTIONS = (
    Question(
        name="budget",
        room="budget",
        request=Budget,
        answer=BudgetPlan,
        needs=("amount",),
        tool="plan_within_budget",
        form=Form(
            title="What a budget buys",
            button="See what it buys",
            about="The largest rate, the best model or the best training run that an amount pays for.",
            essentials=(
                "amount",
                "purpose",
                "model",
                "rate",
                "traffic",
                "ttft",
                "tpot",
                "tokens",
                "deadline",
                "eu",
                "accelerator",
            ),
            example={
                "amount": "$3,000/month",
                "model": LLAMA_8B,
                "traffic": "chat",
                "ttft": "1 s",
                "tpot": "50 ms",
                "accelerator": "L40S, H100, H200, B200",
            },
        ),
    ),
)
