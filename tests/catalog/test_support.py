"""A peak is not a kernel: which formats engines run where."""

from datetime import date

import msgspec
import pytest

from tonnage import catalog
from tonnage.catalog.engines import attends_in_8_bits, formats, support, with_usual_activations
from tonnage.catalog.rows import DATA, table
from tonnage.domain.precision import Precision
from tonnage.physics.grid_reading import ATTENTION


@pytest.mark.parametrize(
    ("engine", "accelerator", "weights", "runs"),
    [
        ("vllm", "h100-sxm5-80gb", "fp8", "as stored"),
        ("vllm", "a100-sxm4-80gb", "fp8", "at 16 bits"),
        ("vllm", "t4", "fp8", "at 16 bits"),
        ("vllm", "v100-sxm2-32gb", "fp8", None),
        ("vllm", "v100-sxm2-32gb", "awq", None),
        ("vllm", "v100-sxm2-32gb", "bf16", None),
        ("vllm", "v100-sxm2-32gb", "fp16", "as stored"),
        ("vllm", "b200-sxm-180gb", "nvfp4", "as stored"),
        ("vllm", "h100-sxm5-80gb", "nvfp4", "at 16 bits"),
        ("vllm", "p100-pcie-16gb", "fp16", None),
        ("vllm", "mi300x", "fp8", "as stored"),
        ("vllm", "mi300x", "mxfp4", "at 16 bits"),
        ("vllm", "mi250x", "fp8", None),
        ("vllm", "radeon-ai-pro-r9700", "awq", "as stored"),
        ("vllm", "radeon-8060s", "bf16", "as stored"),
        ("vllm", "a100-sxm4-80gb", "gptq_int8", "as stored"),
        ("hf", "a100-sxm4-80gb", "gptq_int8", "as stored"),
        ("vllm", "tpu-v6e", "int8", "as stored"),
        ("sglang", "mi300x", "mxfp4", None),
        ("sglang", "mi355x", "mxfp4", "as stored"),
        ("vllm", "tpu-v6e", "fp8", None),
        ("vllm", "tpu-v7", "fp8", "as stored"),
        ("trtllm", "t4", "fp16", None),
        ("trtllm", "mi300x", "bf16", None),
        ("llamacpp", "m2-ultra", "gguf-q4_k_m", "as stored"),
        ("vllm", "cpu-epyc-9654", "bf16", "as stored"),
        ("vllm", "tpu-v5e", "bf16", "as stored"),
        ("vllm", "tpu-v3", "bf16", None),
        ("vllm", "inferentia2", "bf16", "as stored"),
        ("vllm", "inferentia1", "bf16", None),
        ("llamacpp", "tpu-v5e", "gguf-q4_k_m", None),
        ("llamacpp", "gaudi3", "gguf-q4_k_m", None),
        ("llamacpp", "inferentia2", "fp16", None),
        ("llamacpp", "cpu-graviton4", "gguf-q4_k_m", "as stored"),
        ("llamacpp", "arc-b580", "gguf-q4_k_m", "as stored"),
        ("llamacpp", "ascend-910c", "gguf-q4_k_m", None),
        ("llamacpp", "ascend-910c", "gguf-q4_0", "as stored"),
        ("llamacpp", "ascend-910c", "fp16", "as stored"),
    ],
)
def test_published_support(engine: str, accelerator: str, weights: str, runs: str | None) -> None:
    found = support(engine, catalog.accelerator(accelerator), weights=weights)
    assert runs == (None if found is None else "at 16 bits" if found.at_16_bits else "as stored")


def test_every_row_names_its_source_and_known_formats() -> None:
    from tonnage.domain.precision import FORMATS

    for accelerator in catalog.accelerators().values():
        for engine in ("vllm", "sglang", "trtllm", "lmdeploy", "llamacpp", "hf"):
            for name, found in formats(engine, accelerator).items():
                assert found.source and (name == "*" or name in FORMATS)


def test_newer_hardware_runs_what_older_does() -> None:
    h100, a100 = (set(formats("vllm", catalog.accelerator(name))) for name in ("h100-sxm5-80gb", "a100-sxm4-80gb"))
    assert a100 <= h100


