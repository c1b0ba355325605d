"""Each adapter reads its family: counts from whole config files, to the last digit where they are published."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tonnage.catalog.hub.config import ADAPTERS, read_config
from tonnage.catalog.hub.vision import TOWERS, blocks_parameters
from tonnage.domain.model import Attention, LatentAttention, Mlp, Moe, StateSpace
from tonnage.errors import BadFact
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
        ("num_key_value_heads", 8, "at most the 4 attention heads"),
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


def test_layer_types_must_cover_the_layers() -> None:
    with pytest.raises(BadFact, match="a list of 2 texts"):
        read_config({**LLAMA, "model_type": "gemma3_text", "sliding_window": 64, "layer_types": ["full_attention"]})


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
