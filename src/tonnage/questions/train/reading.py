"""`tonnage plan train` and `finetune`: what people write becomes a `Train` or a `FineTune`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.load_fields import read_filters
from tonnage.core.reading import build, need_model, read_fields
from tonnage.domain.requests.train import FineTune, Train
from tonnage.errors import BadRequest
from tonnage.questions.rl.request import Rl

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
    check_count(job)
    return job


def check_count(job: Train | FineTune | Rl) -> None:
    most = job.filters.max_count
    if job.count is not None and most is not None and job.count > most:
        raise BadRequest(f"count {job.count} is beyond max_accelerators {most}; drop one of the two")
