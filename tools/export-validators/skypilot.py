"""
Read SkyPilot files with SkyPilot: the task, its resources, its service, and that their cloud offers all of it.

Pools of machines are joined in name alone: SkyPilot's list of them holds every one, and their k3s labels no node as
spot. How a part is called there is what SkyPilot reads from the label that the files ask for.
"""

import csv
import sys
from pathlib import Path

# Names of the files beside this one would shadow packages.
sys.path.pop(0)

import sky
import yaml
from sky.clouds import CloudImplementationFeatures as Feature
from sky.provision.kubernetes import utils as cluster
from sky.utils.registry import CLOUD_REGISTRY

NEEDS = {
    "containers": Feature.DOCKER_IMAGE,
    "ports": Feature.OPEN_PORTS,
    "nodes": Feature.MULTI_NODE,
    "spot": Feature.SPOT_INSTANCE,
    "mounts": Feature.STORAGE_MOUNTING,
}


class Pools(list):
    """Every pool that a file names is one."""

    def __contains__(self, name: object) -> bool:
        return str(name).startswith("ssh-")


sky.clouds.SSH.existing_allowed_contexts = classmethod(lambda cls, silent=False: Pools())
cluster.get_spot_label = lambda context: (None, None)
CLOUDS = Path(__file__).parents[2] / "src/tonnage/export/data/clouds.csv"

for row in csv.DictReader(CLOUDS.read_text(encoding="utf-8").splitlines()):
    if row["target"] != "skypilot" or row["called"] == "kubernetes":
        continue
    lacking = CLOUD_REGISTRY[row["called"]]._unsupported_features_for_resources(sky.Resources())
    found = ";".join(need for need, feature in NEEDS.items() if feature in lacking)
    assert found == row["lacks"], f"{row['called']} lacks {found or 'nothing'}, not {row['lacks'] or 'nothing'}"

for path in sys.argv[1:]:
    # What only the user knows has to be there, as `--env` would give it.
    text = Path(path).read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    config["envs"] = {name: value or "s3://bucket" for name, value in config.get("envs", {}).items()}
    task = sky.Task.from_yaml_config(config)
    assert task.run, path
    (resources,) = task.resources
    if isinstance(resources.cloud, sky.clouds.Kubernetes):
        (label,) = cluster.SkyPilotLabelFormatter.get_label_values(next(iter(resources.accelerators)))
        told = (text, *(script.read_text(encoding="utf-8") for script in Path(path).parent.glob("pool.sh")))
        assert f"skypilot.co/accelerator={label}" in "".join(told), f"{path}: nodes are not labelled {label}"
    needed = resources.get_required_cloud_features() | task.get_required_cloud_features()
    type(resources.cloud).check_features_are_supported(resources, needed)
    many = f"{task.service.min_replicas} replicas" if task.service else f"recovery {resources.job_recovery['strategy']}"
    print(f"ok: {path}: {many} of {task.num_nodes} x {resources.accelerators}")
