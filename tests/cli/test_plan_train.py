"""`plan train` and `plan finetune` on the command line: sentence, files, JSON, explain, exit codes, mistakes."""

import json
import re
from pathlib import Path

import pytest
from tests.command import told as answer_of

from tonnage.core.reading import read_fields
from tonnage.domain.requests.serve import Serve
from tonnage.domain.train_plan import FineTune
from tonnage.errors import UnknownName

TRAIN = ["plan", "train", "meta-llama/Llama-3.1-8B", "--tokens", "100B", "--deadline", "30 days", "--accelerator",
         "H100,H200", "--today", "2026-11-21"]  # fmt: skip
TUNE = ["plan", "finetune", "meta-llama/Llama-2-7b-hf", "--method", "lora", "--examples", "50k",
        "--tokens-per-example", "800", "--accelerator", "L40S", "--today", "2026-11-21"]  # fmt: skip


def run(*arguments: str) -> tuple[int, str]:
    done = answer_of(*arguments)
    return done.exit_code, done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [TRAIN, TUNE])
def test_answers_in_a_sentence_and_exits_zero(arguments: list[str]) -> None:
    code, text = run(*arguments, "--why")
    assert code == 0 and " x NVIDIA " in text and "prices to" in " ".join(text.split())
    for title in ("Cost against time", "The run", "Timeline", "Host and storage", "Decisions", "Assumptions"):
        assert title in text


def test_file_and_flags_give_the_same_bytes(tmp_path: Path) -> None:
    request = tmp_path / "request.yaml"
    request.write_text(
        "plan: train\nmodel: meta-llama/Llama-3.1-8B\ntokens: 100B\ndeadline: 30 days\naccelerator: [H100, H200]\n"
    )
    by_file, by_flags = run("plan", str(request), "--json", "--today", "2026-11-21"), run(*TRAIN, "--json")
    assert by_file == by_flags
    document = json.loads(by_file[1])
    assert document["schema"] == "tonnage.plan/2" and document["kind"] == "train"


def test_infeasible_exits_three_with_what_would_work() -> None:
    code, text = run(
        "plan", "train", "meta-llama/Llama-3.1-70B", "--tokens", "1T", "--accelerator", "H100", "--count", "8"
    )
    said = " ".join(text.split())
    assert code == 3 and "of states" in said and "smallest that works" in said


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["plan", "train", "meta-llama/Llama-3.1-8B"], "tokens is missing"),
        ([*TRAIN, "--tokens", "5"], "fewer than one sequence"),
        ([*TRAIN, "--deadline", "30 GB"], "is bytes"),
        ([*TRAIN, "--deadline", "-1 d"], "out of range"),
        ([*TRAIN, "--precision", "int4"], "do not run in 'int4'"),
        ([*TRAIN, "--optimizer", "adamww"], "did you mean"),
        ([*TRAIN, "--count", "64", "--max-accelerators", "8"], "beyond max_accelerators"),
        ([*TRAIN, "--checkpoint", "never"], "checkpoint"),
        ([*TRAIN, "--seq-len", "4096.5"], "whole number"),
        ([*TUNE, "--method", "lorra"], "did you mean 'lora'"),
        ([*TUNE, "--tokens", "40M"], "contradict"),
        (["plan", "finetune", "meta-llama/Llama-2-7b-hf"], "no data is given"),
        ([*TUNE, "--token-per-example", "5"], "did you mean '--tokens-per-example'"),
    ],
)
def test_a_mistake_is_one_sentence_and_code_two(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = answer_of(*arguments)
    assert result.exit_code == 2
    assert told in result.output
    assert "Traceback" not in result.output and len(result.output.strip().splitlines()) <= 2


def test_choices_are_taken_whatever_their_capitals() -> None:
    assert read_fields({"method": "LoRA", "objective": "DPO"}, FineTune) == {"method": "lora", "objective": "dpo"}
    assert read_fields({"engine": "vLLM, SGLang", "traffic": "Chat"}, Serve) == {
        "engine": ("vllm", "sglang"),
        "traffic": "chat",
    }
    with pytest.raises(UnknownName, match="did you mean 'qlora'"):
        read_fields({"method": "QLoR"}, FineTune)


def test_a_plan_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"schema":"tonnage.plan/2","kind":"bake"}')
    result = answer_of("explain", str(path))
    assert result.exit_code == 2 and "kind 'bake'" in result.output


def test_the_question_names_every_accelerator_asked_for() -> None:
    three = answer_of("plan", "train", "7B", "--tokens", "1B", "-a", "H100,H200,B200")
    assert "H100 SXM5 80 GB or NVIDIA H200 SXM 141 GB or NVIDIA B200 180 GB" in " ".join(three.output.split())
    five = answer_of("plan", "train", "7B", "--tokens", "1B", "-a", "H100,H200,B200,A100,L40S")
    assert "one of 5 accelerators" in " ".join(five.output.split())


def test_a_cheaper_option_that_does_not_lead_is_explained_on_the_first_screen() -> None:
    asked = ["plan", "finetune", "8B", "--examples", "50k", "--tokens-per-example", "800", "--epochs", "3"]
    screen = answer_of(*asked).output
    rows = [line.split()[0] for line in screen.splitlines() if line.strip()[:11] in ("recommended", "cheapest   ")]
    assert rows == ["recommended", "cheapest"]
    assert "Not the cheapest: 1 x TPU v6e Trillium 32 GB at $7.76, in jax" in screen


def test_less_confidence_than_asked_for_is_said_on_the_first_screen() -> None:
    asked = ["plan", "train", "12.3B", "--tokens", "150B", "-a", "H100", "--deadline", "14 days", "--budget", "20000"]
    screen = " ".join(answer_of(*asked).output.split())
    told = re.search(r"a chance of (\d+) % to keep memory, deadline and budget; no option has the 80 % asked", screen)
    assert told is not None and int(told[1]) < 80
    assert "no option has" not in answer_of(*asked[:6], "H100", "--budget", "40000").output
