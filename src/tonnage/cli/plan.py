"""`tonnage plan`: which accelerators, how many, arranged how, at what cost.

`tonnage plan REQUEST.yaml` reads a request file; `tonnage plan serve MODEL --rate 4/s …`, `plan batch`,
`plan train` and `plan finetune` take the same fields as flags. Both are read alike.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from typing import Any

import click
import msgspec

from tonnage.cli import remark_date
from tonnage.cli.options import (
    Grouped,
    name_argument,
    own_facts,
    own_facts_options,
    request_groups,
    request_options,
    show_options,
    show_progress,
)
from tonnage.domain.requests.table import REQUESTS

__all__ = ["plan"]

INFEASIBLE = 3
INTERRUPTED = 130
"""Stopped by Ctrl-C, with the best found so far if there was one."""


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
    subcommand_metavar="REQUEST.yaml | serve|batch|train|finetune|rl|infer|lifecycle MODEL | "
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

        from tonnage.planning.request_schema import request_schema

        click.echo(json.dumps(request_schema(), indent=2))
        ctx.exit()


Command = Callable[..., None]


def _output_options(function: Command) -> Command:
    """Options that every kind of plan has."""
    for option in (
        own_facts_options,
        click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="count the age of prices from this date"),
        click.option(
            "--output", "-o", type=click.Path(dir_okay=False), help="also write the plan as JSON to this file"
        ),
        click.option("--plot", metavar="FILE", help="draw it, too: FILE.svg, .png, or .html with the whole report"),
        show_options("options"),
        click.option("--json", "as_json", is_flag=True, help="the whole plan as JSON"),
    ):
        function = option(function)
    return function


class _Output(msgspec.Struct, frozen=True, kw_only=True):
    """Options that every kind of plan has: what-ifs, the day prices are aged from, and where the answer goes."""

    overrides: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    today: datetime | None = None
    output: str | None = None
    plot: str | None = None
    top: int | None = None
    show_all: bool = False
    why: bool = False
    as_json: bool = False


@plan.command("serve", cls=Grouped)
@name_argument("model", "models")
@request_options(REQUESTS["serve"])
@_output_options
@click.pass_context
def _serve(ctx: click.Context, /, **options: Any) -> None:
    """
    Accelerators, layout and replicas that serve MODEL at this load, within the objectives, cheapest first.

    \b
    tonnage plan serve Llama-3.1-70B --rate 4/s --traffic chat --ttft "1 s" --tpot "50 ms"
    tonnage plan serve 8B --users 500 --traffic rag --ttft "2 s" --eu --quick
    tonnage plan serve Qwen/Qwen3-32B --concurrency 32 --traffic code -a H100 --why
    """
    _from_flags(ctx, "serve", options)


@plan.command("batch", cls=Grouped)
@name_argument("model", "models")
@request_options(REQUESTS["batch"])
@_output_options
@click.pass_context
def _batch(ctx: click.Context, /, **options: Any) -> None:
    """
    The cheapest way to answer so many prompts with MODEL by a deadline, and what more speed would cost.

    \b
    tonnage plan batch 8B --items 50M --deadline "8 h" --prompt-tokens 400 --output-tokens 60
    """
    _from_flags(ctx, "batch", options)


@plan.command("train", cls=Grouped)
@name_argument("model", "models")
@request_options(REQUESTS["train"])
@_output_options
@click.pass_context
def _train(ctx: click.Context, /, **options: Any) -> None:
    """
    Accelerators, layout, time and cost of pre-training MODEL on so many tokens, by a deadline or within a budget.

    \b
    tonnage plan train 8B --tokens 100B --deadline "30 days" --seq-len 8192
    """
    _from_flags(ctx, "train", options)


@plan.command("finetune", cls=Grouped)
@name_argument("model", "models")
@request_options(REQUESTS["finetune"])
@_output_options
@click.pass_context
def _finetune(ctx: click.Context, /, **options: Any) -> None:
    """
    Accelerators, layout, time and cost of adapting MODEL to a data set: LoRA, QLoRA, DoRA or in full.

    \b
    tonnage plan finetune 8B --method lora --examples 50k --tokens-per-example 800 --deadline "24 h"
    """
    _from_flags(ctx, "finetune", options)


@plan.command("rl", cls=Grouped)
@name_argument("model", "models")
@request_options(REQUESTS["rl"])
@_output_options
@click.pass_context
def _rl(ctx: click.Context, /, **options: Any) -> None:
    """
    Accelerators for rollout and for training of MODEL by PPO, GRPO, RLOO or DAPO: split, layouts, time and cost.

    \b
    tonnage plan rl 8B --steps 200 --prompts-per-step 64 --response-tokens 2000 -a H100 --count 16
    """
    _from_flags(ctx, "rl", options)


@plan.command("infer", cls=Grouped)
@name_argument("model", "models")
@request_options(REQUESTS["infer"])
@_output_options
@click.pass_context
def _infer(ctx: click.Context, /, **options: Any) -> None:
    """
    Accelerators for cameras, images, texts or audio through MODEL, which decodes no text, and how much is used.

    \b
    tonnage plan infer ultralytics/yolov8m --streams 20 --fps 25 --latency "200 ms"
    """
    _from_flags(ctx, "infer", options)


@plan.command("lifecycle", cls=Grouped)
@name_argument("model", "models")
@request_options(REQUESTS["lifecycle"])
@request_groups(REQUESTS["lifecycle"])
@_output_options
@click.pass_context
def _lifecycle(ctx: click.Context, /, **options: Any) -> None:
    """Make MODEL here, serve it there: one bill, one timeline, and whether one kind of accelerator could do both."""
    _from_flags(ctx, "lifecycle", options)


@plan.command("fleet", cls=Grouped)
@click.argument("path", metavar="REQUEST.yaml")
@request_options(REQUESTS["fleet"])
@_output_options
@click.pass_context
def _fleet(ctx: click.Context, /, path: str, **options: Any) -> None:
    """The cheapest mix of accelerators and terms, by the hour, for the workloads that a file lists; flags override."""
    from tonnage.planning.files import read_mapping

    output = _Output(**{name: options.pop(name) for name in _Output.__struct_fields__})
    fields = {name: value for name, value in read_mapping(path).items() if name != "plan"}
    _answer(ctx, "fleet", {**fields, **{name: value for name, value in options.items() if value is not None}}, output)


@plan.command("own", cls=Grouped)
@click.argument("own", metavar="INVENTORY")
@request_options(REQUESTS["own"], argument="own")
@_output_options
@click.pass_context
def _own(ctx: click.Context, /, own: str, **options: Any) -> None:
    """What INVENTORY serves best: "8 x A100 80GB, 4 x L40S", a request file, or recorded output of nvidia-smi …"""
    output = _Output(**{name: options.pop(name) for name in _Output.__struct_fields__})
    stated = {name: value for name, value in options.items() if value is not None}
    _answer(ctx, "own", {**_inventory(own), **stated}, output)


def _inventory(text: str) -> dict[str, Any]:
    """The fields of a request file, the devices of a tool's recorded output, or the text itself."""
    from pathlib import Path

    if not (text.endswith((".yaml", ".yml")) or Path(text).is_file()):
        return {"own": text}
    from tonnage.planning.files import read_mapping

    if text.endswith((".yaml", ".yml")):
        return {name: value for name, value in read_mapping(text).items() if name != "plan"}
    from tonnage.measure.machine.recorded import read_inventory
    from tonnage.planning.requests.composed import inventory_fields

    return inventory_fields(read_inventory(text))


