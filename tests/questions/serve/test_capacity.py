"""What one replica takes, and how likely: little slower takes little less, and chances fall with the load."""

from __future__ import annotations

import math
from datetime import date
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import tonnage
from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.spreads import chance_of
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
from tonnage.questions.serve.chance import PRECISE, Curve, Odds
from tonnage.questions.serve.option import Candidate
from tonnage.questions.serve.plan import _configurations, outcome_of
from tonnage.questions.serve.question import serve_request
from tonnage.questions.simulate.traffic import traffic_of
from tonnage.simulation.arrivals import stretched
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
        sent=seen.trial.sent,
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
            sent=stretched(traffic_of(traffic).requests),
            slo=SLO,
        )
        assert found.low_per_s <= seen.found.high_per_s and seen.found.low_per_s <= found.high_per_s
        assert found.rate_per_s == pytest.approx(seen.found.rate_per_s, rel=0.06)


LOADS = ("rate", "concurrency")


@cache
def candidate(load: str) -> tuple[Serve, Candidate]:
    """The first configuration that serves a chat on one H100, its load as arrivals or as requests in flight."""
    asked = serve_request(
        {
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "traffic": "chat",
            "accelerator": "H100",
            "tpot": "40 ms",
            **({"rate": "2/s"} if load == "rate" else {"concurrency": 16}),
        }
    )
    site = sites(asked.filters, additions=catalog.NOTHING)[0][0]
    model = resolve(asked.model)
    tried = (one for one in _configurations(asked, model, site, startable=True) if isinstance(one, Configuration))
    found = (outcome_of(asked, model, site=site, configuration=one) for one in tried)
    return asked, next(one for one in found if isinstance(one, Candidate))


def odds(load: str, **limits: float) -> Odds:
    return Odds(candidate(load)[1].odds.curve, Slo(**limits))


@pytest.mark.parametrize("load", LOADS)
@given(
    share=st.floats(1e-3, 1.2), more=st.floats(1.0, 3.0), ttft=st.floats(0.01, 5.0), tpot=st.floats(0.004, 0.2),
    looser=st.floats(1.0, 3.0),
)  # fmt: skip
def test_more_load_and_tighter_limits_are_never_likelier(
    load: str, share: float, more: float, ttft: float, tpot: float, looser: float
) -> None:
    own = odds(load, ttft_s=ttft, tpot_s=tpot)
    here = own.chance(share * own.most)
    assert 0.0 <= here <= 1.0
    assert own.chance(more * share * own.most) <= here + 1e-9
    assert odds(load, ttft_s=ttft * looser, tpot_s=tpot).chance(share * own.most) >= here - 1e-9
    assert odds(load, tpot_s=tpot).chance(share * own.most) >= here - 1e-9


@pytest.mark.parametrize("load", LOADS)
@given(confidence=st.floats(0.05, 0.98), ttft=st.floats(0.02, 3.0), tpot=st.floats(0.006, 0.1))
def test_the_capacity_has_the_confidence_and_little_more_load_has_not(
    load: str, confidence: float, ttft: float, tpot: float
) -> None:
    own = odds(load, ttft_s=ttft, tpot_s=tpot)
    able = own.capacity(confidence)
    if not able:
        assert own.chance(own.most * 1e-3) <= 1.0 and own.chance(math.exp(own.curve.loads[0])) < confidence
        return
    assert own.chance(able) >= confidence - 1e-9
    assert able == pytest.approx(own.most) or own.chance(able * 1.01) < confidence
    assert own.capacity(min(0.99, confidence + 0.1)) <= able * (1 + 1e-9)


