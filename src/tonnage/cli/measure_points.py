"""`tonnage measure plan` and `measure quick`: what is worth measuring, and five minutes that calibrate."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import click

from tonnage.cli.history import keep_measurement
from tonnage.cli.options import FILE, json_option, output_of, reads, show_progress, why_option


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@why_option
@json_option("measure_plan")
def plan(file: str, **options: Any) -> None:
    """
    Which measurements most raise the chance that a serving plan's choice is right (FILE of `tonnage plan serve -o`).

    Two or three at most, each with its loads, minutes and dollars; none where no measurement would change the choice.
    """
    from tonnage.domain.plan import ServePlan
    from tonnage.errors import BadRequest
    from tonnage.questions.ask import read_plan
    from tonnage.questions.calibrate.worth import measure_plan

    given = read_plan(file)
    if not isinstance(given, ServePlan):
        raise BadRequest(
            "measure plan: takes a plan of `tonnage plan serve`; other kinds have no operating point to measure"
        )
    with show_progress("weighing what measurements may say"):
        found = measure_plan(given)
    output_of(options).show(found)


@click.command()
@click.argument("url")
@click.option("--model", required=True, help="Name of the model as the server knows it.")
@click.option("--as", "known_as", help="Name of the model as every question takes it; --model's without this.")
@click.option("--accelerator", required=True, help="Accelerator it runs on: id, name, or one of your own.")
@click.option("--engine", help="Engine; as the server's metrics say without this.")
@click.option("--engine-version", help="Release of the engine.")
@click.option("--option", "settings", multiple=True, metavar="NAME=VALUE", help="Engine setting: max_num_seqs=16")
@click.option("--weights", help="Format of the weights, where not the checkpoint's own: fp8, int4, …")
@click.option("--tp", type=click.IntRange(1), help="Tensor-parallel ranks of the replica.")
@click.option("--most", type=click.IntRange(2), default=32, help="Requests at once of the third point.")
@click.option("--isl", type=int, default=1024, help="Prompt tokens.")
@click.option("--osl", type=int, default=128, help="Answer tokens.")
@click.option(
    "--time",
    "duration_s",
    default="5 min",
    callback=reads("s"),
    help="Of all three points together, at most.",
)
@click.option("--busy", is_flag=True, envvar="TONNAGE_BUSY", help="Measure beside other programs, and say so.")
@click.option("--key-env", help="Environment variable that holds the API key (OPENAI_API_KEY without this).")
@click.option(
    "--output", "folder", type=click.Path(file_okay=False), default=".", help="Folder of the three files of results."
)
@click.option("--out", type=FILE, help="File of the calibration; the user folder's without this.")
@why_option
@json_option("calibrate")
def quick(url: str, **options: Any) -> None:
    """
    Three points of the endpoint at URL (alone, some, many at once), and the calibration they make, in five minutes.

    Every later plan and prediction of this engine on this accelerator takes it; `--calibration none` leaves it out.
    """
    from tonnage.catalog import gather
    from tonnage.catalog.additions import save_calibration
    from tonnage.measure.quick import measure_quick, planned, quick_specs, served_there
    from tonnage.questions.calibrate.calibrate import calibrate as answer
    from tonnage.questions.calibrate.loads import refuse_other_model, refuse_unknown
    from tonnage.questions.calibrate.question import calibrate_request, stacks_of

    specs = quick_specs(
        url,
        options["model"],
        lengths=(options["isl"], options["osl"]),
        most=options["most"],
        duration_s=options["duration_s"],
        busy=options["busy"],
    )
    told = {name: options[name] for name in ("accelerator", "engine", "engine_version", "weights", "tp")}
    model, additions = options["known_as"] or options["model"], gather()
    asked = calibrate_request({**told, "model": model, "option": options["settings"]}, additions=additions)
    ahead = planned(specs, engine=asked.engine)
    (stack,) = stacks_of([ahead], asked)
    refuse_unknown(ahead, stack, additions=additions)
    refuse_other_model(served_there(specs[0], key_env=options["key_env"]), stack, additions=additions)
    with show_progress("measuring three loads"):
        measured = measure_quick(specs, Path(options["folder"]), key_env=options["key_env"])
    keep_measurement(measured)
    with show_progress("fitting"):
        fitted = answer([(measured, stack)], additions=additions, machine=platform.node())
    path = save_calibration(fitted.calibration, Path(options["out"]) if options["out"] else None)
    keep_measurement(fitted)
    output_of(options).show(fitted, path=str(path), own=options["out"] is None)