@plan.command("budget", cls=Grouped)
@click.argument("amount")
@click.argument("model", required=False)
@click.option("--for", "purpose_for", metavar="PURPOSE", help="the same as --purpose")
@request_options(REQUESTS["budget"], argument=("amount", "model"))
@_output_options
@click.pass_context
def _budget(ctx: click.Context, /, purpose_for: str | None, **options: Any) -> None:
    """The largest rate, the best model or the best run that AMOUNT buys: "$3,000/month" MODEL, "$50,000"."""
    options["purpose"] = options.get("purpose") or purpose_for
    _from_flags(ctx, "budget", options)


def _from_flags(ctx: click.Context, kind: str, options: dict[str, Any]) -> None:
    output = _Output(**{name: options.pop(name) for name in _Output.__struct_fields__})
    _answer(ctx, kind, options, output)


@click.command("REQUEST")
@click.argument("path")
@_output_options
@click.pass_context
def _from_file(ctx: click.Context, /, path: str, **options: Any) -> None:
    """Answer the request in a YAML or JSON file (`-` = standard input)."""
    from tonnage.planning.ask import kind_of
    from tonnage.planning.files import read_mapping

    kind, fields = kind_of(read_mapping(path), source=path)
    _answer(ctx, kind, fields, _Output(**options))


def _answer(ctx: click.Context, kind: str, fields: dict[str, Any], output: _Output) -> None:
    from msgspec.structs import replace

    from tonnage.planning import ask
    from tonnage.planning.core.stop import UNFINISHED, ends_at_best, stop_asked
    from tonnage.report import answers, picture
    from tonnage.report.document import as_json

    if output.plot is not None:
        picture.check_path(output.plot)
    additions = own_facts({"folders": output.folders, "overrides": output.overrides})
    today = output.today.date() if output.today else None
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
    if output.output is not None:
        with open(output.output, "w", encoding="utf-8") as file:
            file.write(as_json(answer) + "\n")
    if output.as_json:
        click.echo(as_json(answer))
    else:
        answers.show(answer, top=output.top, every=output.show_all, why=output.why)
    if output.plot is not None:
        answers.plot(answer, output.plot)
    if answer.unfinished:
        click.echo(f"tonnage: {answer.unfinished}", err=True)
        ctx.exit(INTERRUPTED)
    if not answer.feasible:
        ctx.exit(INFEASIBLE)
