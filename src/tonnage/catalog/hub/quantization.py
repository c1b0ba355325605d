"""Which number format are the weights of a checkpoint in?

Reads `quantization_config` (and the `hf_quant_config.json` beside NVIDIA's checkpoints) into a name of
`nouns.precision.FORMATS`: fp8, fp8_block, int8, awq, gptq, nvfp4, mxfp4, nf4, …
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tonnage.catalog.hub.fields import Config, first_given, section, text

__all__ = ["DTYPES", "Formats", "native_dtype", "quantization"]

DTYPES: Final = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "half": "fp16", "float": "fp32", "float64": "fp64",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "int8": "int8",
}  # fmt: skip
"""Names of PyTorch's formats and ours."""


def native_dtype(c: Config) -> str:
    """Format the vendors publish the weights in; bf16 when the file does not say."""
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


class Formats(NamedTuple):
    """Format of the weights, and of the routed experts where they are kept apart; None = as published."""

    weights: str | None = None
    experts: str | None = None


def quantization(c: Config, *, mixture: bool) -> Formats:
    """
    Weight formats of the checkpoint.

    A mixture whose attention is left alone has quantised experts only. An unknown method gives its own name, so that
    it is shown and not silently taken for bf16.
    """
    settings = _settings(c)
    if settings is None:
        return Formats()
    method = text(settings, "quant_method").lower()
    if method == "mxfp4":  # gpt-oss: the method's name is the format of the experts, the rest stays as it is
        return Formats(None, "mxfp4")
    mixed = _by_layers(settings)
    if mixed is not None:
        return mixed if mixture else Formats(mixed.experts or mixed.weights)
    whole = _whole(settings, method)
    named = text(c, "expert_dtype")
    if named:
        return Formats(whole, {"fp4": "mxfp4"}.get(named, named))
    if mixture and method in _SELECTIVE and _attention_left_alone(settings):
        return Formats(None, whole)
    return Formats(whole)


_SELECTIVE: Final = {"modelopt", "compressed-tensors", ""}
"""Methods whose lists of what is left alone name whole kinds of layers."""


def _whole(settings: Config, method: str) -> str | None:
    """The one format of a checkpoint."""
    if method in _SELECTIVE:
        return _by_algorithm(settings) or _by_groups(settings) or (method or None)
    if method == "bitsandbytes":
        return "nf4" if first_given(settings, "load_in_4bit", "_load_in_4bit") else "int8_weight"
    if method == "fp8":
        return "fp8_block" if first_given(settings, "weight_block_size") else "fp8"
    if method in {"awq", "gptq", "auto-round", "gptq_marlin"}:
        bits = first_given(settings, "bits", "w_bit", "num_bits")
        other = {8: "int8_weight", 2: "int2"}.get(bits) if isinstance(bits, int) else None
        return other or ("awq" if method == "awq" else "gptq")
    return {"fbgemm_fp8": "fp8", "mxfp8": "mxfp8", "modelopt_fp4": "nvfp4", "int8": "int8"}.get(method, method)


_ALGORITHMS: Final = {
    "NVFP4": "nvfp4", "FP8": "fp8", "W4A16_AWQ": "awq", "INT4_AWQ": "awq", "W8A8_SQ": "int8", "W4A8_AWQ": "awq",
    "FP8_PB_WO": "fp8_block", "MXFP4": "mxfp4", "MXFP8": "mxfp8", "W8A16": "int8_weight", "W4A16": "int4",
    "NVFP4_AWQ": "nvfp4", "W4A16_NVFP4": "nvfp4", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "W4A8_MXFP4_FP8": "mxfp4",
}  # fmt: skip


def _nested(settings: Config) -> Config:
    return section(settings, "quantization") or settings


def _by_algorithm(settings: Config) -> str | None:
    """NVIDIA's ModelOpt: one algorithm for all layers."""
    name = text(_nested(settings), "quant_algo").upper()
    return _ALGORITHMS.get(name, name.lower() or None)


def _by_layers(settings: Config) -> Formats | None:
    """
    ModelOpt's mixtures: an algorithm for each layer.

    Routed experts vote for theirs; the other layers for the rest, which is block-wise FP8 where the checkpoint was so
    before its experts were quantised again. In a dense model the feed-forward votes in the experts' place.
    """
    layers = section(_nested(settings), "quantized_layers") or section(settings, "quantized_layers")
    if layers is None:
        return None
    votes: dict[str, dict[str, int]] = {"routed": {}, "dense": {}, "rest": {}}
    for name, layer in layers.data.items():
        algorithm = layer.get("quant_algo") if isinstance(layer, Mapping) else None
        if isinstance(algorithm, str):
            shared = "shared" in name or ".mlp." in name or "head" in name
            group = votes[
                "dense" if shared and ".mlp.experts" not in name else "routed" if ".experts" in name else "rest"
            ]
            found = _ALGORITHMS.get(algorithm.upper(), algorithm.lower())
            group[found] = group.get(found, 0) + 1
    kept = "fp8_block" if first_given(settings, "weight_block_size") else None
    rest = _winner(votes["rest"]) or (_winner(votes["dense"]) if votes["routed"] else None)
    return Formats(rest or kept, _winner(votes["routed"]) or _winner(votes["dense"]))


def _winner(votes: Mapping[str, int]) -> str | None:
    return max(sorted(votes), key=votes.__getitem__, default=None)


def _attention_left_alone(settings: Config) -> bool:
    """Whether the list of layers left alone names attention as a whole, by a pattern or in many layers."""
    listed = first_given(settings, "ignore", "exclude_modules") or first_given(
        _nested(settings), "ignore", "exclude_modules"
    )
    names = [name for name in listed if isinstance(name, str) and "attn" in name] if isinstance(listed, list) else []
    return len(names) >= 8 or any("*" in name and not any(c.isdigit() for c in name) for name in names)


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
    if bits == 4:
        return "int4_g32" if size == 32 else "int4"
    return "int2" if bits == 2 else None
