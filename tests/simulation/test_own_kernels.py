"""Prompts in llama.cpp's own kernels: lanes beside tensor units, power, scores in memory."""

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.core.deployment import resolve
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Engine
from tonnage.domain.precision import Precision
from tonnage.engines.registry import resolve_engine
from tonnage.physics.work import Operator
from tonnage.questions.predict.serving import predict_serve
from tonnage.simulation.own_kernels import (
    Batching,
    batching_of,
    mixed_attention_factor,
    prompt_attention_s,
    prompt_product_s,
    prompt_scores_s,
    prompt_states_s,
    unhidden_s,
)
from tonnage.simulation.steps import MixedStep, step_grid, step_table


def product(weights: str = "gguf-q4_k_m", rows: float = 512.0) -> Operator:
    return Operator(
        kind="gemm",
        name="up",
        weights=weights,
        compute="fp16",
        flop=2.0 * rows * 4096 * 14336,
        read_bytes=4e7,
        write_bytes=1e7,
        m=rows,
        n=14336.0,
        k=4096.0,
    )


def test_faster_tensor_units_alone_help_little() -> None:
    a100 = catalog.accelerator("a100-pcie-80gb")
    doubled = replace(a100, peaks={**a100.peaks, "int8": 2 * a100.peaks["int8"], "fp16": 2 * a100.peaks["fp16"]})
    plain, fast = prompt_product_s(product(), a100), prompt_product_s(product(), doubled)
    assert 0.8 * plain < fast < plain


def test_quantised_weights_cost_more_than_16_bits_and_power_holds_workstations_back() -> None:
    part = catalog.accelerator("rtx-6000-ada")
    slow, quick = prompt_product_s(product(), part), prompt_product_s(product("fp16"), part)
    assert slow > quick
    freed = prompt_product_s(product(), replace(part, power_w=600.0))
    assert freed < slow


def test_decode_and_other_makers_keep_their_prices() -> None:
    assert prompt_product_s(product(rows=1.0), catalog.accelerator("rtx-4090")) is None
    assert prompt_product_s(product(), catalog.accelerator("m2-ultra")) is None


def test_scores_are_traffic() -> None:
    part = catalog.accelerator("rtx-4090")
    look = Operator(
        kind="attention_prefill",
        name="look",
        weights="fp16",
        compute="fp16",
        flop=4.0 * 128 * 1e6,
        head_dim=128,
        heads=32,
        kv_heads=8,
    )
    once = prompt_scores_s(look, part)
    assert prompt_scores_s(look, replace(part, memory_bytes_per_s=part.memory_bytes_per_s / 2)) == pytest.approx(
        2 * once
    )


@pytest.mark.parametrize(
    ("part", "weights", "tokens", "rate", "year"),
    [("rtx-3090", "gguf-q4_k_m", 512, 4030, 2024), ("rtx-4090", "gguf-q4_k_m", 4096, 5266, 2024),
     ("h100-pcie-80gb", "fp16", 512, 10816, 2024),
     ("rtx-4000-ada", "gguf-q4_k_m", 1024, 2311, 2024), ("rtx-a6000", "fp16", 8192, 2566, 2024),
     ("rtx-4090", "gguf-q4_k_m", 512, 12394, 2026), ("rtx-4090", "gguf-q3_k_m", 2048, 10603, 2026)],
)  # fmt: skip
def test_published_prompt_rates(part: str, weights: str, tokens: int, rate: float, year: int) -> None:
    """Llama-3-8B by llama-bench, one accelerator (XiongjieDai, GPU-Benchmarks-on-LLM-Inference; 2026: 24127, 22298)."""
    case = ServeCase(
        model="meta-llama/Meta-Llama-3-8B",
        accelerator=part,
        traffic=Traffic(batch=1, static=True),
        isl=tokens,
        osl=1,
        precision=Precision(weights=weights, kv="fp16", activations="fp16"),
        engine="llamacpp",
        year=year,
    )
    found = predict_serve(case).ttft_s
    assert tokens / found.mean == pytest.approx(rate, rel=0.20)


