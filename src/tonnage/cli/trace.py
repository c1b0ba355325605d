"""`tonnage trace`: a request log and its sessions; or a PyTorch module that becomes a profile file."""

from __future__ import annotations

from pathlib import Path

import click

from tonnage.cli.options import why_option

__all__ = ["trace"]


@click.command()
@click.argument("target", metavar="LOG|MODULE:CALLABLE")
@click.option("--input", "inputs", multiple=True, metavar="SHAPE", help="Example input: 1x3x224x224, ids=1x128:int64.")
@click.option("--samples", type=click.IntRange(1), help="Samples in the inputs; absent = the first input's first size.")
@click.option("--name", help="Name of the model in answers; absent = the callable's.")
@click.option("--training/--no-training", default=True, help="Also a training step: backward pass, memory.")
@click.option("--out", "-o", type=click.Path(dir_okay=False), help="File to write; absent = NAME.profile.json.")
@why_option
@click.option("--json", "as_json", is_flag=True, help="The profile itself on standard output, and no file.")
def trace(
    target: str,
    inputs: tuple[str, ...],
    samples: int | None,
    name: str | None,
    training: bool,
    out: str | None,
    as_json: bool,
    why: bool,
) -> None:
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
    if ":" not in target:
        show_sessions(target, why=why, as_json_text=as_json)
        return
    from tonnage.measure.trace import parse_input, trace_named
    from tonnage.report.document import as_json as json_text

    specs = [parse_input(text) for text in inputs]
    profile = trace_named(target, specs, samples=samples, name=name or "", training=training)
    if as_json:
        click.echo(json_text(profile))
        return
    from tonnage.report.answers import show_document
    from tonnage.report.trace import profile_document

    path = Path(out or f"{profile.name}.profile.json")
    path.write_text(json_text(profile) + "\n", encoding="utf-8")
    show_document(profile_document(profile, path=str(path)), why=why)


def show_sessions(log: str, *, why: bool, as_json_text: bool) -> None:
    """The sessions of a request log."""
    from tonnage.planning.sessions.logs import trace_sessions
    from tonnage.report.answers import show_document
    from tonnage.report.document import as_json
    from tonnage.report.sessions import trace_document

    found = trace_sessions(log)
    if as_json_text:
        click.echo(as_json(found))
    else:
        show_document(trace_document(found), why=why)
