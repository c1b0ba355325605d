"""Five minutes against a server that behaves as told: three points, and the calibration that they make."""

import json
from collections.abc import Iterable
from itertools import pairwise, takewhile
from pathlib import Path

import pytest

from tests.asked import Refused, told
from tests.command import told as answer_of
from tests.measure.stub import Stub, serving
from tonnage.domain.measurement import Load
from tonnage.measure.records import Header, Log, Outcome, Segment, Spec, StageEnd, log_of
from tonnage.measure.summary import drifts_between, undisturbed

ASKED = ["--model", "m", "--as", "meta-llama/Llama-3.1-8B-Instruct", "--accelerator", "L4", "--engine", "vllm"]
SHORT = ["--most", "3", "--isl", "60", "--osl", "4", "--time", "30 s"]


def test_three_points_of_a_server_there_and_back(tmp_path: Path) -> None:
    sizes = ["--most", "9", "--isl", "50", "--osl", "8", "--time", "60 s"]
    with serving(Stub(ttft_s=0.02, itl_s=0.004)) as url:  # what it fits to them is of no interest, and may be refused
        answer_of("measure", "quick", url, *ASKED, *sizes, "--output", str(tmp_path))
    files = sorted(tmp_path.glob("quick-*.jsonl"), key=lambda path: path.stat().st_mtime)
    points = [point for path in files for point in told("measure", "import", str(path)).points]
    assert [point.concurrency for point in points] == [1, 3, 9, 9, 3, 1]
    assert all(point.completed == max(30, 12 * point.concurrency) and not point.failed for point in points)


def test_it_calibrates_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TONNAGE_HISTORY", "off")
    sizes = ["--weights", "fp8", "--most", "2", "--isl", "64", "--osl", "8", "--time", "60 s"]
    for ttft_s in (0.1, 0.5, 2.5):  # on a busy machine the client is late, and a run disowns itself
        with serving(Stub(ttft_s=ttft_s, itl_s=0.03)) as url:
            done = answer_of("measure", "quick", url, *ASKED, *sizes, "--output", str(tmp_path / f"{ttft_s}"), "--json")
        if done.exit_code == 0:
            break
        assert "lateness" in done.output
    assert done.exit_code == 0, done.output
    found = json.loads(done.output[done.output.index("{") :])
    assert found["calibration"]["points"] == 2 and found["after"] < found["before"]
    assert list((tmp_path / "home" / "tonnage" / "catalog").glob("calibration-l4*-vllm.toml"))


def rounds(*paces: float, places: int) -> Log:
    """A log of rounds of so many answers, whose prompts and tokens take `paces` times as long as undisturbed."""
    load, outcomes, now = Load(concurrency=places, requests=places * len(paces)), [], 0.0
    for number, pace in enumerate(paces):
        for place in range(places):
            # Whose prompt comes between whose tokens is luck: the time of a round is the same.
            waits, first = (0.2, 0.1) if (number + place) % 2 else (0.1, 0.2)
            times = {"intended_s": now, "sent_s": now, "first_s": now + first * pace}
            end_s = now + (first + waits + 0.5) * pace
            where = {"segment": 0, "stage": 0, "index": number * places + place}
            outcomes.append(
                Outcome(**where, **times, last_s=end_s, end_s=end_s, prompt_tokens=9, output_tokens=11)  # type: ignore[arg-type]
            )
        now += 0.8 * pace
    spec = Spec(url="http://h/v1", kind="completions", model="m", load=load, prompt_tokens=9, output_tokens=11)
    header, start = Header(spec=spec, version="1", date=""), Segment(segment=0, stage=0, load=load, words=9, date="")
    return log_of(header, [start, *outcomes, StageEnd(stage=0, segment=0)])


