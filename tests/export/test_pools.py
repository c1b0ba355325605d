"""Orchestrators that know prefill and decode workers: fields of their dated schemas, the plan's counts and settings."""

import itertools
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.asked import Refused
from tests.export.plans import TWO_NODES, exported, plan

SCHEMAS = Path(__file__).parents[2] / "tools" / "export-validators"
POOLS = {"prefill_workers": 2, "decode_workers": 6}
APART = {"pools": POOLS}
TARGETS = {"dynamo": "dynamographdeployment", "kserve": "llminferenceservice", "llm-d": "modelservice"}
CASES: tuple[dict[str, Any], ...] = (
    {},
    APART,
    {"tp": 1, "dp": 4, "ep": 4, "model": "deepseek-ai/DeepSeek-V2-Lite"},
    {"term": "spot", "provider": "aws", "instance_type": "p5.48xlarge", "tp": 4, "pp": 2},
)


def written(target: str, **changes: Any) -> dict[str, Any]:
    (text,) = exported(plan(**changes), target).values()
    document: dict[str, Any] = next(iter(yaml.safe_load_all(text)))
    return document


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("changes", CASES)
def test_fields_are_those_of_the_dated_schema(target: str, changes: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((SCHEMAS / f"{TARGETS[target]}.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(written(target, **changes), schema)


def dynamo_workers(**changes: Any) -> dict[str, tuple[int, list[str]]]:
    services = written("dynamo", **changes)["spec"]["services"]
    return {
        service.get("subComponentType", ""): (
            service["replicas"],
            service["extraPodSpec"]["mainContainer"]["args"],
        )
        for service in services.values()
        if service["componentType"] == "worker"
    }


def test_workers_are_counted_by_role() -> None:
    assert {role: count for role, (count, _) in dynamo_workers(**APART).items()} == {"prefill": 2, "decode": 6}
    assert {role: count for role, (count, _) in dynamo_workers(replicas=5).items()} == {"": 5}
    values, service = written("llm-d", **APART), written("kserve", **APART)
    assert (values["prefill"]["replicas"], values["decode"]["replicas"]) == (2, 6)
    assert (service["spec"]["prefill"]["replicas"], service["spec"]["replicas"]) == (2, 6)
    assert written("llm-d", replicas=5)["prefill"] == {"create": False}
    assert "prefill" not in written("kserve", replicas=5)["spec"]


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_dynamo_gets_the_engines_own_options(name: str) -> None:
    changes = {"name": name, "max_num_seqs": 311, **({"block_tokens": 1} if name == "sglang" else {})}
    ((_, arguments),) = dynamo_workers(**changes).values()
    script = exported(plan(**changes), name)["serve.sh"]
    argv = shlex.split(script.split("exec ", 1)[1].replace("\\\n", " "))
    listens = {"--host", "0.0.0.0", "--port", "8000"}
    assert set(argv) - listens - {"vllm", "serve", "python3", "-m", "sglang.launch_server"} == (
        set(arguments) - {"--model"}
    )
    assert "311" in arguments and not listens & set(arguments)


def test_what_kserve_writes_itself_is_not_said_twice() -> None:
    spec = written("kserve", **CASES[3])["spec"]
    assert spec["parallelism"] == {"tensor": 4, "pipeline": 2}
    said = shlex.split(spec["template"]["containers"][0]["env"][0]["value"])
    assert not [word for word in said if "parallel" in word or word in ("--host", "--port")]
    assert said[said.index("--max-num-seqs") + 1] == "256"
    experts = written("kserve", **CASES[2])["spec"]["parallelism"]
    assert experts == {"tensor": 1, "data": 4, "dataLocal": 4, "expert": True}


def test_only_targets_that_know_pools_take_them() -> None:
    with pytest.raises(Refused, match=r"dynamo, kserve, .*kubernetes, llm-d, "):
        exported(plan(**APART), "compose")
    for target in UNITS:
        if target != "vllm":
            with pytest.raises(Refused, match="of vllm that fit a node each; export to dynamo"):
                exported(plan(**APART, name="sglang", block_tokens=1), target)
        with pytest.raises(Refused, match="of vllm that fit a node each; export to dynamo"):
            exported(plan(**APART, **TWO_NODES), target)
    # Dynamo starts each worker by itself, of any engine and on any nodes.
    assert dynamo_workers(**APART, name="sglang", block_tokens=1).keys() == {"prefill", "decode"}


UNITS = ("vllm", "kubernetes", "skypilot", "slurm")
STUB = """#!/usr/bin/env bash
echo "${0##*/} $*" >> "$TOLD"
[ "${0##*/}" = vllm-router ] && sleep 3
[ "${0##*/}" = hostname ] && echo "10.0.0.9 10.1.0.9"
exit 0
"""


def test_scripts_of_a_unit_start_the_router_before_the_workers_that_the_plan_has(tmp_path: Path) -> None:
    script = exported(plan(pools={"prefill_workers": 4, "decode_workers": 2, "units": 2}), "vllm")["serve.sh"]
    (tmp_path / "serve.sh").write_text(script)
    for name in ("python3", "vllm", "vllm-router", "hostname"):
        (tmp_path / name).write_text(STUB)
        (tmp_path / name).chmod(0o755)
    told = {}
    for rank in range(3):
        kept = tmp_path / f"rank-{rank}"
        known = {"NODE_ADDRESSES": "a b c", "NODE_RANK": str(rank), "TOLD": str(kept)}
        path = f"{tmp_path}:{os.environ['PATH']}"
        subprocess.run(["bash", tmp_path / "serve.sh"], env={**known, "PATH": path}, check=False, timeout=60)
        told[rank] = {line.split()[0]: line for line in kept.read_text().splitlines()}
    router = shlex.split(told[0].pop("vllm-router"))
    behind = [(role, at) for role, at in itertools.pairwise(router) if role in ("--decode", "--prefill")]
    assert behind == [("--decode", "http://a:8001"), ("--prefill", "http://b:8001"), ("--prefill", "http://c:8001")]
    assert router[router.index("--port") + 1] == "8000" and "vllm-router==" in told[0].pop("python3")
    assert told[0] == told[1] == told[2] and "--port 8001 --kv-transfer-config" in told[0]["vllm"]


def test_units_are_groups_of_nodes_of_an_orchestrator() -> None:
    pools = {"prefill_workers": 4, "decode_workers": 2, "units": 2}
    work, service, *_ = yaml.safe_load_all(exported(plan(pools=pools), "kubernetes")["serve.yaml"])
    assert work["kind"] == "LeaderWorkerSet" and work["spec"]["replicas"] == 2
    assert work["spec"]["leaderWorkerTemplate"]["size"] == 3
    assert service["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"
    task = yaml.safe_load(exported(plan(pools=pools), "skypilot")["service.yaml"])
    assert (task["num_nodes"], task["service"]["replicas"]) == (3, 2)
    batch = exported(plan(pools=pools), "slurm")["serve.sbatch"]
    assert "#SBATCH --array=0-1\n" in batch and "#SBATCH --nodes=3\n" in batch and "export NODE_ADDRESSES" in batch


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "trtllm", "named": "a/b"}, "--engine vllm"),
        ({"accelerator": "m4-max"}, "m4-max"),
    ],
)
def test_what_cannot_be_said_is_refused(target: str, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        written(target, **changes)


WIDE = {"tp": 1, "dp": 16, "ep": 16, "model": "deepseek-ai/DeepSeek-V2-Lite"}
"""Sixteen ranks of data-parallel attention on instances of eight."""


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_dynamo_joins_the_nodes_of_a_worker(name: str) -> None:
    changes = {**TWO_NODES, "name": name, **({"block_tokens": 1} if name == "sglang" else {})}
    jsonschema = pytest.importorskip("jsonschema")
    document = written("dynamo", **changes)
    jsonschema.validate(document, json.loads((SCHEMAS / f"{TARGETS['dynamo']}.schema.json").read_text()))
    worker = document["spec"]["services"]["Worker"]
    nodes, limit = worker["multinode"]["nodeCount"], int(worker["resources"]["limits"]["gpu"])
    assert nodes == 2 and nodes * limit == 16
    # The operator adds what joins them, and refuses it twice.
    arguments = worker["extraPodSpec"]["mainContainer"]["args"]
    assert not {"--distributed-executor-backend", "--data-parallel-backend", "--nnodes", "--node-rank"} & set(arguments)
    degree = "--tensor-parallel-size" if name == "vllm" else "--tp-size"
    assert degree not in arguments or int(arguments[arguments.index(degree) + 1]) >= 8


def test_kserve_joins_nodes_by_data_parallelism_alone() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = written("kserve", **WIDE)
    jsonschema.validate(document, json.loads((SCHEMAS / f"{TARGETS['kserve']}.schema.json").read_text()))
    spec = document["spec"]
    assert spec["parallelism"] == {"tensor": 1, "data": 16, "dataLocal": 8, "expert": True}
    assert spec["worker"] == spec["template"]
    assert spec["worker"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert "backend" not in spec["template"]["containers"][0]["env"][0]["value"]
    with pytest.raises(Refused, match="data parallelism alone: export to dynamo or kubernetes"):
        written("kserve", **TWO_NODES)
    with pytest.raises(Refused, match=r"runs on one; .* export to dynamo or kubernetes"):
        written("llm-d", **WIDE)


@pytest.mark.parametrize("target", ["kserve", "llm-d"])
@pytest.mark.parametrize("model", ["a/$(touch pwned)", "a/{{ .Values.secret }}", "a/`id`", "a/b c"])
def test_names_that_a_template_would_read_are_refused(target: str, model: str) -> None:
    with pytest.raises(Refused, match="template"):
        written(target, model=model)


def test_the_plans_pools_become_the_option() -> None:
    made = plan()
    with pytest.raises(Refused, match="no separate pools"):
        exported(made, "dynamo", "--pools")
    option = made["options"][0]
    made["pools"] = {
        "configuration": option["configuration"], "prefill_workers": 1, "decode_workers": 3, "units": 2,
        "accelerators": 16, "rate_per_s": 3.0, "together_per_s": 2.5, "limit": "TPOT", "ttft_s": 0.4, "tpot_s": 0.02,
        "transfer_s": 0.01, "leaves_node": False, "bill": option["bill"], "saves": 0.3, "simulations": 9,
        "sentence": "",
    }  # fmt: skip
    values = yaml.safe_load(exported(made, "llm-d", "--pools")["values.yaml"])
    assert (values["prefill"]["replicas"], values["decode"]["replicas"]) == (2, 6)
    assert "prefill" not in yaml.safe_load(exported(made, "kserve")["service.yaml"])["spec"]


@pytest.mark.parametrize("apart", [{}, APART])
def test_a_plan_that_counts_on_caches_asks_for_a_router_that_follows_prefixes(apart: dict[str, Any]) -> None:
    def frontend(**changes: Any) -> dict[str, Any]:
        found: dict[str, Any] = written("dynamo", **apart, **changes)["spec"]["services"]["Frontend"]
        return found

    reuse = {
        "rate_per_s": 1.0, "hit_rate": 0.59, "unbounded": 0.6, "computed_tokens": 400.0, "computed_p95": 900.0,
        "kept_s": 60.0, "tiers": [], "turns": 2.0,
    }  # fmt: skip
    assert "envs" not in frontend()
    asked = {one["name"]: one["value"] for one in frontend(reuse=reuse)["envs"]}
    assert asked == {"DYN_ROUTER_MODE": "kv", "DYN_ROUTER_USE_KV_EVENTS": "false"}
    (text,) = exported(plan(reuse=reuse), "compose").values()
    told = " ".join(text.replace("#", " ").split())
    assert "finds 59 % of prompt tokens in caches: route requests by session or prefix" in told
