"""Replicas kept between questions save their work and move no number."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tonnage
from tonnage.core import replica
from tonnage.report.document import as_json

QUESTION = {"model": "8B", "rate": "2/s", "traffic": "chat", "ttft": "1 s", "accelerator": "L40S", "quick": True}


@pytest.fixture
def kept() -> Iterator[None]:
    replica.keep_replicas(64)
    yield
    replica._BUILD[1:] = []


def answer(**changes: object) -> str:
    return as_json(tonnage.plan_serve(**{**QUESTION, **changes}))


def test_an_edit_of_the_load_builds_nothing_anew_and_answers_the_same(kept: None) -> None:
    first = answer()
    info = replica._BUILD[-1].cache_info  # type: ignore[attr-defined]
    built = info().misses
    edited = answer(rate="3/s", ttft="2 s")
    assert info().misses == built > 0 and info().hits > 0
    # Other lengths are other replicas.
    longer = answer(prompt_tokens="2000")
    assert info().misses > built
    replica._BUILD[1:] = []
    assert (first, edited, longer) == (answer(), answer(rate="3/s", ttft="2 s"), answer(prompt_tokens="2000"))
