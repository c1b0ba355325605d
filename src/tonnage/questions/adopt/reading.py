"""`tonnage adopt`: what people write beside a file becomes an `Adopt`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.reading import build, read_fields
from tonnage.errors import BadRequest
from tonnage.questions.adopt.request import Adopt


def adopt_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Adopt:
    """
    The request from named texts; `file` is the text of the file.

    Raises
    ------
    BadRequest
        No file, an unknown field, or a value out of range or of the wrong kind.
    """
    given = read_fields(values, Adopt)
    if "file" not in given:
        raise BadRequest("file is missing: give the text of a manifest, a script or a configuration")
    return build(Adopt, given, additions=additions)
