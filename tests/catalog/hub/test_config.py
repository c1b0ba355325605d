"""Each adapter reads its family: counts from whole config files, to the last digit where they are published."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tonnage.catalog.hub.config import ADAPTERS, read_config
from tonnage.catalog.hub.vision import TOWERS, blocks_parameters
from tonnage.domain.model import Attention, LatentAttention, Mlp, Moe, StateSpace
from tonnage.domain.precision import number_format
from tonnage.errors import BadFact, TonnageError
from tonnage.physics.parameters import active_parameters, layer_parameters, parameters

# Shapes as in each model's public config.json (own transcription), and the count its page on the hub lists.
PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "hub" / "configs.json").read_bytes())


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_count_of_a_read_config_is_the_published_one(name: str) -> None:
    found = read_config(PUBLISHED[name]["config"], name=name)
    assert parameters(found).value == PUBLISHED[name]["parameters"]
    assert found.assumed == ()
    assert found.family


LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512,
}  # fmt: skip


def test_every_adapter_has_a_family_and_a_line_in_a_table() -> None:
    assert all(family and callable(adapter) for family, adapter in ADAPTERS.values())
    assert len(ADAPTERS) >= 90
    assert len(TOWERS) >= 15


def test_an_unknown_type_with_known_fields_is_read_and_says_so() -> None:
    found = read_config({**LLAMA, "model_type": "frobnicate"})
    assert parameters(found).value == parameters(read_config(LLAMA)).value
    assert "frobnicate" in found.assumed[0]
    sparse = read_config({**LLAMA, "model_type": "frobnicate", "num_experts": 8, "num_experts_per_tok": 2})
    assert isinstance(sparse.layers[0].feed_forward, Moe)
    assert "Mixtral" in sparse.assumed[0]


def test_an_unknown_type_with_unknown_fields_is_refused() -> None:
    with pytest.raises(BadFact, match=r"model_type 'frobnicate' is not one .* give those fields inline"):
        read_config({"model_type": "frobnicate", "depth": 3})


def test_a_file_without_a_type_is_known_by_its_class() -> None:
    plain = {key: value for key, value in LLAMA.items() if key != "model_type"}
    assert read_config({**plain, "architectures": ["LlamaForCausalLM"]}).assumed == ()
    assert read_config(plain).assumed != ()


def test_code_of_the_repository_is_never_looked_at() -> None:
    hostile = {**LLAMA, "auto_map": {"AutoConfig": "evil.Config"}, "trust_remote_code": True}
    assert read_config(hostile) == read_config(LLAMA)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("hidden_size", None, "is missing"),
        ("hidden_size", -4096, "is '-4096'; expected a whole number from 1"),
        ("hidden_size", "4096", "expected a whole number"),
        ("hidden_size", 4096.5, "expected a whole number"),
        ("hidden_size", float("inf"), "expected a whole number"),
        ("hidden_size", float("nan"), "expected a whole number"),
        ("hidden_size", True, "expected a whole number"),
        ("hidden_size", 10**30, "expected a whole number"),
        ("num_hidden_layers", 10**9, "from 1 to 4096"),
        ("num_hidden_layers", 0, "from 1 to 4096"),
        ("num_key_value_heads", 8, "a divisor of the 4 attention heads"),
        ("num_key_value_heads", 3, "a divisor of the 4 attention heads"),
        ("sliding_window", -5, "a whole number from 0"),
        ("layer_types", ["full_attention"], "a list of 2 texts"),
        ("vocab_size", [1], "expected a whole number"),
        ("tie_word_embeddings", "yes", "expected true or false"),
        ("text_config", [1], "expected an object"),
        ("quantization_config", "fp8", "expected an object"),
        ("model_type", 7, "expected a text"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_what_was_expected(field: str, value: Any, expected: str) -> None:
    with pytest.raises(BadFact) as problem:
        read_config({**LLAMA, field: value}, file="some/config.json")
    assert str(problem.value).startswith(f"some/config.json: '{field}'")
    assert expected in str(problem.value)


def test_heads_part_the_width_evenly_unless_the_file_says_how_wide_one_is() -> None:
    uneven = {**LLAMA, "num_attention_heads": 7, "num_key_value_heads": 7}
    with pytest.raises(BadFact, match="'num_attention_heads' is '7'; expected a divisor of the width 64"):
        read_config(uneven)
    assert read_config({**uneven, "head_dim": 16})


def test_what_is_not_read_is_named() -> None:
    assert read_config({**LLAMA, "torch_dtype": "torch.float16"}).assumed == ()
    assert read_config({**LLAMA, "torch_dtype": "bananas"}).assumed == (
        "the file's format 'bananas' is not known: its weights are taken as BF16",
    )
    found = read_config({**LLAMA, "model_type": "frobnicate", "kv_lora_rank": 512})
    assert "kv_lora_rank were not read" in found.assumed[0]


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "a window below 0": {"sliding_window": -5},
    "no layers": {"num_hidden_layers": 0},
    "more layers than any": {"num_hidden_layers": 5000},
    "half a layer": {"num_hidden_layers": 1.5},
    "an odd kind of layer": {"layer_types": ["bananas"] * 5000},
    "an odd format": {"torch_dtype": "bananas", "dtype": "bananas"},
    "3 bits": {"quantization_config": {"quant_method": "gptq", "bits": 3}},
    "0 bits": {"quantization_config": {"quant_method": "awq", "bits": 0}},
    "4 and 8 bits": {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": 1, "load_in_8bit": 1}},
    "neither 4 nor 8 bits": {"quantization_config": {"quant_method": "bitsandbytes"}},
    "an odd method": {"quantization_config": {"quant_method": "bananas"}},
    "a list of methods": {"quantization_config": {"quant_method": ["awq"]}},
    "settings that are no object": {"quantization_config": "awq"},
    "a hidden character": {"_name_or_path": "a\u202eb", "model_type": "a\u202eb"},
    "an odd type": {"model_type": "bananas", "kv_lora_rank": 512},
}


@pytest.mark.parametrize("why", CONTRADICTIONS)
def test_no_published_config_with_a_contradiction_is_read_in_silence(why: str) -> None:
    said = 0
    for entry in PUBLISHED.values():
        inner = next((name for name in ("text_config", "llm_config") if name in entry["config"]), None)
        whole = {**entry["config"], **CONTRADICTIONS[why]}
        if inner is not None:
            whole[inner] = {**entry["config"][inner], **CONTRADICTIONS[why]}
        try:
            found = read_config(whole)
            assert found.assumed or number_format(found.quantization or "bf16") is None, entry["config"]
        except TonnageError as refused:
            assert "\n" not in str(refused)
        said += 1
    assert said == len(PUBLISHED)


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_so_many_bits_as_no_format_has_are_not_taken_for_four(method: str) -> None:
    for bits in (0, "4", 2.5):
        with pytest.raises(BadFact, match=r"bits' is .*expected a whole number"):
            read_config({**LLAMA, "quantization_config": {"quant_method": method, "bits": bits}})
    three = {"quant_method": method, "bits": 3}
    assert read_config({**LLAMA, "quantization_config": three}).quantization == f"{method}-3bit"


def test_more_experts_chosen_than_there_are() -> None:
    with pytest.raises(BadFact, match="at most the 2 experts"):
        read_config({**LLAMA, "model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 4})


def test_windows_follow_the_pattern_of_the_family() -> None:
    base = {**LLAMA, "model_type": "gemma3_text", "num_hidden_layers": 12, "sliding_window": 64}
    layers = read_config(base).layers
    seen = {group.mixer.window: group.count for group in layers if isinstance(group.mixer, Attention)}
    assert seen == {64: 10, None: 2}
    never = read_config({**LLAMA, "model_type": "mistral", "sliding_window": 4096})
    assert [group.mixer.window for group in never.layers if isinstance(group.mixer, Attention)] == [None]


def test_deepseek_v4_keeps_a_window_and_folds_the_rest() -> None:
    fields = {
        "model_type": "deepseek_v4", "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 64,
        "num_key_value_heads": 1, "head_dim": 512, "qk_rope_head_dim": 64, "q_lora_rank": 1024, "o_lora_rank": 1024,
        "o_groups": 8, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512, "sliding_window": 128,
        "compress_ratios": [0, 4, 128, 0, 0], "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 6, "vocab_size": 129280, "hc_mult": 4,
    }  # fmt: skip
    found = read_config(fields)
    mixers = [group.mixer for group in found.layers if isinstance(group.mixer, LatentAttention)]
    assert {(m.compress_ratio, m.index_heads, m.window, m.absorbed) for m in mixers} == {
        (0, 0, 128, True),
        (4, 64, 128, True),
        (128, 0, 128, True),
    }


def test_a_composite_reads_its_language_part_and_counts_its_tower() -> None:
    fields = PUBLISHED["llava-hf/llava-1.5-7b"]["config"]
    found = read_config(fields)
    (tower,) = found.towers
    assert found.kind == "vlm"
    assert tower.parameters > sum(map(blocks_parameters, tower.layers))
    assert [blocks_parameters(g) for g in tower.layers] == [g.count * layer_parameters(g, 0) for g in tower.layers]
    unknown = copy.deepcopy(fields) | {"model_type": "newvl"}
    assert "towers of 'newvl' are not counted" in read_config(unknown).assumed[-1]


def test_hybrids_have_state_and_attention() -> None:
    found = read_config(PUBLISHED["moonshotai/Kimi-Linear-48B-A3B"]["config"])
    kinds = {type(group.mixer): group.count for group in found.layers if isinstance(group.feed_forward, Moe)}
    assert kinds == {StateSpace: 19, LatentAttention: 7}
    assert active_parameters(found).value < parameters(found).value / 10
    dense = [group for group in found.layers if isinstance(group.feed_forward, Mlp)]
    assert sum(group.count for group in dense) == 1


CHECKPOINT = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}
MIXTURE = {**CHECKPOINT, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}


def groups(**weights: Any) -> dict[str, Any]:
    return {"config_groups": {"group_0": {"weights": weights, "input_activations": weights.get("act")}}}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq"),
        ({"quant_method": "gptq", "bits": 4}, "gptq"),
        ({"quant_method": "gptq", "bits": 8}, "int8_weight"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8_weight"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}}, "fp8"),
        ({"quant_method": "compressed-tensors", **groups(num_bits=8, type="float")}, "fp8"),
        ({"quant_method": "compressed-tensors", **groups(num_bits=8, type="int", act={})}, "int8"),
        ({"quant_method": "compressed-tensors", **groups(num_bits=8, type="int")}, "int8_weight"),
        ({"quant_method": "compressed-tensors", **groups(num_bits=4, type="int")}, "int4"),
        ({"quant_method": "compressed-tensors", **groups(num_bits=4, type="float", group_size=16)}, "nvfp4"),
        ({"quant_method": "compressed-tensors", **groups(num_bits=4, type="float", group_size=32)}, "mxfp4"),
        ({"quant_method": "newmethod"}, "newmethod"),
        ({}, None),
    ],
)
def test_each_method_has_its_format(settings: dict[str, Any], expected: str | None) -> None:
    assert read_config({**CHECKPOINT, "quantization_config": settings}).quantization == expected


def test_without_settings_the_makers_format_stays() -> None:
    found = read_config(CHECKPOINT)
    assert (found.quantization, found.experts_dtype, found.native_dtype) == (None, None, "bf16")
    assert read_config({**CHECKPOINT, "torch_dtype": "float16"}).native_dtype == "fp16"


def test_gpt_oss_quantises_its_experts_only() -> None:
    found = read_config({**MIXTURE, "quantization_config": {"quant_method": "mxfp4"}})
    assert (found.quantization, found.experts_dtype) == (None, "mxfp4")


@pytest.mark.parametrize("ignored", [["re:.*self_attn.*"], [f"model.layers.{i}.self_attn.q_proj" for i in range(9)]])
def test_a_mixture_whose_attention_is_left_alone(ignored: list[str]) -> None:
    settings = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ignored}
    found = read_config({**MIXTURE, "quantization_config": settings})
    assert (found.quantization, found.experts_dtype) == (None, "nvfp4")
    dense = read_config({**CHECKPOINT, "quantization_config": settings})
    assert (dense.quantization, dense.experts_dtype) == ("nvfp4", None)


def test_a_checkpoint_with_an_algorithm_for_each_layer() -> None:
    layers = {
        "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "NVFP4"},
        "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
        "lm_head": {"quant_algo": "NVFP4"},
    }
    settings = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    found = read_config({**MIXTURE, "quantization_config": settings})
    assert (found.quantization, found.experts_dtype) == ("fp8", "nvfp4")


def test_experts_named_apart_from_block_scaled_weights() -> None:
    settings = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    found = read_config({**MIXTURE, "expert_dtype": "fp4", "quantization_config": settings})
    assert (found.quantization, found.experts_dtype) == ("fp8_block", "mxfp4")