@given(
    share=st.floats(0.05, 1.2), ttft=st.floats(0.05, 3.0), tpot=st.floats(0.008, 0.1), slack=st.floats(0.2, 1.0),
    looser=st.floats(1.0, 3.0), confidence=st.floats(0.5, 0.95),
)  # fmt: skip
def test_a_limit_that_does_not_bind_lowers_no_simulated_load_when_it_is_looser(
    share: float, ttft: float, tpot: float, slack: float, looser: float, confidence: float
) -> None:
    """By averages the time per token binds, simulated the first token: looser, the first raises the averages alone."""
    curve = odds("rate").curve
    seen = replace(
        candidate("rate")[1].best, rate_per_s=share * odds("rate").most, ttft_tail_s=ttft, tpot_tail_s=slack * tpot
    )

    def firm(limit: float) -> float:
        slo = Slo(ttft_s=ttft, tpot_s=limit)
        loads = (
            _first(curve.loads, curve.latencies[name], math.log(most))
            for name, most in (("ttft_s", ttft), ("tpot_s", limit))
        )
        best = math.exp(min(loads))
        return Odds(curve, slo).as_seen(seen, binds="ttft", best=best).capacity(confidence) * seen.rate_per_s / best

    assert firm(looser * tpot) >= firm(tpot) * (1.0 - 2.0 * (PRECISE - 1.0))


def _first(loads: list[float], latencies: list[float], limit: float) -> float:
    """The load at which a latency meets its limit; the ends of the polyline beyond them."""
    i = next((i for i, each in enumerate(latencies) if each >= limit), len(loads))
    if i in {0, len(loads)}:
        return loads[max(0, i - 1)]
    share = (limit - latencies[i - 1]) / (latencies[i] - latencies[i - 1])
    return loads[i - 1] + share * (loads[i] - loads[i - 1])


def test_a_number_in_flight_errs_as_its_latency_does() -> None:
    asked, one = candidate("concurrency")
    at = 16.0
    steady = one.odds.curve
    tpot = math.exp(_at(steady.loads, steady.latencies["tpot_s"], math.log(at)))
    errors = one.replica.errors(one.replica.basis, load="steady")
    assert asked.lengths.prompt_tokens * at / 8192 > 1.0  # of class steady
    for x in (-0.7, 0.0, 0.4):
        limit = tpot * errors.spread("tpot_s").at(x)
        assert odds("concurrency", tpot_s=limit).chance(at) == pytest.approx(chance_of(x), abs=1e-6)


def _at(xs: list[float], ys: list[float], x: float) -> float:
    i = next(i for i, each in enumerate(xs) if each >= x)
    return ys[i - 1] + (x - xs[i - 1]) / (xs[i] - xs[i - 1]) * (ys[i] - ys[i - 1])


def test_near_its_capacity_a_replica_is_less_likely_to_keep_up() -> None:
    own = odds("rate", tpot_s=10.0)  # a limit that only overload breaks
    assert own.chance(own.most * 0.3) > 0.99
    as_fast = chance_of(own.curve.classes[-1].errors["tpot_s"].reach(0.0))
    assert own.chance(own.most) == pytest.approx(as_fast, abs=0.01)
    assert own.chance(own.most * 1.5) < 0.2


def test_the_curve_is_the_replicas_own() -> None:
    asked, one = candidate("rate")
    again = Curve(replace(asked, rate_per_s=7.0), one.replica, state=one.state)
    assert again.loads == one.odds.curve.loads and again.latencies == one.odds.curve.latencies


@pytest.mark.parametrize("part", ["T4", "A10"])
def test_a_cache_too_small_for_one_session_is_no_traceback(part: str) -> None:
    """By averages a slot of 0.4 met negative arrivals: the part is planned with what holds a session."""
    found = tonnage.plan_serve(model="llama-3.1-8b", traffic="rag", rate="20", accelerator=part, quick=True)
    assert found.feasible


def test_a_number_in_flight_waits_for_itself_alone() -> None:
    """One request at a time was shown the tail of arrivals that are one on average: 185 ms a token for 7."""
    asked = {"model": "Qwen3-Coder-30B-A3B", "own": "2 x RTX 3090", "traffic": "code"}
    alone = tonnage.plan_serve(**asked, concurrency="1").options[0].capacity
    few = tonnage.plan_serve(**asked, concurrency="4").options[0].capacity
    assert alone.tpot_s.value < 0.012 and alone.ttft_s.value < 1.0
    assert alone.tpot_mean_s <= few.tpot_mean_s and alone.ttft_mean_s <= few.ttft_mean_s
