"""The pool each kind of engine leaves, and what happens when a demand exceeds it."""

import msgspec
import pytest

from tonnage import catalog
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.precision import Precision
from tonnage.engines.registry import defaults, resolve_engine
from tonnage.simulation.kvcache import Demand, Device, KvPool, kv_pool
from tonnage.units import GiB

LLAMA = catalog.model("meta-llama/Meta-Llama-3.1-8B")
H100 = catalog.accelerator("h100-sxm5-80gb")
BF16 = Precision()


def pool(name: str = "vllm", *, model: Model = LLAMA, demand: Demand | None = None, **settings: object) -> KvPool:
    engine = defaults(Engine(name=name, **settings), H100, model=model)  # type: ignore[arg-type]
    return kv_pool(model, H100, precision=BF16, engine=resolve_engine(engine), demand=demand)


@pytest.mark.parametrize("name", ["vllm", "sglang", "trtllm", "lmdeploy", "tgi", "deepspeed-mii", "hf", "llamacpp"])
def test_parts_sum_to_the_memory_and_stay_under_the_limit(name: str) -> None:
    found = pool(name, demand=Demand(context_tokens=4096, concurrency=4))
    for memory in (found.memory, found.need):
        assert memory.value == pytest.approx(sum(part.value for part in memory.parts))
        assert memory.low < memory.value < memory.high
    assert found.need.value <= found.limit_bytes <= found.total_bytes
    assert found.verdict.ok
    assert found.need.part("KV cache") >= 4 * 4096 * 128 * 1024


def test_pools_fill_what_the_engine_allows_itself() -> None:
    for name in ("vllm", "sglang", "trtllm"):
        found = pool(name)
        assert found.memory.value == pytest.approx(found.limit_bytes)
        assert found.tokens == pytest.approx(found.bytes / (128 * 1024), rel=1e-3)


def test_blocks_are_whole() -> None:
    found = pool("vllm", version="0.19")
    assert found.tokens == found.blocks * 16


def test_graphs_are_charged_since_0_21() -> None:
    old, new = (pool("vllm", version=v, memory_fraction=0.9) for v in ("0.19", "0.22"))
    assert old.memory.part("CUDA graphs") == 0
    assert new.memory.part("CUDA graphs") == pytest.approx(0.4 * GiB)
    assert pool("vllm", version="0.22", cuda_graphs=False).memory.part("CUDA graphs") == 0


def test_need_follows_the_batch_where_nothing_is_reserved() -> None:
    one, four = (pool("hf", demand=Demand(context_tokens=4096, concurrency=n)) for n in (1, 4))
    assert four.bytes == 4 * one.bytes
    assert one.tokens == 4096


def test_llama_cpp_reserves_the_whole_context() -> None:
    found = pool("llamacpp", max_model_len=32768, demand=Demand(context_tokens=512))
    assert found.tokens == 32768


def test_slots_of_llama_cpp_share_the_context_where_nobody_says_how_many() -> None:
    left, stated = (
        pool("llamacpp", max_model_len=32768, demand=Demand(concurrency=4, context_tokens=16384), **settings)
        for settings in ({}, {"max_num_seqs": 4})
    )
    assert left.tokens == stated.tokens == 4 * 16384
    idle, divided = (
        pool("llamacpp", max_model_len=32768, demand=Demand(context_tokens=16384), **settings)
        for settings in ({}, {"max_num_seqs": 4})
    )
    assert idle.tokens == 32768  # one request may have half of it
    assert divided.tokens == 4 * 16384  # a slot has to hold it by itself


def test_a_demand_beyond_the_pool_says_by_how_much() -> None:
    found = pool("vllm", demand=Demand(context_tokens=131072, concurrency=8))
    assert not found.verdict.ok
    assert found.verdict.unit == "bytes"
    assert found.verdict.short_by == pytest.approx(8 * 131072 * 128 * 1024 - found.free_bytes)
    assert found.sequences < 8
    assert found.need.value > found.limit_bytes


def test_weights_alone_too_large_is_said_so() -> None:
    model = catalog.model("meta-llama/Meta-Llama-3.1-70B")
    found = pool("vllm", model=model)
    assert not found.verdict.ok
    assert "weights and buffers alone" in str(found.verdict.reason)
    assert found.tokens == found.bytes == 0


def test_a_shared_prefix_is_kept_once() -> None:
    plain = pool("vllm", demand=Demand(context_tokens=8192, concurrency=32))
    shared = pool("vllm", demand=Demand(context_tokens=8192, concurrency=32, shared_prefix_tokens=4096))
    saved = plain.need.part("KV cache") - shared.need.part("KV cache")
    assert saved == 31 * 4096 * 128 * 1024
    assert shared.sequences > 1.8 * plain.sequences


def test_a_cache_in_host_memory_adds_to_the_pool_and_not_to_the_device() -> None:
    plain, offloaded = pool("vllm"), pool("vllm", kv_offload_bytes=64 * GiB)
    assert offloaded.bytes == plain.bytes + 64 * GiB
    assert offloaded.memory.value == pytest.approx(plain.memory.value)


def test_data_parallel_attention_multiplies_the_latent_cache_and_tensor_parallelism_does_not() -> None:
    model, layout = catalog.model("deepseek-ai/DeepSeek-V3"), Layout(dp=8, ep=8)
    h200 = catalog.accelerator("h200-sxm-141gb")
    precision = Precision(weights="fp8_block", activations="fp8_block")

    def tokens(layout: Layout) -> float:
        engine = defaults(Engine(), h200, model=model, layout=layout)
        return kv_pool(model, h200, precision=precision, engine=resolve_engine(engine), layout=layout).tokens

    assert tokens(layout) > 4 * tokens(Layout(tp=8))


def test_windows_free_memory_since_engines_know_them() -> None:
    model = catalog.model("google/gemma-3-27b-it")
    demand = Demand(context_tokens=32768, concurrency=4)
    old, new = (pool("vllm", model=model, version=v, demand=demand) for v in ("0.8.5", "0.19"))
    assert new.bytes_per_sequence < 0.35 * old.bytes_per_sequence


def test_a_log_s_own_figures_rule() -> None:
    engine = defaults(Engine(version="0.11", memory_fraction=0.9), H100, model=LLAMA)
    known = Device(total_bytes=70 * GiB, beyond_torch_bytes=1 * GiB)
    found = kv_pool(LLAMA, H100, precision=BF16, engine=resolve_engine(engine), device=known)
    assert found.limit_bytes == 63 * GiB
    assert found.memory.part("NCCL and libraries") == 1 * GiB


def test_a_context_beyond_the_model_is_noted() -> None:
    short = msgspec.structs.replace(LLAMA, max_context=8192)
    found = pool("vllm", model=short, demand=Demand(context_tokens=16384))
    assert "exceed the 8,192" in found.notes[0]
