"""`tonnage trace`: a request log and its sessions; or a PyTorch module that becomes a profile file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tonnage.cli.options import FILE, output_of, why_option


@click.command()
@click.argument("target", metavar="LOG|MODULE:CALLABLE")
@click.option("--input", "inputs", multiple=True, metavar="SHAPE", help="Example input: 1x3x224x224, ids=1x128:int64.")
@click.option("--samples", type=click.IntRange(1), help="Samples in the inputs; absent = the first input's first size.")
@click.option("--name", help="Name of the model in answers; absent = the callable's.")
@click.option("--training/--no-training", default=True, help="Also a training step: backward pass, memory.")
@click.option("--out", "-o", type=FILE, help="File to write; absent = NAME.profile.json.")
@why_option
@click.option("--json", "as_json", is_flag=True, help="The profile itself on standard output, and no file.")
def trace(target: str, out: str | None, **options: Any) -> None:
    """
    Say what sessions a request log holds; or count what a PyTorch module computes, without its weights.

    LOG is a file of requests (CSV or JSON lines, gzipped or not) or the name of a fetched public log
    (`tonnage catalog traces`): its sessions, and how much of its prompts a cache of some size finds again.
    MODULE:CALLABLE (or path/to/net.py:CALLABLE) is your own code: it is imported and called, and returns a
    torch.nn.Module, or (module, inputs). It runs on tensors without data. The profile written is taken wherever a
    model is: `tonnage fit net.profile.json`, `predict`, `plan`.

    \b
    tonnage trace gateway.jsonl.gz
    tonnage trace net.py:make_net --input 1x3x224x224
    tonnage trace my_models:Encoder --input ids=1x128:int64 --out encoder.profile.json
    """
    output = output_of(options)
    if ":" not in target:
        from tonnage.questions.sessions.logs import trace_sessions

        output.show(trace_sessions(target))
        return
    from tonnage.measure.trace import parse_input, trace_named
    from tonnage.report.document import as_json

    specs = [parse_input(text) for text in options["inputs"]]
    name, samples, training = options["name"] or "", options["samples"], options["training"]
    profile = trace_named(target, specs, samples=samples, name=name, training=training)
    path = Path(out or f"{profile.name}.profile.json")
    if not output.as_json:
        path.write_text(as_json(profile) + "\n", encoding="utf-8")
    output.show(profile, path=str(path))
