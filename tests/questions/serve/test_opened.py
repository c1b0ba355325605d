"""Numbers that open: parts add up to what is predicted, for every kind of model, accelerator, engine and load."""

from collections.abc import Iterator
from itertools import product
from statistics import median
from typing import Any

import msgspec
import pytest
from tests.sweeps import FULL
from tests.trees import gap, leaves

import tonnage

Case = dict[str, Any]
NOT_OPENED = "not opened"
WITHIN = 1e-9
MODELS = {
    "meta-llama/Llama-3.1-8B": 1,
    "meta-llama/Llama-3.1-70B": 4,
    "Qwen/Qwen3-30B-A3B": 2,
    "deepseek-ai/DeepSeek-V3": 8,
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 2,
    "openai/gpt-oss-120b": 2,
}
ACCELERATORS = ("h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "mi300x", "l40s", "rtx-4090")
ENGINES = ("vllm", "sglang", "trtllm", "llama.cpp")
LOADS = (
    {"concurrency": 24},
    {"rate_per_s": 0.5},
    {"rate_per_s": 500.0},
    {"saturated": True},
    {"batch": 4, "static": True},
    {"batch": 700},
)
LENGTHS = ((1024.0, 256.0), (6000.0, 80.0), (60.0, 700.0))


def sample(every: int) -> Iterator[Case]:
    """Each combination in turn, of which every n-th is tried: the steps are prime to all lists."""
    tried = list(product(MODELS, ACCELERATORS, ENGINES, LOADS, LENGTHS))
    for model, accelerator, engine, load, (isl, osl) in tried[::every]:
        layout = {"tp": MODELS[model]}
        yield {"model": model, "accelerator": accelerator, "traffic": load, "isl": isl, "osl": osl, "layout": layout,
               "engine": engine}  # fmt: skip


def predicted(case: Case, *, why: bool = False) -> Any:
    return tonnage.predict({"kind": "serve", **case}, why=why)


def values(result: Any) -> dict[str, float]:
    return {
        "TTFT": result.ttft_s.mean,
        "TPOT": result.tpot_s.mean,
        "end to end": result.e2e_s.mean,
        "requests per second": result.requests_per_s.value,
        "output tokens per second": result.output_tokens_per_s.value,
    }


def opened(case: Case) -> dict[str, Any]:
    """The trees of a case, once they are found to add up to its numbers."""
    result = predicted(case, why=True)
    trees = {node.name: node for node in result.opened}
    for name, value in values(result).items():
        assert trees[name].value == pytest.approx(value, rel=WITHIN), name
        assert gap(trees[name]) < WITHIN, name
        assert not [leaf.name for leaf in leaves(trees[name]) if NOT_OPENED in (leaf.name, leaf.how)], name
    return trees


def interpolated(node: Any) -> Iterator[float]:
    """Of each step in a tree, the share that reading between tabulated shapes adds or takes."""
    for part in node.parts:
        if part.name == "table interpolation":
            yield abs(part.value / node.value)
        yield from interpolated(part)


def fits(case: Case) -> bool:
    return bool(predicted(case).fits)


def test_parts_add_up_over_models_accelerators_engines_and_loads() -> None:
    tried = [case for case in sample(every=29 if FULL else 83) if fits(case)]
    assert len(tried) > 14
    apart: list[float] = []
    for case in tried:
        trees = opened(case)
        apart += interpolated(trees["TPOT"])
        for leaf in leaves(trees["TPOT"]):
            if leaf.execution is not None:
                assert leaf.evidence is not None, leaf.name
                assert leaf.evidence.tier in {"own", "architecture", "generation", "curve", "formula"}
                assert leaf.execution.shape, leaf.name
    # Operators at the very shape of a step, and the table it was read from, are two ways to the same time.
    assert median(apart) < 0.01
    assert max(apart) < 0.25


@pytest.mark.parametrize(
    "changes",
    [
        {"engine_options": {"speculative_tokens": 3, "speculative_acceptance": 0.7}},
        {"engine": "sglang", "engine_options": {"receive_interval": 20}},
        {"layout": {"tp": 2, "pp": 2}},
        {"layout": {"tp": 1, "dp": 4}},
        {"replicas": 3},
        {"length_spread": (0.5, 1.0)},
        {"accelerator": "a6000", "engine": "llamacpp", "layout": {"tp": 2}, "split_mode": "layer"},
    ],
    ids=str,
)
def test_parts_add_up_under_every_setting_that_changes_a_step(changes: dict[str, object]) -> None:
    base = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "h100-sxm5-80gb",
        "traffic": {"concurrency": 24},
        "isl": 900.0,
        "osl": 200.0,
    }
    for load in LOADS:
        trees = opened({**base, "traffic": load, **changes})
        assert max(map(gap, trees.values())) < WITHIN, load


