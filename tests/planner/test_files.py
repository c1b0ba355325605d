"""Request files: plain values within limits, or one sentence."""

from pathlib import Path

import pytest

from tonnage.errors import TonnageError
from tonnage.planner.files import LARGEST_BYTES, read_mapping


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
    ],
)
def test_malformed_files_get_one_sentence(tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(TonnageError, match=told) as caught:
        read_mapping(write(tmp_path, data))
    assert "\n" not in str(caught.value)


def test_missing_folder_and_unreadable(tmp_path: Path) -> None:
    with pytest.raises(TonnageError, match="does not exist"):
        read_mapping(str(tmp_path / "no.yaml"))
    with pytest.raises(TonnageError, match="is a folder"):
        read_mapping(str(tmp_path))
