"""`tonnage simulate`: one configuration over time, request by request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.options import own_facts, own_facts_options, watch_bar, why_option

if TYPE_CHECKING:
    from tonnage.domain.compare import Comparison
    from tonnage.domain.simulate import Simulated

__all__ = ["print_simulated", "simulate"]

INFEASIBLE = 3
INTERRUPTED = 130


@click.command()
@click.argument("case", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--requests", "rows", type=click.Path(dir_okay=False), help="also write a row for each request: .csv, .parquet"
)
@click.option("--plot", type=click.Path(dir_okay=False), help="draw it, too: FILE.svg, .png, or .html with the report")
@why_option
@click.option("--json", "as_json", is_flag=True, help="machine-readable, schema tonnage.simulate/1")
@own_facts_options
@click.pass_context
def simulate(ctx: click.Context, /, case: str, **options: Any) -> None:
    """
    Play the traffic of a CASE file (YAML or JSON; - = standard input) on one configuration.

    \b
    model: meta-llama/Llama-3.1-8B-Instruct
    accelerator: H100
    traffic: {profile: chat, rate: 6/s}
    slo: {ttft: 1 s, tpot: 50 ms}
    capacity: true
    """
    from tonnage.planning.files import read_mapping
    from tonnage.planning.requests.simulate import simulation_of
    from tonnage.planning.simulate.simulate import simulate as answer
    from tonnage.planning.simulate.summary import request_columns
    from tonnage.report import picture
    from tonnage.report.rows import check_path, write_requests
    from tonnage.report.simulation import simulation_question

    path, plot = options["rows"], options["plot"]
    if path is not None:
        check_path(path)
    if plot is not None:
        picture.check_path(plot)
    fields = read_mapping(case, what="case")
    if fields.get("kind") == "rl":
        _play_rl(ctx, fields, **options)
        return
    asked = simulation_of(fields)
    additions = own_facts(options)
    found = answer(
        asked,
        additions=additions,
        watch=watch_bar(),
        keep=None if path is None else lambda run: write_requests(path, request_columns(run)),
    )
    print_simulated(
        ctx, found, plot=plot, as_json=options["as_json"], why=options["why"], question=simulation_question(asked)
    )


def _play_rl(ctx: click.Context, fields: dict[str, Any], **options: Any) -> None:
    """A step of reinforcement learning, its rollout played response by response, as `predict` does it as well."""
    from tonnage.errors import BadRequest
    from tonnage.planning.predict.case_lines import case_of_object
    from tonnage.planning.predict.predict import predict
    from tonnage.report.answers import show_document
    from tonnage.report.document import as_json as json_text
    from tonnage.report.points import Predicted, predictions_document

    if options["rows"] is not None or options["plot"] is not None:
        raise BadRequest("rows and plot: a step of rl has phases, not requests; leave them out")
    case = case_of_object(fields)
    found = predict(case, additions=own_facts(options))
    if options["as_json"]:
        click.echo(json_text(found))
    else:
        show_document(predictions_document([Predicted(case, found)]), why=options["why"])
    if not found.fits:
        ctx.exit(INFEASIBLE)


def print_simulated(
    ctx: click.Context,
    found: Simulated | Comparison,
    *,
    plot: str | None,
    as_json: bool,
    why: bool,
    question: Sequence[str],
) -> None:
    """Draw and print what was simulated; the exit code says whether it was cut off, or does not fit."""
    from tonnage.report.answers import plot as draw
    from tonnage.report.answers import show
    from tonnage.report.document import as_json as json_text

    if plot is not None:
        draw(found, plot)
    if as_json:
        click.echo(json_text(found))
    else:
        show(found, why=why, question=question)
    if found.partial:
        ctx.exit(INTERRUPTED)
    if not found.fits:
        ctx.exit(INFEASIBLE)
