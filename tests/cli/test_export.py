"""The export command: files, folders, and the settings the engine would have chosen."""

import re
import shlex
from pathlib import Path

import pytest
from tests.command import told as run


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    asked = ("meta-llama/Llama-3.1-8B", "--rate", "4/s", "--traffic", "chat", "-a", "H100,L4", "--provider", "aws,gcp")
    assert run("plan", "serve", *asked, "--today", "2026-11-21", "-o", str(path)).exit_code == 0
    return str(path)


def test_settings_left_to_the_engine_are_written_out(plan: str) -> None:
    text = run("export", plan, "--to", "vllm").stdout
    for flag in ("--max-model-len", "--max-num-seqs", "--max-num-batched-tokens", "--gpu-memory-utilization 0.92"):
        assert flag in text


def test_files_go_into_a_folder_and_are_not_overwritten(plan: str, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    assert run("export", plan, "--to", "kubernetes", "-o", str(folder)).exit_code == 0
    assert (folder / "serve.yaml").read_text().startswith("# For Kubernetes")
    again = run("export", plan, "--to", "kubernetes", "-o", str(folder))
    assert again.exit_code == 2 and "--force" in again.stderr
    assert run("export", plan, "--to", "kubernetes", "-o", str(folder), "--force").exit_code == 0


def test_the_command_that_starts_files_is_that_of_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    asked = ("meta-llama/Llama-3.1-8B", "--tokens", "1B", "--accelerator", "H100", "--today", "2026-11-21")
    assert run("plan", "train", *asked, "-o", str(path)).exit_code == 0
    for target, command in (("slurm", "sbatch train.sbatch"), ("jobset", "kubectl apply -f queue.yaml -f jobset.yaml")):
        assert (
            f"Start it with: {command}" in run("export", str(path), "--to", target, "-o", str(tmp_path / target)).stderr
        )


def test_another_option_is_another_file(plan: str) -> None:
    first, second = (run("export", plan, "--to", "kubernetes", "--option", rank).stdout for rank in ("1", "2"))
    assert first and second and first != second


@pytest.mark.parametrize("path", ["-", None])
def test_list_names_every_target(plan: str, path: str | None) -> None:
    text = run("export", path or plan, "--to", "list").stdout
    for name in ("vllm", "sglang", "trtllm", "llamacpp", "compose", "kubernetes", "skypilot", "dstack", "slurm"):
        assert f"\n{name} " in f"\n{text}"


def test_list_of_a_plan_says_what_starts_it_and_why_others_cannot(plan: str) -> None:
    lines = {line.split()[0]: line for line in run("export", plan, "--to", "list").stdout.splitlines()}
    assert lines["kubernetes"].endswith("kubectl apply -f serve.yaml") and "torchrun" not in lines
    assert "not for this option: SGLang starts sglang" in lines["sglang"]


def test_the_targets_fit_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.cli.export.on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    lines = run("export", "-", "--to", "list").stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 100
    told = " ".join(lines)
    assert all(name in told for name in ("vllm", "slurm", "serve", "finetune", "batch", "rl"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--to", "kubernets"), "did you mean 'kubernetes'"),
        (("--to", "vllm", "--option", "999"), "choose 1 to"),
        (("--to", "sglang"), "vllm"),
        (("--to", "vllm", "--checkpoint", "-x"), "read as an option"),
    ],
)
def test_mistakes_are_one_sentence(plan: str, arguments: tuple[str, ...], told: str) -> None:
    result = run("export", plan, *arguments)
    assert result.exit_code == 2 and told in result.stderr and result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_plan_without_files_says_what_can_be_exported(tmp_path: Path) -> None:
    """And what it names is exported."""
    own, served = tmp_path / "own.json", tmp_path / "plan.json"
    assert run("plan", "own", "2 x RTX 3090", "--today", "2026-11-21", "-o", str(own)).exit_code == 0
    refused = run("export", str(own), "--to", "list")
    assert refused.exit_code == 2 and "no files are written of a plan of kind own: `tonnage local -a" in refused.stderr
    (named,) = re.findall(r"`tonnage (plan serve [^`]*)`", refused.stderr)
    known = {"MODEL": "Qwen/Qwen3-8B", "COUNT x ACCELERATOR": "2 x RTX 3090", "plan.json": str(served)}
    assert run(*(known.get(word, word) for word in shlex.split(named)), "--rate", "0.1/s", "--quick").exit_code == 0
    assert "exec vllm serve" in run("export", str(served), "--to", "vllm").stdout
