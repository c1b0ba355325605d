"""Pre-training and fine-tuning: what people write becomes a `Train` or a `FineTune`; how the faces ask them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.load_fields import read_filters
from tonnage.core.reading import build, need_model, read_fields
from tonnage.domain.requests.common import Filters
from tonnage.domain.train_plan import FineTune, Train, TrainPlan
from tonnage.errors import BadRequest
from tonnage.questions.question import LLAMA_8B, Form, Question

PRECISIONS: Final = ("bf16", "fp16", "tf32", "fp32", "fp8", "mxfp8", "nvfp4")
"""What products of a training step run in."""

Job = TypeVar("Job", Train, FineTune)


def train_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Train:
    """
    A pre-training request from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, Train)
    need_model(given)
    if "tokens" not in given:
        raise BadRequest("tokens is missing: say how many to train on, for example '100B'")
    if given["tokens"] < given.get("seq_len", 1024):
        raise BadRequest(f"tokens: {given['tokens']:,.0f} are fewer than one sequence")
    return _job(Train, given, additions)


def finetune_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> FineTune:
    """
    A fine-tuning request from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, FineTune)
    need_model(given)
    if "tokens" in given and "examples" in given:
        raise BadRequest("tokens and examples contradict: give tokens, or examples with tokens_per_example")
    if "tokens" not in given and "examples" not in given:
        raise BadRequest("no data is given: give examples (50k) with tokens_per_example (800), or tokens (40M)")
    return _job(FineTune, given, additions)


def _job(struct: type[Job], given: Mapping[str, Any], additions: Additions) -> Job:
    """Either of them, after what pre-training and fine-tuning requests share."""
    job = build(struct, given, additions=additions, filters=read_filters(given, additions))
    if job.precision not in PRECISIONS:
        raise BadRequest(
            f"precision: products of a training step do not run in '{job.precision}'; give {', '.join(PRECISIONS)}"
        )
    check_count(job.count, job.filters)
    return job


def check_count(count: int | None, filters: Filters) -> None:
    """Refuses a stated count above the limit of accelerators."""
    most = filters.max_count
    if count is not None and most is not None and count > most:
        raise BadRequest(f"count {count} is beyond max_accelerators {most}; drop one of the two")


QUESTIONS = (
    Question(
        name="finetune",
        room="train",
        request=FineTune,
        answer=TrainPlan,
        help="""
    Accelerators, layout, time and cost of adapting MODEL to a data set: LoRA, QLoRA, DoRA or in full.

    \b
    tonnage plan finetune 8B --method lora --examples 50k --tokens-per-example 800 --deadline "24 h"
    """,
        tool="plan_fine_tuning",
        form=Form(
            title="Fine-tune a model",
            short="Fine-tune",
            about="From a data set and a method to accelerators, hours and dollars.",
            essentials=(
                "model",
                "method",
                "examples",
                "tokens_per_example",
                "epochs",
                "deadline",
                "budget",
                "eu",
                "accelerator",
            ),
            example={
                "model": LLAMA_8B,
                "method": "lora",
                "examples": "50k",
                "tokens_per_example": "800",
                "deadline": "24 h",
            },
        ),
    ),
    Question(
        name="train",
        room="train",
        request=Train,
        answer=TrainPlan,
        help="""
    Accelerators, layout, time and cost of pre-training MODEL on so many tokens, by a deadline or within a budget.

    \b
    tonnage plan train 8B --tokens 100B --deadline "30 days" --seq-len 8192
    """,
        tool="plan_training",
        form=Form(
            title="Train from scratch",
            short="Train",
            about="From tokens and a deadline to accelerators, parallelism, days and dollars.",
            essentials=("model", "tokens", "seq_len", "deadline", "budget", "precision", "eu", "accelerator"),
            example={"model": LLAMA_8B, "tokens": "100B", "deadline": "30 days", "seq_len": "8192"},
        ),
    ),
)