@pytest.mark.parametrize(
    ("engine", "part", "name", "version", "longer"),
    [
        ("vllm", "a100-sxm4-80gb", "meta-llama/Llama-3.1-8B", None, True),
        ("vllm", "rtx-pro-6000-bw-server", "meta-llama/Llama-3.1-8B", "0.19", True),
        ("vllm", "a100-sxm4-80gb", "meta-llama/Llama-3.1-8B", "0.6.4", False),
        ("vllm", "h100-sxm5-80gb", "meta-llama/Llama-3.1-8B", None, False),
        ("vllm", "b200-sxm-180gb", "meta-llama/Llama-3.1-8B", None, False),
        ("vllm", "mi300x", "meta-llama/Llama-3.1-8B", None, False),
        ("vllm", "a100-sxm4-80gb", "meta-llama/Llama-2-7b-hf", None, False),
        ("vllm", "a100-sxm4-80gb", "deepseek-ai/DeepSeek-V3", None, False),
        ("sglang", "a100-sxm4-80gb", "meta-llama/Llama-3.1-8B", None, False),
    ],
)
def test_decodes_beside_a_prompt_attend_longer_where_one_call_takes_both(
    engine: str, part: str, name: str, version: str | None, longer: bool
) -> None:
    running = resolve_engine(Engine(name=engine, version=version))
    one_call = running.spec.attends_in_one_call(running.release)
    found = mixed_attention_factor(catalog.accelerator(part), catalog.model(name), one_call=one_call)
    assert found == (1.54 if longer else 1.0)


def test_a_mixed_step_carries_it_and_a_decode_step_does_not() -> None:
    case = ServeCase(
        model="meta-llama/Llama-3.1-8B",
        accelerator="a100-sxm4-80gb",
        traffic=Traffic(rate_per_s=1.0),
        isl=1000,
        osl=200,
        engine="vllm",
    )
    at = resolve(case)
    alike = replace(at.placement, mixed_attention=1.0)
    own, plain = (
        step_table(step_grid(each, batch=64, context=1200, chunk=2048, prompt=1000), at.overheads)
        for each in (at.placement, alike)
    )
    asked = {"prompt_tokens": 256.0, "prompts": 1.0, "sequences": 64.0}
    slope = own.decode_s(64, 64 * 1001.0) - own.decode_s(64, 64 * 1.0)
    extra = own.mixed_step_s(MixedStep(**asked, context=64_000.0)) - plain.mixed_step_s(
        MixedStep(**asked, context=64_000.0)
    )
    assert extra == pytest.approx(0.54 * slope)
    assert own.decode_s(64, 64_000.0) == plain.decode_s(64, 64_000.0)


def test_builds_since_the_autumn_of_2025_keep_no_scores_of_long_prompts() -> None:
    """-fa auto: a prompt of 8k grows nearly with its length, where scores in memory grow with its square."""

    def ttft_s(build: str, tokens: float) -> float:
        found = predict_serve(
            ServeCase(
                model="Qwen/Qwen2.5-7B",
                accelerator="gb10",
                traffic=Traffic(batch=1.0, static=True),
                isl=tokens,
                osl=2.0,
                precision=Precision(weights="gguf-q8_0", kv="fp16", activations="fp16"),
                engine="llamacpp",
                engine_version=build,
            )
        )
        return found.ttft_s.mean

    assert ttft_s("b6918", 8192.0) < 0.8 * ttft_s("b6100", 8192.0)
    assert ttft_s("b6918", 8192.0) < 2.5 * ttft_s("b6918", 4096.0)


def experts(tokens: float, weights: str = "gguf-q8_0") -> Operator:
    """The first product of 128 experts of which a token chooses 8."""
    hit = min(128.0, 8.0 * tokens)
    return Operator(
        kind="grouped_gemm",
        name="experts up",
        weights=weights,
        compute="fp16",
        flop=2.0 * 8.0 * tokens * 1536 * 2048,
        read_bytes=1.0625 * hit * 1536 * 2048,
        write_bytes=2.0 * 8.0 * tokens * 1536,
        m=8.0 * tokens,
        n=1536.0,
        k=2048.0,
        groups=hit,
        experts=128.0,
        chosen=8.0,
    )


def test_tiles_of_few_rows_are_as_long_as_full_ones() -> None:
    part = catalog.accelerator("gb10")
    halves, wholes = prompt_product_s(experts(1024.0), part), prompt_product_s(experts(2048.0), part)
    # 64 rows an expert take a tile of 128; 128 rows one and, on average, half a further one.
    assert 1.2 < wholes / halves < 1.6


def test_batches_pay_launches_before_graphs_and_arithmetic_always() -> None:
    part = catalog.accelerator("gb10")
    older = Batching(captured=False, vector_tokens=1.0, units=48.0, unit_bytes_per_s=16e9)
    newer = replace(older, captured=True, vector_tokens=8.0)
    one, eight = product("gguf-q8_0", rows=1.0), product("gguf-q8_0", rows=8.0)
    assert unhidden_s(one, part, batching=older, once_s=1e-3) == 0.0
    assert (
        unhidden_s(eight, part, batching=older, once_s=1e-3)
        > unhidden_s(eight, part, batching=newer, once_s=1e-3)
        > 0.0
    )
    assert unhidden_s(product("fp16", rows=8.0), part, batching=newer, once_s=1e-3) == 0.0


