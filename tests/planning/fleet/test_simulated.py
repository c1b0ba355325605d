"""What simulations of a workload show is expected of what was not simulated, too; what was keeps what it showed."""

from __future__ import annotations

from tonnage import catalog
from tonnage.planning.fleet.candidate import NEAR, candidates
from tonnage.planning.fleet.simulated import simulate_chances
from tonnage.planning.fleet.stock import stock
from tonnage.planning.requests.fleet import fleet_request

CODE = {"model": "Qwen/Qwen2.5-Coder-7B", "rate": "2/s", "traffic": "code", "ttft": "500 ms", "tpot": "40 ms"}


def test_what_is_not_simulated_is_not_taken_at_its_average_where_simulations_find_a_fraction_of_it() -> None:
    asked = {"provider": "aws", "region": "us-east-1", "accelerator": "L40S,H100", "term": "on-demand"}
    request = fleet_request({**asked, "workloads": [CODE], "confidence": "50 %"})
    held, _ = stock(request, additions=catalog.NOTHING)
    found, _, _ = candidates(request, 0, held=held, additions=catalog.NOTHING)
    first = found[0].name
    seen = simulate_chances(request, found, names={first}, known={})
    mine = next(one for one in seen if one.name == first)
    others = [one for one in seen if one.name != first]
    assert mine.simulated and mine.points[0] is not None and others
    ratio = mine.capacities[0] / mine.points[0].rate_per_s
    assert 0.0 < ratio < 1.0 / NEAR, "long prompts decide, which averages do not see"
    for one in others:
        assert not one.simulated and one.points[0] is not None
        assert one.capacities[0] <= one.points[0].rate_per_s * ratio * NEAR * (1.0 + 1e-9)
        assert 0.0 < one.rates[0] <= one.capacities[0]
    again = simulate_chances(request, seen, names=set(), known={})
    assert [one.rates for one in again] == [one.rates for one in seen]
