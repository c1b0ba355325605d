"""What a person writes is a model: a name taken apart, a size, fields, looked up in one order."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.catalog.hub.files import CONFIG

from tonnage.catalog import NOTHING, Additions
from tonnage.catalog.hub.names import bare_size, decoder_of_size, find, index, parse_name
from tonnage.catalog.hub.resolve import resolve, resolve_text
from tonnage.catalog.models import model
from tonnage.domain.model import Attention, Model
from tonnage.errors import BadFact, BadRequest, TonnageError, UnknownName
from tonnage.physics.parameters import parameters


def test_a_model_stays_what_it_is() -> None:
    one = model("gpt2")
    assert resolve(one) is one


@pytest.mark.parametrize(("name", "tokens"), [("resnet50", 1.0), ("BAAI/bge-base-en-v1.5", 2.0)])
def test_what_decodes_no_text_is_refused_where_text_is_asked_for(name: str, tokens: float) -> None:
    with pytest.raises(BadRequest, match="decodes no text; ask `tonnage plan infer"):
        resolve_text(name, additions=NOTHING, tokens=tokens)
    assert resolve_text("BAAI/bge-base-en-v1.5", additions=NOTHING, tokens=1.0).layers  # one pass
    assert resolve_text("Qwen/Qwen3-8B", additions=NOTHING, tokens=tokens).layers


def test_a_name_and_a_variant_come_from_the_catalogue() -> None:
    assert resolve("Qwen/Qwen3-8B") == model("Qwen/Qwen3-8B")
    assert resolve("https://huggingface.co/Qwen/Qwen3-8B/tree/main") == model("Qwen/Qwen3-8B")
    assert resolve("hf:Qwen/Qwen3-8B-FP8").quantization == "fp8_block"


def test_fields_written_out_are_a_config_or_our_noun() -> None:
    inline = resolve(CONFIG)
    assert (inline.id, inline.hidden_size, inline.layers[0].count) == ("inline", 64, 2)
    layer = {
        "count": 3,
        "mixer": {"type": "attention", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16},
    }
    noun = resolve({"id": "mine", "hidden_size": 64, "vocab_size": 10, "layers": [layer]})
    assert isinstance(noun, Model)
    assert (noun.id, noun.layers[0].count) == ("mine", 3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "no model_type"),
        ({"layers": 3}, "Expected `array`"),
        ({"layers": [], "hiden_size": 3}, "'hiden_size' is no field of a model"),
        ({"layers": [{"count": -1}], "hidden_size": 8}, "'layers[0].count' is '-1'"),
        ({"layers": [{"count": 1, "mixer": {"type": "nonsense"}}], "hidden_size": 8}, "Invalid value"),
        ({"layers": [{"count": 1}]}, "'hidden_size' is missing"),
    ],
)
def test_wrong_fields_are_one_sentence(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(BadFact) as problem:
        resolve(given)
    assert expected in str(problem.value)


@pytest.mark.parametrize("spec", ["", "   ", None, "a\0b"])
def test_nothing_is_no_model(spec: Any) -> None:
    with pytest.raises(BadRequest, match="is no model"):
        resolve(spec)


def test_an_unknown_name_offline_suggests_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"did you mean .*Qwen3-8B"):
        resolve("Qwen/Qwen3-9B", offline=True)


def test_the_environment_may_forbid_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UnknownName):
        resolve("nobody/nothing-7B")


def test_ones_own_models_are_found(tmp_path: Path) -> None:
    fields = "\n".join(f"{key} = {value!r}" for key, value in CONFIG.items())
    (tmp_path / "own.toml").write_text(f"[[model]]\nid = 'own/tiny'\n{fields}\n", encoding="utf-8")
    assert resolve("own/tiny", additions=Additions(paths=(str(tmp_path),))).hidden_size == 64


@pytest.mark.parametrize(
    "text", ["125M", "350m", "1B", "1.5B", "7b", "13B", "34B", "70b", "175B", "405B", "1T", " 8 B "]
)
def test_the_total_is_the_size_to_one_percent(text: str) -> None:
    found = resolve(text, offline=True)
    assert parameters(found).value == pytest.approx(bare_size(text), rel=0.01)
    assert "dense decoder of that size" in found.assumed[0]


@given(st.floats(min_value=25e6, max_value=4.9e12))
def test_every_size_in_between_is_met(size: float) -> None:
    found = decoder_of_size(size, name="x")
    assert parameters(found).value == pytest.approx(size, rel=0.01)
    mixer = found.layers[0].mixer
    assert isinstance(mixer, Attention)
    assert mixer.num_attention_heads * mixer.head_dim == found.hidden_size
    assert mixer.num_attention_heads % mixer.num_key_value_heads == 0


def test_known_sizes_get_the_shape_such_models_have() -> None:
    seventy = resolve("70B", offline=True)
    assert (seventy.hidden_size, seventy.layers[0].count) == (8192, 80)


@pytest.mark.parametrize("text", ["8x7B", "16x3.8b"])
def test_a_mixture_has_no_shape_from_its_size(text: str) -> None:
    with pytest.raises(BadRequest, match="mixture of experts"):
        resolve(text, offline=True)


@pytest.mark.parametrize("text", ["0B", "1M", "9999B", "0.0001B"])
def test_no_decoder_has_that_size(text: str) -> None:
    with pytest.raises(BadRequest, match="20M to 5T"):
        resolve(text, offline=True)


@pytest.mark.parametrize(
    ("name", "key", "quantization"),
    [
        ("Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", "qwen3-235ba22b", "fp8"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseekr1", None),
        ("Meta-Llama-3-8B", "llama3-8b", None),
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
