"""Tonnage's own: a file of results of `tonnage measure serve`, or the JSON that it prints."""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Measurement
from tonnage.measure.records import LOG_SCHEMA, Header, Line, log_of
from tonnage.measure.summary import measurement_of


def recognise(document: Any) -> bool:
    """Whether the first line, or the document, names one of our schemas."""
    if isinstance(document, list):
        return bool(document) and isinstance(document[0], dict) and document[0].get("schema") == LOG_SCHEMA
    return isinstance(document, dict) and document.get("schema") in {MEASUREMENT_SCHEMA, LOG_SCHEMA}


def read(document: Any) -> Measurement:
    """The measurement that a file of results says, or that a document is."""
    if isinstance(document, dict) and document["schema"] == MEASUREMENT_SCHEMA:
        return msgspec.convert(document, Measurement)
    rows = document if isinstance(document, list) else [document]
    found = [msgspec.convert(row, Line) for row in rows]
    if not isinstance(found[0], Header):
        raise ValueError("the first line is no header")
    return measurement_of(log_of(found[0], found))
