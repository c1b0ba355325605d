"""`tonnage plan`: which accelerators, how many, arranged how, at what cost.

`tonnage plan REQUEST.yaml` reads a request file; `tonnage plan serve MODEL --rate 4/s …` takes the
same fields as flags. Both go through the same door.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click
import msgspec

from tonnage.errors import BadRequest, UnknownName
from tonnage.planner.door import SERVE_FIELDS, Field

__all__ = ["plan"]

INFEASIBLE = 3
KINDS = ("serve",)


class _Plan(click.Group):
    """A group whose first word is either a kind of plan or the path of a request file."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        looks_like_file = args and (args[0] == "-" or "." in args[0] or "/" in args[0])
        if args and args[0] not in self.commands and looks_like_file:
            return "REQUEST", _from_file, args
        return super().resolve_command(ctx, args)


@click.group(cls=_Plan, subcommand_metavar="REQUEST.yaml | serve MODEL [OPTIONS]")
def plan() -> None:
    """Rank the ways to run a workload: accelerators, layout, precision, replicas, offers, cost."""


Command = Callable[..., None]


def _output_options(function: Command) -> Command:
    """Options that every kind of plan has."""
    for option in (
        click.option("--set", "overrides", multiple=True, metavar="ID.FIELD=VALUE", help="what-if on a catalogue fact"),
        click.option(
            "--additions", "folders", multiple=True, type=click.Path(), help="your own accelerators and offers"
        ),
        click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="count the age of prices from this date"),
        click.option(
            "--output", "-o", type=click.Path(dir_okay=False), help="also write the plan as JSON to this file"
        ),
        click.option("--top", type=click.IntRange(1, 200), default=8, show_default=True, help="options to show"),
        click.option("--json", "as_json", is_flag=True, help="the whole plan as JSON"),
    ):
        function = option(function)
    return function


def _field_options(fields: tuple[Field, ...]) -> Callable[[Command], Command]:
    """One flag per field of a request, except the model, which is an argument."""

    def decorate(function: Command) -> Command:
        for field in reversed(fields):
            if field.name == "model":
                continue
            flag = "--" + field.name.replace("_", "-")
            if field.reads == "flag":
                function = click.option(f"{flag}/--no-{flag[2:]}", field.name, default=None, help=field.help)(function)
            else:
                function = click.option(flag, field.name, metavar=field.reads.upper(), help=field.help)(function)
        return function

    return decorate


class _Output(msgspec.Struct, frozen=True, kw_only=True):
    """Options that every kind of plan has: what-ifs, the day prices are aged from, and where the answer goes."""

    overrides: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    today: datetime | None = None
    output: str | None = None
    top: int = 8
    as_json: bool = False


@plan.command("serve")
@click.argument("model")
@_field_options(SERVE_FIELDS)
@_output_options
@click.pass_context
def _serve(ctx: click.Context, /, **options: Any) -> None:
    """Accelerators, layout and replicas that serve MODEL at this load, within the objectives, cheapest first."""
    output = _Output(**{name: options.pop(name) for name in _Output.__struct_fields__})
    _answer(ctx, options, output)


@click.command("REQUEST")
@click.argument("path")
@_output_options
@click.pass_context
def _from_file(ctx: click.Context, /, path: str, **options: Any) -> None:
    """Answer the request in a YAML or JSON file (`-` = standard input)."""
    from tonnage.planner.files import read_mapping

    fields = read_mapping(path)
    kind = fields.pop("plan", None)
    if kind is None:
        raise BadRequest(f"'{path}' does not say what to plan; add a line 'plan: serve'")
    if kind not in KINDS:
        raise UnknownName("kind of plan", str(kind), known=KINDS)
    _answer(ctx, fields, _Output(**options))


def _answer(ctx: click.Context, fields: dict[str, Any], output: _Output) -> None:
    from tonnage.catalog import gather
    from tonnage.planner.door import serve_request
    from tonnage.planner.serve import plan_serve
    from tonnage.report.document import as_json

    additions = gather(paths=output.folders, overrides=output.overrides)
    today = output.today.date() if output.today else None
    answer = plan_serve(serve_request(fields, additions=additions), additions=additions, today=today)
    if output.output is not None:
        with open(output.output, "w", encoding="utf-8") as file:
            file.write(as_json(answer) + "\n")
    if output.as_json:
        click.echo(as_json(answer))
    else:
        from tonnage.report.plan import show_plan

        show_plan(answer, top=output.top)
    if not answer.feasible:
        ctx.exit(INFEASIBLE)
