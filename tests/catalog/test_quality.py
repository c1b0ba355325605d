"""Published quality: own scores before others', ratios of one source only, unknown stays unknown (C12)."""

import pytest

from tonnage.catalog import accelerator, published
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.published import (
    cache_change,
    format_change,
    method_change,
    model_change,
    quality_scores,
    same_model,
    students,
)
from tonnage.catalog.rows import DATA, table
from tonnage.core.quality import changes_among, judge_change, quality_text, usual_formats, weights_change
from tonnage.domain.precision import Precision
from tonnage.domain.published import QualityChange
from tonnage.errors import BadFact
from tonnage.questions.serve.limits import precisions
from tonnage.questions.serve.question import serve_request

EIGHT = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA = "meta-llama/Llama-3.1-70B-Instruct"


def test_a_models_own_evaluation_comes_first() -> None:
    change = format_change(LLAMA, "fp8")
    assert change.on == "this model"
    assert change.kept == pytest.approx(84.29 / 84.40)
    assert "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8" in change.sources[0]


def test_another_tuning_of_the_same_weights_comes_second() -> None:
    change = format_change("meta-llama/Llama-3.1-8B-Instruct", "int8")
    assert change.on == "another tuning of it" and change.kept == pytest.approx(62.71 / 63.03)


def test_other_models_are_named_as_such_with_their_spread() -> None:
    change = format_change("13B", "fp8")
    assert change.on == "other models of about its size"
    assert change.low < change.kept < change.high and change.evaluations > 10 and change.noise


def test_four_bits_by_any_method_are_four_bits() -> None:
    assert format_change("Qwen/Qwen2-7B-Instruct", "int4").evaluations == 6
    assert format_change("Qwen/Qwen2-7B-Instruct", "awq").evaluations == 3


@pytest.mark.parametrize(
    "change",
    [format_change("Qwen/Qwen3-32B", "mxfp4"), method_change("qlora"), model_change("Qwen/Qwen3-32B", "Qwen/Qwen3-8B"),
     cache_change(LLAMA, "int8")],
)  # fmt: skip
def test_what_nobody_published_is_unknown(change) -> None:  # type: ignore[no-untyped-def]
    assert change.kept is None and change.low is None and not change.on and change.evaluations == 0


def test_perplexity_is_told_and_is_no_score() -> None:
    change = format_change("meta-llama/Llama-2-70b-hf", "gguf-q4_k_m")
    assert change.kept is None and 0.01 < change.perplexity < 0.03


def test_a_smaller_sibling_keeps_less_the_smaller_it_is() -> None:
    large = "meta-llama/Llama-2-70b-hf"
    kept = [model_change(large, f"meta-llama/Llama-2-{size}-hf").kept or 0.0 for size in ("13b", "7b")]
    assert 1.0 > kept[0] > kept[1] > 0.5


def test_a_tuning_is_never_compared_with_a_base_model() -> None:
    for change in (model_change(LLAMA, "meta-llama/Llama-3.1-8B"), model_change("meta-llama/Llama-3.1-70B", LLAMA)):
        assert change.high is None or change.high <= 1.0 + 1e-12


def test_distilled_models_know_their_teacher() -> None:
    found = students("deepseek-ai/DeepSeek-R1")
    assert "deepseek-ai/DeepSeek-R1-Distill-Llama-70B" in found
    assert (model_change("deepseek-ai/DeepSeek-R1", found[0]).kept or 0.0) < 1.0
    assert students("Qwen/Qwen3-8B") == ()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V2", False),
        ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3.1", False),
        ("mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x7B-Instruct-v0.1", True),
        ("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-chat-hf", True),
        ("Qwen/Qwen2-7B", "Qwen/Qwen2-72B", False),
    ],
)
def test_names_of_the_same_weights(one: str, other: str, same: bool) -> None:
    assert same_model(one, other) is same


def test_every_score_stands_once() -> None:
    keys = [(s.source, s.benchmark, s.model, s.variant) for s in quality_scores()]
    assert len(keys) == len(set(keys)) > 300


def test_what_nobody_published_of_the_model_passes_no_floor() -> None:
    model = resolve("Qwen/Qwen3-32B", offline=True)
    change = weights_change("Qwen/Qwen3-32B", model, weights="fp8")
    assert change.on == "other models of about its size" and (change.kept or 0) > 0.99
    assert judge_change(change, 0.9).passes is False
    assert "not of this model" in judge_change(change, 0.9).told


def test_weights_as_released_lose_nothing_and_are_not_judged() -> None:
    for name, weights in ((EIGHT, "bf16"), (EIGHT, "fp16"), ("deepseek-ai/DeepSeek-R1", "fp8_block")):
        assert weights_change(name, resolve(name, offline=True), weights=weights) is None


def test_a_cache_in_fewer_bits_is_a_change_of_its_own() -> None:
    tried = [Precision(weights="fp8", activations="fp8", kv=kv) for kv in ("fp8", "bf16", "fp8")]
    found = changes_among(
        tried,
        request=serve_request({"model": EIGHT, "rate": "1/s", "traffic": "chat"}),
        model=resolve(EIGHT, offline=True),
    )
    assert [change.what for change in found] == ["fp8 weights", "fp8 cache"]


def test_unknown_is_said_and_perplexity_is_no_score() -> None:
    assert "nobody published" in quality_text(QualityChange(what="int4 weights"))
    name = "meta-llama/Llama-2-70b-hf"
    change = weights_change(name, resolve(name, offline=True), weights="gguf-q4_k_m")
    assert (
        change is not None
        and judge_change(change, 0.5).passes is False
        and "perplexity rises by 1.2 %" in quality_text(change)
    )


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


def test_a_row_without_a_score_is_refused_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quality_scores()
    row = next(iter(table(DATA / "quality" / "scores.csv"))) | {"score": ""}
    monkeypatch.setattr(published, "table", lambda path: [row])
    with pytest.raises(BadFact, match=r"scores\.csv: .*Llama-3\.1-70B-Instruct, bf16, .*: no score"):
        quality_scores.__wrapped__()
