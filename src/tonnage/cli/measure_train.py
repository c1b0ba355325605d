"""`tonnage measure train`: where the steps of a training run spend their time, at one or several numbers of devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.history import keep_measurement
from tonnage.cli.options import FILE, json_option, output_of, reads, struct_of, why_option
from tonnage.errors import BadRequest, echo

if TYPE_CHECKING:
    from tonnage.domain.train_measurement import TrainMeasurement


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--devices", help="start it by torchrun at each of these numbers of devices: 1,2,4")
@click.option("--steps", type=click.IntRange(1), help="end each run after so many steps that count")
@click.option("--warmup", type=click.IntRange(0), default=3, help="steps left out at the start")
@click.option(
    "--duration",
    "duration_s",
    default="30min",
    callback=reads("s"),
    help="end each run after so long",
)
@click.option("--busy", is_flag=True, envvar="TONNAGE_BUSY", help="measure beside other programs, and say so")
@click.option("--keep", type=click.Path(file_okay=False), help="folder for the records of every rank")
@click.option("--from", "source", type=click.Path(exists=True), help="read a probe's folder or a trace")
@click.option("--output", type=FILE, help="write the measurement there (JSON)")
@why_option
@json_option("train_measurement")
def train(command: tuple[str, ...], **options: Any) -> None:
    """
    Run COMMAND (after --) with a probe inside, and tell what its steps wait for.

    The command needs no change: the probe hooks into PyTorch. It may start torchrun itself, or --devices does, once
    for each number, which gives the scaling efficiency. A trace of torch.profiler is read with --from.

    \b
    tonnage measure train --devices 1,2 --steps 50 -- python train.py --batch 8
    """
    if bool(command) == bool(options["source"]):
        raise BadRequest("give either a command after --, as in -- python train.py, or --from with what was recorded")
    found = _read(Path(options["source"]), options) if options["source"] else _run(command, options)
    keep_measurement(found)
    output_of(options).show(found)
    if found.stopped and found.stopped.startswith("the command ended"):
        raise BadRequest(f"{found.stopped}; what was measured before is above")


def _run(command: tuple[str, ...], options: dict[str, Any]) -> TrainMeasurement:
    """The command, run and measured as the options say."""
    from tonnage.measure.train.launch import Bounds, measure_train

    return measure_train(
        command,
        devices=_devices(options["devices"]),
        bounds=struct_of(Bounds, options),
        folder=Path(options["keep"]) if options["keep"] else None,
        watch=lambda text: click.echo(text, err=True),
        busy=options["busy"],
    )


def _read(path: Path, options: dict[str, Any]) -> TrainMeasurement:
    from tonnage.measure.train.kineto import measurement_of_trace
    from tonnage.measure.train.launch import measurement_of, ranks_of

    if path.is_dir():
        return measurement_of(ranks_of(path), warmup=options["warmup"])
    return measurement_of_trace(path)


def _devices(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        counts = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        counts = ()
    if not counts or counts[0] < 1:
        raise BadRequest(f"--devices '{echo(text)}': write numbers of devices, as 1,2,4")
    return counts
