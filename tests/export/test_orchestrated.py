"""Training on Slurm, SkyPilot and JobSet: the framework's files go along, and every node learns its rank."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.asked import Refused
from tests.export.plans import SIXTEEN, TRAIN_CASES, exported, train_plan

SCHEMAS = Path(__file__).parents[2] / "tools" / "export-validators"
TARGETS = ("slurm", "skypilot", "jobset")
SPOT = {**SIXTEEN, "sharding": "hsdp", "term": "spot"}


def written(target: str, **changes: Any) -> dict[str, str]:
    return exported(train_plan(**changes), target)


def frameworks_files(target: str, **changes: Any) -> dict[str, str]:
    """What goes along, wherever the orchestrator keeps it."""
    found = written(target, **changes)
    if target != "jobset":
        return found
    data: dict[str, str] = list(yaml.safe_load_all(found["jobset.yaml"]))[1]["data"]
    return data


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("changes", "framework"),
    [
        ({**SPOT, "method": "qlora"}, "trl"),
        ({"method": "pretrain"}, "torchtitan"),
        (TRAIN_CASES["torchtitan"][1], "torchtitan"),
        ({"software": "megatron", "sharding": "zero1"}, "nemo"),
        ({"software": "megatron", "sharding": "zero1", "accelerator": "mi300x"}, "megatron"),
        ({"software": "megatron", "method": "lora", "sharding": "zero1"}, "nemo"),
        ({"software": "deepspeed", "sharding": "zero2"}, "deepspeed"),
        ({"pp": 2, "dp": 4, "sharding": "zero1"}, "nemo"),
    ],
)
def test_the_frameworks_own_files_go_along_unchanged(target: str, changes: dict[str, Any], framework: str) -> None:
    own, along = written(framework, **changes), frameworks_files(target, **changes)
    assert {name: along[name] for name in own} == own


def test_a_chip_that_slurm_and_jobset_know_and_skypilot_does_not() -> None:
    case = TRAIN_CASES["neuronx-lora"][1]
    assert "optimum-neuron" in written("slurm", **case)["train.sbatch"]
    container = job_set(**case)[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"aws.amazon.com/neuron": 16}
    with pytest.raises(Refused, match="does not run on trainium1"):
        written("skypilot", **case)


def job_set(**changes: Any) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(written("jobset", **changes)["jobset.yaml"]))


@pytest.mark.parametrize("changes", [{}, SPOT, TRAIN_CASES["neuronx-lora"][1]])
def test_custom_resources_have_the_fields_of_their_dated_schemas(changes: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schemas = json.loads((SCHEMAS / "jobset.schema.json").read_text(encoding="utf-8"))
    work, _, _ = job_set(**changes)
    queues = list(yaml.safe_load_all(written("jobset", **changes)["queue.yaml"]))
    for document in (work, *queues):
        jsonschema.validate(document, schemas["kinds"][document["kind"]])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**work, "spec": {**work["spec"], "sucessPolicy": {}}}, schemas["kinds"]["JobSet"])


def test_jobset_counts_nodes_accelerators_and_restarts() -> None:
    work, _, claim = job_set(**SPOT)
    pods = work["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert pods["parallelism"] == pods["completions"] == 2 and work["spec"]["failurePolicy"]["maxRestarts"] == 3
    container = pods["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    env = {one["name"]: one.get("value") for one in container["env"]}
    name = work["metadata"]["name"]
    assert env["LEADER_ADDRESS"] == f"{name}-node-0-0.{name}" and env["OUTPUT"] == "/checkpoints"
    assert claim["spec"]["resources"]["requests"]["storage"] == "300G"  # three of 100 GB
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    _, quota, local = yaml.safe_load_all(written("jobset", **SPOT)["queue.yaml"])
    assert quota["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "16"
    assert work["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == local["metadata"]["name"]


def test_skypilot_goes_on_after_an_interruption() -> None:
    task = yaml.safe_load(written("skypilot", **SPOT)["train.yaml"])
    assert task["num_nodes"] == 2 and task["resources"]["accelerators"] == {"H100": 8} and task["resources"]["use_spot"]
    assert task["resources"]["job_recovery"]["strategy"] == "EAGER_NEXT_REGION"
    assert task["file_mounts"]["/checkpoints"]["source"] == "${BUCKET}"


def started(folder: Path, **changes: Any) -> str:
    """What a node of the Slurm job starts, with the site's programs replaced by ones that say how they are called."""
    for name, text in written("slurm", **changes).items():
        (folder / name).write_text(text)
    tools = folder / "bin"
    tools.mkdir()
    for name, text in {
        "scontrol": "echo first-node\necho second-node",
        "srun": 'SLURM_NODEID=1 exec "$@"',
        "trl": 'echo "$@"',
    }.items():
        (tools / name).write_text(f"#!/bin/bash\n{text}\n")
        (tools / name).chmod(0o755)
    env = {"PATH": f"{tools}:/usr/bin:/bin", "SLURM_JOB_NODELIST": "n[1-2]"}
    done = subprocess.run(
        ["bash", "train.sbatch"], cwd=folder, env=env, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_slurm_starts_the_framework_on_every_node_and_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    words = started(tmp_path, **SPOT)
    assert "--machine_rank 1 --main_process_ip first-node" in words and "resume" not in words
    again = tmp_path / "again"
    for step in (50, 1000, 950):
        (again / "llama-3-1-8b-full" / f"checkpoint-{step}").mkdir(parents=True)
    assert "--resume_from_checkpoint ./llama-3-1-8b-full/checkpoint-1000" in started(again, **SPOT)
    head = (tmp_path / "train.sbatch").read_text()
    assert "#SBATCH --nodes=2\n" in head and "#SBATCH --time=667\n" in head  # 40,000 s at the 90th percentile


@pytest.mark.parametrize("name", ["x/y; touch pwned", "a/$(touch pwned)", "a/`touch pwned`", "a/{{x}}", 'a/"x'])
def test_names_are_inert(name: str, tmp_path: Path) -> None:
    for target in TARGETS:
        try:
            found = written(target, model=name, method="lora", sharding="none")
        except Refused as refused:
            assert target == "jobset" and "\n" not in str(refused)
            continue
        if target == "slurm":
            assert sum(line.startswith("#SBATCH") for line in found["train.sbatch"].splitlines()) == 8
        else:
            assert yaml.safe_load(found["train.yaml"])["num_nodes"] == 1
        assert yaml.safe_load(found["sft.yaml"])["model_name_or_path"] == name.rstrip("/")
    started(tmp_path, model=name, method="lora", sharding="none")
    assert not list(tmp_path.rglob("pwned"))