def test_few_experts_keep_few_multiprocessors_busy_until_they_pass_as_vectors() -> None:
    part = catalog.accelerator("gb10")
    older = Batching(captured=True, vector_tokens=1.0, units=48.0, unit_bytes_per_s=16e9)
    least_s = 1.0625 * 1536 * 2048 / 16e9  # one expert, fetched by one multiprocessor
    assert unhidden_s(experts(2.0), part, batching=older, once_s=1e-5) == pytest.approx(least_s - 1e-5)
    assert unhidden_s(experts(2.0), part, batching=replace(older, vector_tokens=8.0), once_s=1e-5) == 0.0
    assert unhidden_s(experts(64.0), part, batching=older, once_s=1.0) == 0.0


def test_formats_looked_up_in_a_table_bind_where_memory_is_fast() -> None:
    slow, fast = catalog.accelerator("gb10"), catalog.accelerator("rtx-3090")
    at = Batching(captured=True, vector_tokens=8.0, units=48.0, unit_bytes_per_s=16e9)
    shares = []
    for part in (slow, fast):
        one = experts(1.0, "mxfp4")
        once_s = one.read_bytes / part.memory_bytes_per_s
        shares.append(unhidden_s(one, part, batching=at, once_s=once_s) / once_s)
    assert shares[1] > 2.0 * shares[0] > 0.0


def test_priced_kernels_are_those_of_nvidia_and_of_amd_with_matrix_units() -> None:
    for part, known in (("gb10", True), ("rx-7900-xtx", True), ("mi300x", False), ("m2-ultra", False)):
        found = batching_of(
            catalog.accelerator(part),
            resolve_engine(Engine(name="llamacpp")).spec,
            release=None,
            units=64.0,
            reach=8e9,
        )
        assert (found is not None) == known, part


def test_amd_attends_and_advances_states_in_lanes() -> None:
    part = catalog.accelerator("radeon-8060s")
    look = Operator(kind="attention_prefill", name="look", compute="fp16", flop=7.3e12, head_dim=256)
    assert prompt_attention_s(look, part, fused=True) == pytest.approx(1.0, rel=0.05)  # TFLOP/s of STRIX
    assert prompt_attention_s(look, catalog.accelerator("rtx-4090"), fused=True) is None
    state = Operator(kind="state_space", name="state", flop=0.44e12, m=2048.0, batch=1.0)
    assert prompt_states_s(state, part) == pytest.approx(1.0, rel=0.05)
    assert prompt_states_s(replace(state, m=1.0), part) == 0.0


@pytest.mark.parametrize(
    ("part", "name", "weights", "tokens", "piece", "seconds"),
    [("radeon-8060s", "Qwen/Qwen3.6-27B", "gguf-q8_0", 2048, 512, 5.58),
     ("radeon-8060s", "Qwen/Qwen3.5-122B-A10B", "gguf-q4_k_m", 2048, 2048, 3.98),
     ("gb10", "openai/gpt-oss-120b", "mxfp4", 4096, 2048, 2.245),
     ("gb10", "google/gemma-3-4b-it", "gguf-q4_0", 8192, 2048, 1.424)],
)  # fmt: skip
def test_published_prompts_of_mixtures_and_recurrent_models(
    part: str, name: str, weights: str, tokens: int, piece: int, seconds: float
) -> None:
    """llama-bench (kyuz0/amd-strix-halo-toolboxes) and llama-batched-bench (llama.cpp, benches/dgx-spark.md)."""
    case = ServeCase(
        model=name,
        accelerator=part,
        traffic=Traffic(batch=1, static=True),
        isl=tokens,
        osl=1,
        precision=Precision(weights=weights, kv="fp16", activations="fp16"),
        engine="llamacpp",
        engine_version="b6918",
        engine_options={"max_num_batched_tokens": piece},
    )
    found = predict_serve(case).ttft_s
    assert found.mean == pytest.approx(seconds, rel=0.15)


@pytest.mark.parametrize(("clients", "seconds"), [(1, 17.5e-3), (8, 54.6e-3), (32, 102.4e-3)])
def test_published_batches_of_a_mixture(clients: int, seconds: float) -> None:
    """gpt-oss-120b on a GB10 after 512 tokens (ggml-org/llama.cpp, benches/dgx-spark.md, build 6918)."""
    case = ServeCase(
        model="openai/gpt-oss-120b",
        accelerator="gb10",
        traffic=Traffic(batch=clients, static=True),
        isl=512,
        osl=32,
        precision=Precision(weights="mxfp4", kv="fp16", activations="fp16"),
        engine="llamacpp",
        engine_version="b6918",
    )
    found = predict_serve(case).tpot_s
    assert found.mean == pytest.approx(seconds, rel=0.20)
