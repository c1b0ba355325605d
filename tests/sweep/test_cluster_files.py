"""The files that start a cluster for a sweep ask for a sweep that the command takes, of a file beside them."""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from tonnage.cli import root

EXAMPLES = Path(__file__).parents[2] / "examples"


def texts(value: object) -> list[str]:
    """Every text of a document."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("path", sorted((EXAMPLES / "cluster").glob("*.yaml")), ids=lambda path: path.name)
def test_a_cluster_runs_a_sweep_as_the_command_takes_it(path: Path) -> None:
    held = "\n".join(texts(yaml.safe_load(path.read_text(encoding="utf-8"))))
    (line,) = re.findall(r"tonnage sweep (.*)", held)
    sweep = root.get_command(click.Context(root), "sweep")
    with sweep.make_context("sweep", shlex.split(line)) as asked:
        assert asked.params["ray"] == "auto" and asked.params["output"].endswith(".parquet")
        assert (EXAMPLES / Path(asked.params["path"]).name).is_file()


def test_a_worker_that_may_die_is_no_head_and_all_pods_run_one_image() -> None:
    spec = yaml.safe_load((EXAMPLES / "cluster" / "sweep-kuberay.yaml").read_text(encoding="utf-8"))["spec"]
    cluster = spec["rayClusterSpec"]
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    assert len({box["image"] for group in groups for box in group["template"]["spec"]["containers"]}) == 1
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    volumes = {volume["name"] for volume in cluster["headGroupSpec"]["template"]["spec"]["volumes"]}
    assert {mount["name"] for mount in head["volumeMounts"]} == volumes
