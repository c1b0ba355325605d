"""What simulations of a workload show is expected of what was not simulated, too; what was keeps what it showed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.fleet_plan import FleetRequest
from tonnage.planning.fleet.candidate import NEAR, Candidate, candidates
from tonnage.planning.fleet.simulated import simulate_chances
from tonnage.planning.fleet.stock import stock
from tonnage.planning.requests.fleet import fleet_request

CODE = {"model": "Qwen/Qwen2.5-Coder-7B", "rate": "2/s", "traffic": "code", "ttft": "500 ms", "tpot": "40 ms"}


def _found() -> tuple[FleetRequest, list[Candidate]]:
    asked = {"provider": "aws", "region": "us-east-1", "accelerator": "L40S,H100", "term": "on-demand"}
    request = fleet_request({**asked, "workloads": [CODE], "confidence": "50 %"})
    held, _ = stock(request, additions=catalog.NOTHING)
    found, _, _ = candidates(request, 0, held=held, additions=catalog.NOTHING)
    return request, found


def _ratio(one: Candidate) -> float:
    assert one.points[0] is not None
    return one.capacities[0] / one.points[0].rate_per_s


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_what_is_not_simulated_is_not_taken_at_its_average_where_simulations_find_a_fraction_of_it(
    share: float,
) -> None:
    request, found = _found()
    first = found[0]
    assert first.points[0] is not None and len(found) > 1
    mine = first.carrying(request.workloads[0], (first.points[0].rate_per_s * share,))
    seen = simulate_chances(request, [replace(mine, simulated=True), *found[1:]], names=set(), known={})
    assert seen[0].simulated and _ratio(seen[0]) == pytest.approx(share)
    for one in seen[1:]:
        assert not one.simulated and _ratio(one) == pytest.approx(min(1.0, share * NEAR))
        assert 0.0 < one.rates[0] <= one.capacities[0]
    again = simulate_chances(request, seen, names=set(), known={})
    assert [one.rates for one in again] == [one.rates for one in seen]


def test_one_simulation_bounds_the_others_by_what_it_found() -> None:
    request, found = _found()
    seen = simulate_chances(request, found, names={found[0].name}, known={})
    mine = next(one for one in seen if one.name == found[0].name)
    others = [one for one in seen if one.name != mine.name]
    assert mine.simulated and 0.0 < _ratio(mine) != 1.0 and others
    for one in others:
        assert not one.simulated and _ratio(one) == pytest.approx(min(1.0, _ratio(mine) * NEAR))
