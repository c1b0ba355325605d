"""The door of `tonnage plan batch`: text that people write becomes a `Batch`, from the same rows as other plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.precision import number_format
from tonnage.domain.workload import Batch
from tonnage.errors import BadRequest
from tonnage.planning.door import (
    ENGINES,
    FILTER_FIELDS,
    QUALITY_FIELD,
    Field,
    read_fields,
    read_filters,
    read_lengths,
)

__all__ = ["BATCH_FIELDS", "batch_request"]

BATCH_FIELDS: Final[tuple[Field, ...]] = (
    Field(name="model", reads="text", help="catalogue id, Hugging Face id, path, or a bare size such as 13B"),
    Field(name="items", reads="count", help="prompts to answer: 50M", high=1e13),
    Field(name="deadline", reads="s", help="all answers by then: 8 h; without it the cheapest is taken", high=1e8),
    Field(name="traffic", reads="text", help="length profile: chat, code, rag, summarise, reasoning, agent, batch"),
    Field(name="prompt_tokens", reads="tokens", help="mean prompt length", high=1e8),
    Field(name="output_tokens", reads="tokens", help="mean answer length", high=1e8),
    Field(name="precision", reads="list", help="weight formats that may be used: bf16, fp8, int4, …"),
    QUALITY_FIELD,
    Field(name="engine", reads="list", help="serving engines to consider", choices=ENGINES),
    Field(name="budget", reads="USD", help="most to spend on the whole job", high=1e12),
    *FILTER_FIELDS,
)
"""Every field of a batch request."""


def batch_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Batch:
    """
    A batch request from named texts. Items are independent, so that spot prices are looked at unless terms are named.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, BATCH_FIELDS)
    if "model" not in given:
        raise BadRequest("model is missing: name one, for example 'meta-llama/Llama-3.1-8B-Instruct' or '13B'")
    if "items" not in given:
        raise BadRequest("items is missing: say how many prompts to answer, for example '50M'")
    if given["items"] < 1:
        raise BadRequest(f"items: {given['items']:g} is less than one item")
    return Batch(
        model=given["model"],
        items=given["items"],
        lengths=read_lengths({"traffic": "batch", **given}),
        deadline_s=given.get("deadline"),
        precisions=tuple(number_format(name).name for name in given.get("precision", ())),
        quality_floor=given.get("quality"),
        engines=given.get("engine", (SERVING_ENGINE,)),
        filters=read_filters({"term": ("on-demand", "spot"), **given}, additions),
        budget_usd=given.get("budget"),
    )
