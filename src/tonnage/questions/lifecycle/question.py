"""
One model from training to the end of its service: request, answer, how it is read, and how the faces ask it.

`tonnage plan lifecycle` returns a `LifecyclePlan`; both plans it joins are inside, whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.reading import build, read_fields
from tonnage.domain.answer import Quantity
from tonnage.domain.plan import PlanHeader, ServePlan
from tonnage.domain.published import QualityChange
from tonnage.domain.requests.common import MODEL
from tonnage.domain.requests.field import (
    MAY_BE_NOTHING,
    Field,
    Group,
    groups_of,
    search_field,
)
from tonnage.domain.requests.serve import Serve
from tonnage.domain.train_plan import FineTune, Milestone, Train, TrainPlan
from tonnage.errors import BadRequest, echo
from tonnage.questions.question import LLAMA_8B, QUICKER, Form, Question
from tonnage.questions.serve.question import serve_request
from tonnage.questions.train.question import finetune_request, train_request
from tonnage.record import SparseRecord


class LifecycleRequest(SparseRecord, kw_only=True):
    """Make a model, then serve it for some time."""

    make: Annotated[
        Train | FineTune,
        msgspec.structs.replace(MODEL, name="model", help="made and served, where the groups name no other"),
        Group(of=FineTune, name="finetune", help="a field of `plan finetune`: method=lora"),
        Group(of=Train, name="train", help="a field of `plan train`, as often as needed"),
    ]
    serve: Annotated[Serve, Group(name="serve", help="a field of `plan serve`: rate=4/s")]
    months: Annotated[float, Field("in service", high=600.0)]
    """In service. [months]"""
    retrainings: Annotated[float, Field("times it is made again while it serves", low=MAY_BE_NOTHING, high=1e4)] = 0.0
    """Times the model is made again while it serves."""
    quick: Annotated[bool, search_field("both halves and their bill alone, serving by averages")] = False
    """Both halves and their bill alone, serving by averages: no one kind for both, no smaller ways."""


__all__ = ["LifecycleRequest"]


class OneType(SparseRecord, kw_only=True):
    """Both halves on one kind of accelerator."""

    accelerator: str
    make_usd: float
    serve_usd: float
    total_usd: float
    times_the_mix: float
    """Over the best mix of two kinds. [-]"""
    times_low: float | None = None
    """Its 90 % interval, errors of halves that are the same left out; below 1 the two cannot be told apart. [-]"""
    times_high: float | None = None


class SavingsOption(SparseRecord, kw_only=True):
    """A smaller way to do the same, and what it saves: fewer bits, a smaller sibling, adapters alone."""

    change: str
    usd: float | None = None
    """Of the whole life with it; absent = it cannot be done. [USD]"""
    saves_usd: float | None = None
    """Against the plan; negative = it costs more. [USD]"""
    what: str = ""
    quality: str = ""
    """What is known of its cost in quality, in one line."""
    published: QualityChange | None = None
    """The same in numbers; absent = weights as released, which lose nothing."""


class LifecyclePlan(PlanHeader[LifecycleRequest], kw_only=True, tag_field="kind", tag="lifecycle"):
    """The answer to a lifecycle request."""

    make: TrainPlan
    serve: ServePlan
    bill: Quantity | None = None
    """Of the whole life, opened into making, moving the weights, serving. [USD]"""
    serve_share: float | None = None
    """Of the bill that serving takes. [-]"""
    kwh: float | None = None
    """Of the whole life, hosts and cooling included; absent where either half's power is not published. [kWh]"""
    kg_co2: float | None = None
    """Of the whole life; absent where either grid is not known. [kg]"""
    one_type: tuple[OneType, ...] = ()
    """Cheapest first."""
    one_type_text: str = ""
    savings: tuple[SavingsOption, ...] = ()
    timeline: tuple[Milestone, ...] = ()


GROUPS: Final = tuple(group.name for group in groups_of(LifecycleRequest))


def lifecycle_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> LifecycleRequest:
    """
    A lifecycle request: `serve` and one of `train` and `finetune` hold the fields of those plans.

    A group is a mapping, or texts "name=value" as the command line gives them.

    Raises
    ------
    BadRequest
        A group is missing or contradicts, or a field of either is wrong.
    """
    groups = {name: _group(name, values[name]) for name in GROUPS if values.get(name)}
    given = read_fields({name: value for name, value in values.items() if name not in GROUPS}, LifecycleRequest)
    made = [name for name in ("train", "finetune") if name in groups]
    if len(made) != 1:
        what = "train and finetune contradict" if made else "nothing says how the model is made"
        raise BadRequest(f"{what}: give one of them, for example finetune: {{method: lora, tokens: 40M}}")
    if "serve" not in groups:
        raise BadRequest("nothing says how the model is served: give serve: {rate: 4/s, traffic: chat}")
    if "months" not in given:
        raise BadRequest("months is missing: say how long it serves, for example 12")
    model = {"model": given["model"]} if "model" in given else {}
    quick = {"quick": True} if given.get("quick") else {}
    read = train_request if made == ["train"] else finetune_request
    return build(
        LifecycleRequest,
        given,
        make=read({**model, **groups[made[0]]}, additions=additions),
        serve=serve_request({**model, **quick, **groups["serve"]}, additions=additions),
    )


def _group(name: str, value: Any) -> dict[str, Any]:
    """Fields of a group, from a mapping or texts "name=value"."""
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if not isinstance(value, (list, tuple)):
        value = [value]
    found: dict[str, Any] = {}
    for text in value:
        key, equals, item = (part.strip() for part in str(text).partition("="))
        if not equals:
            raise BadRequest(f"{name}: '{echo(text)}' is not a field; write name=value, for example rate=4/s")
        if key in found:
            raise BadRequest(f"{name}: '{echo(key)}' is given twice; keep one")
        found[key] = item
    return found


QUESTIONS = (
    Question(
        name="lifecycle",
        room="lifecycle",
        request=LifecycleRequest,
        answer=LifecyclePlan,
        needs=("months", "serve"),
        help="""
    Make MODEL here, serve it there: one bill, one timeline, and whether one kind of accelerator could do both.
    """,
        tool="plan_training_then_serving",
        form=Form(
            title="Train, then serve",
            about="One bill and one timeline for making a model and serving it.",
            at_first="quick",
            essentials=(
                "model",
                "months",
                "finetune.method",
                "finetune.tokens",
                "finetune.deadline",
                "serve.rate",
                "serve.traffic",
                "serve.ttft",
                "serve.tpot",
                "serve.eu",
            ),
            example={
                "model": LLAMA_8B,
                "months": "12",
                "finetune.method": "lora",
                "finetune.tokens": "40M",
                "serve.rate": "4/s",
                "serve.traffic": "chat",
                "serve.ttft": "1 s",
            },
            instead=QUICKER,
        ),
    ),
)