def test_what_disturbs_half_of_the_rounds_moves_no_number() -> None:
    quiet = undisturbed([rounds(*[1.0] * 12, places=4)])
    busy = undisturbed([rounds(*[1.0, 1.9] * 6, places=4), rounds(*[1.5, 1.0] * 6, places=4)])
    for name in ("ttft_s", "tpot_s"):
        assert getattr(busy, name).mean == pytest.approx(getattr(quiet, name).mean), name
    assert busy.output_tokens_per_s == pytest.approx(quiet.output_tokens_per_s) == pytest.approx(4 * 11 / 0.8)
    (slower,) = drifts_between([rounds(*[1.0] * 12, places=4), rounds(*[1.5] * 12, places=4)])
    assert slower.startswith("Not to be used: answers at load 4 grew 50 % slower towards its end")
    assert not [*drifts_between([rounds(*[1.0, 1.9] * 6, places=4), rounds(*[1.5, 1.0] * 6, places=4)])]


def common_words(texts: Iterable[str]) -> int:
    """The most words that two of them begin with."""
    pairs = pairwise(sorted(text.split() for text in texts))
    return max(len([*takewhile(lambda words: words[0] == words[1], zip(*pair, strict=False))]) for pair in pairs)


@pytest.mark.parametrize(
    "command",
    [
        ["quick", *ASKED, *SHORT],
        ["serve", "--model", "m", "--sweep", "--most", "4", "--requests", "8", "--endpoint", "completions"],
    ],
    ids=["quick", "serve"],
)
def test_no_prompt_is_sent_twice_by_two_runs(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prefix cache would answer for the engine: 38 % of the tokens of three points were in llama.cpp's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TONNAGE_HISTORY", "off")
    stub = Stub(ttft_s=0.002)
    with serving(stub) as url:
        for run in ("first", "second"):
            output = tmp_path / run
            answer_of("measure", command[0], url, *command[1:], "--output", str(output))
    prompts = [json.loads(body)["prompt"] for body in stub.seen]
    assert len(prompts) >= 60 and len(set(prompts)) == len(prompts)
    assert common_words(prompts) <= 5


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--accelerator", "H10O"], "no accelerator 'H10O'; did you mean 'H100'"),
        (["--as", "llama-3.1-8b-instrukt"], "no model 'llama-3.1-8b-instrukt'; did you mean"),
        (["--engine", "vlm"], "no engine 'vlm'; did you mean 'vllm'"),
        (["--weights", "fp9"], "no precision 'fp9'"),
        (["--option", "max_num_seq=1"], "write NAME=VALUE with a name of"),
        (["--as", "meta-llama/Llama-3.1-70B-Instruct"], "exceed the 20.1 GiB"),
        (["--tp", "3"], "tp 3 does not divide"),
        (["--most", "100000000"], "is outside 1 to"),
        (["--isl", "0"], "prompt tokens: 0 is outside"),
    ],
    ids=["accelerator", "model", "engine", "format", "setting", "too large", "ranks", "requests at once", "prompt"],
)
def test_names_are_checked_before_anything_is_sent(wrong: list[str], says: str, tmp_path: Path) -> None:
    stub = Stub()
    with serving(stub) as url:
        done = answer_of("measure", "quick", url, *ASKED, *SHORT, *wrong, "--output", str(tmp_path / "out"))
    assert done.exit_code == 2 and says in done.output
    assert not stub.heads and not (tmp_path / "out").exists()


def test_an_engine_that_nobody_names_is_asked_for_before_anything_is_measured(tmp_path: Path) -> None:
    stub = Stub()
    with serving(stub) as url:
        done = answer_of("measure", "quick", url, *ASKED[:-2], *SHORT, "--output", str(tmp_path / "out"))
    assert done.exit_code == 2 and "give it (--engine)" in done.output
    assert not stub.seen and not (tmp_path / "out").exists()


def test_too_short_a_time_is_refused() -> None:
    with pytest.raises(Refused, match="too short for three loads"):
        told("measure", "quick", "http://h/v1", *ASKED, "--isl", "64", "--osl", "16", "--time", "5 s")
