"""The plan and explain commands: sentence first, JSON whole, exit codes kept, one sentence for each mistake."""

import json
from pathlib import Path

import pytest
from tests.command import told as command

SERVE = ["plan", "serve", "meta-llama/Llama-3.1-8B", "--rate", "4/s", "--traffic", "chat", "--accelerator", "H100,L4"]


def run(*arguments: str) -> tuple[int, str]:
    done = command(*arguments)
    return done.exit_code, " ".join((done.stdout + done.stderr).split())


def test_answers_in_a_sentence_and_exits_zero() -> None:
    code, text = run(*SERVE[:-1], "L4")
    assert code == 0 and text.startswith("Llama 3.1 8B · ")


def test_file_and_flags_give_the_same_bytes(tmp_path: Path) -> None:
    request = tmp_path / "request.yaml"
    request.write_text(
        "plan: serve\nmodel: meta-llama/Llama-3.1-8B\nrate: 4/s\ntraffic: chat\naccelerator: [H100, L4]\nquick: true\n"
    )
    by_file, by_flags = run("plan", str(request), "--json"), run(*SERVE, "--quick", "--json")
    assert by_flags == run(*SERVE[:-1], "H100", "--accelerator", "L4", "--quick", "--json")
    assert by_file == by_flags and json.loads(by_file[1])["schema"] == "tonnage.plan/2"


def test_infeasible_exits_three_with_what_is_reachable() -> None:
    code, text = run(*SERVE[:-1], "L4", "--tpot", "1us", "--quick")
    assert code == 3 and "Nearest: TTFT" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["plan", "serve", "meta-llama/Llama-9.9-8B", "--rate", "4/s"], "no model"),
        ([*SERVE, "--accelerator", "h100-smx"], "did you mean"),
        ([*SERVE, "--region", "nowhere-9"], "region"),
        ([*SERVE, "--precision", "fp7"], "no precision 'fp7'"),
        ([*SERVE, "--ttft", "500"], "may be 500 s or 500 ms; write which"),
        (["plan", "train", "8B", "--tokens", "1B", "--deadline", "720"], "may be 720 days or 720 h; write which"),
        ([*SERVE, "--ttft", "-1s"], "out of range"),
        ([*SERVE, "--concurrency", "5"], "contradict"),
        ([*SERVE, "--traffi", "chat"], "did you mean '--traffic'"),
        (["plan", "no-such-file.yaml"], "does not exist"),
        (["plan", "nonsense"], "nonsense"),
        ([*SERVE, "--set", "h100.memory=1"], "h100"),
        (["explain", "no-such-plan.json"], "does not exist"),
    ],
)
def test_a_mistake_is_one_sentence_and_code_two(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = command(*arguments)
    assert result.exit_code == 2
    assert told in result.output
    assert "Traceback" not in result.output and len(result.output.strip().splitlines()) <= 2


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"schema":"tonnage.plan/9"}', '{"schema":"tonnage.plan/2"}', "{" * 5000, "\x00"]
)
def test_plan_files_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    result = command("explain", str(path))
    assert result.exit_code == 2 and "plan" in result.output and "Traceback" not in result.output


def test_a_day_before_the_price_book_is_remarked() -> None:
    asked = ["plan", "serve", "8B", "--rate", "1/s", "--traffic", "chat", "--accelerator", "L4", "--quick", "--today"]
    early, late = (command(*asked, day) for day in ("2020-01-01", "2026-11-21"))
    assert "2020-01-01 is before the newest listed price (20" in early.output
    assert "newest listed price" not in late.output and early.exit_code == late.exit_code == 0


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("infer bert-base-uncased --rate 100/s --engine vlmm", "no engine 'vlmm'; did you mean 'vllm'?"),
        ("infer bert-base-uncased --rate 100/s --engine onxruntime", "did you mean 'onnxruntime'?"),
        ("rl Qwen/Qwen3-8B --steps 9 --response-tokens 999 --framework megatrom", "did you mean 'megatron'?"),
        ("lifecycle examples/lifecycle-13b.yaml", "a request file; `tonnage plan examples/lifecycle-13b.yaml`"),
    ],
)
def test_software_that_is_misspelt_and_files_for_models_are_refused(asked: str, told: str) -> None:
    code, text = run("plan", *asked.split())
    assert code == 2 and told in text


def test_a_rate_that_may_be_minutes_or_millions_is_refused() -> None:
    code, text = run("plan", "serve", "meta-llama/Llama-3.1-8B", "--rate", "4 m/s", "--traffic", "chat")
    assert code == 2 and "'4/min' or '4 M/s'" in text


def test_own_answers_for_the_model_that_is_named() -> None:
    code, text = run("plan", "own", "M3 Ultra 512GB", "--model", "deepseek-ai/DeepSeek-R1", "--json")
    plan = json.loads(text)
    rows = plan["groups"][0]["rows"]
    assert code == 0 and {row["model"] for row in rows} == {"deepseek-ai/DeepSeek-R1"} and "Distill" not in text
    assert all("unsloth/DeepSeek-R1-GGUF" in row["command"] for row in rows)


def test_own_says_where_nobodys_files_of_a_model_are_known() -> None:
    code, text = run("plan", "own", "M3 Ultra 512GB", "--model", "meta-llama/Llama-2-70b-hf", "--why")
    assert code == 0 and "GGUF files of Llama 2 70B are not in the catalogue" in " ".join(text.split())


def test_own_refuses_a_model_that_does_not_fit_and_says_by_how_much() -> None:
    code, text = run("plan", "own", "RTX 4090", "--model", "deepseek-ai/DeepSeek-R1")
    assert code == 3 and "DeepSeek R1 does not fit" in text and "GiB more than the device and the host have" in text
    assert "tonnage fit deepseek-ai/DeepSeek-R1" in text and "Distill" not in text


def test_parts_of_two_memories_are_not_counted_as_one() -> None:
    code, text = run("plan", "serve", "8B", "--rate", "1/s", "--own", "M4 Max 64GB, M4 Max 128GB")
    assert code == 2 and "two sizes of memory" in text


def test_no_option_takes_a_thousand_accelerators_where_eight_do() -> None:
    few = ["H100", "A100 PCIe"]
    asked = ["plan", "serve", "meta-llama/Llama-3.1-70B-Instruct", "--rate", "4/s", "--traffic", "chat", "--quick"]
    code, text = run(*asked, "--tpot", "20 ms", "--accelerator", ",".join(few), "--json")
    plan = json.loads(text)
    prices = [option["cost"]["value"] for option in plan["options"]]
    assert code == 0 and max(prices) <= 5.0 * prices[0]
    assert max(option["accelerators"] for option in plan["options"]) <= 100
    dear = [row["verdict"] for row in plan["rejected"] if row["verdict"]["limit"] == "cost"]
    assert dear and "that the load needs cost" in dear[0]["reason"] and "name the accelerator" in dear[0]["nearest"]
