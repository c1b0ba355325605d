"""Read SkyPilot files with SkyPilot: the task, its resources and its service."""

import sys

# Names of the files beside this one would shadow packages.
sys.path.pop(0)

import sky

for path in sys.argv[1:]:
    task = sky.Task.from_yaml(path)
    assert task.service is not None and task.run, path
    (resources,) = task.resources
    print(f"ok: {path}: {task.service.min_replicas} replicas of {task.num_nodes} x {resources.accelerators}")
