"""Batch plans as files: the loop answers every request once, goes on after an interruption, and names stay inert."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.asked import Refused
from tests.export.plans import exported
from tests.export.test_hostile import HOSTILE
from tests.patience import PATIENCE_S

import tonnage

TARGETS = ("vllm-batch", "ray-data", "skypilot")
FAKE = """
import json, os, sys
class SamplingParams:
    def __init__(self, max_tokens=None): self.max_tokens = max_tokens
class LLM:
    def __init__(self, **engine):
        with open(os.environ["SEEN"], "a") as file: file.write(json.dumps(engine) + chr(10))
        self.left = int(os.environ.get("DIES_AFTER", "1000000"))
    def generate(self, prompts, sampling):
        assert len(prompts) == len(sampling)
        self.left -= 1
        if self.left < 0: sys.exit(9)
        text = lambda prompt: type("T", (), {"text": prompt.upper()})
        return [type("O", (), {"outputs": [text(prompt)]}) for prompt in prompts]
    def chat(self, messages, sampling):
        return self.generate([turns[-1]["content"] for turns in messages], sampling)
"""


@cache
def kept() -> str:
    plan = tonnage.plan_batch(
        "meta-llama/Llama-3.1-8B-Instruct",
        items="2M",
        deadline="8 h",
        prompt_tokens="400",
        output_tokens="60",
        accelerator="H100",
        provider="gcp",
    )
    return json.dumps(tonnage.to_dict(plan))


def planned() -> Any:
    return json.loads(kept())


def written(folder: Path, *, per_part: int) -> dict[str, Any]:
    files = exported(planned(), "vllm-batch")
    for name, text in files.items():
        (folder / name).write_text(text)
    settings: dict[str, Any] = json.loads(files["engine.json"])
    (folder / "engine.json").write_text(json.dumps({**settings, "requests_per_part": per_part}))
    (folder / "vllm.py").write_text(FAKE)
    return settings


def run(folder: Path, **environment: str) -> int:
    known = {
        **os.environ,
        "SEEN": str(folder / "seen"),
        "OUTPUT": str(folder / "out"),
        "INPUT": str(folder / "in.jsonl"),
    }
    done = subprocess.run(
        [sys.executable, str(folder / "batch.py")], cwd=folder, env={**known, **environment}, check=False, timeout=60
    )
    return done.returncode


def answers(folder: Path) -> list[tuple[str, str]]:
    lines = "".join(path.read_text() for path in sorted((folder / "out").glob("part-*.jsonl"))).splitlines()
    return [(answer["id"], answer["text"]) for answer in map(json.loads, lines)]


def test_the_loop_answers_each_request_once_over_shards_and_interruptions(tmp_path: Path) -> None:
    settings = written(tmp_path, per_part=10)
    requests = [{"id": f"r{n}", "prompt": f"say {n}"} for n in range(47)]
    requests += [{"id": "chat", "messages": [{"role": "user", "content": "hi"}]}] * 3
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, requests[:47])) + "\n\n")
    assert run(tmp_path, SHARD="0", SHARDS="2", DIES_AFTER="1") == 9
    assert len(answers(tmp_path)) == 10  # the part before the interruption stays
    assert run(tmp_path, SHARD="1", SHARDS="2") == 0
    assert run(tmp_path, SHARD="0", SHARDS="2") == 0
    assert answers(tmp_path) == [(f"r{n}", f"SAY {n}") for n in range(47)]
    started = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert all(engine == settings["engine"] for engine in started)
    assert run(tmp_path, SHARD="0", SHARDS="1") == 0  # nothing is left: no engine is loaded
    assert len((tmp_path / "seen").read_text().splitlines()) == len(started)


def test_chats_are_answered_as_chats(tmp_path: Path) -> None:
    written(tmp_path, per_part=2)
    line = json.dumps({"id": "c", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5})
    (tmp_path / "in.jsonl").write_text(f"{line}\n" * 3)
    assert run(tmp_path) == 0
    assert answers(tmp_path) == [("c", "HI")] * 3


def test_settings_of_the_plan_arrive() -> None:
    made = planned()
    option = made["options"][0]
    option["configuration"]["layout"] = {"tp": 2}
    option["configuration"]["engine"] |= {"max_num_seqs": 311, "memory_fraction": 0.83}
    engine = json.loads(exported(made, "vllm-batch")["engine.json"])["engine"]
    assert engine["tensor_parallel_size"] == 2 and engine["max_num_seqs"] == 311
    assert engine["gpu_memory_utilization"] == 0.83
    (job,) = yaml.safe_load_all(exported(made, "skypilot")["job.yaml"])
    assert job["envs"]["SHARDS"] == str(option["replicas"])
    assert job["resources"]["use_spot"] is (option["bill"]["term"] == "spot")
    assert job["resources"]["job_recovery"]["strategy"] == "EAGER_NEXT_REGION"
    assert f"concurrency={option['replicas']}," in exported(made, "ray-data")["batch.py"]


def test_what_the_loop_cannot_run_is_refused_and_serving_targets_name_those_that_can() -> None:
    made = planned()
    made["options"][0]["configuration"]["layout"] = {"dp": 2}
    with pytest.raises(Refused, match="data-parallel"):
        exported(made, "vllm-batch")
    made["options"][0]["configuration"]["layout"] = {"tp": 16}
    with pytest.raises(Refused, match="runs a replica on one node"):
        exported(made, "ray-data")
    made["options"][0]["configuration"]["layout"] = {}
    made["options"][0]["configuration"]["engine"]["name"] = "sglang"
    with pytest.raises(Refused, match="runs vLLM's offline class, and the plan is for sglang"):
        exported(made, "ray-data")
    with pytest.raises(Refused, match="batch: ray-data, skypilot, vllm-batch"):
        exported(planned(), "kubernetes")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_inert(target: str, name: str, tmp_path: Path) -> None:
    made = planned()
    made["options"][0]["bill"] |= {"region": name, "instance_type": name}
    if target != "skypilot":
        made["options"][0]["bill"]["provider"] = name
    made["model"]["named"] = name
    for file, text in exported(made, target).items():
        if file.endswith(".py"):
            tree = ast.parse(text)
            if target == "ray-data":
                assert name in [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        elif file.endswith(".json"):
            assert json.loads(text)["engine"]["model"] == name
        elif file.endswith(".yaml"):
            assert yaml.safe_load(text)["run"].startswith("INPUT=")
        else:
            (tmp_path / file).write_text(text.replace("python3 batch.py", "true").replace("sky jobs launch", "true"))
            variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "INPUT": "x", "OUTPUT": "y", "BUCKET": "z"}
            subprocess.run(["bash", str(tmp_path / file)], cwd=tmp_path, env=variables, check=True, timeout=PATIENCE_S)
    assert not (tmp_path / "pwned").exists()
