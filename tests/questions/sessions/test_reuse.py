"""What sessions find again, inside a plan: more cache is never worse, and the request is read whole."""

import html
import itertools
import re
from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest

SMALL = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "rate": "20/s",
    "ttft": "2 s",
    "tpot": "50 ms",
    "quick": True,
    "accelerator": "h100-sxm5-80gb",
    "traffic": "agent",
}


def planned(**more: Any) -> Any:
    return tonnage.plan_serve(**SMALL | more)


@pytest.fixture(scope="module")
def agents() -> Any:
    return planned(success_rate="40 %")


def test_an_agents_plan_prices_what_its_cache_does_not_give(agents: Any) -> None:
    reuse, first = agents.options[0].reuse, agents.options[0].configuration
    # Of options that cost the same one is shown, so the cache's format is stated.
    without = planned(reuse=False, kv_precision=first.precision.kv)
    assert without.options[0].reuse is None and without.sessions is None
    assert 0.3 < reuse.hit_rate <= reuse.unbounded == pytest.approx(0.59, abs=0.02)
    assert reuse.computed_tokens == pytest.approx(8596 * (1 - reuse.hit_rate), rel=0.01)
    same = next(o for o in without.options if o.configuration == first)
    # Simulated, a replica takes 1.4 times as much; averages come within 15 % of either.
    asked = {"precision": first.precision.weights, "kv_precision": first.precision.kv, "quick": False}
    seen = [
        next(o for o in planned(**asked, **more).options if o.configuration == first).capacity
        for more in ({}, {"reuse": False})
    ]
    assert all(one.simulated is not None for one in seen)
    found, nothing = (one.max_rate_per_s.value for one in seen)
    assert found > 1.3 * nothing
    assert agents.options[0].capacity.max_rate_per_s.value == pytest.approx(found, rel=0.15)
    assert same.capacity.max_rate_per_s.value == pytest.approx(nothing, rel=0.15)
    assert agents.options[0].capacity.max_rate_per_s.value > same.capacity.max_rate_per_s.value
    # What cache buys is told from the same two numbers.
    sizes = agents.sessions.sizes if agents.sessions else ()
    assert [size.usd_per_hour for size in sizes if size.name == "no reuse"] == [same.bill.usd_per_hour]
    assert [size.usd_per_hour for size in sizes if size.now] == [agents.options[0].bill.usd_per_hour]


def test_more_cache_never_finds_less_nor_costs_more(agents: Any) -> None:
    sizes = agents.sessions.sizes
    assert [size.tokens for size in sizes] == sorted(size.tokens for size in sizes) and len(sizes) >= 5
    assert all(a.hit_rate <= b.hit_rate + 0.005 for a, b in itertools.pairwise(sizes))
    assert all(a.usd_per_hour >= b.usd_per_hour for a, b in itertools.pairwise(sizes))


def test_a_session_costs_its_turns_and_a_solved_task_more(agents: Any) -> None:
    found, first = agents.sessions, agents.options[0]
    assert found.usd_per_session == pytest.approx(found.turns * first.unit_costs.usd_per_request)
    assert found.usd_per_solved == pytest.approx(found.usd_per_session / 0.4)


def test_the_first_screen_says_what_is_found_again(agents: Any) -> None:
    said = html.unescape(re.sub(r"<[^>]+>", "", agents._repr_html_()))
    allowed = f"(sessions allow {100 * agents.options[0].reuse.unbounded:.0f} %)"
    assert f"prompt tokens found again {allowed}" in said and "What cache buys" in said
    full = " ".join(planned(traffic="code").provenance.assumed)
    assert "every prompt is computed in full: prefix caching is on, and finds nothing" in full


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"turns": 1, "turn_gap": "9 s"}, "turns: 1 and turn_gap contradict"),
        ({"turns": 5, "reuse": False}, "reuse: no and turns contradict"),
        ({"traffic": "code", "turns": 5}, "sessions need turns and turn_gap"),
        ({"traffic": "code", "success_rate": "40 %"}, "success_rate is of sessions"),
        ({"success_rate": "140 %"}, "success_rate"),
        ({"success_rate": 0}, "success_rate"),
        ({"success_rate": "unknown"}, "success_rate: 'unknown' is not a quantity"),
        ({"turns": 0.5}, "turns"),
        ({"system_prompt": 9000, "prompt_tokens": 8000, "output_tokens": 100}, "sessions share 9,000 tokens"),
        ({"kv_nvme": "2 TB"}, "kv_nvme_link is missing"),
        ({"kv_host_link": "50 GB/s"}, "there is no kv_host"),
        ({"traffic": "code", "kv_host": "1 TiB"}, "keeps cache for sessions"),
        ({"traffic": {"profile": "agent", "rate": 3}}, "traffic.rate and rate contradict"),
    ],
)
def test_what_contradicts_is_one_sentence(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest, match=says) as error:
        planned(**fields)
    assert "\n" not in str(error.value)
