"""`tonnage compare`: the same requests served in several ways, or several plans, requests or cases side by side."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import own_facts, own_facts_options, watch_bar, why_option
from tonnage.cli.simulate import print_simulated

__all__ = ["compare"]


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--plot", type=click.Path(dir_okay=False), help="draw it, too: FILE.svg, .png, or .html with the report")
@why_option
@click.option("--json", "as_json", is_flag=True, help="machine-readable, schema tonnage.compare/1")
@own_facts_options
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    files: tuple[str, ...],
    plot: str | None,
    as_json: bool,
    why: bool,
    **facts: Any,
) -> None:
    """
    Answers side by side (- = standard input).

    One FILE with a simulation: its requests served in static, dynamic and continuous batches and, with two replicas
    or more, by prefill and decode workers apart; or in the `ways` that it names. Several FILES: plans as `tonnage plan
    --output` wrote them, requests, simulations, or cases of `tonnage predict`, all of one sort.

    \b
    model: meta-llama/Llama-3.1-8B-Instruct
    accelerator: H100
    replicas: 2
    traffic: {profile: chat, rate: 6/s}
    slo: {ttft: 1 s, tpot: 50 ms}
    ways:                                   # optional
      small steps: {engine_options: {max_num_batched_tokens: 512}}
      as it is: {}
    """
    from tonnage.planning.compare.files import compare_files
    from tonnage.report.picture import check_path

    if plot is not None:
        check_path(plot)
    additions = own_facts(facts)
    found = compare_files(files, additions=additions, watch=watch_bar())
    asked = [*_models(files), f"{len(found.sides)} configurations: {', '.join(found.sides)}"]
    print_simulated(ctx, found, plot=plot, as_json=as_json, why=why, question=asked)


def _models(files: tuple[str, ...]) -> list[str]:
    """Models that the files name, as people write them; standard input is passed over."""
    from tonnage.errors import TonnageError
    from tonnage.planning.files import read_mapping
    from tonnage.planning.predict.case_lines import raw_cases
    from tonnage.report.names import model_name

    found: dict[str, None] = {}
    for path in files:
        try:
            content = {} if path == "-" else read_mapping(path)
        except TonnageError:
            with open(path, "rb") as file:
                cases = [case for _, case in raw_cases(file)]
        else:
            cases = [content.get("request") or content]
        for case in cases:
            name = case.get("model") if isinstance(case, dict) else None
            if isinstance(name, str):
                found[model_name(name)] = None
    return list(found)
