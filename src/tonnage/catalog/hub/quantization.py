"""Which number format are the weights of a checkpoint in?

Reads `quantization_config` (and the `hf_quant_config.json` beside NVIDIA's checkpoints) into a name of
`nouns.precision.FORMATS`: fp8, fp8_block, int8, awq, gptq, nvfp4, mxfp4, nf4, …
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage.catalog.hub.fields import Config, given, section, text

__all__ = ["DTYPES", "experts_format", "native_dtype", "quantization"]

DTYPES: Final = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "half": "fp16", "float": "fp32", "float64": "fp64",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "int8": "int8",
}  # fmt: skip
"""Names of PyTorch's formats and ours."""


def native_dtype(c: Config) -> str:
    """Format the makers publish the weights in; bf16 when the file does not say."""
    inner = section(c, "text_config") or c
    said = text(c, "dtype", "torch_dtype") or text(inner, "dtype", "torch_dtype")
    return DTYPES.get(said.removeprefix("torch."), "bf16")


def _settings(c: Config) -> Config | None:
    """The quantisation settings, wherever they stand."""
    found = section(c, "quantization_config", "compression_config")
    if found is None:
        inner = section(c, "text_config")
        found = None if inner is None else section(inner, "quantization_config")
    return found


def quantization(c: Config) -> str | None:
    """
    Weight format of the checkpoint, or None when it is not quantised.

    An unknown method gives its own name, so that it is shown and not silently taken for bf16.
    """
    settings = _settings(c)
    if settings is None:
        return None
    method = text(settings, "quant_method").lower()
    if _only_experts(settings):
        return None
    if method in {"modelopt", "compressed-tensors", ""}:
        return _by_algorithm(settings) or _by_groups(settings) or (method or None)
    if method == "bitsandbytes":
        return "nf4" if given(settings, "load_in_4bit", "_load_in_4bit") else "int8_weight"
    if method == "fp8":
        return "fp8_block" if given(settings, "weight_block_size") else "fp8"
    if method in {"awq", "gptq", "auto-round", "gptq_marlin"}:
        bits = given(settings, "bits", "w_bit", "num_bits")
        return {8: "int8_weight", 2: "int2"}.get(bits, "gptq" if method != "awq" else "awq")
    return {"fbgemm_fp8": "fp8", "mxfp4": "mxfp4", "mxfp8": "mxfp8", "modelopt_fp4": "nvfp4", "int8": "int8"}.get(
        method, method
    )


_ALGORITHMS: Final = {
    "NVFP4": "nvfp4", "FP8": "fp8", "W4A16_AWQ": "awq", "INT4_AWQ": "awq", "W8A8_SQ": "int8", "W4A8_AWQ": "awq",
    "FP8_PB_WO": "fp8_block", "MXFP4": "mxfp4", "MXFP8": "mxfp8", "W8A16": "int8_weight", "W4A16": "int4",
    "NVFP4_AWQ": "nvfp4", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "W4A8_MXFP4_FP8": "mxfp4",
}  # fmt: skip


def _by_algorithm(settings: Config) -> str | None:
    """NVIDIA's ModelOpt: one algorithm, or the commonest of a mixture over layers."""
    nested = section(settings, "quantization") or settings
    name = text(nested, "quant_algo").upper()
    if name == "MIXED_PRECISION":
        layers = section(nested, "quantized_layers")
        votes: dict[str, int] = {}
        for layer in (layers.data if layers is not None else {}).values():
            if isinstance(layer, Mapping) and isinstance(layer.get("quant_algo"), str):
                algorithm = _ALGORITHMS.get(layer["quant_algo"].upper(), layer["quant_algo"].lower())
                votes[algorithm] = votes.get(algorithm, 0) + 1
        return max(sorted(votes), key=votes.__getitem__, default=None)
    return _ALGORITHMS.get(name, name.lower() or None)


def _by_groups(settings: Config) -> str | None:
    """compressed-tensors: the format of the weights of the first group that says one."""
    groups = section(settings, "config_groups")
    for name in groups.data if groups is not None else ():
        group = None if groups is None else section(groups, name)
        weights = None if group is None else section(group, "weights")
        if weights is not None and group is not None:
            return _by_bits(weights.data, activations=group.data.get("input_activations") is not None)
    return None


def _by_bits(weights: Mapping[str, Any], *, activations: bool) -> str | None:
    bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    if kind == "float":
        if bits == 4:
            return "mxfp4" if size == 32 else "nvfp4"
        return "fp8_block" if weights.get("strategy") == "block" else "fp8"
    if bits == 8:
        return "int8" if activations else "int8_weight"
    return "int4" if bits == 4 else "int2" if bits == 2 else None


def experts_format(c: Config) -> str | None:
    """Format of the routed experts where a checkpoint keeps only them quantised (gpt-oss, DeepSeek-V4)."""
    settings = _settings(c)
    named = text(c, "expert_dtype")
    if named:
        return {"fp4": "mxfp4", "fp8": "fp8"}.get(named, named)
    return "mxfp4" if _only_experts(settings) else None


def _only_experts(settings: Config | None) -> bool:
    """gpt-oss: the method's name is the format of the experts, everything else stays as it is."""
    return settings is not None and text(settings, "quant_method").lower() == "mxfp4"
