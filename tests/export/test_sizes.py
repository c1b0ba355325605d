"""Disks, claims and probes are sized by the planned checkpoint and its start, not by a constant."""

from typing import Any

import pytest
import yaml
from tests.export.plans import TWO_NODES, exported, plan

R1 = {
    "model": "deepseek-ai/DeepSeek-R1",
    "checkpoint": "fp8_block",
    "weights": "fp8_block",
    "kv": "bf16",
    "tp": 8,
    "activations": "bf16",
    "accelerator": "h200-sxm-141gb",
}


def documents(target: str, **changes: Any) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(next(iter(exported(plan(**changes), target).values()))))


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
    assert 3 * 294 <= small <= 3 * 294 + 10, "the start that was timed, three times"
    more = 671 / 16.06  # bytes, of those of the timed model
    assert large == pytest.approx(3 * (200 + 94 * more), abs=15)


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
    text = exported(plan(**changes, block_tokens=None), "vllm")["serve.sh"]
    assert ("--block-size" in text) is written
