"""The format of a checkpoint, as each tool that quantises writes it down."""

from typing import Any

import pytest

from tonnage.catalog.hub.config import read_config

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 100, "torch_dtype": "bfloat16",
}  # fmt: skip
MIXTURE = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}


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
    assert read_config({**LLAMA, "quantization_config": settings}).quantization == expected


def test_without_settings_the_makers_format_stays() -> None:
    found = read_config(LLAMA)
    assert (found.quantization, found.experts_dtype, found.native_dtype) == (None, None, "bf16")
    assert read_config({**LLAMA, "torch_dtype": "float16"}).native_dtype == "fp16"


def test_gpt_oss_quantises_its_experts_only() -> None:
    found = read_config({**MIXTURE, "quantization_config": {"quant_method": "mxfp4"}})
    assert (found.quantization, found.experts_dtype) == (None, "mxfp4")


@pytest.mark.parametrize("ignored", [["re:.*self_attn.*"], [f"model.layers.{i}.self_attn.q_proj" for i in range(9)]])
def test_a_mixture_whose_attention_is_left_alone(ignored: list[str]) -> None:
    settings = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ignored}
    found = read_config({**MIXTURE, "quantization_config": settings})
    assert (found.quantization, found.experts_dtype) == (None, "nvfp4")
    dense = read_config({**LLAMA, "quantization_config": settings})
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
