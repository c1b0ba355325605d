"""`tonnage history`: every measurement made here, and what it said."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tonnage.cli.options import FILE, json_option, output_of
from tonnage.errors import BadFact, BadRequest


@click.group()
@click.option("--db", help="a file or postgresql://…; absent = TONNAGE_HISTORY, else a file in your data folder")
@click.pass_context
def history(ctx: click.Context, db: str | None) -> None:
    """
    Every measurement made here, and every calibration: list, show, compare, export, take back.

    `tonnage measure` keeps each one with date, machine and versions; TONNAGE_HISTORY=off keeps none.
    """
    ctx.obj = db


def _place(ctx: click.Context) -> Any:
    from tonnage.measure.history import place_of

    found = place_of(ctx.obj)
    if found is None:
        raise BadRequest("history: TONNAGE_HISTORY is 'off'; name a place by --db")
    return found


def keep_measurement(noun: Any) -> None:
    """Keep a measurement, unless no history is kept; what hinders it is a sentence on stderr, for its file is safe."""
    from tonnage.errors import TonnageError
    from tonnage.measure.history import place_of, remember

    try:
        place = place_of()
        if place is not None:
            remember(noun, place=place)
    except TonnageError as error:
        click.echo(f"tonnage: not kept: {' '.join(str(error).split())}", err=True)


@history.command(name="list")
@click.option("--kind", help="serve, train, device")
@click.option("--model", help="only of this model")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50)
@json_option("history")
@click.pass_context
def list_(ctx: click.Context, /, kind: str | None, model: str | None, limit: int, **options: Any) -> None:
    """Entries, the latest first."""
    from tonnage.measure.history import entries

    found = entries(_place(ctx), kind=kind, model=model, most=limit)
    output_of(options).show(found)
    for why in found.damaged:
        click.echo(f"tonnage: left out: {why}", err=True)


@history.command()
@click.argument("number", type=int)
@click.option("--json", "as_json", is_flag=True, help="the measurement as JSON: every command that reads one takes it")
@click.pass_context
def show(ctx: click.Context, number: int, as_json: bool) -> None:
    """One measurement, as it was shown."""
    import msgspec

    from tonnage.domain.measurement import Measurement
    from tonnage.measure.history import entry
    from tonnage.questions.answers import show as print_answer

    found = entry(_place(ctx), number)
    assert found.document is not None
    if as_json or found.kind != "serve":
        click.echo(msgspec.json.format(bytes(found.document), indent=2).decode())
    else:
        try:
            measured = msgspec.json.decode(found.document, type=Measurement)
        except msgspec.MsgspecError as error:
            raise BadFact(f"history: measurement {number} is damaged ({error})") from None
        print_answer(measured, why=True)


@history.command()
@click.argument("first", type=int)
@click.argument("second", type=int)
@json_option("history_comparison")
@click.pass_context
def compare(ctx: click.Context, /, first: int, second: int, **options: Any) -> None:
    """Two measured servers side by side (NUMBERS of `history list`): what was another, and by how much at each load."""
    from tonnage.measure.history_pairs import compare as compared

    output_of(options).show(compared(first, second, place=_place(ctx)))


@history.command()
@click.argument("accelerator")
@click.argument("engine")
def undo(accelerator: str, engine: str) -> None:
    """Take the last calibration of ENGINE on ACCELERATOR back: the one before it counts again, or none."""
    from tonnage import catalog
    from tonnage.catalog.additions import calibration_file, gather, take_back
    from tonnage.engines.registry import engine_name

    path = calibration_file(catalog.accelerator(accelerator, gather()).id, engine_name(engine))
    again = take_back(path)
    click.echo(f"{path.name}: {'the calibration before it counts again' if again else 'taken back; none counts now'}")


@history.command()
@click.option("--kind", help="serve, train, device")
@click.option("--model", help="only of this model")
@click.option("--output", "-o", type=FILE, help="file to write; absent = standard output")
@click.pass_context
def export(ctx: click.Context, kind: str | None, model: str | None, output: str | None) -> None:
    """All entries with their measurements as JSON lines, the oldest first."""
    import msgspec

    from tonnage.measure.history import export as exported

    wrong: list[str] = []
    found = exported(_place(ctx), kind=kind, model=model, damaged=lambda _, why: wrong.append(why))
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in found)
    if output is not None:
        Path(output).write_bytes(lines)
    else:
        sys.stdout.write(lines.decode())
    for why in wrong:
        click.echo(f"tonnage: left out: {why}", err=True)
    if wrong:
        ctx.exit(2)


@history.command()
@click.argument("numbers", nargs=-1, required=True, type=int)
@click.option("--model", required=True, help="model that ran, as every question takes it")
@click.option("--accelerator", required=True, help="accelerator it ran on: id or name")
@click.option("--engine", help="engine; as the server said of itself without this")
@click.option("--engine-version", help="release that answered")
@click.option("--weights", help="format that ran, where not the own one of the checkpoint")
@click.option("--tp", type=click.IntRange(1), help="tensor-parallel ranks of the replica")
@click.option("--pp", type=click.IntRange(1), help="pipeline stages of the replica")
@click.option("--output", "-o", type=FILE, default="own-points.csv")
@click.option("--yes", is_flag=True, help="write without asking")
@click.pass_context
def share(ctx: click.Context, /, numbers: tuple[int, ...], **options: Any) -> None:
    """
    Measured servers (NUMBERS of `history list`) as rows of measurements/: no host, address, machine or prompt.

    Every field is shown before it is written. `tonnage accuracy FILE` scores them; CONTRIBUTING.md says how rows come
    in by a pull request.
    """
    from tonnage.catalog import NOTHING, accelerator
    from tonnage.catalog.hub.resolve import resolve
    from tonnage.measure.points import read_points
    from tonnage.measure.share import as_csv, shared_rows
    from tonnage.questions.calibrate.loads import refuse_contradictions
    from tonnage.questions.calibrate.question import calibrate_request, stacks_of

    found = read_points([f"history:{number}" for number in numbers], place=_place(ctx))
    told = ("model", "accelerator", "engine", "engine_version", "weights", "tp", "pp")
    asked = calibrate_request({name: options[name] for name in told})
    rows = []
    for measured, stack in zip(found, stacks_of(found, asked), strict=True):
        refuse_contradictions(measured, stack, additions=NOTHING)
        model = resolve(str(stack.model))
        weights = stack.precision.weights if stack.precision is not None else model.native_dtype
        rows += shared_rows(
            measured,
            {
                "model_id": model.id,
                "accelerator_id": accelerator(stack.accelerator).id,
                "engine": stack.engine,
                "engine_version": stack.engine_version,
                "weight_precision": weights,
                "tp": stack.layout.tp,
                "pp": stack.layout.pp,
            },
        )
    text = as_csv(rows)
    click.echo(text, nl=False)
    if not options["yes"] and not click.confirm(f"These are all fields. Write them to {options['output']}?", err=True):
        return
    Path(options["output"]).write_text(text, encoding="utf-8")
    click.echo(f"written to {options['output']}; score them with `tonnage accuracy {options['output']}`", err=True)
