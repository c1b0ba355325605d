"""What fits: rows, remedies that were tried, largest values, refused requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.command import answered, catalogue

import tonnage
from tonnage.errors import BadRequest, UnitError, UnknownName


def ask(model: str = "meta-llama/Meta-Llama-3.1-8B", **fields: Any) -> Any:
    return tonnage.fit(model, **fields)


def test_a_model_that_fits() -> None:
    answer = ask(accelerator="H100", context="8192", concurrency=16)
    (row,) = answer.rows
    assert answer.fits and row.verdict.ok
    assert "fits 1 x H100 SXM5 80GB" in answer.sentence
    assert row.memory.value == pytest.approx(sum(part.value for part in row.memory.parts))
    assert row.memory.value + row.free_bytes == pytest.approx(row.limit_bytes)


def test_a_model_that_does_not_fit_names_what_would_make_it() -> None:
    answer = ask("meta-llama/Meta-Llama-3.1-70B", accelerator="H100")
    (row,) = answer.rows
    assert not answer.fits
    assert row.verdict.nearest == row.remedies[0]
    assert f"nearest: {row.remedies[0]}" in answer.sentence
    assert any("2 x H100 SXM5 80GB (tp 2)" in remedy for remedy in row.remedies)
    assert ask("meta-llama/Meta-Llama-3.1-70B", accelerator="H100", tp=2).fits
    assert ask("meta-llama/Meta-Llama-3.1-70B", accelerator="H100", precision="int4").fits


def test_remedies_work_when_followed() -> None:
    first = ask(accelerator="rtx-4090", concurrency=32)
    (row,) = first.rows
    concurrency = next(int(found.value) for found in row.largest if found.what == "concurrency")
    context = next(int(found.value) for found in row.largest if found.what == "context")
    assert f"{concurrency:,} requests at once instead of 32" in row.remedies
    assert ask(accelerator="rtx-4090", concurrency=concurrency).fits
    assert not ask(accelerator="rtx-4090", concurrency=concurrency + 1).fits
    assert ask(accelerator="rtx-4090", concurrency=32, context=context).fits


def test_without_accelerators_the_smallest_comes_first() -> None:
    answer = ask()
    counts = [row.count for row in answer.rows]
    assert counts == sorted(counts)
    assert all(row.verdict.ok for row in answer.rows)
    assert len({row.accelerator for row in answer.rows}) == len(answer.rows) > 60
    assert answer.rows[0].total_bytes < 24e9
    assert not any(tonnage.accelerator(row.accelerator).vendor == "Apple" for row in answer.rows)


def test_counts_are_the_smallest_that_hold_it() -> None:
    answer = ask("meta-llama/Meta-Llama-3.1-70B")
    row = next(row for row in answer.rows if row.accelerator == "a100-sxm4-80gb")
    assert row.count == 2
    assert not ask("meta-llama/Meta-Llama-3.1-70B", accelerator="a100-sxm4-80gb").fits


def test_solve_fills_the_memory() -> None:
    answer = ask(accelerator="rtx-4090", solve="context")
    (row,) = answer.rows
    longest = next(int(found.value) for found in row.largest if found.what == "context")
    assert f"the largest context is {longest:,} tokens" in answer.sentence
    assert row.free_bytes < 16 * 128 * 1024
    assert ask(accelerator="rtx-4090", context=longest).fits
    assert not ask(accelerator="rtx-4090", context=longest + 16).fits


def test_solve_stops_at_the_model_s_own_context() -> None:
    (row,) = ask(accelerator="b200", solve="context").rows
    found = next(found for found in row.largest if found.what == "context")
    assert (found.value, found.binds) == (131072, "the model's own limit")


def test_rules_of_thumb_stand_beside_the_real_number() -> None:
    answer = ask(accelerator="H100", concurrency=32)
    rule = answer.rules[0]
    assert rule.rule_bytes == pytest.approx(2 * answer.parameters)
    assert rule.off == pytest.approx(rule.rule_bytes / answer.rows[0].memory.value - 1)
    assert rule.off < -0.5


def test_fp8_on_a_card_without_fp8_saves_memory_only() -> None:
    (row,) = ask(accelerator="a100-sxm4-80gb", precision="fp8").rows
    assert any("no fp8 units" in note and "16 bits" in note for note in row.notes)
    assert row.precision["activations"] == "bf16"
    (ada,) = ask(accelerator="l40s", precision="fp8").rows
    assert ada.precision["activations"] == "fp8"
    assert not ada.notes


def test_key_value_heads_fewer_than_ranks_are_copied() -> None:
    two, eight = (ask("Qwen/Qwen2.5-3B", accelerator="H100", tp=tp, context=32768).rows[0] for tp in (2, 8))
    assert eight.memory.part("KV cache") == two.memory.part("KV cache")


def test_a_what_if_changes_the_card() -> None:
    asked = ("fit", "Qwen/Qwen3-14B", "-a", "rtx-4090")
    more = ("--set", "rtx-4090.memory=48 GiB", "--set", "rtx-4090.usable_memory=48 GiB")
    assert not answered(*asked)["fits"] and answered(*asked, *more)["fits"]


def test_an_engine_that_does_not_run_there_is_said() -> None:
    (row,) = ask(accelerator="p100-pcie-16gb", precision="int8").rows
    assert any("compute capability 7.0" in note for note in row.notes)


def test_llama_cpp_spreads_layers_over_cards() -> None:
    answer = ask("meta-llama/Meta-Llama-3.1-70B", accelerator="rtx-3090", engine="llama.cpp", precision="gguf-q4_k_m")
    assert not answer.fits
    assert answer.rows[0].remedies[-1] == "2 x GeForce RTX 3090 (pp 2)"


def test_training_opens_its_states_and_names_a_count() -> None:
    answer = ask(train=True, accelerator="H100")
    (row,) = answer.rows
    assert not answer.fits
    assert "trained in bf16" in answer.sentence
    assert {"weights", "gradients", "optimizer"} <= {part.name for part in row.memory.parts}
    count = int(str(row.verdict.nearest).split(" x ")[0])
    assert ask(train=True, accelerator="H100", count=count).fits
    assert [rule.rule_bytes for rule in answer.rules] == [16 * answer.parameters, 18 * answer.parameters]
    assert any("activation recomputation" in note for note in row.notes)


def test_65_to_70_b_full_fine_tuning_takes_over_1_1_tb() -> None:
    (row,) = ask("meta-llama/Llama-2-70b-hf", finetune="full", accelerator="h100-sxm5-80gb", count=16).rows
    assert row.memory.value * row.count > 1.1e12


def test_adapters_fit_where_full_fine_tuning_does_not() -> None:
    full = ask(finetune="full", accelerator="rtx-4090", batch=1, seq_len=1024)
    lora = ask(finetune="qlora", accelerator="rtx-4090", batch=1, seq_len=1024)
    assert (full.fits, lora.fits) == (False, True)
    assert "ignores activations" in lora.rules[0].why


def test_remedies_of_training_are_the_largest_that_fit() -> None:
    asked: dict[str, Any] = {"finetune": "qlora", "accelerator": "h100-sxm5-80gb", "seq_len": 4096, "batch": 30}
    (row,) = ask(**asked).rows
    assert not row.verdict.ok
    fewer = next(said for said in row.remedies if "--batch" in said)
    most = int(fewer.split()[0])
    assert 1 < most < 30
    assert ask(**{**asked, "batch": most}).rows[0].verdict.ok
    assert not ask(**{**asked, "batch": most + 1}).rows[0].verdict.ok


def test_what_fits_with_little_to_spare_is_said_to_be_near_the_edge() -> None:
    (row,) = ask(finetune="qlora", accelerator="h100-sxm5-80gb", seq_len=4096, batch=7).rows
    near = any("fits with a chance of" in note for note in row.notes)
    assert row.verdict.ok
    assert near == (row.memory.value > 0.82 * row.limit_bytes), (
        "adapters under eager scripts: 1.51 above, 95 % of peaks"
    )
    (tight,) = ask(finetune="lora", accelerator="H100", solve="batch", seq_len=512, recompute="full").rows
    (full,) = ask(
        finetune="lora",
        accelerator="H100",
        seq_len=512,
        recompute="full",
        batch=next(int(f.value) for f in tight.largest if f.what == "batch"),
    ).rows
    assert any("fits with a chance of" in note for note in full.notes)


def test_largest_batch_of_a_fine_tune_fits_and_one_more_does_not() -> None:
    (row,) = ask(finetune="lora", accelerator="H100", solve="batch", seq_len=2048, recompute="full").rows
    batch = next(int(found.value) for found in row.largest if found.what == "batch")
    fixed = {"finetune": "lora", "accelerator": "H100", "seq_len": 2048, "recompute": "full"}
    assert ask(**fixed, batch=batch).fits
    assert not ask(**fixed, batch=batch + 1).fits


@pytest.mark.parametrize(
    ("fields", "error", "sentence"),
    [
        ({"tp": 3, "accelerator": "H100"}, BadRequest, "tp 3 does not divide 32 attention heads; the nearest .* tp 2"),
        ({"tp": 0}, BadRequest, "tp: '0' is out of range"),
        ({"context": "-5"}, BadRequest, "context: '-5' is out of range"),
        ({"context": "1e12"}, BadRequest, "context: '1e12' is out of range"),
        ({"context": "200000"}, BadRequest, "exceed the 131,072 .* --extend-context"),
        ({"concurrency": "2.5"}, BadRequest, "whole number"),
        ({"concurrency": "many"}, UnitError, "concurrency"),
        ({"batch": 4}, BadRequest, "batch belongs to training.* give --concurrency"),
        ({"train": True, "context": "4k"}, BadRequest, "context belongs to serving.* give --seq-len"),
        ({"serve": True, "train": True}, BadRequest, "--serve and --train contradict"),
        ({"finetune": "prompt"}, UnknownName, "no finetune 'prompt'"),
        ({"precision": "fp9"}, UnknownName, "no precision 'fp9'; did you mean 'fp8'"),
        ({"precision": "tf32"}, BadRequest, "not stored as tf32"),
        ({"kv": "awq"}, UnknownName, "no kv 'awq'"),
        ({"engine": "vlm"}, UnknownName, "did you mean 'vllm'"),
        ({"accelerator": "h100-smx"}, UnknownName, "no accelerator 'h100-smx'"),
        ({"solve": "context"}, BadRequest, "needs an --accelerator"),
        ({"solve": "batch", "accelerator": "H100"}, BadRequest, "batch belongs to training"),
        ({"solve": "context", "context": "4k", "accelerator": "H100"}, BadRequest, "given and asked for at once"),
        ({"train": True, "lora_rank": 8}, BadRequest, "--finetune lora"),
        ({"train": True, "precision": "awq", "accelerator": "H100"}, BadRequest, "do not run in 'awq'"),
        ({"optimizer": "adamw"}, BadRequest, "optimizer belongs to training"),
        ({"ep": 2, "accelerator": "H100"}, BadRequest, "needs a mixture of experts"),
        ({"sharding": "zero4", "train": True}, UnknownName, "no sharding 'zero4'"),
    ],
)  # fmt: skip
def test_bad_requests_get_one_sentence(fields: dict[str, Any], error: type[BadRequest], sentence: str) -> None:
    with pytest.raises(error, match=sentence) as caught:
        ask(**fields)
    assert "\n" not in str(caught.value)


def test_a_longer_context_is_answered_when_meant() -> None:
    answer = ask(accelerator="H100", context="200000", extend_context=True)
    assert any("exceed the 131,072" in note for note in answer.rows[0].notes)


def test_a_network_without_layers_fits_by_its_batch() -> None:
    small, large = (ask(model="timm/resnet50.a1_in1k", accelerator="T4", concurrency=n).rows[0] for n in (1, 64))
    assert small.verdict.ok and large.verdict.ok
    assert large.memory.value > small.memory.value
    assert large.memory.part("weights") == small.memory.part("weights")
    (found,) = large.largest
    assert ask(model="timm/resnet50.a1_in1k", accelerator="T4", concurrency=int(found.value)).fits
    beyond = ask(model="timm/resnet50.a1_in1k", accelerator="T4", concurrency=int(found.value) + 1)
    assert not beyond.fits and beyond.rows[0].verdict.nearest == f"a batch of {found.value:,.0f}"


def test_every_network_of_the_catalogue_is_answered() -> None:
    networks = [model.id for model in catalogue() if not model.layers and not model.encoder and model.network]
    assert networks
    for name in networks:
        assert ask(model=name, accelerator="H100", concurrency=1).rows[0].memory.value > 0


@pytest.mark.parametrize("field", [{"context": 100}, {"tp": 2}, {"solve": "context", "accelerator": "T4"}])
def test_a_network_has_no_context_and_runs_whole(field: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        ask(**{"model": "timm/resnet50.a1_in1k", "accelerator": "T4", **field})


def test_every_language_model_of_the_catalogue_is_answered() -> None:
    """No shape breaks the memory model: each fits some count of B200, or says why not."""
    for model in catalogue():
        if not model.layers:
            continue
        (row,) = ask(model.id, accelerator="b200", context=min(1024, model.max_context or 1024)).rows
        assert row.verdict.ok or row.remedies or row.verdict.nearest, model.id
        assert all(part.value > 0 for part in row.memory.parts), model.id


def test_the_answer_is_a_document() -> None:
    answer = ask(accelerator="H100")
    document = tonnage.to_dict(answer)
    assert document["schema"] == "tonnage.fit/1"
    assert document["rows"][0]["memory"]["parts"]
    assert msgspec.convert(document, type(answer)) == answer


def test_an_encoder_keeps_no_cache_and_has_no_largest_context() -> None:
    (row,) = ask("google-bert/bert-large-uncased", accelerator="H100").rows
    assert row.verdict.ok
    assert row.largest == ()
    assert row.memory.part("KV cache") == 0


def test_a_state_space_model_has_room_for_any_context() -> None:
    (row,) = ask("state-spaces/mamba-2.8b", accelerator="H100").rows
    context, concurrency = row.largest
    assert context.binds == "nothing up to here"
    assert concurrency.binds == "memory"


def test_experts_of_another_format_are_named_and_rule_the_rule() -> None:
    answer = ask("openai/gpt-oss-20b", accelerator="H100")
    assert "bf16 (experts mxfp4)" in answer.sentence
    assert answer.rules[0].name == "half a byte per parameter"
    assert any("32 are resident, 4 work on a token" in note for note in answer.rows[0].notes)


def test_a_batch_of_images_has_a_resolution_and_trains() -> None:
    resnet = {"model": "timm/resnet50.a1_in1k", "accelerator": "RTX 3060"}
    small, large = (ask(**resnet, batch=512, resolution=px).rows[0] for px in (224, 448))
    assert large.memory.part("activations") == pytest.approx(4.0 * small.memory.part("activations"), rel=0.05)
    assert ask(**resnet, solve="batch").rows[0].largest[0].what == "batch"
    cifar, imagenet = (ask(**resnet, train=True, batch=512, resolution=px) for px in (32, 224))
    assert cifar.fits and not imagenet.fits
    assert "512 samples per accelerator" in imagenet.sentence and "tokens" not in imagenet.sentence
    assert "samples per accelerator and step (--batch" in str(imagenet.rows[0].verdict.nearest)
    (found,) = imagenet.rows[0].largest
    assert ask(**resnet, train=True, batch=int(found.value)).fits
    assert not ask(**resnet, train=True, batch=int(found.value) + 1).fits
    assert not any("tokens" in said for said in ask(**resnet, train=True).assumed)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"model": "timm/resnet50.a1_in1k", "train": True, "solve": "seq-len"}, "no sequence; choose batch"),
        ({"model": "timm/resnet50.a1_in1k", "batch": 2, "concurrency": 2}, "drop one of the two"),
        ({"resolution": 224}, "reads tokens"),
        ({"solve": "batch"}, "batch belongs to training"),
    ],
)
def test_what_a_model_does_not_read_is_said(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        ask(**{"accelerator": "T4", **fields})


def test_unasked_only_parts_are_looked_at_that_the_engine_is_shown_to_run_the_format_on() -> None:
    def listed(engine: str, precision: str) -> set[str]:
        return {row.accelerator for row in ask(engine=engine, precision=precision).rows}

    fp8, bf16 = listed("vllm", "fp8"), listed("vllm", "bf16")
    assert "radeon-ai-pro-r9700" in fp8 and "rx-7900-xtx" not in fp8 and "rx-7900-xtx" in bf16
    assert not {"mi60", "rx-6900-xt"} & bf16  # vLLM names the parts of AMD that it is built for
    assert {"mi60", "rx-6900-xt"} <= listed("llamacpp", "gguf-q4_k_m")


def test_a_mixture_whose_every_expert_works_on_every_token_needs_no_word_on_how_many_are_read(tmp_path: Path) -> None:
    shape = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 1024,
             "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 2048,
             "vocab_size": 32000, "num_local_experts": 2}  # fmt: skip
    said = []
    for working in (1, 2):
        (tmp_path / "config.json").write_text(json.dumps({**shape, "num_experts_per_tok": working}))
        said.append("mixture of experts" in str(ask(model=str(tmp_path / "config.json"), accelerator="H100")))
    assert said == [True, False]
