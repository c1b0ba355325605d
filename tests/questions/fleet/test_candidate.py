"""Which configurations of a site are candidates of a fleet: the best per accelerator, and small ones beside them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.layout import Layout
from tonnage.questions.fleet.answer import FleetRequest
from tonnage.questions.fleet.candidate import Candidate, _best, candidates
from tonnage.questions.fleet.question import fleet_request
from tonnage.questions.fleet.stock import stock

CHAT = {"model": "meta-llama/Llama-3.1-8B-Instruct", "rate": "2/s", "traffic": "chat", "ttft": "1 s", "tpot": "60 ms"}


@pytest.fixture(scope="module")
def one() -> tuple[FleetRequest, Candidate]:
    asked = {"provider": "aws", "region": "us-east-1", "accelerator": "H100", "term": "on-demand"}
    request = fleet_request({**asked, "workloads": [CHAT]})
    held, _ = stock(request, additions=catalog.NOTHING)
    return request, candidates(request, 0, held=held, additions=catalog.NOTHING)[0][0]


@pytest.mark.parametrize(
    ("each", "kept"),
    [
        ({8: 15.0, 4: 14.0, 2: 6.0, 1: 5.0}, [8, 4, 2, 1]),  # ever smaller ones stay
        ({4: 14.0, 2: 6.0, 1: 7.0}, [4, 1]),  # a smaller one outdoes the larger
        ({8: 3.0, 4: 4.0, 1: 5.0}, [1]),
    ],
)
def test_ever_smaller_replicas_stay_that_no_smaller_one_outdoes(
    one: tuple[FleetRequest, Candidate], each: dict[int, float], kept: list[int]
) -> None:
    request, first = one
    here = [
        replace(
            first,
            configuration=replace(first.configuration, layout=Layout(tp=ranks)),
            rates=(rate * ranks,),
            capacities=(rate * ranks,),
        )
        for ranks, rate in each.items()
    ]
    assert [c.ranks for c in _best(request.workloads[0], here)] == kept
