"""Names from a plan file are inert in every file: shell runs nothing, YAML and comments hold one text."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.asked import Refused
from tests.export.plans import TWO_NODES, exported, plan

HOSTILE = (
    "x/y; rm -rf ~",
    "a/$(touch pwned)",
    "a/`touch pwned`",
    "a/'$(touch pwned)'",
    'a/"; touch pwned; "',
    "!!python/object/apply:os.system [id]/x",
    "a/b: {c: d}",
    "a/&anchor *alias",
    "a/${HF_TOKEN}",
    "a/${{ secrets.token }}",
    "a/$(HF_TOKEN)",
    "a/{{ env.HF_TOKEN }}",
    "a/\\",
    "a/#b",
)
UNSEEN = (
    "a/b\ntouch pwned\n",
    "a/b\r\n#SBATCH --wrap=id",
    "a/\u2028b",
    "a/\x1b[2J",
    "a/\u202egpj.b",
    "a/\u200bb",
    "a/\x9bb",
)
"""Names that are refused: a screen shows something else than there is."""
NAMES = st.one_of(st.sampled_from(HOSTILE + UNSEEN), st.text(min_size=1, max_size=40).map(lambda text: f"a/{text}"))
RENTERS = ("skypilot", "dstack")
"""Targets that take no provider which they do not know."""


def written(target: str, model: str, **changes: Any) -> dict[str, str]:
    provider = "gcp" if target in RENTERS else model
    return exported(plan(named=model, provider=provider, region=model, instance_type=model, **changes), target)


def arguments(script: str, folder: Path) -> list[str]:
    """
    The words of every command that the script would start: each is replaced by one that prints its arguments.

    Home is the test's own folder: what a name would remove, were it not inert, is nobody's.
    """
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("vllm", "python3", "srun", "bash-inner", "ray"):
        tool = tools / name
        tool.write_text(f'#!/bin/bash\nprintf "%s\\0" {name} "$@"\n')
        tool.chmod(0o755)
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=folder,
        env={"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        check=True,
        timeout=20,
    )
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")


@pytest.mark.parametrize("model", HOSTILE)
@pytest.mark.parametrize(("target", "engine"), [("vllm", "vllm"), ("sglang", "sglang"), ("slurm", "vllm")])
def test_shell_receives_the_name_as_one_word(target: str, engine: str, model: str, tmp_path: Path) -> None:
    (text,) = written(target, model, name=engine).values()
    assert model.rstrip("/") in arguments(text, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


@pytest.mark.parametrize("target", ["vllm", "slurm", "kubernetes", "ray-serve"])
@pytest.mark.parametrize("model", UNSEEN)
def test_a_name_that_is_not_seen_whole_is_refused(target: str, model: str) -> None:
    with pytest.raises(Refused, match=r"U\+[0-9A-F]{4}") as caught:
        written(target, model)
    assert str(caught.value).isprintable()


@settings(max_examples=150)
@given(NAMES)
def test_compose_and_kubernetes_receive_the_name_as_one_argument(model: str) -> None:
    for target, find in (("compose", compose_argv), ("kubernetes", kubernetes_argv)):
        try:
            text = next(iter(written(target, model).values()))
        except Refused:
            continue
        # Both replace $NAME or $(NAME), and both write a dollar as two.
        argv = find(text)
        assert argv[2].replace("$$", "") == argv[2].replace("$", "")
        assert argv[2].replace("$$", "$") == model.rstrip("/")


def compose_argv(text: str) -> list[str]:
    argv: list[str] = yaml.safe_load(text)["services"]["server-0"]["command"]
    return argv


def kubernetes_argv(text: str) -> list[str]:
    work = next(yaml.safe_load_all(text))
    argv: list[str] = work["spec"]["template"]["spec"]["containers"][0]["command"]
    return argv


@pytest.mark.parametrize("target", ["kubernetes", "skypilot", "slurm", "vllm"])
@pytest.mark.parametrize("model", HOSTILE)
def test_scripts_inside_files_of_two_nodes_stay_shell(target: str, model: str) -> None:
    for text in written(target, model, **TWO_NODES).values():
        for script in scripts(text, target):
            done = subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True, check=False)
            assert done.returncode == 0, done.stderr


def scripts(text: str, target: str) -> list[str]:
    if target == "skypilot":
        return [yaml.safe_load(text)["run"]]
    if target == "kubernetes":
        template = next(yaml.safe_load_all(text))["spec"]["leaderWorkerTemplate"]
        pods = (template["leaderTemplate"], template["workerTemplate"])
        return [pod["spec"]["containers"][0]["command"][-1].replace("$$", "$") for pod in pods]
    return [text]


@settings(max_examples=150)
@given(NAMES)
def test_no_comment_and_no_directive_is_left_by_a_name(model: str) -> None:
    for target in ("vllm", "slurm", "skypilot", "dstack", "ray-serve"):
        try:
            files = written(target, model)
        except Refused:
            continue
        for text in files.values():
            head = text.split("set -euo pipefail")[0] if target in {"vllm", "slurm"} else ""
            assert all(line.startswith("#") or not line for line in head.split("\n"))
            assert head.count("\n#SBATCH ") == (6 if target == "slurm" else 0)
            text.encode("utf-8")


@settings(max_examples=100)
@given(NAMES)
def test_yaml_keeps_the_name(model: str) -> None:
    try:
        text = written("ray-serve", model)["serve.yaml"]
    except Refused:
        return
    config = yaml.safe_load(text)["applications"][0]["args"]["llm_configs"][0]
    assert config["model_loading_config"]["model_source"] == model.rstrip("/")


def test_dstack_sees_no_variable_in_a_name() -> None:
    text = written("dstack", "a/${{ secrets.token }}")["service.dstack.yml"]
    body = yaml.safe_load(text)
    assert "${{" not in json.dumps([body["commands"], body["model"]])
