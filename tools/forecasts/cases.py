"""
What is forecast: parts that are announced, and models of this autumn on parts that are sold.

A serving case takes the fewest ranks that hold the model at this load; a training case is a layout that a vendor would
publish. Whatever cannot be predicted is left out, and said.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import msgspec

from tonnage.domain.case import Case, ServeCase
from tonnage.errors import TonnageError
from tonnage.questions.predict.predict import predict

COUNT: Final = 200
"""Forecasts of one file."""

_NEW_PARTS: Final = (
    ("vr200-nvl72", "trtllm", "nvfp4"),
    ("vr200-nvl72", "vllm", "fp8"),
    ("mi455x", "vllm", "fp8"),
    ("mi440x", "vllm", "fp8"),
    ("tpu-8i", "vllm", "bf16"),
    ("tpu-8i", "vllm", "fp8"),
)
_NEW_PART_MODELS: Final = (
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "Qwen/Qwen3.5-397B-A17B",
    "meta-llama/Llama-3.3-70B-Instruct",
    "MiniMaxAI/MiniMax-M3",
    "zai-org/GLM-5.3-Flash",
    "Qwen/Qwen3-32B",
)
_NEW_MODELS: Final = (
    "zai-org/GLM-5.3-Flash",
    "inclusionAI/Ling-3.0-flash",
    "meta-models/Muse-Glimmer-30B",
    "XiaomiMiMo/MiMo-V2.6-Flash-RL",
    "IFM/K2-Horizon-MoVA-36B-A4B",
    "MiniMaxAI/MiniMax-M3",
    "moonshotai/Kimi-K3",
    "Qwen/Qwen3.8-27B",
)
_SOLD_PARTS: Final = (
    ("h200-sxm-141gb", "vllm", "fp8"),
    ("b200-sxm-180gb", "sglang", "fp8"),
    ("mi355x", "vllm", "fp8"),
    ("b300-sxm-288gb", "vllm", "fp8"),
)
_LENGTHS: Final = ((1024, 1024), (8192, 1024))
_TRAINED: Final = (
    ("meta-llama/Meta-Llama-3.1-405B", {"tp": 4, "pp": 8, "cp": 1}, 256, 1536),
    ("meta-llama/Meta-Llama-3-70B", {"tp": 1, "pp": 4, "cp": 1}, 64, 256),
    ("deepseek-ai/DeepSeek-V3", {"tp": 1, "pp": 4, "ep": 64}, 256, 4096),
    ("Qwen/Qwen3-235B-A22B", {"tp": 1, "pp": 4, "ep": 32}, 256, 8192),
    ("Qwen/Qwen3-30B-A3B", {"tp": 1, "pp": 1, "ep": 8}, 8, 512),
    ("meta-llama/Meta-Llama-3-8B", {"tp": 1, "pp": 1, "cp": 1}, 8, 128),
)  # fmt: skip
_TRAINING_PARTS: Final = (
    ("vr200-nvl72", "megatron", "mxfp8"), ("vr200-nvl72", "megatron", "nvfp4"), ("mi455x", "megatron", "fp8"),
    ("mi455x", "megatron", "bf16"), ("tpu-8t", "maxtext", "bf16"), ("tpu-8t", "maxtext", "fp8"),
)  # fmt: skip


def cases(problems: list[str] | None = None) -> Iterator[tuple[str, Case]]:
    """The first `COUNT` forecasts by name that can be predicted; a sentence for each that cannot."""
    found = 0
    for name, wanted in _wanted():
        try:
            case = _fewest(wanted) if wanted["kind"] == "serve" else msgspec.convert(wanted, Case)
            if predict(case).fits is False:
                raise TonnageError("does not fit")
        except TonnageError as error:
            if problems is not None:
                problems.append(f"{name}: {error}")
            continue
        yield name, case
        found += 1
        if found == COUNT:
            return


def _wanted() -> Iterator[tuple[str, dict[str, Any]]]:
    for part, framework, precision in _TRAINING_PARTS:
        for model, layout, count, batch in _TRAINED:
            yield (
                f"train/{part}/{framework}/{precision}/{model}/{count}",
                {
                    "kind": "train",
                    "model": model,
                    "accelerator": part,
                    "count": count,
                    "seq_len": 8192,
                    "global_batch": batch,
                    "micro_batch": 1,
                    "precision": precision,
                    "framework": framework,
                    "layout": layout,
                },
            )
    for parts, models, clients in ((_NEW_PARTS, _NEW_PART_MODELS, (8, 32, 128)), (_SOLD_PARTS, _NEW_MODELS, (16, 128))):
        for model, (part, engine, weights), (isl, osl), many in product(models, parts, _LENGTHS, clients):
            yield (
                f"serve/{part}/{engine}/{_stored(model, weights)}/{model}/{isl}-{osl}/{many}",
                {
                    "kind": "serve",
                    "model": model,
                    "accelerator": part,
                    "engine": engine,
                    "isl": isl,
                    "osl": osl,
                    "precision": _precision(model, weights),
                    "traffic": {"concurrency": many},
                },
            )


def _stored(model: str, weights: str) -> str:
    return _precision(model, weights).get("experts", weights)


def _precision(model: str, weights: str) -> dict[str, str]:
    """Experts of gpt-oss are in MXFP4 in every engine; everything else is in the format of the case."""
    if "gpt-oss" in model:
        return {"weights": "bf16", "experts": "mxfp4", "activations": "bf16"}
    return {"weights": weights, "activations": weights}


def _fewest(wanted: dict[str, Any]) -> ServeCase:
    """The case on the fewest ranks that hold it."""
    for ranks in (1, 2, 4, 8, 16):
        layout = {"tp": ranks}
        case: ServeCase = msgspec.convert({**wanted, "layout": layout}, ServeCase)
        if predict(case).fits is not False:
            return case
    raise TonnageError("does not fit 16 ranks")
