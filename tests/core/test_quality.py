"""A quality floor filters formats by published evaluations of the model alone; what is unknown passes nothing (C12)."""

from datetime import date
from functools import cache
from typing import Any

import pytest

from tonnage.catalog import accelerator
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.quality import changes_among, judge_change, quality_text, usual_formats, weights_change
from tonnage.domain.batch_plan import BatchPlan
from tonnage.domain.precision import Precision
from tonnage.domain.published import QualityChange
from tonnage.questions.ask import answer
from tonnage.questions.serve.limits import precisions
from tonnage.questions.serve.question import serve_request

TODAY = date(2026, 11, 21)
EIGHT = "meta-llama/Llama-3.1-8B-Instruct"


@cache
def plan(**fields: Any) -> BatchPlan:
    made = answer("batch", {"model": EIGHT, "items": "1M", "accelerator": "H100,H200,L40S", **fields}, today=TODAY)
    assert isinstance(made, BatchPlan)
    return made


def formats(made: BatchPlan) -> set[str]:
    return {option.configuration.precision.weights for option in made.options}


def test_without_a_floor_the_loss_is_told() -> None:
    made = plan()
    assert formats(made) == {"bf16", "fp8"}
    (change,) = made.quality
    assert change.what == "fp8 weights" and change.passes is None and change.kept == pytest.approx(73.44 / 73.79)
    assert "99.5%" in change.told and change.sources


def test_a_floor_that_fp8_keeps_leaves_it_and_says_so() -> None:
    made = plan(quality="99 %")
    assert formats(made) == {"bf16", "fp8"} and made.quality[0].passes is True


def test_a_floor_that_fp8_misses_leaves_the_weights_as_released() -> None:
    made = plan(quality="99.9 %")
    assert formats(made) == {"bf16"} and made.quality == ()
    refused = next(r for r in made.rejected if r.verdict.limit == "quality")
    assert refused.what == "fp8 weights" and refused.verdict.short_by == pytest.approx(0.999 - 73.44 / 73.79)
    assert refused.verdict.nearest is not None and "quality 99.5%" in refused.verdict.nearest
    assert made.options[0].cost.value > plan(quality="99 %").options[0].cost.value


def test_a_floor_that_nothing_asked_for_keeps_is_an_answer() -> None:
    made = plan(precision="int4", quality="99 %")
    assert not made.feasible and made.binding is not None and made.binding.limit == "quality"
    assert "int4 weights" in made.sentence and "as released" in (made.binding.nearest or "")


def test_what_nobody_published_of_the_model_passes_no_floor() -> None:
    model = resolve("Qwen/Qwen3-32B", offline=True)
    change = weights_change("Qwen/Qwen3-32B", model, weights="fp8")
    assert change is not None and change.on == "other models of about its size" and (change.kept or 0) > 0.99
    assert judge_change(change, 0.9).passes is False
    assert "not of this model" in judge_change(change, 0.9).told


def test_weights_as_released_lose_nothing_and_are_not_judged() -> None:
    for name, weights in ((EIGHT, "bf16"), (EIGHT, "fp16"), ("deepseek-ai/DeepSeek-R1", "fp8_block")):
        assert weights_change(name, resolve(name, offline=True), weights=weights) is None


def test_a_cache_in_fewer_bits_is_a_change_of_its_own() -> None:
    precisions = [Precision(weights="fp8", activations="fp8", kv=kv) for kv in ("fp8", "bf16", "fp8")]
    found = changes_among(precisions, request=plan().request, model=resolve(EIGHT, offline=True))
    assert [change.what for change in found] == ["fp8 weights", "fp8 cache"]


def test_unknown_is_said_and_perplexity_is_no_score() -> None:
    assert "nobody published" in quality_text(QualityChange(what="int4 weights"))
    name = "meta-llama/Llama-2-70b-hf"
    change = weights_change(name, resolve(name, offline=True), weights="gguf-q4_k_m")
    assert (
        change is not None
        and judge_change(change, 0.5).passes is False
        and "perplexity rises by 1.2%" in quality_text(change)
    )


def test_a_floor_above_all_is_no_share() -> None:
    from tonnage.errors import BadRequest

    with pytest.raises(BadRequest, match="quality"):
        plan(quality="120 %")


def test_four_bits_are_usual_where_their_quality_is_published_and_the_part_multiplies_them() -> None:
    name = "meta-llama/Llama-3.1-8B-Instruct"
    model = resolve(name)
    assert usual_formats(name, model) == ("bf16", "fp8", "nvfp4")
    own = resolve("openai/gpt-oss-120b")
    assert usual_formats("openai/gpt-oss-120b", own) == ("bf16",)  # its experts come in four bits
    request = serve_request({"model": name, "rate": "1/s", "traffic": "chat"})

    def formats(part: str, **more: bool) -> set[str]:
        found = precisions(request, model, accelerator=accelerator(part), engine="vllm", **more)
        return {one.weights for one in found}

    assert formats("b200-sxm-180gb") == formats("h100-sxm5-80gb") == {"bf16", "fp8"}
    assert formats("b200-sxm-180gb", startable=False) == {"nvfp4"} and not formats("h100-sxm5-80gb", startable=False)


def test_a_deployment_is_named_by_what_most_weights_are_stored_in() -> None:
    assert Precision(weights="bf16", experts="mxfp4").stored == "mxfp4" and Precision(weights="fp8").stored == "fp8"