@pytest.mark.parametrize(
    ("engine", "accelerator", "kinds"),
    [
        ("vllm", "h100-sxm5-80gb", {"attention_prefill", "attention_decode"}),
        ("vllm", "b200-sxm-180gb", {"attention_prefill", "attention_decode", "mla_decode"}),
        ("vllm", "l40s", set()),
        ("vllm", "rtx-pro-6000-bw-server", set()),  # above 10.0, and without its kernels
        ("sglang", "h200-sxm-141gb", {"attention_prefill", "attention_decode", "mla_prefill"}),
        ("sglang", "rtx-pro-6000-bw-server", set()),
        ("trtllm", "l40s", {"attention_prefill", "mla_decode"}),
        ("trtllm", "gb300-nvl72", {"attention_prefill", "mla_prefill", "mla_decode"}),
        ("trtllm", "a100-sxm4-80gb", set()),
        ("lmdeploy", "h100-sxm5-80gb", set()),
        ("vllm", "mi300x", set()),
    ],
)
def test_an_fp8_cache_is_multiplied_in_8_bits_where_a_source_says_so(
    engine: str, accelerator: str, kinds: set[str]
) -> None:
    assert set(attends_in_8_bits(engine, catalog.accelerator(accelerator))) == kinds


@pytest.mark.parametrize("name", ["support.csv", "attention.csv", "experts.csv"])
def test_every_fact_of_support_has_a_source_and_the_day_it_was_checked(name: str) -> None:
    rows = table(DATA / "engines" / name)
    assert rows and all(row["source"] and date.fromisoformat(row["checked"]) for row in rows)


@pytest.mark.parametrize(
    ("engine", "accelerator", "activations"),
    [
        ("trtllm", "b200-sxm-180gb", "mxfp8"),
        ("trtllm", "rtx-5090", "mxfp8"),
        ("trtllm", "h200-sxm-141gb", "bf16"),
        ("vllm", "gb200-nvl72", "mxfp8"),
        ("vllm", "b300-sxm-288gb", "mxfp8"),
        ("vllm", "rtx-pro-6000-bw-server", "bf16"),  # above 10.0, and without its kernels
        ("vllm", "h100-sxm5-80gb", "bf16"),
        ("vllm", "mi355x", "bf16"),
        ("sglang", "b200-sxm-180gb", "mxfp8"),
        ("sglang", "gb10", "bf16"),
        ("llamacpp", "b200-sxm-180gb", "bf16"),
    ],
)
def test_experts_in_4_bits_beside_16_take_activations_of_8_where_a_source_says_so(
    engine: str, accelerator: str, activations: str
) -> None:
    part, stored = catalog.accelerator(accelerator), Precision(experts="mxfp4")
    found = with_usual_activations(stored, part, engine=engine)
    assert found == msgspec.structs.replace(stored, activations=activations)
    narrow = Precision(weights="fp8_block", experts="mxfp4", activations="fp8")
    assert with_usual_activations(narrow, part, engine=engine) == narrow


def test_facts_of_attention_name_kinds_of_attention_and_what_multiplies() -> None:
    for row in table(DATA / "engines" / "attention.csv"):
        assert set(row["kinds"].split(";")) <= ATTENTION
        assert row["multiplies"] in {"in 8 bits", "at 16 bits"}


def test_an_announced_generation_is_taken_to_run_what_the_one_before_does_and_says_that_nobody_showed_it() -> None:
    ahead, before = catalog.accelerator("mi455x"), catalog.accelerator("mi355x")
    for engine in ("vllm", "sglang"):
        runs = formats(engine, ahead)
        assert runs.keys() == formats(engine, before).keys() and runs
        assert all("nobody has shown" in one.note for one in runs.values())
    assert not formats("trtllm", ahead)
    for row in table(DATA / "engines" / "expected.csv"):
        parts = [part for part in catalog.accelerators().values() if part.architecture == row["architecture"]]
        assert parts and {part.status for part in parts} == {"announced"}, (
            "released: its engines' documents are to be read"
        )
