"""Offline work by a deadline: what people write becomes a `Batch`; how the faces ask it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.load_fields import read_filters, read_lengths
from tonnage.core.reading import build, need_model, read_fields
from tonnage.domain.batch_plan import BatchPlan
from tonnage.domain.requests.field import usual_of
from tonnage.domain.requests.serve import Batch
from tonnage.errors import BadRequest
from tonnage.questions.question import LLAMA_8B, Form, Question


def batch_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Batch:
    """
    A batch request from named texts. Items are independent, so that spot prices are looked at unless terms are named.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, Batch)
    need_model(given)
    if "items" not in given:
        raise BadRequest("items is missing: say how many prompts to answer, for example '50M'")
    if given["items"] < 1:
        raise BadRequest(f"items: {given['items']:g} is less than one item")
    given = {**usual_of(Batch), **given}
    return build(Batch, given, additions=additions, lengths=read_lengths(given), filters=read_filters(given, additions))


QUESTIONS = (
    Question(
        name="batch",
        room="batch",
        request=Batch,
        answer=BatchPlan,
        help="""
    The cheapest way to answer so many prompts with MODEL by a deadline, and what more speed would cost.

    \b
    tonnage plan batch 8B --items 50M --deadline "8 h" --prompt-tokens 400 --output-tokens 60
    """,
        tool="plan_batch_inference",
        form=Form(
            title="Batch inference",
            about="The cheapest machines that answer so many prompts in time.",
            essentials=(
                "model",
                "items",
                "deadline",
                "traffic",
                "prompt_tokens",
                "output_tokens",
                "budget",
                "eu",
                "accelerator",
            ),
            example={
                "model": LLAMA_8B,
                "items": "50M",
                "deadline": "8 h",
                "prompt_tokens": "400",
                "output_tokens": "60",
            },
        ),
    ),
)
