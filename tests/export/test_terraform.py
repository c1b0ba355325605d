"""Node groups of a plan: arguments that the provider documents, the plan's instances, inert names."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.asked import Refused
from tests.export.plans import TWO_NODES, exported, plan
from tests.export.test_hostile import HOSTILE

SCHEMA = Path(__file__).parents[2] / "tools" / "export-validators" / "terraform.schema.json"
AWS = {"provider": "aws", "instance_type": "p5.48xlarge", "region": "us-east-1"}
AZURE = {"provider": "azure", "instance_type": "ND96isr_H100_v5", "region": "eastus"}


def disagreements(kind: str, written: dict[str, Any]) -> list[str]:
    """Where a resource departs from its provider's schema: unknown arguments, and required ones that are missing."""
    return _against(kind, json.loads(SCHEMA.read_text(encoding="utf-8"))["resources"][kind], written)


def _against(where: str, known: dict[str, Any], written: dict[str, Any]) -> list[str]:
    found = [f"{where}: unknown {name}" for name in written if name not in known["arguments"]]
    found += [f"{where}: no {name}" for name in known["required"] if name not in written]
    for name, inner in known["blocks"].items():
        blocks = written.get(name, [])
        for block in blocks if isinstance(blocks, list) else [blocks]:
            found += _against(f"{where}.{name}", inner, block)
    return found


def written(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(exported(plan(**changes), "terraform")["nodes.tf.json"])
    return document


@pytest.mark.parametrize("changes", [{}, AWS, AZURE, {**AWS, "term": "spot"}, {**AZURE, "term": "spot"}, TWO_NODES])
def test_arguments_are_those_of_the_providers_documents(changes: dict[str, Any]) -> None:
    document = written(**changes)
    ((kind, groups),) = document["resource"].items()
    (group,) = groups.values()
    assert disagreements(kind, group) == []
    assert disagreements(kind, {**group, "nodes": 1}) == [f"{kind}: unknown nodes"]
    assert {re.fullmatch(r"\$\{var\.(\w+)\}", v)[1] for v in group.values() if str(v).startswith("${")} == set(
        document["variable"]
    )  # type: ignore[index]


def test_the_plans_instances_arrive() -> None:
    (pool,) = written()["resource"]["google_container_node_pool"].values()
    assert (pool["node_count"], pool["node_config"]["machine_type"], pool["node_config"]["spot"]) == (
        1,
        "a3-highgpu-8g",
        False,
    )
    (group,) = written(**AWS, term="spot", instances=3)["resource"]["aws_eks_node_group"].values()
    assert group["instance_types"] == ["p5.48xlarge"] and group["capacity_type"] == "SPOT"
    assert group["scaling_config"] == {"desired_size": 3, "min_size": 3, "max_size": 4}
    (azure,) = written(**AZURE)["resource"]["azurerm_kubernetes_cluster_node_pool"].values()
    assert azure["vm_size"] == "Standard_ND96isr_H100_v5" and re.fullmatch(r"[a-z][a-z0-9]{0,11}", azure["name"])


def test_other_providers_are_refused_with_the_targets_that_can() -> None:
    with pytest.raises(Refused, match="gcp, aws, azure, and the plan rents at nebius"):
        written(provider="nebius")
    with pytest.raises(Refused, match="attached one by one"):
        written(instance_type="n1-standard-8")


@pytest.mark.parametrize("name", [*HOSTILE, "a/${var.x}", "a/%{ for x in y }z%{ endfor }"])
def test_names_are_texts(name: str) -> None:
    for changes in ({"provider": "gcp"}, {"provider": "aws"}, {"provider": "azure"}):
        document = written(model=name if "/" in name else f"a/{name}", instance_type=name, **changes)
        (groups,) = document["resource"].values()
        (group,) = groups.values()
        texts = [text for text in _texts(group) if not re.fullmatch(r"\$\{var\.\w+\}", text)]
        assert all(not re.search(r"(?<!\$)\$\{|(?<!%)%\{", text) for text in texts)
        assert any(name.replace("${", "$${").replace("%{", "%%{") in text for text in texts)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    return [text for inner in value for text in _texts(inner)] if isinstance(value, list) else [str(value)]


def karpenter(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    pool, node_class = yaml.safe_load_all(exported(plan(**{**AWS, **changes}), "karpenter")["pool.yaml"])
    return pool, node_class


def test_karpenter_may_start_the_planned_instances_and_one_more() -> None:
    pool, node_class = karpenter(term="spot", instances=3)
    spec = pool["spec"]["template"]["spec"]
    asked = {one["key"]: one["values"] for one in spec["requirements"]}
    assert asked["node.kubernetes.io/instance-type"] == ["p5.48xlarge"]
    assert asked["karpenter.sh/capacity-type"] == ["spot"]
    assert pool["spec"]["limits"] == {"nvidia.com/gpu": "32"}
    assert spec["nodeClassRef"]["name"] == node_class["metadata"]["name"]
    pods = yaml.safe_load(exported(plan(**AWS), "kubernetes")["serve.yaml"].split("---")[0])
    tolerated = pods["spec"]["template"]["spec"]["tolerations"]
    assert spec["taints"][0]["key"] in [one["key"] for one in tolerated]


def test_karpenter_is_for_eks_and_for_plain_names() -> None:
    with pytest.raises(Refused, match="for EKS"):
        karpenter(provider="gcp")
    with pytest.raises(Refused, match="envsubst"):
        karpenter(instance_type="p5.${HOME}")
