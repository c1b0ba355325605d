"""
Runs that would lie: each is refused or marked, and a mark keeps it from calibrating anything.

A prefix cache and a late client have tests of their own in `test_serve`, too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.asked import told
from tests.command import told as answer_of
from tests.measure.stub import Stub, serving
from tonnage.errors import TonnageError
from tonnage.measure import beside
from tonnage.measure.points import read_pasted_training
from tonnage.questions.calibrate.question import calibrate_request
from tonnage.questions.calibrate.training import train_rows_of

AS = ["--as", "meta-llama/Llama-3.1-8B-Instruct", "--accelerator", "L4", "--engine", "vllm", "--weights", "fp8"]
SERVE = ["--prompt-tokens", "40", "--output-tokens", "12", "--requests", "18"]
MARK = "Not to be used"
WORK = "import os, time\nif os.fork(): os._exit(0)\nend = time.monotonic() + 6\nwhile time.monotonic() < end: pass"
"""A program that is nobody's child: it goes on for six seconds when the one that started it has ended."""


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TONNAGE_HISTORY", "off")
    monkeypatch.delenv("TONNAGE_BUSY", raising=False)


def quick(url: str, folder: Path, *, time_s: int = 30) -> Any:
    sizes = ["--most", "2", "--isl", "40", "--osl", "6", "--time", f"{time_s} s"]
    return answer_of("measure", "quick", url, "--model", "m", *AS, *sizes, "--output", str(folder))


def served(url: str, folder: Path, *more: str) -> Any:
    """What a load of 18 requests was."""
    folder.mkdir(exist_ok=True)
    done = answer_of("measure", "serve", url, "--model", "m", *SERVE, *more, "--output", str(folder / "out.jsonl"))
    assert (folder / "out.jsonl").exists(), done.output
    return told("measure", "import", str(folder / "out.jsonl"))


@pytest.mark.parametrize(
    ("listed", "says"),
    [
        ([{"id": "somebody-else"}], "the server serves 'somebody-else', not 'm'; name it as the server does"),
        ([{"id": "m", "root": "Qwen/Qwen3-0.6B"}], "is Qwen/Qwen3-0.6B, not meta-llama"),
        ([{"id": "m", "meta": {"n_params": 1.1e9}}], "has 1.1 B parameters, but meta-llama/Llama-3.1-8B-Instruct has"),
    ],
)
def test_another_model_behind_the_address_is_refused(listed: list[object], says: str, tmp_path: Path) -> None:
    stub = Stub(listed={"data": listed})
    with serving(stub) as url:
        done = quick(url, tmp_path)
    assert done.exit_code == 2 and says in " ".join(done.output.split()), done.output
    assert not stub.seen, "the model was asked nothing"


def test_a_list_that_has_the_model_is_no_hindrance(tmp_path: Path) -> None:
    listed = {"data": [{"id": "M", "meta": {"n_params": 8.03e9}}, {"id": "other"}]}
    with serving(Stub(listed=listed, named="m-2507")) as url:
        found = served(url, tmp_path, "--busy")
    assert not any("of the model" in note for note in found.notes) and found.points[0].completed == 18


def test_answers_of_another_model_are_marked(tmp_path: Path) -> None:
    with serving(Stub(named="smaller-one")) as url:
        found = served(url, tmp_path, "--busy")
    assert any(note.startswith(MARK) and "'smaller-one', not of 'm'" in note for note in found.notes)


def test_a_server_that_slows_down_is_marked(tmp_path: Path) -> None:
    with serving(Stub(itl_s=0.02, slows_after=11)) as url:
        found = served(url, tmp_path)
    assert any(note.startswith(MARK) and "slower towards its end" in note for note in found.notes), found.notes


def test_a_steady_server_is_not_marked(tmp_path: Path) -> None:
    with serving(Stub(itl_s=0.04)) as url:
        found = served(url, tmp_path, "--busy")
    assert not any("towards its end" in note for note in found.notes)


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="counters of Linux")
def test_another_program_is_marked_and_may_be_allowed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WORK], check=True)
    with serving(Stub(ttft_s=0.05, itl_s=0.005)) as url:
        found = served(url, tmp_path / "marked")
        allowed = served(url, tmp_path / "allowed", "--busy")
    assert any(note.startswith(MARK) and "other programs used" in note for note in found.notes), found.notes
    assert not any(note.startswith(MARK) and "other programs" in note for note in allowed.notes)


