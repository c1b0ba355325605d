"""Request files: plain values within limits, or one sentence."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.command import told

LARGEST_BYTES = 8 * 1024 * 1024
ASKED = b"plan: serve\nmodel: 1B\ntraffic: chat\nquick: true\nrate: 4/s\naccelerator: [H100, A100]\n"


def write(folder: Path, data: bytes, name: str = "request.yaml") -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


def refused(path: str) -> str:
    """The one sentence in which `tonnage plan` refuses a file."""
    done = told("plan", path)
    assert done.exit_code == 2 and not done.stdout and done.stderr.count("\n") == 1, done.output
    return done.stderr


def request_of(path: str) -> dict[str, Any]:
    """What a plan understood of a file."""
    done = told("plan", path, "--json")
    assert done.exit_code == 0, done.output
    request: dict[str, Any] = json.loads(done.stdout)["request"]
    return request


def test_yaml_and_json_read_alike(tmp_path: Path) -> None:
    fields = {"plan": "serve", "model": "1B", "traffic": "chat", "quick": True, "rate": "4/s",
              "accelerator": ["H100", "A100"]}  # fmt: skip
    found = request_of(write(tmp_path, ASKED))
    assert found == request_of(write(tmp_path, json.dumps(fields).encode(), "r.json"))
    assert found["rate_per_s"] == 4.0 and found["filters"]["accelerators"] == ["h100-sxm5-80gb", "a100-sxm4-80gb"]


@pytest.mark.parametrize(
    ("data", "says"),
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
        (b"[" + b"1," * 3_000_000 + b"1]", "holds more than 3,000,000 values; expected far fewer"),
        (b"x" * (LARGEST_BYTES + 1), "larger than"),
        (b'{"rate": "4/s", "model": {"rate": 1, "rate": 2}}', "gives 'rate' twice"),
        (b"a: [" + b"[]," * 2_000_000 + b"]", "more than 20,000 values"),
        (b"a: [" + b"1," * 3_000_000 + b"]", "more than 20,000 values"),
        (b'{"a": [' + b"1," * 3_500_000 + b"1]}", "more than 3,000,000 values"),
        (b"deadline: 1:30", "reads 1:30 as another number"),
        (b"prompt_tokens: 010", "reads 010 as another number"),
        (b"a: [12:30:45]", "another number"),
        (b'zones: !!int "010"', "another number"),
        (b"a: " + b"[" * 990 + b"]" * 990, "nested more than 40 deep"),
        (b"? [a]\n: 1\n", "a name must be one text"),
    ],
)
def test_malformed_files_get_one_sentence(tmp_path: Path, data: bytes, says: str) -> None:
    assert re.search(says, refused(write(tmp_path, data)))


def test_the_parser_in_python_takes_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = pytest.importorskip("yaml")
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert request_of(write(tmp_path, ASKED))["rate_per_s"] == 4.0
    assert "libyaml" in refused(write(tmp_path, b"a: 1\n" * 40_000))


def test_numbers_and_texts_that_people_mean(tmp_path: Path) -> None:
    meant = b"zones: 10\nheadroom: 0.5\ncontext: '010'\nspare_replicas: !!str 010\n"
    found = request_of(write(tmp_path, ASKED + meant))
    assert (found["zones"], found["headroom"], found["max_context"]) == (10, 0.5, 10)
    for wrong, said in (
        (b'ttft: "1:30"\n', "ttft: unit ':30'"),
        (b"zones: -7\n", "zones: '-7'"),
    ):
        assert said in refused(write(tmp_path, ASKED + wrong))


@pytest.mark.parametrize("path", ["a\0b", "\udc80" * 9 + "\ud800", "x" * 5_000])
def test_paths_that_are_none(path: str) -> None:
    assert re.search(r"no path|cannot be read|not exist", refused(f"./{path}.yaml"))


def test_missing_folder_and_unreadable(tmp_path: Path) -> None:
    assert "does not exist" in refused(str(tmp_path / "no.yaml")) and "is a folder" in refused(str(tmp_path))


def test_a_text_inside_a_question_is_bounded_as_a_file_is(tmp_path: Path) -> None:
    quotes = write(tmp_path, b"[" * 60 + b"]" * 60, "quotes.json")
    done = told("plan", "serve", "8B", "--rate", "4/s", "--quotes", quotes)
    assert done.exit_code == 2 and "nested more than 40 deep" in done.stderr
