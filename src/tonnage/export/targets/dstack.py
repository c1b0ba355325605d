"""dstack: a service with the plan's replicas."""

from __future__ import annotations

from tonnage.export.kit import Deployment, Fields, Target, cloud, server, shell

TARGET = Target(
    title="dstack",
    version="0.22.5",
    files=("service.dstack.yml",),
    start="dstack apply -f service.dstack.yml",
    one_node=True,
)
"""Source: dstack.ai/docs/reference/dstack.yml/service; names from gpuhunt."""

FLEET = (
    "It runs on machines that you rent or own and a fleet holds; apply that first: "
    "{type: fleet, name: NAME, blocks: auto, ssh_config: {user: USER, identity_file: KEY, hosts: [ADDRESS, ...]}}"
)
"""Without a backend. Source: dstack.ai/docs/concepts/fleets."""


def export(d: Deployment) -> str:
    """`service.dstack.yml`."""
    made, backend = server(d), cloud("dstack", d.provider, needs=["spot"] if d.spot else [])
    document: Fields = {
        "type": "service",
        "name": d.name,
        "image": made.image,
        "env": ["HF_TOKEN"],
        "commands": [_literal(shell(made.contained))],
        "port": d.port,
        "model": _literal(d.model),
        "replicas": d.replicas,
        "spot_policy": "spot" if d.spot else "on-demand",
        "resources": {"gpu": _gpu(d), "shm_size": "16GB", "disk": f"{d.disk_gb}GB"},
        "probes": [{"type": "http", "url": made.health, "interval": "15s"}],
    }
    if backend:
        document["backends"] = [backend]
        # Only where regions are written as the provider's own tools do.
        if d.provider in {"aws", "gcp"}:
            document["regions"] = [d.region]
    else:
        document["creation_policy"] = "reuse"
    lines = [*made.notes, "HF_TOKEN is taken from the environment of `dstack apply`; it never stands here."]
    if not backend:
        lines.append(FLEET)
    return TARGET.yaml(lines, document)


def _gpu(d: Deployment) -> Fields:
    found = d.spelled
    gpu: Fields = {"name": found.required("dstack"), "count": d.layout.ranks}
    return {**gpu, "memory": f"{found.memory}.."} if found.memory and found.dstack in {"A100", "V100"} else gpu


def _literal(text: str) -> str:
    """dstack replaces ${{ name }} everywhere; in shell the quote between the two keeps it from seeing one."""
    return text.replace("${{", "$''{{")
