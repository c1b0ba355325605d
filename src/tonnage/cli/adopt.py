"""`tonnage adopt`: what a running deployment's own file does, and what should run instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tonnage.cli.options import Grouped, additions_option, request_options, why_option
from tonnage.domain.requests.table import REQUESTS

__all__ = ["adopt"]

INFEASIBLE = 3


@click.command(cls=Grouped)
@click.argument("file", metavar="FILE")
@request_options(REQUESTS["adopt"], argument="file")
@why_option
@click.option("--json", "as_json", is_flag=True, help="machine-readable, schema tonnage.adopt/1")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False), help="write what runs today as a plan: explain, export, check"
)
@click.option("--better", type=click.Path(dir_okay=False), help="write the better plan to this file")
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="count the age of prices from this date")
@additions_option
@click.pass_context
def adopt(ctx: click.Context, /, file: str, **options: Any) -> None:
    """
    What FILE runs, what it costs, and what should run instead (- = standard input).

    \b
    FILE is what starts it: a vLLM, SGLang, TensorRT-LLM or llama.cpp command, a shell or Slurm script, a manifest of
    Kubernetes (LeaderWorkerSet, KServe, Ray Serve), Compose, SkyPilot or dstack, an axolotl or TRL configuration, a
    torchtitan TOML, a Megatron-LM launch script. Nothing in it is run.
    """
    from tonnage.adopt import read_running
    from tonnage.catalog import gather
    from tonnage.planning.adopt.adopt import adopt as answer
    from tonnage.planning.files import read_text
    from tonnage.planning.requests.adopt import adopt_request
    from tonnage.report.answers import show
    from tonnage.report.document import as_json

    own = {name: options.pop(name) for name in ("why", "as_json", "output", "better", "today", "folders")}
    additions = gather(paths=own["folders"])
    text = read_text(file)
    running = read_running(text, name="standard input" if file == "-" else file)
    asked = adopt_request({**options, "file": text}, additions=additions)
    found = answer(asked, running, additions=additions, today=own["today"].date() if own["today"] else None)
    for path, plan in ((own["output"], found.current), (own["better"], found.better)):
        if path is not None and plan is not None:
            Path(path).write_text(as_json(plan) + "\n", encoding="utf-8")
    if own["as_json"]:
        click.echo(as_json(found))
    else:
        show(found, why=own["why"])
    if not found.feasible:
        ctx.exit(INFEASIBLE)
