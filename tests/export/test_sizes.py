"""Disks, claims and probes are sized by the planned checkpoint and its start, not by a constant."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from tests.export.plans import TWO_NODES, plan

from tonnage import export
from tonnage.domain.plan import ServePlan
from tonnage.questions.launchable import launchable_option

R1 = {
    "model": "deepseek-ai/DeepSeek-R1",
    "checkpoint": "fp8_block",
    "weights": "fp8_block",
    "kv": "bf16",
    "tp": 8,
    "activations": "bf16",
    "accelerator": "h200-sxm-141gb",
}


def launched(**changes: Any) -> tuple[ServePlan, Any]:
    made, option = launchable_option(plan(**changes))
    assert isinstance(made, ServePlan)
    return made, option


def documents(target: str, **changes: Any) -> list[dict[str, Any]]:
    made, option = launched(**changes)
    return list(yaml.safe_load_all(next(iter(export.export(made, option, to=target).values()))))


@pytest.mark.parametrize(("changes", "least", "most"), [(R1, 730, 900), ({}, 190, 300)])
def test_disks_hold_the_checkpoint_and_little_more(changes: dict[str, Any], least: int, most: int) -> None:
    (sky,) = documents("skypilot", **changes)
    assert least <= sky["resources"]["disk_size"] <= most
    (stack,) = documents("dstack", **changes)
    assert stack["resources"]["disk"] == f"{sky['resources']['disk_size']}GB"
    claim = next(d for d in documents("kubernetes", **changes) if d["kind"] == "PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == f"{sky['resources']['disk_size']}G"


def test_probes_wait_for_the_planned_start() -> None:
    def waits(**changes: Any) -> int:
        pod = documents("kubernetes", **changes)[0]["spec"]["template"]["spec"]
        probe = pod["containers"][0]["startupProbe"]
        seconds: int = probe["periodSeconds"] * probe["failureThreshold"]
        return seconds

    small, large = waits(model="meta-llama/Llama-3.1-8B-Instruct"), waits(**R1)
    made, _ = launched(**R1)
    assert small < large and 3 * made.model["start_s"] <= large <= 3 * made.model["start_s"] + 10


def test_replicas_share_a_claim_and_are_drained_one_at_a_time() -> None:
    found = {d["kind"]: d for d in documents("kubernetes")}
    assert found["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert found["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    volumes = found["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert {
        "name": "models",
        "persistentVolumeClaim": {"claimName": found["PersistentVolumeClaim"]["metadata"]["name"]},
    } in volumes
    alone = {d["kind"]: d for d in documents("kubernetes", replicas=1)}
    assert alone["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert "PodDisruptionBudget" not in alone
    assert "PodDisruptionBudget" not in {d["kind"] for d in documents("kubernetes", **TWO_NODES)}


@pytest.mark.parametrize(("changes", "written"), [(R1, False), ({}, True)])
def test_cache_blocks_are_left_to_kernels_that_come_with_their_own(changes: dict[str, Any], written: bool) -> None:
    """FlashMLA takes blocks of 64 tokens: a file that says 16, vLLM's usual size, would rule it out."""
    planned = plan(**changes)
    assert isinstance(planned, ServePlan)
    configuration = planned.options[0].configuration
    engine = replace(configuration.engine, block_tokens=None)
    free = replace(planned.options[0], configuration=replace(configuration, engine=engine))
    made, option = launchable_option(replace(planned, options=(free,)))
    assert isinstance(made, ServePlan)
    assert ("--block-size" in export.export(made, option, to="vllm")["serve.sh"]) is written
    assert (option.configuration.engine.block_tokens is not None) is written
