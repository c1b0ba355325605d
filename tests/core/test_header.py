"""Losers, counted by reason; and a request that nothing meets says what dropping each constraint buys (D7, D8, C9)."""

from datetime import date
from typing import Annotated, Any

import pytest

from tonnage.catalog import NOTHING
from tonnage.core.header import (
    Infeasible,
    by_reason,
    nearest_of_each,
    nearness,
    relaxations,
    what_binds,
    what_relaxing_buys,
)
from tonnage.core.reading import build
from tonnage.core.sites import sites
from tonnage.domain.answer import Verdict
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import Configuration, Rejection, RejectionCount
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import Filters, Lengths, Slo
from tonnage.domain.requests.field import Field, Group
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.errors import BadRequest
from tonnage.questions.ask import answer
from tonnage.record import Record

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
    assert {one.reason: one.count for one in found[1:]} == {"too small": 1, "excluded by 'weather'": 1}
    assert sum(one.count for one in found) == len(lines)


def test_what_a_filter_excludes_is_counted_under_its_name() -> None:
    _, excluded = sites(Filters(regions=("nowhere",), exclude_accelerators=("l4",)), additions=NOTHING)
    counts = {one.reason: one.count for one in by_reason(excluded)}
    assert counts["not in the region"] > 10 and counts["excluded by 'exclude'"] == 1
    assert sum(counts.values()) == len(excluded)


class Warmup(Record, kw_only=True):
    deadline_s: Annotated[float, Field("longest time to load the weights: 30 s", "s", name="within")]
    filters: Annotated[Filters, Group()] = Filters()


def test_a_limit_that_no_request_goes_without_is_asked_for_and_never_dropped() -> None:
    with pytest.raises(BadRequest, match="within is missing: longest time to load the weights: 30 s"):
        build(Warmup, {})
    assert "--within" not in dict(relaxations(build(Warmup, {"within": 1.0})))


TODAY = date(2026, 11, 21)
EIGHT = "meta-llama/Llama-3.1-8B-Instruct"
CHAT = {"model": EIGHT, "traffic": "chat", "quick": True}


def plan(kind: str, **fields: Any) -> Any:
    return answer(kind, fields, today=TODAY)


GCP = {"provider": "gcp", "accelerator": "H100"}
"""Each constraint is dropped in turn: without either of these the market is still a small one."""


@pytest.mark.parametrize(
    ("kind", "fields", "limit", "buys"),
    [
        ("serve", {**CHAT, "rate": "4/s", "eu": True, "accelerator": "Gaudi2"}, "eu",
         "--eu"),
        ("serve", {**CHAT, **GCP, "rate": "40/s", "budget": "$0.2/h"}, "budget", "--budget"),
        ("serve", {**CHAT, **GCP, "rate": "4/s", "tpot": "50 us"}, "tpot", "--tpot"),
        ("serve", {**CHAT, "rate": "4/s", "vendor": "amd", "max_power": "100 W",
                   "accelerator": "MI300X,MI325X"},
         None, "--max-power"),
        ("batch", {"model": EIGHT, "items": "50M", "deadline": "5 min", **GCP}, "deadline", "--deadline"),
        ("batch", {"model": EIGHT, "items": "50M", "budget": "$1", **GCP}, "budget", "--budget"),
        ("batch", {"model": EIGHT, "items": "1M", "certification": "hipaa", "provider": "verda",
                   "accelerator": "H100"}, "certification",
         "--certification"),
        ("batch", {"model": EIGHT, "items": "1M", "precision": "int4", "quality": "99 %", **GCP}, "quality",
         "--quality"),
        ("train", {"model": "7B", "tokens": "100B", "deadline": "2 days", "max_accelerators": 8, **GCP}, "deadline",
         "--max-accelerators"),
        ("finetune", {"model": EIGHT, "method": "full", "tokens": "40M", "count": 1, "accelerator": "L4"}, "memory",
         "--count"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_and_what_dropping_it_buys(
    kind: str, fields: dict[str, Any], limit: str | None, buys: str
) -> None:
    made = plan(kind, **fields)
    assert not made.feasible and made.binding is not None and made.binding.reason
    assert limit is None or made.binding.limit == limit
    told = [text for text in made.relaxing if text.startswith(f"without {buys}:")]
    assert told and "$" in told[0] and " x " in told[0], made.relaxing
    named = {"budget": ("budget $",), "deadline": ("deadline",), "tpot": ("TTFT", "TPOT")}.get(limit or "", ())
    assert all(word in (made.binding.nearest or "") for word in named), "the nearest that works"


def test_what_is_bought_is_the_plan_without_the_constraint() -> None:
    asked: dict[str, Any] = {"model": EIGHT, "items": "50M", "deadline": "5 min", **GCP}
    made = plan("batch", **asked)
    free = plan("batch", **{**asked, "deadline": None}).options[0]
    assert any(f"{free.accelerators} x {free.configuration.accelerator} for $" in text for text in made.relaxing)


def test_a_plan_that_works_relaxes_nothing() -> None:
    assert plan("batch", model=EIGHT, items="1M", accelerator="H100").relaxing == ()


def test_each_constraint_is_dropped_alone() -> None:
    request = Serve(
        model=EIGHT,
        lengths=Lengths(prompt_tokens=10, output_tokens=10),
        rate_per_s=1.0,
        slo=Slo(ttft_s=1.0),
        quality_floor=0.99,
        budget_usd_per_h=1.0,
        filters=Filters(eu=True, providers=("verda",), terms=("spot",)),
    )
    found = dict(relaxations(request))
    assert {"--eu", "--provider", "--term", "--ttft", "--quality", "--budget"} <= set(found)
    assert found["--eu"].filters.eu is None and found["--eu"].filters.providers == ("verda",)
    assert found["--ttft"].slo.ttft_s is None and found["--ttft"].filters == request.filters
    assert set(found["--term"].filters.terms) > {"spot", "on-demand"}


def test_one_that_buys_nothing_is_not_named() -> None:
    request = Batch(model=EIGHT, items=1.0, lengths=Lengths(prompt_tokens=1, output_tokens=1), deadline_s=1.0)
    assert what_relaxing_buys(request, lambda other: None) == ()
    assert what_relaxing_buys(request, lambda other: "x" if other.deadline_s is None else None) == (
        "without --deadline: x",
    )
