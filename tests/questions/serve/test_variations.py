"""Settings besides layout and weights are tried where they may win, and never chosen for nothing."""

from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest

R1 = {
    "model": "deepseek-ai/DeepSeek-R1",
    "traffic": "chat",
    "rate": "100/s",
    "accelerator": "H200",
    "ttft": "2 s",
    "tpot": "30 ms",
    "quick": True,
}


def plan(**changes: Any) -> Any:
    return tonnage.plan_serve(**R1 | changes)


@pytest.fixture(scope="module")
def drafting() -> Any:
    return plan()


def test_drafting_by_own_layers_is_ranked_at_the_low_end_of_what_is_published(
    drafting: Any,
) -> None:
    best = drafting.options[0].configuration
    assert (best.engine.speculative_tokens, best.engine.speculative_acceptance) == (1, 0.85)
    assert "MTP k=1" in best.settings() and "mtp-k=1" in best.label()
    assert any("85 % to 90 %" in said and "arXiv 2412.19437" in said for said in drafting.provenance.assumed)


def test_less_that_is_kept_of_drafts_costs_no_less(drafting: Any) -> None:
    usual = drafting.options[0].bill.usd_per_hour
    costs = [plan(draft_acceptance=share).options[0].bill.usd_per_hour for share in ("5 %", "50 %", "95 %")]
    assert costs == sorted(costs, reverse=True) and costs[-1] <= usual < costs[0]


def test_a_model_without_layers_to_draft_with_is_told_so() -> None:
    with pytest.raises(BadRequest, match="no layers of its own"):
        plan(model="Qwen/Qwen2.5-7B", draft_acceptance="70 %")


def test_a_variation_costs_less_than_the_same_without_it(drafting: Any) -> None:
    plain = {
        (o.configuration.layout, o.configuration.precision.weights): o.bill.usd_per_hour
        for o in drafting.options
        if not o.configuration.settings()
    }
    for option in drafting.options:
        c = option.configuration
        if c.settings():
            assert option.bill.usd_per_hour <= plain.get((c.layout, c.precision.weights), float("inf"))


def test_a_cache_in_fp8_needs_a_quality_that_passes_the_floor_and_no_format_of_the_users() -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B", "traffic": "summarise", "rate": "20/s", "accelerator": "L4"}

    def caches(**fields: str) -> set[str]:
        options = tonnage.plan_serve(**asked, tpot="100 ms", quick=True, **fields).options
        return {option.configuration.precision.kv for option in options}

    assert "fp8" in caches()
    assert caches(kv_precision="bf16") == {"bf16"} and "fp8" not in caches(quality="99.9 %")


def test_hits_that_are_stated_leave_less_to_compute() -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B", "rate": "20/s", "traffic": "summarise", "accelerator": "H100"}
    none, half = (plan(**asked, prefix_hits=share).options[0] for share in ("0 %", "60 %"))
    assert half.capacity.max_rate_per_s.value > 1.2 * none.capacity.max_rate_per_s.value or (
        half.bill.usd_per_hour < none.bill.usd_per_hour
    )
    with pytest.raises(BadRequest, match="prefix_hits and turns contradict"):
        plan(**asked, prefix_hits="60 %", turns=4, turn_gap="20 s")