def test_the_exchange_that_half_batches_hide_is_a_part_of_its_own() -> None:
    """At a rate as in a closed loop: steps of data-parallel ranks over nodes."""
    wide = {
        "model": "deepseek-ai/DeepSeek-R1",
        "accelerator": "h100-sxm5-80gb",
        "traffic": {"rate_per_s": 300.0},
        "isl": 1000.0,
        "osl": 200.0,
        "layout": {"dp": 32, "ep": 32},
        "engine": "sglang",
        "engine_options": {"memory_fraction": 0.835},
    }

    def parts_of(node: Any) -> Iterator[Any]:
        yield node
        for part in node.parts:
            yield from parts_of(part)

    for traffic in (wide["traffic"], {"concurrency": 3000}):
        trees = opened({**wide, "traffic": traffic})
        hidden = [part.value for part in parts_of(trees["TPOT"]) if part.name == "exchange beside products"]
        assert hidden, traffic
        assert max(hidden) < 0.0, traffic


def test_separate_pools_and_encoders_open_too() -> None:
    split = {"prefill_workers": 2, "prefill": {"tp": 1}, "decode_workers": 1, "decode": {"tp": 2}}
    pools = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "h100-sxm5-80gb",
        "traffic": {"concurrency": 48},
        "isl": 2000.0,
        "osl": 300.0,
        "layout": {"tp": 2},
        "disaggregation": split,
    }
    names = {part.name for part in opened(pools)["TTFT"].parts}
    assert {"own prefill", "KV transfer", "queueing delay"} <= names
    encoder = {
        "model": "BAAI/bge-large-en-v1.5",
        "accelerator": "l40s",
        "traffic": {"batch": 32},
        "isl": 400.0,
        "osl": 1.0,
        "phase": "encode",
    }
    result = predicted(encoder, why=True)
    latency = pytest.approx(result.e2e_s.mean, rel=WITHIN)
    assert any(node.unit == "s" and node.value == latency for node in result.opened)
    assert max(map(gap, result.opened)) < WITHIN


def test_nothing_is_opened_unless_it_is_asked_for() -> None:
    case = next(sample(every=1))
    assert not predicted(case).opened
    asked = predicted(case, why=True)
    assert asked.opened
    assert msgspec.structs.replace(asked, opened=()) == predicted(case)


def test_a_kernel_engineer_finds_where_the_time_of_a_70b_model_goes() -> None:
    case = {
        "model": "meta-llama/Llama-3.1-70B",
        "accelerator": "h100-sxm5-80gb",
        "traffic": {"concurrency": 32},
        "isl": 1024.0,
        "osl": 256.0,
        "layout": {"tp": 4},
    }
    tpot = opened(case)["TPOT"]
    decode = next(part for part in tpot.parts if part.name == "decode step").parts[0]
    runs = {leaf.name: leaf for leaf in leaves(decode) if leaf.execution is not None}
    streamed = ("feed-forward up", "feed-forward down", "attention input", "attention output", "head")
    weights = 0.0
    for name in streamed:
        run = runs[name].execution
        weights += run.count * run.shape["n"] * run.shape["k"]
    # Four ranks hold all of the 70 billion weights but the input table, and a decode step streams them once.
    assert weights * 4 == pytest.approx(70.55e9 - 128256 * 8192, rel=0.01)
    assert 0.6 < sum(runs[name].value for name in streamed) / decode.value < 0.8
    product = runs["feed-forward up"]
    assert product.evidence.bound == "memory"
    assert 0.75 < product.evidence.roofline_share < 0.95
    assert product.evidence.file == "efficiency/h100-sxm5-80gb.vllm.grids"
    sums = runs["attention all-reduce"].execution
    assert (sums.count, sums.shape["ranks"]) == (80, 4)
