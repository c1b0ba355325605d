"""Files that people published, settings and flags as they stand there: each flag is honoured, or named as ignored."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tonnage.adopt import read_running

FOLDERS = (Path(__file__).parent / "files", Path(__file__).parent / "public")
FILES = {path.name: path for folder in FOLDERS for path in sorted(folder.iterdir())}
FLAG = re.compile(r"(?<![\w-])--?[a-z][\w-]+(?=[ =\"',\]\n]|$)", re.MULTILINE)
OTHERS = {
    "gke-deepseek-r1-lws.yaml": {"--ray_cluster_size", "--ray_address"},
    "gke-llama-405b-lws.yaml": {"--ray_cluster_size", "--ray_address"},
    "kserve.yaml": {"--model_name"},
    "leaderworkerset.yaml": {"--ray_cluster_size"},
    "lws-vllm-tpu.yaml": {"--ray_cluster_size", "--ray_address"},
    "lws-vllm-hpa.yaml": {"--headless"},
    "megatron.sh": {"--nproc_per_node", "--nnodes"},
    "sky-deepseek-r1.yaml": {"--find-links"},
    "sky-gpt-oss.yaml": {"--pre", "--seed", "--python", "--extra-index-url"},
    "sky-kimi-k2.yaml": {"--head", "--address", "--disable-usage-stats"},
    "slurm.sbatch": {"--gres", "--mem", "--job-name", "--time"},
    "stack-disaggregated.yaml": {"--prefill-model-labels", "--decode-model-labels"},
    "stack-kvaware.yaml": {"--log-level"},
    "vllm-docker.sh": {"--gpus", "--rm"},
}
"""
Flags of what stands beside the server: pip, Ray, a router, the workers of a group of nodes, launchers, containers and
schedulers, whose counts are the machine's; KServe's name of a model is told in vLLM's words.
"""
READ = {
    "dynamo-axk2.yaml": ("tp8 ep8", 4, 8, 1),
    "dynamo-v4-flash.yaml": ("tp1 dp4 ep4", 1, 4, 1),
    "gke-deepseek-r1-lws.yaml": ("tp8 pp2", 1, 8, 2),
    "gke-gemma-3-27b.yaml": ("tp8", 1, 8, 1),
    "gke-llama-3-lora.yaml": ("tp1", 3, 1, 1),
    "gke-llama-405b-lws.yaml": ("tp8 pp2", 1, 8, 2),
    "gke-maverick-fp8.yaml": ("tp8", 1, 8, 1),
    "gke-sglang-l4.yaml": ("tp8", 1, 8, 1),
    "kserve-experts.yaml": ("tp1 dp8 ep8", 1, 8, 1),
    "kserve-gpt-oss.yaml": ("", 2, 1, 1),
    "lws-sglang.yaml": ("tp2", 2, 1, 2),
    "lws-vllm-hpa.yaml": ("tp8 pp2", 4, 8, 2),
    "lws-vllm-tpu.yaml": ("tp16", 2, 4, 4),
    "sglang-compose.yaml": ("", 1, 1, 1),
    "sglang-deployment.yaml": ("", 1, 1, 1),
    "sglang-statefulset.yaml": ("tp16 ep16", 1, 8, 2),
    "sky-codellama.yaml": ("tp8", 2, 8, 1),
    "sky-dbrx.yaml": ("tp8", 2, 8, 1),
    "sky-deepseek-r1.yaml": ("tp16", 2, 8, 2),
    "sky-falcon-h1.yaml": ("tp2 dp4", 2, 8, 1),
    "sky-gemma-3.yaml": ("tp1", 1, 1, 1),
    "sky-gemma.yaml": ("tp1", 2, 1, 1),
    "sky-gpt-oss.yaml": ("", 3, 1, 1),
    "sky-kimi-k2.yaml": ("tp8 pp2", 1, 8, 2),
    "sky-llama-3_2.yaml": ("tp1", 2, 1, 1),
    "sky-llama-4.yaml": ("tp8", 1, 8, 1),
    "sky-r1-distilled.yaml": ("tp1", 1, 1, 1),
    "stack-disaggregated.yaml": ("", 1, None, 1),
    "stack-kvaware.yaml": ("", 2, 1, 1),
    "stack-multi-round.yaml": ("", 1, 1, 1),
    "stack-oci.yaml": ("", 1, 1, 1),
}
"""Degrees, replicas, accelerators of a node and nodes of a replica, as a person reads them."""


def test_fifty_files_are_read_and_no_flag_of_theirs_is_lost() -> None:
    counts: Counter[str] = Counter()
    missed = {}
    for name, path in FILES.items():
        text = path.read_text(encoding="utf-8")
        found = read_running(text, name=name)
        honoured, named = [one.written for one in found.settings], [*found.ignored, *found.unknown]
        counts["files"] += 1
        counts["honoured"] += len(honoured)
        counts["named as ignored"] += len(named)
        told = " ".join([*honoured, *named])
        placed = {"--model", "--model-path", "--nnodes"} if found.model else set()
        lost = {flag for flag in FLAG.findall(text) if flag not in told} - placed - OTHERS.get(name, set())
        missed |= {name: lost} if lost else {}
    assert counts["files"] >= 50 and counts["honoured"] > 150 and not missed, (counts, missed)


@pytest.mark.parametrize("name", READ)
def test_it_is_read_as_a_person_reads_it(name: str) -> None:
    found = read_running(FILES[name].read_text(encoding="utf-8"), name=name)
    values = found.values()
    degrees = " ".join(f"{part}{values[part]}" for part in ("tp", "pp", "dp", "ep") if part in values)
    assert (degrees, found.replicas, found.machine.count, found.machine.nodes) == READ[name]


def test_what_stands_apart_or_reaches_no_server_is_said() -> None:
    def notes(name: str) -> str:
        return " ".join(read_running(FILES[name].read_text(encoding="utf-8"), name=name).notes)

    assert "workers for prompts stand apart" in notes("stack-disaggregated.yaml")
    assert "the chart hands them to no server" in notes("stack-oci.yaml")
    assert "2 to 5 replicas" in notes("lws-vllm-hpa.yaml")


@pytest.mark.parametrize(
    ("command", "model", "ignored"),
    [
        ("python -m vllm.entrypoints.openai.api_server --model a/b > log 2>&1 &", "a/b", ()),
        ("python -m vllm.entrypoints.openai.api_server --model a/b 2>&1 | tee log &", "a/b", ()),
        ("vllm serve a/b --disable-log-stats --port=7 &> log", "a/b", ("--disable-log-stats", "--port=7")),
        ("vllm serve --disable-log-stats --model=a/b", "a/b", ("--disable-log-stats",)),
        ("N=$(($A * 2))\nvllm serve a/b -tp $N", "a/b", ()),
    ],
)
def test_outputs_and_switches_take_no_words_of_others(command: str, model: str, ignored: tuple[str, ...]) -> None:
    found = read_running(command)
    assert (found.model, found.ignored) == (model, ignored)


def test_a_switch_that_changes_nothing_is_named_and_one_that_does_is_told_with_what_it_changed() -> None:
    idle = read_running("sglang serve --model-path a/b --tp 8 --enable-dp-attention")
    assert idle.ignored == ("--enable-dp-attention",) and idle.value("tp") == 8
    used = read_running("sglang serve --model-path a/b --tp 8 --dp 4 --enable-dp-attention")
    assert not used.ignored and {one.written for one in used.settings} == {
        "--tp 8, --enable-dp-attention", "--dp 4, --enable-dp-attention",
    }  # fmt: skip
