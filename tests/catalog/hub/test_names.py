"""Names are taken apart the same way every time, and only what changes no shape is taken off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.catalog.hub.names import find, index, parse_name
from tonnage.errors import BadRequest, TonnageError, UnknownName


@pytest.mark.parametrize(
    ("name", "key", "quantization"),
    [
        ("Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", "qwen3235ba22b", "fp8"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseekr1", None),
        ("Meta-Llama-3-8B", "llama38b", None),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron3nano30ba3b", "bf16"),
        ("Llama-3_3-Nemotron-Super-49B-v1", "llama3.3nemotronsuper49bv1", None),
        ("model-W8A8", "model", "int8"),
        ("model-w4a16", "model", "int4"),
        ("model-NVFP4", "model", "nvfp4"),
        ("model-GPTQ-Int4", "model", "gptq"),
        ("model-AWQ", "model", "awq"),
        ("model-4bit", "model", "int4"),
        ("model-GGUF", "model", "gguf-q4_k_m"),
        ("model-qat-q4_0-gguf", "model", "gguf-q4_0"),
        ("model-bf16-gguf", "model", "gguf-bf16"),
        ("model-GGUF:UD-Q4_K_XL", "model", "gguf-q4_k_m"),
        ("model-MXFP4-Preview", "model", "mxfp4"),
        ("model-FP4-v2", "model", "nvfp4"),
        ("model:q6_k", "model", "gguf-q6_k"),
        ("model-IQ4_XS", "model", "gguf-iq4_xs"),
        ("model-4.0bpw-exl2", "model", "exl2-4.0bpw"),
        ("FP8", "fp8", None),
    ],
)
def test_a_name_taken_apart(name: str, key: str, quantization: str | None) -> None:
    assert parse_name(name)[:2] == (key, quantization)


def test_a_trailing_version_may_be_left_out_where_it_is_the_only_one() -> None:
    known = index(["m/Alpha-7B-v0.1", "m/Beta-7B-v0.1", "m/Beta-7B-v0.3"], {})
    assert find("Alpha-7B", known)[0] == "m/Alpha-7B-v0.1"
    with pytest.raises(UnknownName):
        find("Beta-7B", known)


def test_an_alias_counts_as_a_name() -> None:
    known = index(["m/Alpha-7B"], {"first": "m/Alpha-7B", "vit-b/16": "m/Alpha-7B"})
    assert find("First-Instruct-AWQ", known) == ("m/Alpha-7B", parse_name("First-Instruct-AWQ"))
    assert find("ViT-B/16", known)[0] == "m/Alpha-7B"


def test_a_name_of_megabytes_is_refused_at_once() -> None:
    with pytest.raises(BadRequest, match="too long"):
        parse_name("a" * 1_000_000)


@given(st.text(max_size=300))
def test_any_text_is_a_name_or_one_sentence(name: str) -> None:
    known = index(["meta-llama/Meta-Llama-3-8B"], {})
    try:
        assert find(name, known)[0] == "meta-llama/Meta-Llama-3-8B"
    except TonnageError as problem:
        assert len(str(problem)) < 500
