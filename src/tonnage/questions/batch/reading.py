"""`tonnage plan batch`: what people write becomes a `Batch`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.load_fields import read_filters, read_lengths
from tonnage.core.reading import build, need_model, read_fields
from tonnage.domain.requests.field import usual_of
from tonnage.domain.requests.serve import Batch
from tonnage.errors import BadRequest


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
