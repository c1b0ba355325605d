"""What a person writes is looked up in one order, and nothing leaves the machine for a known name."""

from pathlib import Path
from typing import Any

import pytest
from tests.catalog.hub.files import CONFIG

from tonnage.catalog import Additions
from tonnage.catalog.hub import resolve
from tonnage.catalog.models import model
from tonnage.domain.model import Model
from tonnage.errors import BadFact, BadRequest, UnknownName


def test_a_model_stays_what_it_is() -> None:
    one = model("gpt2")
    assert resolve(one) is one


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
