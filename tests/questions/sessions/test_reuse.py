"""What sessions find again, inside a plan: more cache is never worse, and the request is read whole."""

import itertools
from typing import Any

import pytest

from tonnage.catalog.traffic import profiles, session_profiles
from tonnage.core.session_reuse import drawn_turns, profile_of
from tonnage.domain.plan import ServePlan
from tonnage.errors import BadRequest
from tonnage.questions.answers import document_of
from tonnage.questions.ask import answer
from tonnage.questions.serve.question import serve_request
from tonnage.simulation.session_steady import steady_turns

SMALL = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "rate": "20/s",
    "ttft": "2 s",
    "tpot": "50 ms",
    "quick": True,
    "accelerator": "h100-sxm5-80gb",
    "traffic": "agent",
}


def planned(**more: Any) -> ServePlan:
    found = answer("serve", {**SMALL, **more})
    assert isinstance(found, ServePlan)
    return found


@pytest.fixture(scope="module")
def agents() -> ServePlan:
    return planned(success_rate="40 %")


def test_an_agents_plan_prices_what_its_cache_does_not_give(agents: ServePlan) -> None:
    reuse, first = agents.options[0].reuse, agents.options[0].configuration
    # Of options that cost the same one is shown, so the cache's format is stated.
    without = planned(reuse=False, kv_precision=first.precision.kv)
    assert reuse is not None and without.options[0].reuse is None and without.sessions is None
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


def test_more_cache_never_finds_less_nor_costs_more(agents: ServePlan) -> None:
    assert agents.sessions is not None
    sizes = agents.sessions.sizes
    assert [size.tokens for size in sizes] == sorted(size.tokens for size in sizes) and len(sizes) >= 5
    assert all(a.hit_rate <= b.hit_rate + 0.005 for a, b in itertools.pairwise(sizes))
    assert all(a.usd_per_hour >= b.usd_per_hour for a, b in itertools.pairwise(sizes))


def test_a_session_costs_its_turns_and_a_solved_task_more(agents: ServePlan) -> None:
    found, first = agents.sessions, agents.options[0]
    assert found is not None and first.unit_costs is not None
    assert found.usd_per_session == pytest.approx(found.turns * first.unit_costs.usd_per_request)
    assert found.usd_per_solved == pytest.approx(found.usd_per_session / 0.4)


def test_the_first_screen_says_what_is_found_again(agents: ServePlan) -> None:
    said = str(document_of(agents))
    assert agents.options[0].reuse is not None
    allowed = f"(sessions allow {agents.options[0].reuse.unbounded:.0%})"
    assert f"prompt tokens found again {allowed}" in said and "What cache buys" in said
    full = " ".join(planned(traffic="code").provenance.assumed)
    assert "every prompt is computed in full: prefix caching is on, and finds nothing" in full


def test_a_traffic_block_states_sessions() -> None:
    block = {"profile": "coding-agent", "turns": 20, "system_prompt": 6000}
    request = serve_request({**SMALL, "traffic": block})
    profile = profile_of(request.sessions, request.lengths)
    assert profile is not None and profile.shared == ((6000.0, 1.0),)
    turns = steady_turns(profile)
    assert len(turns.prompt) / turns.sessions == pytest.approx(20, rel=0.15)
    assert request.lengths.prompt_tokens == pytest.approx(turns.prompt.mean())


def test_stated_lengths_stretch_what_sessions_own() -> None:
    fields = {
        **SMALL,
        "prompt_tokens": 4000,
        "output_tokens": 200,
        "turns": 6,
        "turn_gap": "15 s",
        "system_prompt": 900,
    }
    del fields["traffic"]
    request = serve_request(fields)
    profile = profile_of(request.sessions, request.lengths)
    assert profile is not None
    turns = drawn_turns(profile, prompt_tokens=4000.0, output_tokens=200.0)
    assert turns.prompt.mean() == pytest.approx(4000, rel=0.03) and (turns.shared == 900).all()
    assert turns.gap_s[turns.gap_s < 1e9].mean() == pytest.approx(15, rel=0.1)


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
        serve_request({**SMALL, **fields})
    assert "\n" not in str(error.value)


def test_profiles_and_their_sessions_have_the_same_means() -> None:
    for name, sessions in session_profiles().items():
        lengths, turns = profiles()[name].lengths, steady_turns(sessions)
        assert turns.prompt.mean() == pytest.approx(lengths.prompt_tokens, rel=0.15), name
        assert turns.output.mean() == pytest.approx(lengths.output_tokens, rel=0.15), name
        assert sessions.source
