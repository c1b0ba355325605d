"""`tonnage fit`: what must be resident, does it fit, and the largest x that still does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tonnage.cli.showing import show_options
from tonnage.planning.fit.door import FIT_FIELDS

__all__ = ["fit"]

INFEASIBLE = 3
Command = Callable[..., None]


def _field_options(function: Command) -> Command:
    """One flag per field of the request, except the model, which is an argument."""
    for field in reversed(FIT_FIELDS):
        flag = "--" + field.name.replace("_", "-")
        if field.name == "model":
            continue
        if field.reads == "flag":
            function = click.option(flag, field.name, is_flag=True, default=None, help=field.help)(function)
        elif field.reads == "list":
            function = click.option(flag, "-a", field.name, multiple=True, metavar="ID", help=field.help)(function)
        else:
            shown = "|".join(field.choices) if field.choices else field.reads.upper()
            function = click.option(flag, field.name, metavar=shown, help=field.help)(function)
    return function


@click.command("fit")
@click.argument("model", required=False)
@_field_options
@click.option("--set", "overrides", multiple=True, metavar="ID.FIELD=VALUE", help="what-if on a catalogue fact")
@click.option("--additions", multiple=True, metavar="PATH", help="file or folder of your own accelerators and models")
@click.option("--offline", is_flag=True, help="read nothing over the network")
@show_options("accelerators", most=500)
@click.option("--plot", "picture", metavar="FILE", help="draw it: .svg, .png, or .html with the whole report")
@click.option("--json", "as_json", is_flag=True, help="the whole answer as JSON")
@click.pass_context
def fit(
    ctx: click.Context,
    /,
    overrides: tuple[str, ...],
    additions: tuple[str, ...],
    offline: bool,
    top: int | None,
    every: bool,
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
    from tonnage.catalog import gather
    from tonnage.planning.fit.door import fit_request
    from tonnage.planning.fit.fit import fit as answer_fit

    own = gather(paths=additions, overrides=overrides)
    # One --accelerator may name several, divided by commas; names with spaces keep them.
    fields["accelerator"] = [name for given in fields["accelerator"] for name in given.split(",")]
    answer = answer_fit(fit_request(fields), additions=own, offline=offline or None)
    if picture is not None:
        from tonnage.report.answers import plot

        plot(answer, picture)
    if as_json:
        from tonnage.report.document import as_json as json_text

        click.echo(json_text(answer))
    else:
        from tonnage.report.answers import show

        show(answer, top=top, every=every, why=why)
    if not answer.fits:
        ctx.exit(INFEASIBLE)
