"""What simulations of a workload show is expected of what was not simulated, too; what was keeps what it showed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.questions.fleet.candidate import NEAR, Candidate, candidates
from tonnage.questions.fleet.hours import hours_of
from tonnage.questions.fleet.problem import FleetContext
from tonnage.questions.fleet.question import fleet_request
from tonnage.questions.fleet.stock import stock
from tonnage.questions.fleet.verify import simulate

CODE = {"model": "Qwen/Qwen2.5-Coder-7B", "rate": "2/s", "traffic": "code", "ttft": "500 ms", "tpot": "40 ms"}


def _found() -> FleetContext:
    asked = {"provider": "aws", "region": "us-east-1", "accelerator": "L40S,H100", "term": "on-demand"}
    request = fleet_request({**asked, "workloads": [CODE], "confidence": "50 %"})
    held, _ = stock(request, additions=catalog.NOTHING)
    found, _, _ = candidates(request, 0, held=held, additions=catalog.NOTHING)
    return FleetContext(request=request, hours=hours_of(request), held=held, chances=tuple(found), raised=(1.0,))


def _ratio(one: Candidate) -> float:
    assert one.points[0] is not None
    return one.capacities[0] / one.points[0].rate_per_s


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_what_is_not_simulated_is_not_taken_at_its_average_where_simulations_find_a_fraction_of_it(
    share: float,
) -> None:
    asked = _found()
    first, *others = asked.chances
    assert first.points[0] is not None and others
    mine = first.carrying(asked.request.workloads[0], (first.points[0].rate_per_s * share,))
    learnt = simulate(replace(asked, chances=(replace(mine, simulated=True), *others)), names=set())
    seen = learnt.chances
    assert seen[0].simulated and _ratio(seen[0]) == pytest.approx(share)
    for one in seen[1:]:
        assert not one.simulated and _ratio(one) == pytest.approx(min(1.0, share * NEAR))
        assert 0.0 < one.rates[0] <= one.capacities[0]
    again = simulate(learnt, names=set())
    assert [one.rates for one in again.chances] == [one.rates for one in seen]


def test_one_simulation_bounds_the_others_by_what_it_found() -> None:
    asked = _found()
    name = asked.chances[0].name
    seen = simulate(asked, names={name}).chances
    mine = next(one for one in seen if one.name == name)
    others = [one for one in seen if one.name != mine.name]
    assert mine.simulated and 0.0 < _ratio(mine) != 1.0 and others
    for one in others:
        assert not one.simulated and _ratio(one) == pytest.approx(min(1.0, _ratio(mine) * NEAR))
