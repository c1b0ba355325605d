"""What one replica takes moves as little as its step times do, and is what `simulate` finds for it."""

from datetime import date
from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.sites import sites
from tonnage.domain.plan import Configuration, SimulatedCapacity
from tonnage.domain.requests.common import Slo
from tonnage.domain.requests.serve import Serve
from tonnage.domain.simulate import SimulationTraffic
from tonnage.questions.serve.capacity_search import (
    PATTERN_PER_S,
    PRECISION,
    SearchedCapacity,
    draw_requests,
    search_capacity,
)
from tonnage.questions.serve.option import Candidate
from tonnage.questions.serve.plan import _configurations, outcome_of
from tonnage.questions.serve.question import serve_request
from tonnage.questions.simulate.traffic import traffic_of
from tonnage.simulation.simulated import ReplicaArrays, StepArrays
from tonnage.simulation.slo import slo_capacity

TODAY = date(2026, 11, 21)
SLO = Slo(ttft_s=1.0, tpot_s=0.05)
TIMES = tuple(name for name in StepArrays._fields if name not in {"ranks", "uneven", "mixed_attention"})
SMALL = (0.98, 0.99, 1.0, 1.01, 1.02)
"""Step times over those of the catalogue, as a refit moves them. [-]"""


def request(accelerator: str) -> Serve:
    given = {"model": "meta-llama/Llama-3.1-70B-Instruct", "traffic": "chat", "rate": "4/s", "peak_to_mean": 1.5}
    return serve_request({**given, "ttft": "1 s", "tpot": "50 ms", "accelerator": accelerator})


@cache
def looked_at(accelerator: str, ranks: int) -> tuple[Serve, float, SearchedCapacity]:
    """The fp8 configuration of so many accelerators, looked at twice as a plan does, and what the first look found."""
    asked = request(accelerator)
    model = resolve(asked.model)
    site = sites(asked.filters, additions=catalog.NOTHING)[0][0]
    tries = _configurations(replace(asked, precisions=("fp8",)), model, site, startable=True)
    outcomes = (
        outcome_of(asked, model, site=site, configuration=one) for one in tries if isinstance(one, Configuration)
    )
    candidate = next(one for one in outcomes if isinstance(one, Candidate) and one.configuration.layout.ranks == ranks)
    coarse = search_capacity(asked, candidate.replica, requests=draw_requests(asked), guess=candidate.best, close=False)
    assert coarse.best is not None
    return (
        asked,
        coarse.best.rate_per_s,
        search_capacity(asked, candidate.replica, requests=draw_requests(asked), guess=coarse.best, close=True),
    )


def at(share: float, seen: SearchedCapacity, *, start: float) -> SimulatedCapacity:
    table = seen.trial.arrays.table
    slower = table._replace(**{name: getattr(table, name) * share for name in TIMES})
    return slo_capacity(
        ReplicaArrays(slower, seen.trial.arrays.limits, seen.trial.arrays.delivery_s),
        requests=seen.trial.requests,
        slo=SLO,
        start=start,
        precision=PRECISION[True],
    )


@pytest.mark.parametrize(("accelerator", "ranks"), [("B200", 1), ("H200", 1), ("H200", 4)])
def test_a_little_slower_takes_a_little_less(accelerator: str, ranks: int) -> None:
    _, start, seen = looked_at(accelerator, ranks)
    found = [at(share, seen, start=start) for share in SMALL]
    low = np.array([one.low_per_s for one in found])
    assert (np.diff(low) <= 0.01 * low[:-1]).all(), low
    assert low.max() / low.min() < 1.15, low  # 4 % in step times
    assert (np.abs(np.diff(low)) / low[:-1] < 0.06).all(), low
    for one in found:
        assert 0.9 * one.rate_per_s < one.low_per_s <= one.rate_per_s <= one.high_per_s


@pytest.mark.parametrize("start", [0.6, 0.98, 1.4])
def test_where_the_search_begins_is_no_part_of_the_answer(start: float) -> None:
    _, _, seen = looked_at("B200", 1)
    found = at(1.0, seen, start=start * seen.found.rate_per_s)
    assert found.low_per_s == pytest.approx(seen.found.low_per_s, rel=0.03)
    assert found.high_per_s == pytest.approx(seen.found.high_per_s, rel=0.04)


def test_other_requests_find_the_same() -> None:
    asked, _, seen = looked_at("B200", 1)
    for seed in (1, 2):
        traffic = SimulationTraffic(
            profile="chat",
            rate_per_s=PATTERN_PER_S,
            process="wandering",
            dispersion=asked.shape.dispersion,
            window_s=1.0,
            seed=seed,
        )
        found = slo_capacity(
            seen.trial.arrays,
            requests=traffic_of(traffic).requests,
            slo=SLO,
        )
        assert found.low_per_s <= seen.found.high_per_s and seen.found.low_per_s <= found.high_per_s
        assert found.rate_per_s == pytest.approx(seen.found.rate_per_s, rel=0.06)
