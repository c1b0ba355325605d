"""The server of a deployment: asked of the target module that is its engine; and what all of them share."""

from __future__ import annotations

import re

from tonnage.errors import BadRequest
from tonnage.export.deployment import SIXTEEN_BIT, Deployment
from tonnage.export.target import Server, Target
from tonnage.export.text import comment, head, shell

__all__ = ["needs_quantised", "script", "server", "version_of"]


def server(deployment: Deployment) -> Server:
    """
    How the deployment's engine starts one replica.

    Raises
    ------
    BadRequest
        No file can be written for that engine, or the engine cannot express the option.
    """
    from tonnage.export import known_targets, target_module

    engine = deployment.engine.name
    known = [name for name in known_targets() if hasattr(target_module(name), "serve")]
    if engine not in known:
        raise BadRequest(
            f"no files can be written for engine '{engine}'; plan again with --engine {' or '.join(known)}"
        )
    made: Server = target_module(engine).serve(deployment)
    return made


def version_of(deployment: Deployment, target: Target) -> str:
    """The release the plan was made for, as a full number; the target's own where the plan names none."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.(\d+))?", deployment.engine.version or "")
    return f"{found[1]}.{found[2]}.{found[3] or 0}" if found else target.version


def needs_quantised(deployment: Deployment, *, online: tuple[str, ...] = ()) -> bool:
    """
    Whether the engine quantises the weights while loading; formats in `online` are ones it can.

    Raises
    ------
    BadRequest
        The weights must come quantised, and the checkpoint is not known to be.
    """
    weights = deployment.precision.weights
    if weights in SIXTEEN_BIT or deployment.named or deployment.checkpoint == weights:
        return False
    if weights in online and deployment.checkpoint in (None, *SIXTEEN_BIT):
        return True
    stored = deployment.checkpoint or "another format"
    raise BadRequest(
        f"the option runs {weights} weights and {deployment.model} is stored in {stored}: "
        f"{deployment.engine.name} needs a checkpoint already in {weights}; name it with --checkpoint ID"
    )


def script(deployment: Deployment, target: Target) -> str:
    """
    A shell script that starts one replica on this machine, or one node of it.

    Raises
    ------
    BadRequest
        The option was planned for another engine, whose settings and speed are others.
    """
    planned = deployment.engine.name
    if planned != target.name:
        raise BadRequest(
            f"the option was planned for {planned}; export to {planned}, or plan with --engine {target.name}"
        )
    made = server(deployment)
    lines = [*deployment.lines, *made.notes, f"This starts one replica; the plan has {deployment.replicas}."]
    lines.append("Tokens are read from the environment: export HF_TOKEN before starting a gated model.")
    text = "#!/usr/bin/env bash\n" + head(target.title, made.version, lines=lines) + "set -euo pipefail\n\n"
    if deployment.nodes == 1:
        return text + "exec " + shell(made.argv) + "\n"
    usage = comment(
        [
            f"A replica spans {deployment.nodes} nodes: run this on each, with NODE_RANK=0 on the first and 1, 2, ...",
            "on the others, and LEADER_ADDRESS set to the first one's address.",
        ]
    )
    return (
        f'{text}{usage}: "${{LEADER_ADDRESS:?the first node}}" "${{NODE_RANK:?0 on the first node}}"\n'
        f'if [ "$NODE_RANK" = 0 ]; then\n{made.leader}\nelse\n{made.worker}\nfi\n'
    )
