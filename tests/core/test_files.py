"""Request files: plain values within limits, or one sentence."""

from pathlib import Path

import pytest

from tonnage.core.files import LARGEST_BYTES, read_mapping
from tonnage.errors import TonnageError


def write(folder: Path, data: bytes, name: str = "request.yaml") -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


def test_yaml_and_json_read_alike(tmp_path: Path) -> None:
    yaml = read_mapping(write(tmp_path, b"plan: serve\nrate: 4/s\naccelerator: [H100, A100]\n"))
    json = read_mapping(write(tmp_path, b'{"plan":"serve","rate":"4/s","accelerator":["H100","A100"]}', "r.json"))
    assert yaml == json == {"plan": "serve", "rate": "4/s", "accelerator": ["H100", "A100"]}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"plan: [serve", "not valid YAML in line"),
        (b'{"plan": ', "not valid JSON"),
        (b"- a\n- b\n", "not a list"),
        (b"", "not nothing"),
        (b"just text", "not one text"),
        (b"a: &x [1]\nb: *x\n", "anchors or aliases"),
        (b"rate: 4/s\nrate: 5/s\n", "gives 'rate' twice"),
        (b"a: !!python/object:os.system x\n", "not valid YAML"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"a: " + b"[" * 100 + b"]" * 100, "nested more than"),
        (b"[" * 100_000, "nested|not valid"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "nested"),
        (b"x" * (LARGEST_BYTES + 1), "larger than"),
        (b'{"rate": "4/s", "model": {"rate": 1, "rate": 2}}', "gives 'rate' twice"),
        (b"a: [" + b"[]," * 2_000_000 + b"]", "more than 200,000 values"),
        (b"a: [" + b"1," * 3_000_000 + b"]", "more than 200,000 values"),
        (b'{"a": [' + b"1," * 3_500_000 + b"1]}", "more than 3,000,000 values"),
        (b"deadline: 1:30", "reads 1:30 as another number"),
        (b"prompt_tokens: 010", "reads 010 as another number"),
        (b"a: [12:30:45]", "another number"),
    ],
)
def test_malformed_files_get_one_sentence(tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(TonnageError, match=told) as caught:
        read_mapping(write(tmp_path, data))
    assert "\n" not in str(caught.value)


def test_the_parser_in_python_takes_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = pytest.importorskip("yaml")
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert read_mapping(write(tmp_path, b"a: [1, 2]")) == {"a": [1, 2]}
    with pytest.raises(TonnageError, match="libyaml"):
        read_mapping(write(tmp_path, b"a: 1\n" * 40_000))


def test_numbers_and_texts_that_people_mean(tmp_path: Path) -> None:
    found = read_mapping(write(tmp_path, b"a: 0\nb: 10\nc: 0.5\nd: '010'\ne: \"1:30\"\nf: -7\n"))
    assert found == {"a": 0, "b": 10, "c": 0.5, "d": "010", "e": "1:30", "f": -7}


@pytest.mark.parametrize("path", ["a\0b", "\udc80" * 9 + "\ud800", "x" * 5_000])
def test_paths_that_are_none(path: str) -> None:
    with pytest.raises(TonnageError, match=r"no path|cannot be read|not exist"):
        read_mapping(path)


def test_missing_folder_and_unreadable(tmp_path: Path) -> None:
    with pytest.raises(TonnageError, match="does not exist"):
        read_mapping(str(tmp_path / "no.yaml"))
    with pytest.raises(TonnageError, match="is a folder"):
        read_mapping(str(tmp_path))
