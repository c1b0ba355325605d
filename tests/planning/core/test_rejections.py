"""Losers: one line for each accelerator, the nearest first, and counted by reason."""

from tonnage.catalog import NOTHING
from tonnage.domain.answer import Verdict
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import Configuration, Rejection, RejectionCount
from tonnage.domain.precision import Precision
from tonnage.domain.workload import Filters
from tonnage.planning.core.rejections import Infeasible, by_reason, nearest_of_each, nearness, what_binds
from tonnage.planning.sites import sites

BY = nearness({"ttft": 0, "memory": 1})


def loser(accelerator: str, limit: str, short_by: float) -> Infeasible:
    run = Configuration(
        accelerator=accelerator, layout=Layout(), precision=Precision(weights="fp8"), engine=Engine(name="vllm")
    )
    return Infeasible(configuration=run, verdict=Verdict(ok=False, limit=limit, short_by=short_by))


def test_the_nearest_try_of_each_accelerator_that_does_nothing_else() -> None:
    losers = [loser("a", "memory", 1.0), loser("a", "ttft", 9.0), loser("b", "memory", 5.0), loser("c", "ttft", 1.0)]
    found = nearest_of_each(losers, doing={"c"}, by=BY)
    assert [(one.what.split()[0], one.verdict.limit) for one in found] == [("a", "ttft"), ("b", "memory")]
    assert what_binds(losers, (), by=BY) is losers[3].verdict
    assert nearest_of_each([], doing=(), by=BY) == ()


def test_an_unknown_limit_is_the_farthest() -> None:
    assert what_binds([loser("a", "weather", 0.0), loser("b", "memory", 1e12)], (), by=BY).limit == "memory"


def test_rejections_are_counted_by_reason_and_none_is_lost() -> None:
    lines = [
        Rejection(what=one.what, verdict=one.verdict)
        for one in (loser("a", "ttft", 1), loser("b", "memory", 1), loser("c", "tpot", 1), loser("d", "weather", 1))
    ]
    found = by_reason(lines)
    assert found[0] == RejectionCount(reason="too slow", count=2, example=lines[0].what)
    assert {one.reason: one.count for one in found[1:]} == {"too small": 1, "weather": 1}
    assert sum(one.count for one in found) == len(lines)


def test_what_a_filter_excludes_is_counted_under_its_name() -> None:
    _, excluded = sites(Filters(regions=("nowhere",), exclude_accelerators=("l4",)), additions=NOTHING)
    counts = {one.reason: one.count for one in by_reason(excluded)}
    assert counts["excluded by 'region'"] > 10 and counts["excluded by 'exclude'"] == 1
    assert sum(counts.values()) == len(excluded)
