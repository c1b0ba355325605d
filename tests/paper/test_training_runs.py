"""Published training runs: FLOP rates, days and GPU-hours within the tolerance stated beside each."""

from typing import Any

import pytest

import tonnage


def rate(case: dict[str, Any]) -> float:
    """[tokens/s of an accelerator]"""
    found: float = tonnage.predict({"kind": "train", **case}).tokens_per_s_per_accelerator.value
    return found


def step(case: dict[str, Any]) -> float:
    """[s]"""
    found: float = tonnage.predict({"kind": "train", **case}).step_s.value
    return found


def test_llama_3_405b_on_16384_h100() -> None:
    """The Llama 3 Herd of Models (arXiv 2407.21783), table 4: 400 TFLOP/s each (BF16 MFU 41 %), within 10 %."""
    case = dict(
        model="meta-llama/Meta-Llama-3.1-405B",
        accelerator="h100-sxm5-80gb",
        count=16384,
        accelerators_per_node=8,
        seq_len=8192,
        global_batch=2048,
        recompute="none",
        framework="meta-internal",
        year=2024,
        layout=dict(tp=8, pp=16, cp=1, dp=128, sharding="zero2"),
        links=dict(inter_bytes_per_s=50e9),
    )
    flop_per_token = 6 * 405e9 + 12 * 126 * 16384 * 8192
    assert rate(case) * flop_per_token == pytest.approx(400e12, rel=0.10)


def test_gpt_3_on_1024_a100_takes_34_days() -> None:
    """arXiv 2104.04473, section 5.10: 300 B tokens in about 34 days with full recompute, within 10 %."""
    case = dict(
        model="openai/gpt-3-175b",
        accelerator="a100-sxm4-80gb",
        count=1024,
        seq_len=2048,
        global_batch=1536,
        precision="fp16",
        recompute="full",
        framework="megatron",
        year=2021,
        layout=dict(tp=8, pp=8, dp=16),
    )
    assert 300e9 / (rate(case) * 1024) / 86400 == pytest.approx(34, rel=0.10)


def test_deepseek_v3_hours_per_trillion_tokens() -> None:
    """arXiv 2412.19437, section 1: 180 K H800-hours for each trillion tokens, within 20 %; not in the fit."""
    case = dict(
        model="deepseek-ai/DeepSeek-V3",
        accelerator="h800-sxm5-80gb",
        count=2048,
        seq_len=4096,
        global_batch=15360,
        micro_batch=1,
        precision="fp8",
        framework="hai-llm",
        year=2024,
        links=dict(inter_bytes_per_s=50e9),
        layout=dict(pp=16, tp=1, ep=64, sharding="zero1"),
    )
    assert 1e12 / rate(case) / 3600 == pytest.approx(180e3, rel=0.20)


def gpt(layers: int, hidden: int, heads: int) -> dict[str, Any]:
    mixer = {
        "type": "attention",
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": hidden // heads,
    }
    feed_forward = {"type": "mlp", "intermediate_size": 4 * hidden, "gated": False}
    return {
        "id": f"gpt-{layers}x{hidden}", "family": "GPT", "kind": "llm", "hidden_size": hidden, "vocab_size": 51200,
        "layers": [{"count": layers, "norm_bias": True, "mixer": mixer, "feed_forward": feed_forward}],
        "tie_word_embeddings": True, "learned_positions": 2048,
    }  # fmt: skip


KORTHIKANTI = [
    # arXiv 2205.05198, table 5: shape, count, layout, batch, seconds with full recompute, seconds with selective + SP.
    (gpt(48, 6144, 64), 8, (8, 1, 1), 4, 1.42, 1.10),
    (gpt(96, 12288, 96), 64, (8, 8, 3), 64, 18.13, 13.75),
    (gpt(105, 20480, 128), 280, (8, 35, 3), 280, 49.05, 37.83),
    (gpt(128, 25600, 160), 512, (8, 64, 1), 512, 94.42, 71.49),
]


@pytest.mark.parametrize(("model", "count", "layout", "batch", "full_s", "selective_s"), KORTHIKANTI)
def test_recompute_times_of_korthikanti(
    model: dict[str, Any], count: int, layout: tuple[int, int, int], batch: int, full_s: float, selective_s: float
) -> None:
    """Iteration times within 15 %, and the saving of selective recompute (22 to 25 %) within 8 points."""
    tp, pp, vpp = layout
    measured = {"full": full_s, "selective": selective_s}
    found = {
        kind: step(
            dict(
                model=model,
                accelerator="a100-sxm4-80gb",
                count=count,
                seq_len=2048,
                global_batch=batch,
                micro_batch=batch if pp == 1 else 1,
                precision="fp16",
                recompute=kind,
                framework="megatron",
                year=2022,
                flash_attention=False,
                layout=dict(tp=tp, pp=pp, vpp=vpp, dp=1, sharding="none"),
            )
        )
        for kind in measured
    }
    for kind, seconds in measured.items():
        assert found[kind] == pytest.approx(seconds, rel=0.15), kind
    saving = 1 - found["selective"] / found["full"]
    assert saving == pytest.approx(1 - selective_s / full_s, abs=0.09)


@pytest.mark.parametrize(
    ("count", "measured"), [(64, 14.61), (256, 14.72), (2048, 14.84)]
)  # fmt: skip
def test_weak_scaling_of_llama_70b(count: int, measured: float) -> None:
    """NVIDIA/dgxc-benchmarking 25.02, Llama 3.1 70B, bf16, TP 4, PP 4, CP 2, VPP 5: seconds a step, within 10 %."""
    case = dict(
        model="meta-llama/Meta-Llama-3.1-70B",
        accelerator="h100-sxm5-80gb",
        count=count,
        seq_len=8192,
        micro_batch=1,
        global_batch=2 * count,
        framework="megatron",
        year=2025,
        links=dict(inter_bytes_per_s=50e9),
        layout=dict(tp=4, pp=4, vpp=5, cp=2),
    )
    assert step(case) == pytest.approx(measured, rel=0.10)


def test_eight_bits_gain_a_third_on_hopper() -> None:
    """NVIDIA/dgxc-benchmarking 25.02, 70B on 64 H100: FP8 over bf16 1.35 to 1.40; here 1.25 to 1.5."""
    case = dict(
        model="meta-llama/Meta-Llama-3.1-70B",
        accelerator="h100-sxm5-80gb",
        count=64,
        seq_len=8192,
        micro_batch=1,
        global_batch=128,
        framework="megatron",
        year=2025,
        layout=dict(tp=4, pp=4, vpp=5, cp=2),
    )
    gain = step(case) / step(case | {"precision": "fp8"})
    assert 1.25 < gain < 1.5
