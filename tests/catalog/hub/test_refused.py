"""What a model's file or name cannot say, one sentence each: every condition of every reader decides somewhere."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.hub.files import (
    CONFIG,
    LLAMA_GGUF,
    gguf_bytes,
    llama_gguf_tensors,
    llama_tensors,
    text,
    write_safetensors,
)

import tonnage
from tonnage.errors import TonnageError

DECI = {"model_type": "deci", "num_key_value_heads": None}
NAS = {"model_type": "nemotron-nas"}
HYBRID = {"model_type": "nemotron_h", "num_hidden_layers": 2}


def refused(spec: Any) -> str:
    with pytest.raises(TonnageError) as caught:
        tonnage.model(spec)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (DECI, "'num_key_value_heads_per_layer' is missing; expected a number for each layer"),
        *(
            ({**DECI, "num_key_value_heads_per_layer": wrong}, "'num_key_value_heads_per_layer' is .* whole numbers")
            for wrong in ("xx", [1], [1.5, 2], [1 << 40, 2], [1] * 9000)
        ),
        *(({**NAS, "block_configs": wrong}, "'block_configs' .* a list of objects") for wrong in (7, [], [7], None)),
        *(
            ({**NAS, "block_configs": [{"ffn": {"ffn_mult": wrong}}]}, "'block_configs.0..ffn.ffn_mult' .* above 0")
            for wrong in (True, "wide", 100, 0)
        ),
        *(({**HYBRID, "hybrid_override_pattern": wrong}, "expected 2 letters of M") for wrong in ("M", "MX")),
        ({**HYBRID, "layers_block_type": ["x", "x"]}, "expected mamba, attention, mlp or moe"),
        ({"layer_types": "full_attention"}, "a list of 2 texts"),
        ({"layer_types": [7, 7]}, "a list of 2 texts"),
        ({"tie_word_embeddings": 2}, "expected true or false"),
        ({"num_key_value_heads": -1}, "'num_key_value_heads' is '-1'"),
    ],
)
def test_a_config_says_what_its_family_has(fields: dict[str, Any], says: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, **fields}), encoding="utf-8")
    assert re.search(says, refused(str(tmp_path / "config.json")))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("https://example.com/", "names no model on a hub"),
        ("hf:", "names no model on a hub"),
        ("a\0b", "is no model"),
    ],
)
def test_a_name_is_one_of_a_model(name: str, says: str) -> None:
    assert re.search(says, refused(name))


def test_a_model_written_out_is_bounded(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    assert "nested more than 40 deep" in refused({"id": "a/b", "layers": deep})
    (tmp_path / "own.json").write_text(json.dumps({"id": "a/b", "layers": deep}), encoding="utf-8")
    assert "nested more than 40 deep" in refused(str(tmp_path / "own.json"))
    (tmp_path / "config.json").write_text("[" * 3_500_000, encoding="utf-8")
    assert "more than 3,000,000 values" in refused(str(tmp_path / "config.json"))


def test_of_two_models_in_a_folder_one_is_named(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(gguf_bytes(LLAMA_GGUF, llama_gguf_tensors(1)))
    assert "holds 2 GGUF models; name one" in refused(str(tmp_path))


ENDS = "ends too early"
LIST = text("x") + struct.pack("<I", 9)
WORDS = 9_000
VOCABULARY = LIST + struct.pack("<IQ", 8, WORDS)


def header(*settings: bytes, tensors: int = 0, count: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, count or len(settings)) + b"".join(settings)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (header(count=70_000), "70,000 settings; expected at most"),
        (header(tensors=70_000), "70,000 tensors"),
        (header(text("x") + struct.pack("<IQ", 8, 9) + b"cut"), ENDS),
        (header(LIST + struct.pack("<IQ", 4, 9) + bytes(30)), ENDS),
        (header(LIST + struct.pack("<IQ", 9, 1) + bytes(8)), "type '9'"),
        (header(LIST + struct.pack("<IQ", 99, 1) + bytes(8)), "type '99'"),
        (header(VOCABULARY + struct.pack("<Q", 0) * (WORDS - 1)), ENDS),
        (header(VOCABULARY + struct.pack("<Q", 0) * (WORDS - 1) + struct.pack("<Q", 9) + b"cut"), ENDS),
        (header(VOCABULARY + struct.pack("<Q", 1 << 23)), "a text of it is too long"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + struct.pack("<I", 9) + bytes(84), "has 9 sides"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + struct.pack("<IQQIQ", 2, 1 << 40, 1 << 20, 0, 0),
            f"has {1 << 60} values",
        ),
    ],
)
def test_a_gguf_header_is_whole_and_of_a_models_size(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    assert re.search(says, refused(str(tmp_path / "x.gguf")))


def test_a_gguf_header_ends_before_its_file(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(header(LIST + struct.pack("<IQ", 10, 1 << 24), count=3))
    with path.open("r+b") as file:
        file.truncate(200_000_000)  # of zeros, which no disk holds
    assert "too long; expected a whole file" in refused(str(path))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"shape": {}}, "shape is"),
        ({"shape": [1.5]}, "shape is"),
        ({"data_offsets": 7}, "data_offsets is"),
        ({"data_offsets": [0]}, "data_offsets is"),
        ({"data_offsets": ["a", "b"]}, "data_offsets is"),
        ({"dtype": 7}, "dtype is"),
        ({"shape": [3]}, "expected 6 for BF16"),
    ],
)
def test_a_tensor_is_described_whole(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    content = json.dumps({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]} | changes}).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(content)) + content + bytes(4))
    assert says in refused(str(tmp_path / "x.safetensors"))


def test_a_format_of_tomorrow_is_counted_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    write_safetensors(tmp_path / "model.safetensors", llama_tensors())
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content.replace(b'"BF16"', b'"XY99"', 1))
    assert tonnage.model(str(tmp_path)).id


@pytest.mark.parametrize("mapped", [[], 7, {"a": 7}, "model.safetensors"])
def test_an_index_maps_names_to_files(mapped: object, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    write_safetensors(tmp_path / "model.safetensors", llama_tensors())
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": mapped}), encoding="utf-8")
    assert "expected an object from tensor to file" in refused(str(tmp_path))
