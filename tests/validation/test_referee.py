"""Another program is asked one line a case; what it says is judged, and what it does wrong is one sentence."""

import json
import sys
from pathlib import Path

import pytest
from tests.validation.samples import point, sample, training

from tonnage.errors import BadRequest
from tonnage_accuracy.referee import PROTOCOL, referee_scores

ECHO = """
import json, sys
print(json.dumps({"predictor": "echo 1", "fitted_on": ["X"]}), flush=True)
for line in sys.stdin:
    question = json.loads(line)
    print(json.dumps({"id": question["id"], "answers": {w["quantity"]: 7 for w in question["wanted"]}}), flush=True)
"""


@pytest.fixture
def command(tmp_path: Path):  # type: ignore[no-untyped-def]
    """A program as a command."""

    def written(program: str) -> str:
        path = tmp_path / "predictor.py"
        path.write_text(program, encoding="utf-8")
        return f"{sys.executable} {path}"

    return written


def test_every_number_is_asked_for_and_answers_are_scores(command) -> None:  # type: ignore[no-untyped-def]
    rows = [sample(id="a"), point(id="b"), training(id="c"), point(id="d", accelerator_id=None)]
    scores, said = referee_scores(rows, command(ECHO))
    assert [(item.id, item.quantity, item.predicted) for item in scores if item.id in "abc"] == [
        ("a", "ttft_ms", 7),
        ("a", "tpot_ms", 7),
        ("b", "e2e_ms", 7),
        ("b", "output_tokens_per_s", 7),
        ("c", "step_time_s", 7),
        ("c", "tokens_per_s_per_accel", 7),
        ("c", "fits", 7),
    ]
    assert {item.reason for item in scores if item.id == "d"} == {
        "accelerator not in the catalogue: the row names none"
    }
    assert (said.name, said.fitted_on) == ("echo 1", frozenset({"X"}))


def test_a_question_is_a_case_of_ours_with_what_is_wanted(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    heard = tmp_path / "heard"
    program = f"import sys\nopen({str(heard)!r}, 'w').write(sys.stdin.read())"
    referee_scores([point(phase="prefill", cached_tokens=1000, ttft_p50_ms=5)], command(program))
    (question,) = (json.loads(line) for line in heard.read_text(encoding="utf-8").splitlines())
    assert (question["protocol"], question["id"], question["cached_tokens"]) == (PROTOCOL, "X-1", 1000)
    assert question["case"]["kind"] == "serve" and question["case"]["isl"] == 1024
    assert question["wanted"][0] == {"quantity": "ttft_ms", "statistic": "p50", "unit": "ms"}


def test_answers_may_come_late_in_any_order_with_intervals_and_refusals_are_counted(command) -> None:  # type: ignore[no-untyped-def]
    program = """
import json, sys
first, second, third = (json.loads(line)["id"] for line in sys.stdin)
print(json.dumps({"id": second, "refused": "no such\\nthing"}))
print(json.dumps({"id": first, "answers": {"ttft_ms": {"value": 5, "low": 4, "high": 6}}}))
"""
    scores, _ = referee_scores([sample(id=name) for name in "abc"], command(program))
    said = {(item.id, item.quantity): item for item in scores}
    assert (said["a", "ttft_ms"].predicted, said["a", "ttft_ms"].low, said["a", "ttft_ms"].high) == (5, 4, 6)
    assert said["a", "tpot_ms"].reason == "no prediction of tpot_ms"
    assert said["b", "ttft_ms"].reason == "refused: no such thing"
    assert said["c", "tpot_ms"].reason == "refused: no answer"


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("print('hello')", r"line 1 of the predictor's output is not JSON: 'hello'"),
        ("print('[1]')", r"line 1 .* has no id"),
        ('print(\'{"id": "z", "answers": {}}\')', r"line 1 .* answers 'z', which was not asked"),
        ('print(\'{"id": "a", "answers": {}}\\n{"id": "a", "answers": {}}\')', r"line 2 .* 'a' a second time"),
        ('print(\'{"id": "a"}\')', r"line 1 .* neither answers nor refused"),
        ('print(\'{"id": "a", "answers": {"tpot_ms": -1}}\')', r"line 1 .*, tpot_ms: value '-1' is not a number"),
        ('print(\'{"id": "a", "answers": {"tpot_ms": NaN}}\')', r"line 1 of the predictor's output is not JSON"),
        ('print(\'{"id": "a", "answers": {"tpot_ms": "fast"}}\')', r"value 'fast' is not a number"),
        (
            'import sys\nprint(\'{"id": "a", "answers": {}}\', flush=True)\nsys.exit("out of\\nmemory")',
            r"ended with status 1 after 1 of 2 answers; the first without one is line 2 \(b\): memory",
        ),
        ("import os\nos.kill(os.getpid(), 9)", r"ended with signal 9 after 0 of 2 answers"),
        ("import time\ntime.sleep(9)", r"said nothing for 0.5 s after 0 of 2 answers"),
    ],
)
def test_what_a_program_does_wrong_is_one_sentence_with_its_line(command, program: str, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadRequest, match=sentence) as error:
        referee_scores([sample(id="a"), sample(id="b")], command(program), patience_s=0.5 if "sleep" in program else 60)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("asked", ["no-such-program --fast", "", "'unclosed"])
def test_a_command_that_cannot_be_run_is_said(asked: str) -> None:
    with pytest.raises(BadRequest, match="predictor"):
        referee_scores([sample()], asked)
