"""A fleet while its load varies: each way's cost follows from its arithmetic, and moves the right way."""

from datetime import date
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.cost import BillingRules
from tonnage.domain.plan import Bill, ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.domain.serve_parts import FleetDay, FleetWay
from tonnage.errors import TonnageError
from tonnage.questions.serve.day import BasePrices, fit_base, fleet_day
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.question import serve_request

CHAT = {
    "model": "meta-llama/Llama-3.1-8B",
    "rate": "60/s",
    "traffic": "chat",
    "ttft": "1 s",
    "tpot": "50 ms",
    "accelerator": "H100",
    "quick": True,
}


def asked(**changes: Any) -> Serve:
    return serve_request({**CHAT, **changes})


@cache
def option() -> ServeOption:
    return plan_serve(asked(), today=date(2026, 11, 21)).options[0]


def day(**changes: Any) -> FleetDay:
    found = fleet_day(asked(**changes), option())
    assert found is not None
    return found


def way(found: FleetDay, name: str) -> FleetWay:
    return next(way for way in found.ways if way.name == name)


BURSTS = {"rate": "60/h", "on_for": "10 min", "off_for": "6 h", "start_from": "cached"}


def test_a_flat_load_has_no_day() -> None:
    assert fleet_day(asked(), option()) is None
    assert fleet_day(asked(peak_to_mean="2"), option()) is None


@pytest.mark.parametrize("rate", ["1e308", "0", "-1"])
def test_a_day_without_a_sum_is_refused(rate: str) -> None:
    with pytest.raises(TonnageError, match="one of them above it, that have a sum"):
        asked(day=",".join([rate] * 24))


