"""Engines that run a model's Python line by line: what binds a step is how many kernels its host launches."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tonnage.core.deployment import Deployment, resolve
from tonnage.core.serving_traffic import grid_of
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.precision import Precision
from tonnage.simulation.step_parts import decode_attention_work, launched_apart, parts_of


def deployed(model: str, weights: str = "fp16", engine: str = "hf", activations: str = "fp16") -> Deployment:
    """One request after another on one A100."""
    return resolve(
        ServeCase(
            model=model,
            accelerator="a100-sxm4-80gb",
            engine=engine,
            isl=16,
            osl=512,
            traffic=Traffic(batch=1),
            precision=Precision(weights=weights, kv="fp16", activations=activations),
        )
    )


@pytest.mark.parametrize(("weights", "further"), [("fp16", 0), ("awq", 0), ("nf4", 2), ("int8_weight", 8)])
def test_each_of_the_seven_matrices_of_a_layer_is_launched_with_what_its_format_needs(
    weights: str, further: int
) -> None:
    # Llama 2: query, key, value, output, gate, up, down where the work list has four products.
    at = deployed("meta-llama/Llama-2-7b-hf", weights)
    assert launched_apart(at.placement) == 32 * (3 + 7 * further)


def test_a_loop_over_experts_launches_every_expert_and_each_matrix_of_it_in_fp8() -> None:
    sixteen = launched_apart(deployed("Qwen/Qwen3-30B-A3B", "bf16").placement)
    eight = launched_apart(deployed("Qwen/Qwen3-30B-A3B", "fp8_block").placement)
    assert sixteen == 48 * (2 * 127 + 2)  # and query, key, value apart
    assert eight - sixteen == 48 * 2 * (4 + 1 + 3 * 128)  # attention, router, three matrices of each expert


def test_other_engines_group_their_products_and_read_the_cache_once() -> None:
    eager, grouped = (deployed("Qwen/Qwen3-8B", engine=engine).placement for engine in ("hf", "vllm"))
    assert launched_apart(grouped) == 0.0
    work = decode_attention_work(eager, 1.0, context=4096.0)
    fused = parts_of(work, replace(eager, eager=None)).attention
    # Four query heads share one of the cache: 3 + 3 x 4 passes.
    assert parts_of(work, eager).attention == pytest.approx(15.0 * fused)


def test_awq_through_its_own_library_launches_fewer_kernels_than_transformers() -> None:
    plain, fused = (deployed("mistralai/Mistral-7B-v0.1", "awq", engine=e) for e in ("hf", "autoawq"))
    assert grid_of(fused).launches == grid_of(plain).launches - 32 * 3
