"""`tonnage local` from a terminal: one screen, JSON, exit codes, sentences."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from tests.command import told as command

DATA = Path(__file__).parents[1] / "data" / "machine"


def run(*args: str) -> Result:
    return command("local", *args)


@pytest.mark.parametrize("name", ["RTX 4090", "M4 Max 64GB", "CPU", "RTX 3060", "Ryzen AI Max 395", "2 x RTX 3090"])
def test_the_first_screen_is_24_lines_of_100_columns(name: str) -> None:
    found = run("-a", name)
    assert found.exit_code == 0, found.output
    lines = found.output.rstrip().splitlines()
    # A command is one line that a terminal may break.
    assert sum(1 + (len(line) - 1) // 100 for line in lines) <= 24
    assert all(len(line) <= 100 or line.startswith("  llama-server ") for line in lines)
    assert "llama-server -hf " in found.output


def test_json_holds_rows_with_intervals() -> None:
    answer = json.loads(run("-a", "RTX 4090", "--json").output)
    row = answer["rows"][0]
    assert row["decode_per_s"]["low"] < row["decode_per_s"]["value"] < row["decode_per_s"]["high"]
    assert answer["device"] == "rtx-4090"


@pytest.mark.parametrize(
    "file", ["nvidia-smi.xml", "nvidia-smi.csv", "rocm-smi.json", "system_profiler.json", "sinfo.txt"]
)
def test_a_recorded_output_is_a_machine(file: str) -> None:
    found = run("--from", str(DATA / file))
    assert found.exit_code == 0, found.output


def test_this_machine_is_an_answer() -> None:
    found = run()
    assert found.exit_code in (0, 3) or "--accelerator" in found.stderr


def test_a_machine_too_small_is_infeasible() -> None:
    found = run("-a", "GTX 1660", "--memory", "6 GB", "--model", "gpt-oss-120b")
    assert found.exit_code == 3
    assert "GPT OSS 120B does not fit" in found.output and "GiB more" in found.output


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-V3", "DeepSeek-V3"])
def test_a_model_that_is_named_is_the_one_that_is_answered(name: str) -> None:
    answer = json.loads(run("-a", "M3 Ultra 512GB", "--model", name, "--json").output)
    assert [row["model"] for row in answer["rows"]] == [name]
    assert "DeepSeek-V3-Q" in answer["rows"][0]["commands"][0][1] and "not in the catalogue" in answer["notes"][-1]


def test_a_later_version_is_not_started_from_the_files_of_an_earlier_one() -> None:
    later = run("-a", "RTX 4090", "--model", "Qwen/Qwen3-30B-A3B-Instruct-2507").output
    assert "-m Qwen3-30B-A3B-Instruct-2507-Q" in later and "-hf" not in later
    assert "-hf Qwen/Qwen3-30B-A3B-GGUF" in run("-a", "RTX 4090", "--model", "Qwen3-30B-A3B").output


def test_a_word_still_chooses_among_names() -> None:
    answer = json.loads(run("-a", "RTX 4090", "--model", "distill", "--json").output)
    assert {row["model"] for row in answer["rows"]} == {
        "deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("2 x EPYC 9654", "several processors"),
        ("RTX 4090 + Ryzen 9 9950X + Core i9-13900K", "several processors"),
    ],
)
def test_every_part_that_is_named_counts_or_the_question_is_refused(name: str, told: str) -> None:
    found = run("-a", name)
    assert found.exit_code == 2 and told in found.stderr and len(found.stderr.splitlines()) == 1


def test_equal_cards_count_together_however_they_are_listed() -> None:
    apart, together = (run("-a", name, "--model", "Qwen3-8B").output for name in ("3090 + RTX 3090", "2 x RTX 3090"))
    assert apart == together and "2 x GeForce RTX 3090" in apart


def test_unlike_cards_of_a_found_machine_are_one_box(tmp_path: Path) -> None:
    listed = tmp_path / "nvidia-smi.txt"
    listed.write_text(
        "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-aa)\nGPU 1: NVIDIA GeForce RTX 3090 (UUID: GPU-bb)\n"
        "GPU 2: NVIDIA GeForce RTX 4090 (UUID: GPU-cc)\n"
    )
    first = " ".join(run("--from", str(listed), "--model", "Qwen3-8B").output.split())
    assert "2 x GeForce RTX 3090 + GeForce RTX 4090 (one box, models split by layers)" in first
    assert first == " ".join(run("-a", "2 x RTX 3090 + 1 x RTX 4090", "--model", "Qwen3-8B").output.split())


def test_a_name_nobody_knows_is_one_sentence() -> None:
    found = run("-a", "RTX 40900")
    assert found.exit_code == 2
    assert "rtx-4090" in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("machine", "model", "beside"),
    [
        ("2 x RTX 3090", "gpt-oss-120b", ["compose.yaml"]),
        ("RTX 4090", "Qwen3-8B", ["compose.yaml", "vllm.sh"]),
        ("RX 7900 XTX", "gpt-oss-20b", ["compose.yaml", "ollama.sh"]),
        ("M4 Max 64GB", "Qwen3-8B", ["mlx_lm.server.sh"]),
        ("RTX 3090", "Qwen/QwQ-32B", []),
        ("CPU", "Qwen3-8B", []),
    ],
)
def test_files_start_what_the_answer_says(machine: str, model: str, beside: list[str], tmp_path: Path) -> None:
    asked = ("-a", machine, "--model", model, "--files", str(tmp_path / "start"))
    answer = json.loads(run(*asked, "--json").stdout)
    files = {path.name: path.read_text() for path in sorted((tmp_path / "start").iterdir())}
    assert sorted(files) == sorted(["llama-server.sh", *beside])
    for _, said in answer["rows"][0]["commands"]:
        script = files[f"{said.split()[0]}.sh"]
        assert script.rstrip().splitlines()[-1].removeprefix("exec ") == said
        subprocess.run(["sh", "-n"], check=True, input=script.encode())
    if "compose.yaml" in files:
        service = yaml.safe_load(files["compose.yaml"])["services"]["llama-server"]
        assert service["command"][:-4] == shlex.split(answer["rows"][0]["commands"][0][1])[1:]
    again = run(*asked)
    assert again.exit_code == 2 and "--force" in again.stderr and run(*asked, "--force").exit_code == 0


def test_nothing_is_written_of_what_does_not_run(tmp_path: Path) -> None:
    found = run("-a", "GTX 1660", "--memory", "6 GB", "--model", "gpt-oss-120b", "--files", str(tmp_path / "start"))
    assert found.exit_code == 3 and not (tmp_path / "start").exists()
