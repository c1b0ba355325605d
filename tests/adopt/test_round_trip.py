"""Files after public examples are adopted, exported to the program they start, and read again: the same settings."""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.sweeps import FULL

from tonnage import export
from tonnage.adopt import read_running
from tonnage.domain.plan import ServePlan
from tonnage.questions.adopt.adopt import adopt
from tonnage.questions.adopt.question import Adoption, Running, adopt_request
from tonnage.questions.answers import document_of
from tonnage.questions.launchable import launchable_option
from tonnage.report.terminal import print_blocks

FILES = Path(__file__).parent / "files"
NAMES = sorted(path.name for path in FILES.iterdir())
TODAY = date(2026, 11, 22)
LLAMA_405B = "meta-llama/Llama-3.1-405B-Instruct"
MORE: dict[str, dict[str, Any]] = {
    "vllm-quickstart.sh": {"accelerator": "A100"},
    "vllm-docker.sh": {"accelerator": "H100"},
    "vllm-pipeline.sh": {"accelerator": "H100", "model": LLAMA_405B},
    "vllm-experts.sh": {"accelerator": "H200", "model": "deepseek-ai/DeepSeek-V3"},
    "vllm-options.yaml": {"accelerator": "H100"},
    "leaderworkerset.yaml": {"accelerator": "H100"},
    "dstack.yml": {"accelerator": "L4"},
    "slurm.sbatch": {"accelerator": "RTX A6000"},
    "production-stack.yaml": {"accelerator": "A100"},
    "compose.yaml": {"accelerator": "H100"},
    "sglang-two-nodes.sh": {"accelerator": "H100"},
    "trtllm.sh": {"accelerator": "B200", "model": "meta-llama/Llama-3.3-70B-Instruct"},
    "llamacpp.sh": {"accelerator": "RTX 4090", "model": "Qwen/Qwen2.5-0.5B"},
    "axolotl-qlora.yaml": {"accelerator": "A100", "tokens": "20M", "model": "meta-llama/Meta-Llama-3-8B"},
    "trl-sft.yaml": {"accelerator": "H100", "count": 8, "tokens": "20M"},
    "torchtitan.toml": {"accelerator": "H100", "count": 8},
    "megatron.sh": {"accelerator": "H100"},
}
"""File -> what it does not say."""
DIFFER = {
    "axolotl-qlora.yaml": {"epochs"},
    "trl-sft.yaml": {"epochs", "recompute"},
    "torchtitan.toml": {"optimizer", "recompute"},
    "megatron.sh": {"samples", "sequence_parallel"},
    "trtllm.sh": {"ep"},
    "ray-serve.yaml": {"cuda_graphs"},
}
"""Settings that are written otherwise: epochs and samples as steps, and a default of the program (as CUDA graphs
are) is left to it; selective recomputation of torchtitan is planned as none, and said so; under FSDP, TRL recomputes
by a switch of Accelerate's file, which stands beside its own; sequence parallelism of one tensor rank and experts on
one rank are nothing."""
LAMBDA, GCP = {"provider": "lambda"}, {"provider": "gcp"}
"""What it is compared with in the sample: one provider, not the whole market."""
SAMPLE = (
    NAMES if FULL else ["compose.yaml", "kubernetes-idle.yaml", "megatron.sh", "sglang-two-nodes.sh", "trl-sft.yaml"]
)


def read(name: str) -> Running:
    return read_running((FILES / name).read_text(encoding="utf-8"), name=name)


@cache
def adopted(name: str) -> Adoption:
    few = {} if FULL else GCP if name == "sglang-two-nodes.sh" else LAMBDA
    fields = {**MORE.get(name, {}), **few, "file": (FILES / name).read_text(encoding="utf-8")}
    return adopt(adopt_request(fields), read(name), today=TODAY)


def test_settings_of_public_files_name_their_commit() -> None:
    heads = ["".join((FILES / name).read_text(encoding="utf-8").splitlines(keepends=True)[:2]) for name in NAMES]
    confirmed = [
        head for head in heads if re.search(r"# After github\.com/\S+/\S+ \S+ @ [0-9a-f]{7}, read 2026-", head)
    ]
    assert len(confirmed) >= 20


def test_there_are_twenty_files_and_each_says_where_it_comes_from() -> None:
    assert len(NAMES) >= 20
    heads = ["".join((FILES / name).read_text(encoding="utf-8").splitlines()[:2]) for name in NAMES]
    assert all("# After " in head and "." in head.partition("# After ")[2] for head in heads)


@pytest.mark.parametrize("name", SAMPLE)
def test_adopted_and_exported_it_has_the_same_settings(name: str) -> None:
    found, before = adopted(name), read(name)
    assert found.current is not None, found.findings
    # The checkpoint is the file's own; formats that no engine makes while loading must be named.
    checkpoint = before.model if before.kind == "serve" else None
    made, option = launchable_option(found.current, checkpoint=checkpoint)
    files = export.export(made, option, to=before.program)
    text = next(text for file, text in files.items() if file.endswith((".sh", ".yaml")))
    after = read_running(text, name=next(iter(files)))
    told = {setting: value for setting, value in before.values().items() if after.value(setting) != value}
    assert set(told) <= DIFFER.get(name, set()), told
    assert (
        after.model in (before.model, MORE.get(name, {}).get("model"), getattr(made.request, "model", ""))
        or not before.model
    )
    assert not after.unknown


@pytest.mark.parametrize("name", SAMPLE)
def test_the_first_screen_says_what_was_read_assumed_and_what_should_run(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = adopted(name)
    print_blocks(document_of(found).first, width=100)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    text = " ".join(" ".join(lines).split())
    assert text.startswith("Read: ") and read(name).format in text
    assert "today" in text and ("better" in text or "next" in text)
    assert found.sentence.split()[0] in text and all(note[:20] in text for note in found.findings[:2])


def test_what_is_reserved_and_idle_is_said_and_paid() -> None:
    found = adopted("kubernetes-idle.yaml")
    assert any("4 accelerators are reserved for a replica of 2: 2 idle" in finding for finding in found.findings)
    assert isinstance(found.current, ServePlan)
    option = found.current.options[0]
    assert option.accelerators == 12 and option.bill.instances * option.bill.accelerators_per_instance >= 12
    assert found.saving is not None and found.saving.share > 0.4


def test_the_context_that_a_server_takes_is_kept_and_fewer_bits_are_said() -> None:
    model = "Qwen/Qwen3-235B-A22B-Instruct-2507"
    text = f"vllm serve {model} --tensor-parallel-size 8 --max-model-len 262144 --kv-cache-dtype auto"
    found = adopt(adopt_request({"file": text, "accelerator": "H200"}), read_running(text), today=TODAY)
    better = found.better
    assert isinstance(better, ServePlan) and better.request.max_context == 262_144
    assert all(option.kv_tokens >= 262_144 for option in better.options)
    assert "--context 262144" in found.command
    narrow = better.options[0].configuration.precision
    assert narrow.stored == "fp8"
    assert "carries the same load with FP8 weights" in found.sentence


def test_a_stated_load_beyond_what_it_carries_is_a_finding() -> None:
    name = "kubernetes-vllm.yaml"
    fields = {"file": (FILES / name).read_text(encoding="utf-8"), "rate": "50/s", **LAMBDA}
    found = adopt(adopt_request(fields), read(name), today=TODAY)
    assert not found.feasible and found.current is not None
    assert any("50/s arrive" in finding for finding in found.findings)
    assert isinstance(found.better, ServePlan) and found.better.feasible
    best = found.better.options[0]
    assert best.replicas * best.capacity.max_rate_per_s.value >= 50
