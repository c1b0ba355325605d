"""Read SkyPilot files with SkyPilot: the task, its resources and its service."""

import sys
from pathlib import Path

# Names of the files beside this one would shadow packages.
sys.path.pop(0)

import sky
import yaml

for path in sys.argv[1:]:
    # What only the user knows has to be there, as `--env` would give it.
    config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    config["envs"] = {name: value or "s3://bucket" for name, value in config.get("envs", {}).items()}
    task = sky.Task.from_yaml_config(config)
    assert task.run, path
    (resources,) = task.resources
    many = f"{task.service.min_replicas} replicas" if task.service else f"recovery {resources.job_recovery['strategy']}"
    print(f"ok: {path}: {many} of {task.num_nodes} x {resources.accelerators}")
