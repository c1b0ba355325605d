"""Whole engines against published runs: the share of bandwidth in decode and of arithmetic in prefill.

Anchors are computed from argonne-lcf/LLM-Inference-Bench (arXiv 2411.00136) and
XiongjieDai/GPU-Benchmarks-on-LLM-Inference, weight bytes only over peak bandwidth, and 2 x parameters x tokens over
peak arithmetic. Other engines, releases and accelerators are scored by `tonnage accuracy`.
"""

import pytest

import tonnage

FP16 = {"weights": "fp16", "kv": "fp16", "activations": "fp16"}
EIGHT_B = "meta-llama/Meta-Llama-3-8B"
PARAMETERS = 8.03e9


def served(accelerator, engine, **changes):
    given = {
        "kind": "serve",
        "model": EIGHT_B,
        "accelerator": accelerator,
        "engine": engine,
        "year": 2024,
        "precision": FP16,
        "traffic": {"batch": 1, "static": True},
        "isl": 512,
        "osl": 512,
    }
    return tonnage.predict(given | changes)


@pytest.mark.parametrize(
    ("accelerator", "engine", "tp", "published"),
    [
        ("a100-sxm4-40gb", "vllm", 1, 0.67),
        ("a100-sxm4-40gb", "trtllm", 1, 0.71),
        ("a100-sxm4-40gb", "vllm", 2, 0.51),
        ("a100-sxm4-40gb", "vllm", 4, 0.35),
        ("h100-sxm5-80gb", "vllm", 1, 0.56),
        ("h100-sxm5-80gb", "trtllm", 1, 0.62),
        ("gh200-96gb", "trtllm", 1, 0.66),
        ("rtx-4090", "llamacpp", 1, 0.83),
    ],
)
def test_single_stream_reaches_the_published_share_of_bandwidth(accelerator, engine, tp, published) -> None:
    precision = {**FP16, "weights": "gguf-f16"} if engine == "llamacpp" else FP16
    found = served(accelerator, engine, layout={"tp": tp}, precision=precision)
    bandwidth = tonnage.accelerator(accelerator).memory_bytes_per_s * tp
    assert 2 * PARAMETERS / found.tpot_s.mean / bandwidth == pytest.approx(published, rel=0.2)


@pytest.mark.parametrize(
    ("accelerator", "peak", "low", "high"),
    [("a100-sxm4-40gb", 312e12, 0.73, 0.81), ("h100-sxm5-80gb", 989e12, 0.56, 0.66)],
)  # fmt: skip
@pytest.mark.parametrize("engine", ["vllm", "trtllm"])
def test_prefill_of_a_batch_reaches_the_published_share_of_arithmetic(engine, accelerator, peak, low, high) -> None:
    found = served(accelerator, engine, traffic={"batch": 16, "static": True}, isl=1024, osl=1024)
    share = 2 * PARAMETERS * 16 * 1024 / found.ttft_s.mean / peak
    assert 0.8 * low < share < 1.2 * high


def test_four_ranks_speed_up_one_stream_as_gpt_fast_measured() -> None:
    # gpt-fast, Llama-2-7B bf16, A100: 1.00, 1.61, 2.42, 3.13 on 1, 2, 4, 8 accelerators.
    seconds = [
        served(
            "a100-sxm4-80gb", "gptfast", model="meta-llama/Llama-2-7b-hf", layout={"tp": tp}, isl=16, osl=200
        ).tpot_s.mean
        for tp in (1, 2, 4, 8)
    ]
    assert [seconds[0] / s for s in seconds[1:]] == pytest.approx([1.61, 2.42, 3.13], rel=0.2)
