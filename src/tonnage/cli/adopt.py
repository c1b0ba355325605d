"""`tonnage adopt`: what a running deployment's own file does, and what should run instead."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.options import (
    FILE,
    Grouped,
    additions_option,
    json_option,
    output_of,
    own_facts,
    request_options,
    today_option,
    why_option,
)
from tonnage.questions.registry import REQUESTS

if TYPE_CHECKING:
    from tonnage.catalog import Additions
    from tonnage.questions.adopt.question import Adopt, Running


@click.command(cls=Grouped)
@click.argument("file", metavar="FILE")
@request_options(REQUESTS["adopt"], argument="file")
@why_option
@json_option("adopt")
@click.option(
    "--output",
    "-o",
    "today_as",
    type=FILE,
    help="write what runs today as a plan: explain, export, check",
)
@click.option("--better", type=FILE, help="write the better plan to this file")
@today_option
@additions_option
def adopt(file: str, today_as: str | None, better: str | None, **options: Any) -> None:
    """
    What FILE runs, what it costs, and what should run instead (- = standard input).

    \b
    FILE is what starts it: a vLLM, SGLang, TensorRT-LLM or llama.cpp command, a shell or Slurm script, a manifest of
    Kubernetes (LeaderWorkerSet, KServe, Ray Serve), Compose, SkyPilot or dstack, an axolotl or TRL configuration, a
    torchtitan TOML, a Megatron-LM launch script. Nothing in it is run.
    """
    from tonnage.questions.adopt.adopt import adopt as answer
    from tonnage.report.document import as_json

    output, additions, today = output_of(options), own_facts(options), options.pop("today")
    found = answer(*read_service(file, options, additions=additions), additions=additions, today=today)
    for path, plan in ((today_as, found.current), (better, found.better)):
        if path is not None and plan is not None:
            Path(path).write_text(as_json(plan) + "\n", encoding="utf-8")
    output.show(found)


def read_service(file: str, options: dict[str, Any], *, additions: Additions) -> tuple[Adopt, Running]:
    """What is asked of the service that a file starts, and what the file says."""
    from tonnage.adopt import read_running
    from tonnage.core.files import read_text
    from tonnage.questions.adopt.question import adopt_request

    text = read_text(file)
    running = read_running(text, name="standard input" if file == "-" else file)
    return adopt_request({**options, "file": text}, additions=additions), running
