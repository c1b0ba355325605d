"""The API keeps to the document that it publishes, whatever it is sent."""

from __future__ import annotations

from typing import Any

import pytest

schemathesis = pytest.importorskip("schemathesis", reason="the dev extra brings it")
pytest.importorskip("litestar", reason="the web extra brings it")

from hypothesis import HealthCheck, settings  # noqa: E402
from schemathesis.specs.openapi import checks  # noqa: E402

from tonnage.web.openapi import openapi  # noqa: E402

EXAMPLES = 8
"""Requests of each question."""

# A text of the right type can still be no time or no accelerator; a group without fields may be written in several
# ways (nothing, null, an empty list); and the framework answers OPTIONS for each handler of
# a path apart.
LEFT_OUT = [checks.positive_data_acceptance, checks.negative_data_rejection, checks.allow_header_conformance]

contract = schemathesis.openapi.from_dict(openapi())


@pytest.mark.slow
@contract.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_answer_breaks_the_contract(case: Any, page_address: str) -> None:
    """No 5xx, a body of the promised shape, the promised content type; wrong requests are refused."""
    case.call_and_validate(base_url=page_address, excluded_checks=LEFT_OUT)
