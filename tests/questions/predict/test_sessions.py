"""Cases whose prompts come back: hits follow from the rate and the cache, as a plan's do, or are stated."""

from __future__ import annotations

from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest, UnknownName

CASE = {
    "kind": "serve",
    "model": "llama-3.1-8b",
    "accelerator": "h100-sxm5-80gb",
    "isl": 23700,
    "osl": 400,
    "traffic": {"rate_per_s": 0.5},
}


def predicted(**more: Any) -> Any:
    return tonnage.predict({**CASE, **more})


def test_sessions_shorten_the_first_token_by_what_the_cache_gives() -> None:
    plain, agents = predicted(), predicted(sessions={"profile": "coding-agent"})
    assert plain.reuse is None and agents.ttft_s and plain.ttft_s
    assert 0.8 < agents.reuse.hit_rate <= agents.reuse.unbounded
    assert agents.ttft_s.mean < 0.3 * plain.ttft_s.mean
    off = predicted(sessions={"profile": "coding-agent"}, engine_options={"prefix_caching": False})
    assert off.ttft_s == plain.ttft_s and off.reuse is None


def test_more_load_keeps_less_and_host_memory_brings_it_back() -> None:
    load = {"rate_per_s": 1.5}
    few, many = (predicted(sessions={"profile": "coding-agent"}, traffic={"rate_per_s": rate}) for rate in (0.5, 1.5))
    assert few.reuse and many.reuse and many.reuse.hit_rate < few.reuse.hit_rate - 0.05
    host = predicted(sessions={"profile": "coding-agent", "kv_host_bytes": 2e12}, traffic=load)
    assert host.reuse.hit_rate > many.reuse.hit_rate + 0.05


def test_stated_hits_are_taken_as_they_are() -> None:
    none, some = (predicted(sessions={"prefix_hits": hits}) for hits in (0.0, 0.6))
    assert none.ttft_s == predicted().ttft_s and some.ttft_s and none.ttft_s
    assert 0.3 < some.ttft_s.mean / none.ttft_s.mean < 0.6


def test_a_case_finds_what_its_plan_finds() -> None:
    asked = {"model": "llama-3.1-8b", "traffic": "agent", "accelerator": "h100-sxm5-80gb", "precision": "bf16"}
    limits = {"ttft": "2 s", "tpot": "50 ms", "kv_precision": "bf16"}
    plan = tonnage.plan_serve(**asked, **limits, rate="20/s", quick=True)
    option, lengths = plan.options[0], plan.request.lengths
    configuration, reuse = option.configuration, option.reuse
    found = predicted(
        isl=lengths.prompt_tokens,
        osl=lengths.output_tokens,
        traffic={"rate_per_s": reuse.rate_per_s},
        layout=tonnage.to_dict(configuration.layout),
        precision=tonnage.to_dict(configuration.precision),
        engine=configuration.engine.name,
        sessions={"profile": "agent"},
    )
    assert found.reuse.hit_rate == pytest.approx(reuse.hit_rate, abs=0.02)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sessions": {"turns": 8}}, "turn_gap"),
        ({"sessions": {"prefix_hits": 0.5, "turns": 3}}, "contradict"),
        ({"sessions": {"profile": "agent"}, "traffic": {"concurrency": 8}}, "rate of arrivals"),
    ],
)
def test_what_sessions_cannot_be_is_one_sentence(more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        predicted(**more)


def test_a_profile_without_sessions_is_none() -> None:
    with pytest.raises(UnknownName, match="coding-agent"):
        predicted(sessions={"profile": "chat"})