def test_the_arithmetic_can_be_done_again_by_hand() -> None:
    found = day(day="consumer", zones="3")
    best, most = option(), max(found.rates_per_s)
    assert found.usable_per_s == pytest.approx(best.capacity.max_rate_per_s.value * 0.75)
    assert sum(found.rates_per_s) / len(found.rates_per_s) == pytest.approx(60.0)
    needed = -(-most // found.usable_per_s)
    peak, auto = way(found, "peak"), way(found, "autoscaled")
    # One of three zones may go: what is left of all replicas carries the peak.
    assert peak.replicas_most - -(-peak.replicas_most // 3) >= needed
    assert auto.replicas_mean == pytest.approx(sum(found.replicas) / len(found.replicas))
    assert auto.usd_per_hour == pytest.approx(auto.replicas_mean * peak.usd_per_hour / peak.replicas_most, rel=0.01)
    assert found.wasted_share == pytest.approx(1 - auto.usd_per_hour / peak.usd_per_hour)
    assert found.cold_start.value == pytest.approx(sum(part.value for part in found.cold_start.parts))
    free = sum(needed * found.usable_per_s - rate for rate in found.rates_per_s) / len(found.rates_per_s)
    assert found.valleys.requests_per_day == pytest.approx(free * 86400)


def test_the_cheapest_way_that_meets_the_objectives_is_named() -> None:
    for found in (day(day="reasoning"), day(**BURSTS), day(**BURSTS, ttft="1000 s")):
        fit = [w for w in found.ways if w.meets]
        assert found.best == min(fit, key=lambda w: w.usd_per_hour).name
        assert (
            way(found, "average").meets is (max(found.rates_per_s) <= found.usable_per_s) or found.shape == "reasoning"
        )


def test_an_average_fleet_is_overloaded_at_the_peak() -> None:
    found = day(day="reasoning", rate="200/s")
    average = way(found, "average")
    assert not average.meets and "overloaded" in average.note
    assert way(found, "autoscaled").meets
    assert way(found, "autoscaled").usd_per_hour < way(found, "peak").usd_per_hour


@settings(max_examples=20)
@given(st.floats(1.0, 3000.0), st.floats(1.0, 4.0))
def test_a_longer_cold_start_never_costs_less_nor_waits_less(start: float, longer: float) -> None:
    for load in ({"day": "consumer-week"}, BURSTS):
        soon, late = (day(**load, cold_start=f"{s} s") for s in (start, start * longer))
        for name in ("autoscaled", "scale-to-zero"):
            a, b = way(soon, name), way(late, name)
            assert b.usd_per_hour >= a.usd_per_hour * (1 - 1e-9) and b.cold_share >= a.cold_share - 1e-12
        assert way(soon, "peak").usd_per_hour == way(late, "peak").usd_per_hour


@settings(max_examples=20)
@given(st.integers(0, 3), st.integers(1, 4), st.integers(0, 2), st.integers(0, 2))
def test_more_redundancy_never_costs_less(spare: int, zones: int, more: int, wider: int) -> None:
    few = day(day="consumer", spare_replicas=str(spare), zones=str(zones))
    many = day(day="consumer", spare_replicas=str(spare + more), zones=str(zones))
    for name in ("peak", "average", "autoscaled"):
        assert way(many, name).replicas_mean >= way(few, name).replicas_mean
    spread = day(day="consumer", zones=str(2 + wider + 1))
    assert way(spread, "peak").replicas_most <= way(day(day="consumer", zones="2"), "peak").replicas_most


@settings(max_examples=20)
@given(st.floats(1.0, 50.0))
def test_longer_pauses_at_the_same_mean_need_more_at_the_peak_and_less_on_average(longer: float) -> None:
    load = {"rate": "20/s", "on_for": "30 min"}
    short, long = (day(**load, off_for=f"{hours} h") for hours in (1.0, longer))
    assert way(long, "peak").usd_per_hour >= way(short, "peak").usd_per_hour
    assert way(long, "scale-to-zero").cold_share >= way(short, "scale-to-zero").cold_share - 1e-9


def test_warmer_starts_are_shorter_and_switching_off_sooner_is_cheaper() -> None:
    starts = [day(**{**BURSTS, "start_from": place}).cold_start.value for place in ("network", "disk", "cached")]
    assert starts == sorted(starts, reverse=True) and len(set(starts)) == 3
    soon, late = (way(day(**BURSTS, idle_timeout=t), "scale-to-zero") for t in ("1 min", "3 h"))
    assert soon.usd_per_hour < late.usd_per_hour and soon.cold_share > late.cold_share


def test_a_reserved_fleet_saves_nothing_by_switching_off() -> None:
    bought = replace(option(), bill=replace(option().bill, term="reserved-1y"))
    found = fleet_day(asked(day="consumer"), bought)
    assert found.wasted_share == pytest.approx(0.0, abs=1e-12)
    for name in ("autoscaled", "scale-to-zero"):
        assert way(found, name).usd_per_hour == pytest.approx(way(found, "peak").usd_per_hour)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"day": "consumr"}, "consumer"),
        ({"day": "1,2,3"}, "24"),
        ({"day": ["-1", *["1"] * 23]}, "at least 0"),
        ({"day": "consumer", "peak_to_mean": "2"}, "contradict"),
        ({"on_for": "5 min"}, "off_for"),
        ({"day": "consumer", "rate": None, "concurrency": "5"}, "concurrency"),
        ({"start_from": "tape"}, "network"),
    ],
)
def test_what_contradicts_is_said(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(TonnageError, match=says):
        asked(**changes)


def billed(step_s: float, least_s: float = 0.0, **changes: Any) -> FleetDay:
    """The same fleet at a provider that bills by this step."""
    rules = BillingRules(step_s=step_s, least_s=least_s, stated=f"{step_s:g} s")
    found = fleet_day(asked(**changes), replace(option(), billing=rules))
    assert found is not None
    return found


@pytest.mark.parametrize("changes", [BURSTS, {"rate": "4/h", "day": "consumer"}], ids=["bursts", "by the hour"])
def test_time_is_charged_in_the_providers_steps(changes: dict[str, Any]) -> None:
    cheap, dear, least = (billed(*rules, **changes) for rules in ((1.0,), (3600.0,), (1.0, 7200.0)))
    for name in ("scale-to-zero", "autoscaled"):
        most = way(cheap, "peak").usd_per_hour * (1 + 1e-9)
        assert most >= way(dear, name).usd_per_hour >= way(cheap, name).usd_per_hour
    assert way(dear, "scale-to-zero").usd_per_hour > 1.05 * way(cheap, "scale-to-zero").usd_per_hour
    assert way(least, "scale-to-zero").usd_per_hour > 1.05 * way(cheap, "scale-to-zero").usd_per_hour


def test_a_burst_is_charged_until_half_a_step_after_its_end() -> None:
    """10 min of requests, 15 min of waiting for more, half an hour of rounding, of 6 h 10 min."""
    found = way(billed(3600.0, **BURSTS, cold_start="1 s"), "scale-to-zero")
    peak = way(billed(3600.0, **BURSTS, cold_start="1 s"), "peak")
    assert found.usd_per_hour / peak.usd_per_hour == pytest.approx((10 + 15 + 30) / 370, rel=0.02)


def test_the_sentence_tells_what_following_the_load_saves() -> None:
    half_a_day = {"rate": "60/h", "on_for": "12 h", "off_for": "12 h", "cold_start": "1 min"}
    plan = plan_serve(asked(**half_a_day), today=date(2026, 11, 21))
    assert plan.day.best == "scale-to-zero"
    best, peak = way(plan.day, "scale-to-zero").usd_per_month, way(plan.day, "peak").usd_per_month
    assert plan.sentence.endswith(f"(scale-to-zero) it is ${best:,.0f} a month, not ${peak:,.0f}.") and best < peak
    assert "a month, not" not in plan_serve(asked(), today=date(2026, 11, 21)).sentence


def _prices(committed: float, *, burst: float = 1.0) -> BasePrices:
    """Of one replica an hour, on instances of one accelerator."""

    def bill_of(term: str, usd: float, replicas: int) -> Bill:
        part = Quantity(name="x", value=usd * replicas, basis=Basis.MEASURED, source="")
        return Bill(
            provider="p", instance_type="one", region="", term=term, instances=replicas, accelerators_per_instance=1.0,
            usd_per_instance_hour=usd, lines=(part,), as_of="today",
        )  # fmt: skip

    return BasePrices(lambda replicas: bill_of("reserved-1y", committed, replicas), bill_of("on-demand", burst, 1))


@given(
    load=st.lists(st.integers(1, 12), min_size=1, max_size=48),
    committed=st.floats(0.05, 1.5),
)
def test_the_committed_base_is_the_best_of_all(load: list[int], committed: float) -> None:
    """Against every number from none to the peak, by hand."""
    found = fit_base(_prices(committed), tuple(load), ranks=1)
    costs = {k: k * committed + sum(max(0, n - k) for n in load) / len(load) for k in range(max(load) + 1)}
    least = min(costs.values())
    if found is None:
        assert costs[0] <= least + 1e-9
    else:
        assert found.usd_per_hour == pytest.approx(least) and costs[found.committed] == pytest.approx(least)
        assert found.on_demand_usd_per_hour == pytest.approx(costs[0])


def test_a_replica_is_committed_where_it_is_used_for_more_than_its_share_of_the_price() -> None:
    load = (1,) * 10 + (2,) * 6 + (3,) * 8  # the second is used for 14 of 24 hours, the third for 8
    committed = [found.committed if (found := fit_base(_prices(c), load, ranks=1)) else 0 for c in (0.3, 0.5, 0.7, 1.1)]
    assert committed == [3, 2, 1, 0]


def test_a_plan_says_how_many_are_committed_and_takes_them_where_it_may() -> None:
    fields = {**CHAT, "rate": "200/s", "day": "consumer", "provider": ["gcp"]}
    told = plan_serve(serve_request(fields), today=date(2026, 11, 23))
    based = way(told.day, "base and burst")
    assert 0 < based.committed < based.replicas_most and based.saves > 0.2 and based.commitment is not None
    assert based.note.startswith("allow it with --term") and told.day.best != "base and burst"
    taken = plan_serve(serve_request({**fields, "term": ["on-demand", "reserved-3y"]}), today=date(2026, 11, 23))
    assert taken.day is not None and way(taken.day, "base and burst").note == ""


def test_a_place_without_committed_prices_has_no_base() -> None:
    told = plan_serve(serve_request({**CHAT, "day": "consumer", "provider": ["verda"]}), today=date(2026, 11, 23))
    assert all(not one.committed for one in told.day.ways)
