"""The plan's settings arrive; what a target cannot express is refused in one sentence."""

import csv
import itertools
import json
import re
import shlex
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.asked import Refused
from tests.command import told
from tests.export.plans import CASES, TWO_NODES, exported, plan

import tonnage

ORCHESTRATORS = ("compose", "kubernetes", "skypilot", "dstack", "slurm", "ray-serve")
DRAFT = "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B"


def written(target: str, **changes: Any) -> str:
    return "\n".join(exported(plan(**changes), target).values())


@pytest.mark.parametrize("target", ["vllm", *ORCHESTRATORS])
def test_settings_arrive_everywhere(target: str) -> None:
    text = written(target, max_num_seqs=311, max_num_batched_tokens=7040, memory_fraction=0.83, max_model_len=12345)
    for value in ("311", "7040", "0.83", "12345", "fp8", "meta-llama/Llama-3.1-70B-Instruct"):
        assert value in text, f"{value} is missing"


@pytest.mark.parametrize("target", ["kubernetes", "skypilot", "dstack", "ray-serve", "slurm"])
def test_replicas_arrive(target: str) -> None:
    assert written(target, replicas=7) != written(target, replicas=3)


@pytest.mark.parametrize("target", ["compose", "kubernetes", "skypilot", "dstack"])
def test_a_container_starts_the_program_where_its_image_has_it(target: str) -> None:
    """llama.cpp's images have their programs in /app, which is on no path; on a machine of one's own it is."""
    _, changes = CASES["llamacpp"][:2]
    assert "/app/llama-server" in written(target, **changes) and "/app/" not in written("llamacpp", **changes)
    assert "/app/" not in written(target)


def test_drafts_are_json_in_a_command_and_a_mapping_among_engine_arguments() -> None:
    made = plan()
    drafting = {"speculative_tokens": 2, "speculative_acceptance": 0.7, "draft_model": DRAFT}
    made["options"][0]["configuration"]["engine"] |= drafting
    drafts = {"method": "eagle3", "model": DRAFT, "num_speculative_tokens": 2}
    words = shlex.split(exported(made, "vllm")["serve.sh"].replace("\\\n", " "), comments=True)
    assert json.loads(words[words.index("--speculative-config") + 1]) == drafts
    document = yaml.safe_load(exported(made, "ray-serve")["serve.yaml"])
    (model,) = document["applications"][0]["args"]["llm_configs"]
    assert model["engine_kwargs"]["speculative_config"] == drafts


def test_context_is_cut_to_what_the_cache_holds() -> None:
    text = written("vllm", max_model_len=131072, kv_tokens=50_000.0)
    assert "--max-model-len 50000" in text and "Context is cut to 50,000 of 131,072" in text


def test_every_target_at_once_is_refused_where_none_starts_the_option() -> None:
    with pytest.raises(Refused, match="no target starts h100-sxm5-80gb tp2 fp8 mlx kv-fp8 rented at verda; --to list"):
        written("all", name="mlx", provider="verda")


def test_fp8_is_quantised_while_loading_only_from_sixteen_bits() -> None:
    assert "--quantization fp8" in written("vllm")
    assert "--quantization" not in written("vllm", model="nvidia/Llama-3.1-70B-Instruct-FP8")
    assert "--quantization" not in written("vllm", named="neuralmagic/Llama-3.1-70B-FP8")


