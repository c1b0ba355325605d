"""`tonnage compare`: the same requests served in several ways, or several plans, requests or cases side by side."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import (
    INPUT,
    json_option,
    output_of,
    own_facts,
    own_facts_options,
    plot_option,
    watch_bar,
    why_option,
)


@click.command()
@click.argument("files", nargs=-1, required=True, type=INPUT)
@plot_option
@why_option
@json_option("compare")
@own_facts_options
def compare(files: tuple[str, ...], **options: Any) -> None:
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
    from tonnage.questions.compare.files import compare_files

    found = compare_files(files, additions=own_facts(options), watch=watch_bar())
    asked = [*_models(files), f"{len(found.sides)} configurations: {', '.join(found.sides)}"]
    output_of(options).show(found, question=asked)


def _models(files: tuple[str, ...]) -> list[str]:
    """Models that the files name, as people write them; standard input is passed over."""
    from tonnage.catalog import model_name
    from tonnage.core.files import read_mapping
    from tonnage.errors import TonnageError
    from tonnage.questions.predict.case_lines import raw_cases

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
