"""`tonnage simulate`: one configuration over time, request by request."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import (
    FILE,
    INPUT,
    json_option,
    output_of,
    own_facts,
    own_facts_options,
    plot_option,
    watch_bar,
    why_option,
)
from tonnage.errors import BadRequest


@click.command()
@click.argument("case", type=INPUT)
@click.option("--requests", "rows", type=FILE, help="also write a row for each request: .csv, .parquet")
@plot_option
@why_option
@json_option("simulate")
@own_facts_options
def simulate(case: str, rows: str | None, **options: Any) -> None:
    """
    Play the traffic of a CASE file (YAML or JSON; - = standard input) on one configuration.

    \b
    model: meta-llama/Llama-3.1-8B-Instruct
    accelerator: H100
    traffic: {profile: chat, rate: 6/s}
    slo: {ttft: 1 s, tpot: 50 ms}
    capacity: true
    """
    from tonnage.core.files import read_mapping
    from tonnage.questions.predict.case_lines import case_of_object
    from tonnage.questions.predict.predict import predict
    from tonnage.questions.rows import check_path, write_requests
    from tonnage.questions.simulate.page import simulation_question
    from tonnage.questions.simulate.simulate import simulate as answer
    from tonnage.questions.simulate.simulate import simulation_of
    from tonnage.questions.simulate.summary import request_columns

    if rows is not None:
        check_path(rows)
    fields, additions, output = read_mapping(case, what="case"), own_facts(options), output_of(options)
    if fields.get("kind") == "rl":
        if rows is not None or output.plot is not None:
            raise BadRequest("rows and plot: a step of rl has phases, not requests; leave them out")
        step = case_of_object(fields)
        output.show(predict(step, additions=additions), case=step)
        return
    asked = simulation_of(fields)
    found = answer(
        asked,
        additions=additions,
        watch=watch_bar(),
        keep=None if rows is None else lambda run: write_requests(rows, request_columns(run)),
    )
    output.show(found, question=simulation_question(asked))