def test_a_card_that_is_held_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    row = "0, 220.00, 350.00, Not Active, Active, Not Active"
    tool.write_text(f"#!/bin/sh\ncase \"$1\" in *apps*) echo 999999;; *) echo '{row}';; esac\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert shutil.which("nvidia-smi") == str(tool)
    held = ("card 0 is slowed down by its heat (driver)",), ("card 0 is limited to 220 W of 350 W",)
    assert beside.cards_held() == held
    with serving(Stub(ttft_s=0.1, itl_s=0.01)) as url:
        found = served(url, tmp_path / "run")
    assert any(note.startswith(MARK) and "slowed down by its heat" in note for note in found.notes), found.notes
    assert "Measured while card 0 is limited to 220 W of 350 W." in found.notes


def moment(**fields: float) -> beside.Moment:
    usual = {"at_s": 0.0, "busy_s": 0.0, "stolen_s": 0.0, "ours_s": 0.0, "held_s": 0.0, "hot": 0}
    return beside.Moment(**{**usual, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("behind", "says"),
    [
        ({"busy_s": 9.0, "ours_s": 1.0}, "other programs used 0.8"),
        ({"stolen_s": 5.0}, "hypervisor"),
        ({"held_s": 2.0}, "quota made it wait 20 %"),
        ({"hot": 3}, "heat slowed the processor down 3 times"),
    ],
)
def test_what_takes_time_is_named(behind: dict[str, float], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    (said,) = beside.taken(moment(), moment(at_s=10.0, **behind))
    assert says in said
    assert not [*beside.taken(moment(), moment(at_s=10.0, busy_s=10.0, ours_s=9.9))]
    assert not [*beside.taken(None, moment(at_s=10.0))]


@pytest.mark.parametrize("fault", ["drip", "slow"])
def test_the_time_is_kept_by_a_server_that_drips(fault: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    with serving(Stub(fault=lambda _: fault)) as url:
        done = quick(url, tmp_path, time_s=9)
    assert done.exit_code == 2 and "within" in done.output
    assert time.monotonic() - begun < 9 + 3


def test_the_time_is_kept_where_later_answers_drip(tmp_path: Path) -> None:
    begun = time.monotonic()
    with serving(Stub(fault=lambda number: "drip" if number > 12 else "")) as url:
        done = quick(url, tmp_path, time_s=12)
    assert done.exit_code == 2 and time.monotonic() - begun < 12 + 3, done.output


def test_a_warm_cache_is_a_setting(tmp_path: Path) -> None:
    def usage(prompt: int, wanted: int) -> dict[str, object]:
        details = {"cached_tokens": prompt // 2}
        return {"prompt_tokens": prompt, "completion_tokens": wanted, "prompt_tokens_details": details}

    stub = Stub(usage=usage)
    with serving(stub) as url:
        warm = served(url, tmp_path / "warm", "--shared", "50%", "--busy")
        asked = [json.loads(body)["messages"][0]["content"].split() for body in stub.seen[-18:]]
        cold = served(url, tmp_path / "cold", "--busy")
    assert any("A warm cache, as asked: prompts share 50 %" in note for note in warm.notes)
    assert not any(note.startswith(MARK) and "cache" in note for note in warm.notes)
    half = len(asked[0]) // 2
    assert len({" ".join(words[:half]) for words in asked}) == 1 and len({" ".join(words) for words in asked}) == 18
    assert any(note.startswith(MARK) and "prefix cache" in note for note in cold.notes)


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="counters of Linux")
def test_a_device_is_not_written_down_beside_another_program(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WORK], check=True)
    file = tmp_path / "own.toml"
    command = ["measure", "device", "--seconds", "2 s", "--out", str(file)]
    done = answer_of(*command)
    assert done.exit_code == 2 and "other programs used" in done.output and not file.exists(), done.output
    assert answer_of(*command, "--busy").exit_code == 0 and file.exists()


def test_what_a_training_run_forbids_calibrates_nothing() -> None:
    row = "step 1.9 s at batch 8 seq 4096 on 8 H100"
    found = read_pasted_training(row)
    marked = replace(found, notes=("Not to be used: other programs used 1.0 of 2 cores beside it; end them.",))
    asked = calibrate_request({"model": "meta-llama/Llama-3.1-8B"})
    assert train_rows_of(found, asked)
    with pytest.raises(TonnageError, match="forbids its numbers"):
        train_rows_of(marked, asked)
