"""Files on this machine: a config.json, a folder, safetensors headers, GGUF headers."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.asked import Refused, printed
from tests.catalog.hub.files import (
    CONFIG,
    LLAMA_GGUF,
    gguf_bytes,
    llama_gguf_tensors,
    llama_tensors,
    write_safetensors,
)

from tonnage.catalog.hub import weights
from tonnage.catalog.hub.names import mixture_of_size
from tonnage.catalog.hub.resolve import read_path, resolve
from tonnage.domain.model import Attention, Moe
from tonnage.errors import BadFact, BadRequest
from tonnage.physics.parameters import parameters


def config(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps({**CONFIG, **changes}), encoding="utf-8")
    return path


def test_a_config_and_its_folder_are_the_same_shape(tmp_path: Path) -> None:
    path = config(tmp_path / "tiny")
    assert resolve(str(path)).layers == resolve(str(tmp_path / "tiny")).layers == resolve(path).layers
    assert resolve(str(path)).id == "tiny"


@pytest.mark.parametrize("family", ["gpt2", "gpt_bigcode"])
def test_learned_positions_end_the_context_where_a_file_leaves_both_out(tmp_path: Path, family: str) -> None:
    shape = {"model_type": family, "n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(shape), encoding="utf-8")
    fitted = ("fit", str(tmp_path), "--accelerator", "H100", "--context")
    assert printed(*fitted, "1024")
    with pytest.raises(Refused, match="65,536 tokens exceed the 1,024"):
        printed(*fitted, "65536")


def test_headers_give_exact_bytes_and_the_mixture_of_formats(tmp_path: Path) -> None:
    config(tmp_path)
    first = write_safetensors(tmp_path / "model-00001-of-00002.safetensors", llama_tensors(1))
    second = write_safetensors(tmp_path / "model-00002-of-00002.safetensors", {"extra": [10, 10]}, "F8_E4M3")
    found = resolve(str(tmp_path))
    assert found.stored_weight_bytes == first + second
    assert "bf16" in found.notes
    assert "fp8" in found.notes


def test_the_count_of_the_shape_is_that_of_the_headers(tmp_path: Path) -> None:
    config(tmp_path)
    written = write_safetensors(tmp_path / "model.safetensors", llama_tensors())
    assert parameters(resolve(str(tmp_path))).value * 2 == written


def test_weights_held_twice_are_counted_once(tmp_path: Path) -> None:
    config(tmp_path)
    size = write_safetensors(tmp_path / "model.safetensors", llama_tensors())
    write_safetensors(tmp_path / "consolidated.safetensors", llama_tensors())
    assert resolve(str(tmp_path)).stored_weight_bytes == size
    index = {"weight_map": {"x": "consolidated.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert resolve(str(tmp_path)).stored_weight_bytes == size


def test_an_index_that_names_a_missing_shard(tmp_path: Path) -> None:
    config(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", llama_tensors())
    index = {"weight_map": {"x": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(BadFact, match=r"model-00002-of-00002.safetensors', which is not there"):
        resolve(str(tmp_path))


def test_a_single_file_is_read_by_its_tensors_when_nothing_lies_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "some.safetensors"
    size = write_safetensors(path, llama_tensors())
    found = resolve(str(path))
    assert found.hidden_size == 64
    assert found.stored_weight_bytes == size
    assert "no config.json" in found.assumed[0]


def test_a_single_file_without_a_decoder_gives_sizes_only(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    size = write_safetensors(path, {"conv.weight": [8, 3, 3, 3]})
    found = resolve(str(path))
    assert (found.stored_weight_bytes, parameters(found).value) == (size, 8 * 27)
    assert "sizes only" in found.assumed[0]


def test_nvidias_quantisation_file_counts(tmp_path: Path) -> None:
    config(tmp_path)
    (tmp_path / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}', encoding="utf-8")
    assert resolve(str(tmp_path)).quantization == "fp8"


def test_a_file_of_our_own_noun(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps({"id": "net", "kind": "cnn", "network": {"flop": 8e9}, "extra_parameters": 5e6}))
    found = resolve(str(path))
    assert found.network is not None
    assert parameters(found).value == 5e6


def test_a_catalogue_name_wins_over_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config(tmp_path / "gpt2")
    config(tmp_path / "my-model")
    assert resolve("gpt2").id == "openai-community/gpt2"
    assert resolve("./gpt2").hidden_size == 64
    assert resolve("my-model").hidden_size == 64


@pytest.mark.parametrize("kind", [12, 1, 8, 0])
def test_gguf_gives_shape_and_exact_bytes(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_bytes(LLAMA_GGUF, llama_gguf_tensors(kind)))
    found = resolve(str(path))
    matrices = 2 * 100 * 256 + 2 * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256)
    block, size = {12: (256, 144), 1: (1, 2), 8: (32, 34), 0: (1, 4)}[kind]
    assert found.stored_weight_bytes == matrices // block * size + 5 * 256 * 4
    assert parameters(found).value == matrices + 5 * 256
    assert (found.quantization, found.id, found.max_context) == ("gguf-q4_k_m", "tiny", 2048)


def test_gguf_without_an_output_matrix_ties_it(tmp_path: Path) -> None:
    tensors = {name: tensor for name, tensor in llama_gguf_tensors(1).items() if name != "output.weight"}
    (tmp_path / "x.gguf").write_bytes(gguf_bytes(LLAMA_GGUF, tensors, version=2))
    assert resolve(str(tmp_path / "x.gguf")).tie_word_embeddings


def test_gguf_of_other_families(tmp_path: Path) -> None:
    moe = {
        **{name.replace("llama.", "qwen3moe."): value for name, value in LLAMA_GGUF.items()},
        "general.architecture": "qwen3moe",
        "qwen3moe.expert_count": 8,
        "qwen3moe.expert_used_count": 2,
        "qwen3moe.expert_feed_forward_length": 64,
        "qwen3moe.attention.key_length": 64,
    }
    (tmp_path / "moe.gguf").write_bytes(gguf_bytes(moe, llama_gguf_tensors(1)))
    found = resolve(str(tmp_path / "moe.gguf"))
    assert isinstance(found.layers[0].feed_forward, Moe)
    assert isinstance(found.layers[0].mixer, Attention)
    assert found.layers[0].mixer.qk_norm
    mixtral = {**LLAMA_GGUF, "llama.expert_count": 8, "llama.expert_used_count": 2}
    (tmp_path / "mix.gguf").write_bytes(gguf_bytes(mixtral, llama_gguf_tensors(1)))
    assert resolve(str(tmp_path / "mix.gguf")).family == "Mixtral"


def test_gguf_of_an_unlisted_mixture_takes_the_nearest_format_and_says_so(tmp_path: Path) -> None:
    settings = {**LLAMA_GGUF, "general.file_type": 999}
    (tmp_path / "x.gguf").write_bytes(gguf_bytes(settings, llama_gguf_tensors(8)))
    found = resolve(str(tmp_path / "x.gguf"))
    assert found.quantization == "gguf-q8_0"
    assert "are treated as gguf-q8_0" in found.assumed[-1]


def test_a_split_gguf_is_read_whole(tmp_path: Path) -> None:
    tensors = llama_gguf_tensors(1)
    names = list(tensors)
    first = {name: tensors[name] for name in names[:5]}
    rest = {name: tensors[name] for name in names[5:]}
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(gguf_bytes(LLAMA_GGUF, first))
    with pytest.raises(BadFact, match=r"m-00002-of-00002.gguf' is not there"):
        resolve(str(tmp_path / "m-00001-of-00002.gguf"))
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(gguf_bytes({}, rest))
    whole = tmp_path / "whole.gguf"
    whole.write_bytes(gguf_bytes(LLAMA_GGUF, tensors))
    split = resolve(str(tmp_path / "m-00001-of-00002.gguf"))
    assert split.stored_weight_bytes == resolve(str(whole)).stored_weight_bytes
    assert split.layers == resolve(str(whole)).layers


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("config.json", b"", "is not JSON"),
        ("config.json", b"[1, 2]", "holds a list; expected an object"),
        ("config.json", b"{" * 10, "is not JSON"),
        ("config.json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deep"),
        ("config.json", b'{"x": "' + b"a" * (5 << 20) + b'"}', "expected at most"),
        ("config.json", b"\xff\xfe{}", "is not JSON"),
        ("x.safetensors", b"", "header length"),
        ("x.safetensors", struct.pack("<Q", 1 << 60) + b"{}", "header length"),
        ("x.safetensors", struct.pack("<Q", 2) + b"[]", "expected an object"),
        ("x.safetensors", struct.pack("<Q", 7) + b'{"a":1}', "expected an object with dtype"),
        ("x.gguf", b"", "ends too early"),
        ("x.gguf", b"GGML" + bytes(40), "expected 'GGUF'"),
        ("x.gguf", b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version is '1'"),
        ("x.gguf", b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0), "expected at most 65,536"),
        ("x.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 50), "a text of"),
        ("x.gguf", gguf_bytes({"general.architecture": 7}, {}), "expected a name such as llama"),
        ("x.gguf", gguf_bytes(LLAMA_GGUF, llama_gguf_tensors())[:-4096], "cut short"),
        ("x.gguf", gguf_bytes(LLAMA_GGUF, {"a": ([3], 77)}), "type '77'"),
        ("x.gguf", gguf_bytes(LLAMA_GGUF, {"a": ([100], 12)}), "expected a multiple of 256"),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BadFact) as problem:
        resolve(str(path))
    assert expected in str(problem.value)
    assert str(path)[:40] in str(problem.value)
    assert len(str(problem.value)) < 500


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"dtype": "BF16", "shape": [4], "data_offsets": [0, 9999]}, "expected begin <= end"),
        ({"dtype": "BF16", "shape": [4], "data_offsets": [8, 0]}, "expected begin <= end"),
        ({"dtype": "BF16", "shape": [4], "data_offsets": [0, 4]}, "expected 8 for BF16"),
        ({"dtype": "BF16", "shape": [-4], "data_offsets": [0, 8]}, "a list of whole numbers"),
        ({"dtype": 3, "shape": [4], "data_offsets": [0, 8]}, "a name such as BF16"),
        ({"dtype": "BF16", "shape": [4], "data_offsets": [0]}, "a begin and an end"),
    ],
)
def test_a_tensor_that_does_not_fit_its_place(tmp_path: Path, entry: dict[str, Any], expected: str) -> None:
    header = json.dumps({"w": entry}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(BadFact, match="tensor 'w'") as problem:
        resolve(str(path))
    assert expected in str(problem.value)


def test_nothing_there_and_nothing_in_it(tmp_path: Path) -> None:
    with pytest.raises(BadFact, match="no such file or folder"):
        resolve(str(tmp_path / "none"))
    with pytest.raises(BadFact, match=r"no config\.json in it"):
        resolve(str(tmp_path))


def _setting(name: bytes, inner: int, count: int, body: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name + struct.pack("<IIQ", 9, inner, count) + body


@pytest.mark.parametrize(
    ("entries", "body", "says"),
    [
        (1, _setting(b"a", 8, 16_000_000, b""), "a list of 16,000,000 items"),
        (3, b"".join(_setting(b"%d" % i, 8, 900_000, bytes(8 * 900_000)) for i in range(3)), "over 2,000,000 texts"),
        (300, b"".join(_setting(b"%d" % i, 0, 8_000, bytes(8_000)) for i in range(300)), "over 2,000,000 texts"),
        (2, _setting(b"a", 0, 1, b"x") * 2, "gives the setting 'a' twice"),
        (1, _setting(b"a", 8, 9_000, b"x" * 99), "ends too early, or a text of it is too long"),
    ],
)
def test_headers_larger_than_any_models(tmp_path: Path, entries: int, body: bytes, says: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, entries) + body)
    with pytest.raises(BadFact, match=says):
        read_path(path)


def test_a_name_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "hidden_size": 64, "hidden_size": 128}')
    with pytest.raises(BadFact, match="gives 'hidden_size' twice"):
        read_path(path)


def test_more_tensors_than_any_model_in_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "MAX_TENSORS", 30)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    for number in (1, 2):
        write_safetensors(tmp_path / f"model-{number}.safetensors", llama_tensors())
    with pytest.raises(BadFact, match="hold over 30 tensors"):
        resolve(str(tmp_path))


@pytest.mark.parametrize(
    ("total", "active", "says"), [(3e9, 30e9, "no sizes"), (9e12, 1e9, "no sizes"), (2e12, 0.5e9, "are too few")]
)
def test_a_row_of_the_catalogue_without_sizes_of_a_mixture(total: float, active: float, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        mixture_of_size(total, active, name="a/b")
