"""`tonnage fit`: what must be resident, does it fit, and the largest x that still does."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import (
    Grouped,
    name_argument,
    own_facts,
    own_facts_options,
    request_options,
    show_options,
    show_progress,
)
from tonnage.domain.requests.fit import FitRequest

__all__ = ["fit"]

INFEASIBLE = 3


@click.command("fit", cls=Grouped)
@name_argument("model", "models", required=False)
@request_options(FitRequest)
@own_facts_options
@click.option("--offline", is_flag=True, help="read nothing over the network")
@show_options("accelerators", most=500)
@click.option("--plot", "picture", metavar="FILE", help="draw it: .svg, .png, or .html with the whole report")
@click.option("--json", "as_json", is_flag=True, help="the whole answer as JSON")
@click.pass_context
def fit(
    ctx: click.Context,
    /,
    offline: bool,
    top: int | None,
    show_all: bool,
    why: bool,
    picture: str | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """
    Does MODEL fit, what takes the memory, and how far is it from the limit?

    \b
    tonnage fit Llama-3.1-70B --accelerator H100 --tp 2 --precision fp8
    tonnage fit Llama-3.1-8B                                  every usual accelerator, smallest first
    tonnage fit Qwen/Qwen3-32B -a "RTX 4090" --solve context
    tonnage fit Llama-3.1-8B -a A100 --finetune lora --batch 4 --seq-len 4096
    """
    from tonnage.planning.fit.fit import fit as answer_fit
    from tonnage.planning.requests.fit import fit_request

    own = own_facts(fields)
    with show_progress("checking what fits: accelerators, layouts, formats"):
        answer = answer_fit(fit_request(fields), additions=own, offline=offline or None)
    if picture is not None:
        from tonnage.report.answers import plot

        plot(answer, picture)
    if as_json:
        from tonnage.report.document import as_json as json_text

        click.echo(json_text(answer))
    else:
        from tonnage.report.answers import show

        show(answer, top=top, every=show_all, why=why)
    if not answer.fits:
        ctx.exit(INFEASIBLE)
