"""`tonnage plan`: which accelerators, how many, arranged how, at what cost.

`tonnage plan REQUEST.yaml` reads a request file; `tonnage plan serve MODEL --rate 4/s …`, `plan batch`,
`plan train` and `plan finetune` take the same fields as flags. Both are read alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import click

from tonnage.cli import remark_date
from tonnage.cli.options import (
    FILE,
    Grouped,
    json_option,
    name_argument,
    output_of,
    own_facts,
    own_facts_options,
    plot_option,
    request_groups,
    request_options,
    show_options,
    show_progress,
    today_option,
)
from tonnage.errors import BadRequest, echo
from tonnage.questions.question import Question
from tonnage.questions.registry import KINDS


class _Plan(click.Group):
    """A group whose first word is either a kind of plan or the path of a request file."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        looks_like_file = args and (args[0] == "-" or "." in args[0] or "/" in args[0])
        if args and args[0] not in self.commands and looks_like_file:
            return "REQUEST", _from_file, args
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Plan,
    subcommand_metavar=f"REQUEST.yaml | {'|'.join(kind.name for kind in KINDS.values() if kind.help)} MODEL | "
    "fleet REQUEST.yaml | own INVENTORY | budget AMOUNT [MODEL]",
)
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, asked: _schema(ctx, asked),
    help="print the JSON Schema of request files, for editors",
)
def plan() -> None:
    """Rank the ways to run a workload: accelerators, layout, precision, offers, time, cost."""


def _schema(ctx: click.Context, asked: bool) -> None:
    if asked:
        import json

        from tonnage.questions.request_schema import request_schema

        click.echo(json.dumps(request_schema(), indent=2))
        ctx.exit()


Command = Callable[..., None]


def _output_options(function: Command) -> Command:
    """Options that every kind of plan has."""
    for option in (
        own_facts_options,
        today_option,
        click.option("--output", "-o", type=FILE, help="also write the plan as JSON to this file"),
        plot_option,
        show_options("options"),
        json_option(),
    ):
        function = option(function)
    return function


@plan.command("fleet", cls=Grouped)
@click.argument("path", metavar="REQUEST.yaml")
@request_options(KINDS["fleet"].request)
@_output_options
def _fleet(path: str, **options: Any) -> None:
    """The cheapest mix of accelerators and terms, by the hour, for the workloads that a file lists; flags override."""
    _answer("fleet", given=_fields_in(path), **options)


@plan.command("own", cls=Grouped)
@click.argument("own", metavar="INVENTORY")
@request_options(KINDS["own"].request, argument="own")
@_output_options
def _own(own: str, **options: Any) -> None:
    """What INVENTORY serves best: "8 x A100 80GB, 4 x L40S", a request file, or recorded output of nvidia-smi …"""
    _answer("own", given=_inventory(own), **options)


def _fields_in(path: str) -> dict[str, Any]:
    from tonnage.core.files import read_mapping

    return {name: value for name, value in read_mapping(path).items() if name != "plan"}


def _inventory(text: str) -> dict[str, Any]:
    """Fields of the request: of a .yaml file, of a tool's recorded output, or the text itself where it is no file."""
    from pathlib import Path

    if text.endswith((".yaml", ".yml")):
        return _fields_in(text)
    if not Path(text).is_file():
        return {"own": text}
    from tonnage.measure.machine.detect import read_inventory
    from tonnage.questions.own.question import inventory_fields

    return inventory_fields(read_inventory(text))


@plan.command("budget", cls=Grouped)
@click.argument("amount")
@click.argument("model", required=False)
@click.option("--for", "purpose_for", metavar="PURPOSE", help="the same as --purpose")
@request_options(KINDS["budget"].request, argument=("amount", "model"))
@_output_options
def _budget(purpose_for: str | None, **options: Any) -> None:
    """The largest rate, the best model or the best run that AMOUNT buys: "$3,000/month" MODEL, "$50,000"."""
    options["purpose"] = options.get("purpose") or purpose_for
    _answer("budget", **options)


@click.command("REQUEST")
@click.argument("path")
@_output_options
def _from_file(path: str, **options: Any) -> None:
    """Answer the request in a YAML or JSON file (`-` = standard input)."""
    from tonnage.core.files import read_mapping
    from tonnage.questions.ask import kind_of

    kind, fields = kind_of(read_mapping(path), source=path)
    _answer(kind, given=fields, **options)


def _answer(kind: str, *, given: Mapping[str, Any] | None = None, **options: Any) -> None:
    """
    Answer a plan and show it, for what a file says (`given`) and flags override.

    Ctrl-C ends it with the best found so far, which it then says; a quick plan, or one without any yet, breaks off.
    """
    from msgspec.structs import replace

    from tonnage.core.stop import UNFINISHED, ends_at_best, stop_asked
    from tonnage.questions import ask

    if str(model := options.get("model")).endswith((".yaml", ".yml")):
        raise BadRequest(f"model: '{echo(model)}' is named as a request file; `tonnage plan {echo(model)}` answers it")
    output, today, additions = output_of(options), options.pop("today"), own_facts(options)
    stated = {name: value for name, value in options.items() if value is not None}
    fields = options if given is None else {**given, **stated}
    remark_date(today, additions)
    # A fleet says from the start how long it looks already; other plans rarely take so long.
    quiet_s = 0.5 if kind == "fleet" else None
    # A quick plan is there before anybody could stop it.
    quick = fields.get("quick") is True
    with (
        show_progress(f"planning: {kind}, layouts, offers, simulations", quiet_s=quiet_s),
        nullcontext() if quick else ends_at_best(),
    ):
        answer = ask.answer(kind, fields, additions=additions, today=today)
        if not quick and stop_asked():
            answer = replace(answer, unfinished=UNFINISHED)
    output.show(answer)


def _add_kind(kind: Question) -> None:
    """A command for a plan whose one argument is a model."""
    answered = request_groups(kind.request)(_output_options(partial(_answer, kind.name)))
    answered = name_argument("model", "models")(request_options(kind.request)(answered))
    plan.command(kind.name, cls=Grouped, help=kind.help)(answered)


for _question in KINDS.values():
    if _question.help:
        _add_kind(_question)
