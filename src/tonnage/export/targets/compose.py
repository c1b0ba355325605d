"""Docker Compose: every replica that one machine of the plan holds, each on its own accelerators and port."""

from __future__ import annotations

import math

from tonnage.export.kit import BadRequest, Deployment, Fields, Server, Target, head, server, yaml_text
from tonnage.export.targets.kubernetes import literal_argument

TARGET = Target(
    title="Docker Compose",
    version="Compose Specification, as of check-jsonschema 0.39",
    files=("compose.yaml",),
    start="docker compose up -d",
    one_node=True,
)
"""Source: github.com/compose-spec/compose-spec."""


def export(d: Deployment) -> str:
    """`compose.yaml` for one machine."""
    if d.spelled.vendor not in {"nvidia", "amd"}:
        raise BadRequest(
            f"image and devices for '{d.accelerator}' are not known; export to {d.engine.name} and place it yourself"
        )
    made = server(d)
    here = min(d.replicas, d.replicas_per_node)
    lines = [
        *made.notes,
        f"{here} of {d.replicas} replicas, for one machine; start it on each of {d.instances} and balance over them.",
        "HF_TOKEN is read from the environment or from .env; it never stands here.",
    ]
    document = {
        "name": d.name,
        "services": {f"server-{index}": _service(d, made, index) for index in range(here)},
        "volumes": {"models": {}},
    }
    return head(f"{TARGET.title} and {d.engine.name}", made.version, lines=lines) + yaml_text(document)


def _service(d: Deployment, made: Server, index: int) -> Fields:
    """One replica, the `index`-th of the machine: its own accelerators, and its own port of the machine."""
    ranks = d.layout.ranks
    service: Fields = {
        "image": made.image,
        "entrypoint": [],
        "command": [literal_argument(argument) for argument in made.contained],
        "environment": {"HF_TOKEN": "${HF_TOKEN:-}", "HF_HOME": "/models"},
        "ports": [f"{d.port + index}:{d.port}"],
        "volumes": ["models:/models"],
        "ipc": "host",
        "restart": "unless-stopped",
        "healthcheck": {
            "test": ["CMD", "curl", "-fsS", f"http://localhost:{d.port}{made.health}"],
            "interval": "15s",
            "timeout": "5s",
            "retries": 4,
            "start_period": f"{math.ceil(d.patience_s(least=300.0) / 60)}m",
        },
    }
    if d.spelled.vendor == "amd":
        service["devices"] = ["/dev/kfd", "/dev/dri"]
        service["environment"]["HIP_VISIBLE_DEVICES"] = ",".join(_devices(index, ranks))
    else:
        device = {"driver": "nvidia", "device_ids": _devices(index, ranks), "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    return service


def _devices(index: int, ranks: int) -> list[str]:
    return [str(index * ranks + rank) for rank in range(ranks)]