@pytest.mark.parametrize(
    ("target", "changes", "told"),
    [
        ("vllm", {"weights": "awq"}, "--checkpoint"),
        ("all", {"weights": "awq"}, "--checkpoint"),
        ("vllm", {"kv": "int8"}, "KV cache"),
        ("trtllm", {"name": "trtllm"}, "--checkpoint"),
        ("trtllm", {"name": "trtllm", "named": "a/b", **TWO_NODES}, "runs on one; .* plan with --engine"),
        ("trtllm", {"name": "trtllm", "named": "a/b", "tp": 2, "dp": 2}, "attention"),
        ("llamacpp", {"name": "llamacpp", "weights": "gguf-q4_k_m", "kv": "fp16"}, "GGUF"),
        ("compose", TWO_NODES, "runs on one"),
        ("dstack", TWO_NODES, "runs on one"),
        ("ray-serve", {"name": "sglang"}, "plan with --engine vllm"),
        ("ray-serve", {"tp": 1, "dp": 8}, "none for the other 7 of its 8 data-parallel ranks; export to vllm"),
        ("skypilot", {"accelerator": "m4-max"}, "skypilot spells"),
        ("kubernetes", {"accelerator": "m4-max"}, "device plug-in"),
        ("compose", {"accelerator": "cpu-xeon-8480"}, "place it yourself"),
        ("kubernetes", {"name": "hf"}, "plan again with --engine"),
        ("vllm", {"model": "13B"}, "--checkpoint"),
        ("vllm", {"model": "/data/llama/config.json"}, "--checkpoint"),
        ("vllm", {"model": "--help"}, "--checkpoint"),
        ("vllm", {"model": "--a/b"}, "read as an option"),
        ("vllm", {"model": "a/b\0c"}, r"U\+0000"),
        ("sglang", {}, "vllm"),
    ],
)
def test_what_cannot_be_expressed_is_one_sentence(target: str, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        written(target, **changes)


def test_an_unknown_target_suggests_the_nearest() -> None:
    with pytest.raises(Refused, match="did you mean 'kubernetes'"):
        written("kubernets")


def test_two_nodes_become_a_leader_and_workers() -> None:
    work = next(yaml.safe_load_all(written("kubernetes", **TWO_NODES)))
    assert work["kind"] == "LeaderWorkerSet"
    template = work["spec"]["leaderWorkerTemplate"]
    assert template["size"] == 2
    leader = template["leaderTemplate"]["spec"]["containers"][0]
    worker = template["workerTemplate"]["spec"]["containers"][0]
    assert leader["resources"]["limits"] == worker["resources"]["limits"] == {"nvidia.com/gpu": 8}
    assert "ray start --head" in leader["command"][-1] and "vllm serve" in leader["command"][-1]
    assert "vllm serve" not in worker["command"][-1]


def test_skypilot_names_differ_at_runpod() -> None:
    assert "H100: 2" in written("skypilot", provider="nebius")
    assert "H100-SXM: 2" in written("skypilot", provider="runpod")
    assert "L40S: 2" in written("skypilot", provider="runpod", accelerator="l40s")


def test_names_are_of_accelerators_that_are_known() -> None:
    listed = csv.DictReader(files("tonnage.export").joinpath("data/names.csv").read_text("utf-8").splitlines())
    for row in listed:
        assert tonnage.accelerator(row["accelerator"]).vendor.lower() == row["vendor"]


def test_parts_on_machines_of_ones_own_are_asked_for_by_the_label_of_a_cluster() -> None:
    text = written("skypilot", provider="own", accelerator="mi355x")
    task = yaml.safe_load(text)["resources"]
    assert task["accelerators"] == {"MI355X": 2} and task["infra"] == "kubernetes"
    assert "skypilot.co/accelerator=mi355x" in text
    assert "skypilot.co/accelerator=a100-80gb" in written("skypilot", provider="own", accelerator="a100-sxm4-80gb")


def test_machines_that_an_orchestrator_does_not_rent_are_joined_and_no_other_is_taken(tmp_path: Path) -> None:
    found = exported(plan(provider="hyperstack"), "skypilot")
    assert yaml.safe_load(found["service.yaml"])["resources"]["infra"] == "ssh/llama-3-1-70b-instruct"
    assert "{ports: podip}" in found["service.yaml"]
    assert "podip" not in exported(plan(provider="hyperstack", replicas=1), "skypilot")["service.yaml"]
    for tool in ("sky", "kubectl"):
        (tmp_path / tool).write_text(f'#!/bin/bash\necho {tool} "$@" | tee -a called\n')
        (tmp_path / tool).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOSTS": "10.0.0.1 10.0.0.2"}
    subprocess.run(["bash", "-c", found["pool.sh"]], cwd=tmp_path, env=env, check=True)
    assert yaml.safe_load((tmp_path / "pool.yaml").read_text()) == {
        "llama-3-1-70b-instruct": {"hosts": ["10.0.0.1", "10.0.0.2"]}
    }
    assert (tmp_path / "called").read_text().splitlines() == [
        "sky ssh up --infra llama-3-1-70b-instruct --file pool.yaml",
        "kubectl --context ssh-llama-3-1-70b-instruct label nodes --all --overwrite skypilot.co/accelerator=h100",
    ]
    assert yaml.safe_load(written("skypilot", provider="crusoe", accelerator="mi300x"))["resources"]["infra"] == (
        "kubernetes"
    ), "sky ssh up sets up NVIDIA's parts alone"
    service = yaml.safe_load(written("dstack", provider="hyperstack"))
    assert service["creation_policy"] == "reuse" and "backends" not in service
    assert "creation_policy" not in yaml.safe_load(written("dstack", provider="nebius"))


@pytest.mark.parametrize(
    ("target", "changes", "why"),
    [
        ("skypilot", {"provider": "denvr"}, "SkyPilot 0.14.1 does not rent at denvr; export to kubernetes"),
        ("skypilot", {"provider": "cudo"}, "has no containers at cudo; .* one of aws, .*nebius"),
        ("skypilot", {"provider": "runpod", **TWO_NODES}, "has no nodes at runpod"),
        ("skypilot", {"provider": "lambda", "term": "spot"}, "has no spot at lambda"),
        ("skypilot", {"provider": "verda", "term": "spot"}, "has no spot at verda"),
        ("dstack", {"provider": "hyperstack", "term": "spot"}, "has no spot at hyperstack"),
        ("dstack", {"provider": "denvr"}, "dstack 0.22.5 does not rent at denvr"),
    ],
)
def test_no_other_provider_is_taken_than_the_planned_one(target: str, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why):
        written(target, **changes)


def test_providers_of_orchestrators_are_called_as_the_catalogue_calls_them() -> None:
    rows = list(csv.DictReader(files("tonnage.export").joinpath("data/clouds.csv").read_text("utf-8").splitlines()))
    known = {line.split()[0] for line in told("catalog", "providers").stdout.splitlines() if line.strip()}
    assert {row["provider"] for row in rows} <= known | {"own"}
    assert all(row["source"] and row["read"] for row in rows)
    assert yaml.safe_load(written("dstack", provider="vast"))["backends"] == ["vastai"]


@pytest.mark.parametrize("case", [case for case, (target, _) in CASES.items() if target != "grafana"])
def test_what_serves_says_how_its_machine_is_accepted_before_any_load(case: str) -> None:
    target, changes = CASES[case]
    made = plan(**changes)
    (option,) = made["options"]
    count = int(option["bill"]["accelerators_per_instance"])
    command = f"tonnage measure accept {option['configuration']['accelerator']} --count {count}"
    assert command in "".join(exported(made, target).values())


@pytest.mark.parametrize(("count", "alone"), [(1, True), (2, True), (4, False)])
def test_few_devices_are_accepted_against_a_reference(count: int, alone: bool) -> None:
    text = written("vllm", accelerators_per_instance=count)
    assert (f"--count {count} --reference good.json --out" in text) == ("good.json is" in text) == alone


def words_of(text: str, command: str) -> list[str]:
    """The arguments of `tonnage` in a file that names the command."""
    return shlex.split(re.findall(rf"tonnage ({command} .*)", text)[0])


def test_the_command_that_accepts_a_machine_is_one(tmp_path: Path) -> None:
    words = words_of(written("vllm", accelerators_per_instance=4), "measure accept")
    done = told(*words[:-1], str(tmp_path / words[-1]), "--time", "1 s")
    assert done.exit_code == 2 and done.stderr == "tonnage: --time: 5 s to 20 min\n"


REAL = {"slo": {"ttft_s": 1.0, "tpot_s": 1 / 30, "percentile": 90.0}, "shape": {"peak_to_mean": 1.5}}


def test_the_load_test_sends_the_plans_load_and_states_its_limits() -> None:
    """As `measure serve` reads it: what it would send is the plan's peak, lengths and limits."""
    made = plan()
    made["request"] |= REAL
    made["options"][0]["reuse"] = {
        "rate_per_s": 1.0, "hit_rate": 0.4, "unbounded": 0.6, "computed_tokens": 600.0, "computed_p95": 900.0,
        "kept_s": 60.0, "tiers": [], "turns": 2.0,
    }  # fmt: skip
    text = exported(made, "vllm")["serve.sh"]
    words = words_of(text, "measure serve")
    given = {word[2:]: value for word, value in itertools.pairwise(words) if word.startswith("--")}
    assert words[2] == "URL" and given["model"] == "meta-llama/Llama-3.1-70B-Instruct"
    lengths = made["request"]["lengths"]
    assert [int(given[f"{side}-tokens"]) for side in ("prompt", "output")] == list(lengths.values())
    assert given["rate"] == "6/s" and int(given["requests"]) >= 6 * 120 and given["shared"] == "40%"
    assert (given["slo-ttft"], given["slo-tpot"], given["percentile"]) == ("1s", "33.3ms", "90")
    assert "one alone: --rate 2/s" in text
    done = told(*words, "--duration", "1 ms", "--output", "/dev/null")
    assert (done.exit_code, done.stderr.splitlines()[-1][:20]) == (2, "tonnage: --duration:")


def test_a_number_in_flight_is_held_by_the_load_test() -> None:
    made = plan()
    made["request"] |= {"rate_per_s": None, "concurrency": 50.0}
    text = exported(made, "vllm")["serve.sh"]
    assert "--concurrency 50 --duration 10min --requests 500" in text and "one alone: --concurrency 17" in text


def test_spot_arrives() -> None:
    aws = {"provider": "aws", "instance_type": "p5.48xlarge", "term": "spot"}
    assert "eks.amazonaws.com/capacityType: SPOT" in written("kubernetes", **aws)
    assert "use_spot: true" in written("skypilot", **aws)
    assert "spot_policy: spot" in written("dstack", **aws)
    assert "#SBATCH --requeue" in written("slurm", **aws)


@pytest.mark.parametrize("case", [name for name, (target, _) in CASES.items() if target in {"vllm", "sglang", "slurm"}])
def test_scripts_are_shell(case: str, tmp_path: Path) -> None:
    target, changes = CASES[case]
    script = tmp_path / "script"
    script.write_text(written(target, **changes))
    assert subprocess.run(["bash", "-n", str(script)], check=False, capture_output=True).returncode == 0


def test_a_worker_that_its_platform_starts_is_given_the_engine_alone() -> None:
    made = plan(provider="runpod-serverless", tp=1)
    made["options"][0]["bill"]["kind"] = "serverless worker"
    for target in ("kubernetes", "compose", "skypilot", "dstack", "slurm", "terraform"):
        with pytest.raises(
            Refused, match=r"needs machines, and runpod-serverless rents workers that .* files for vllm"
        ):
            exported(made, target)
    started = exported(made, "vllm")["serve.sh"]
    assert "give them vllm/vllm-openai:v" in started and "measure accept" not in started
    assert exported(made, "prometheus")
