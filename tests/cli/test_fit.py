"""`tonnage fit` as it is typed: the sentence first, one exit code each, one sentence for every bad request."""

import json
from typing import Any

import pytest
from click.testing import Result
from tests.command import told

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def run(*args: str) -> Result:
    return told("fit", *args, "--offline")


def document(*args: str) -> Any:
    return json.loads(run(*args, "--json").stdout)


def test_the_sentence_comes_first() -> None:
    result = run(LLAMA, "--accelerator", "H100")
    assert result.exit_code == 0
    question, _, answer = result.stdout.splitlines()[:3]
    assert question.startswith("Llama 3.1 8B (8.03 B parameters) · serving")
    assert answer.strip() == "1 x NVIDIA H100 SXM5 80 GB (single accelerator, BF16): fits"


def test_parts_stand_above_the_limit() -> None:
    whole = run(LLAMA, "-a", "H100", "--why").stdout
    lines = whole[whole.index("Memory, part by part") :].splitlines()
    expected = ("weights: feed forward", "KV cache", "needed", "headroom", "limit", "Largest that fits", "Rules of")
    order = [next(i for i, line in enumerate(lines) if line.strip().startswith(name)) for name in expected]
    assert order == sorted(order)


def test_what_does_not_fit_exits_with_3_and_the_nearest_that_does() -> None:
    result = run("meta-llama/Llama-3.1-70B-Instruct", "-a", "H100")
    assert result.exit_code == 3
    assert "1 x NVIDIA H100 SXM5 80 GB (single accelerator, BF16): short by" in result.stdout
    assert "Nearest: " in result.stdout
    assert "What would make it fit" in run("meta-llama/Llama-3.1-70B-Instruct", "-a", "H100", "--why").stdout


def test_several_accelerators_fit_if_one_does() -> None:
    answer = document("meta-llama/Llama-3.1-70B-Instruct", "-a", "H100,B200", "-a", "MI300X")
    assert [row["verdict"]["ok"] for row in answer["rows"]] == [False, True, True]
    assert answer["fits"] is True


def test_json_is_the_whole_answer() -> None:
    answer = document(LLAMA, "-a", "RTX 4090", "--concurrency", "4", "--context", "4k")
    assert answer["schema"] == "tonnage.fit/1"
    (row,) = answer["rows"]
    assert sum(part["value"] for part in row["memory"]["parts"]) == pytest.approx(row["memory"]["value"])
    assert row["memory"]["low"] < row["memory"]["value"] < row["memory"]["high"]
    assert {found["what"] for found in row["largest"]} == {"context", "concurrency"}


def test_without_an_accelerator_the_smallest_is_named() -> None:
    result = run(LLAMA, "--top", "3")
    assert result.exit_code == 0
    assert "Smallest that fits: 1 x " in result.stdout.splitlines()[2]
    assert "more accelerators: --all" in result.stdout


def test_a_bare_size_is_a_dense_decoder_and_said_so() -> None:
    result = run("13B", "-a", "RTX 3090", "--precision", "fp8", "--why")
    assert result.exit_code == 0
    assert "dense" in result.stdout


def test_models_that_fit_a_card() -> None:
    result = run("--solve", "model", "-a", "RTX 4090", "--precision", "int4", "--why")
    assert result.exit_code == 0
    assert "downloadable models fit 1 x GeForce RTX 4090: the best by published MMLU-Pro is" in " ".join(
        result.stdout.split()
    )
    assert "dense decoder may have up to" in " ".join(result.stdout.split())


def test_a_what_if_is_answered() -> None:
    assert run("Qwen/Qwen3-14B", "-a", "rtx-4090").exit_code == 3
    changed = ("--set", "rtx-4090.memory=48 GiB", "--set", "rtx-4090.usable_memory=48 GiB")
    assert run("Qwen/Qwen3-14B", "-a", "rtx-4090", *changed).exit_code == 0


def test_fine_tuning_and_training_have_their_own_stacks() -> None:
    tuned = run(LLAMA, "-a", "A100", "--finetune", "lora", "--batch", "4", "--seq-len", "2048", "--why")
    assert tuned.exit_code == 0
    assert "fine-tuned with lora" in tuned.stdout
    assert "activations" in tuned.stdout
    trained = run(LLAMA, "-a", "H100", "--train", "--why")
    assert trained.exit_code == 3
    assert "optimizer" in trained.stdout
    assert "16 bytes per parameter" in trained.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "model is missing"),
        (("no-such/model-9000",), "model"),
        ((LLAMA, "-a", "h100-smx"), "no accelerator 'h100-smx'"),
        ((LLAMA, "-a", "H100", "--tp", "3"), "tp 3 does not divide"),
        ((LLAMA, "-a", "H100", "--tp", "-2"), "tp: '-2' is out of range"),
        ((LLAMA, "--context", "0"), "context: '0' is out of range"),
        ((LLAMA, "--context", "1e99"), "out of range"),
        ((LLAMA, "--context", "nan"), "context"),
        ((LLAMA, "--context", "9 GiB"), "context"),
        ((LLAMA, "--context", "1M"), "--extend-context"),
        ((LLAMA, "--serve", "--batch", "4"), "batch belongs to training"),
        ((LLAMA, "--precision", "q9"), "no precision 'q9'"),
        ((LLAMA, "--solve", "context"), "needs an --accelerator"),
        ((LLAMA, "--set", "rtx-4090.memory=8"), "memory"),
        ((LLAMA, "--top", "0"), "--top"),
        (
            (
                LLAMA,
                "--nonsense",
            ),
            "no option '--nonsense'",
        ),
        ((LLAMA, "-a", ","), "accelerator is empty"),
        (("\x00",), "model"),
        (("x" * 10_000,), "model"),
    ],
)
def test_bad_requests_are_one_sentence_with_code_2(arguments: tuple[str, ...], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.stdout
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert len(result.stderr) < 700
