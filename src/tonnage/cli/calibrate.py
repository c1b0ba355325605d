"""`tonnage calibrate`: measurements of the user's own stack become the numbers that later answers use."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import click

from tonnage.errors import BadRequest, echo

__all__ = ["calibrate"]


@click.command()
@click.argument("measurements", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--model", "models", multiple=True,
    help="model that ran, as every question takes it; one for all, or one a measurement in order",
)  # fmt: skip
@click.option("--accelerator", required=True, help="accelerator it ran on: id, name, or one of your own")
@click.option("--engine", help="engine; as the measurement says without this")
@click.option("--engine-version", help="release of the engine")
@click.option("--option", "settings", multiple=True, metavar="NAME=VALUE", help="engine setting: max_num_seqs=16")
@click.option("--weights", help="format of the weights, where not the checkpoint's own: fp8, int4, …")
@click.option("--machine", help="name of the machine to remember; this one's without it")
@click.option("--out", type=click.Path(dir_okay=False), help="file to write; the user folder's without this")
@click.option("--json", "as_json", is_flag=True, help="machine-readable, schema tonnage.calibrate/1")
@click.option("--set", "overrides", multiple=True, metavar="ID.FIELD=VALUE", help="what-if on a catalogue fact")
@click.option("--additions", "folders", multiple=True, type=click.Path(), help="your own accelerators and offers")
def calibrate(measurements: tuple[str, ...], **options: Any) -> None:
    """
    Fit an engine on an accelerator to MEASUREMENTS: any file that `tonnage measure import` reads.

    A few numbers are fitted (what memory bounds, what arithmetic bounds, host time of a step and of a request), held
    to the catalogue by its own spread. The file written is a file of additions: in the user folder every later plan,
    prediction and simulation of that engine on that accelerator takes it; elsewhere name it with --additions.
    """
    from tonnage.catalog import gather
    from tonnage.catalog.calibrations import calibration_toml
    from tonnage.measure.importers import read_report
    from tonnage.planner.calibrate.calibrate import calibrate as answer
    from tonnage.report.calibrate import show_calibrated
    from tonnage.report.document import as_json as json_text

    found = [read_report(Path(path)) for path in measurements]
    stacks = _stacks(found, options)
    additions = gather(paths=options["folders"], overrides=options["overrides"])
    fitted = answer(
        list(zip(found, stacks, strict=True)), additions=additions, machine=options["machine"] or platform.node()
    )
    path = _path(options["out"], fitted.calibration) if options["out"] or not options["as_json"] else None
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(calibration_toml(fitted.calibration), encoding="utf-8")
    if options["as_json"]:
        click.echo(json_text(fitted))
    else:
        show_calibrated(fitted, path=str(path), own=options["out"] is None)


def _stacks(found: list[Any], options: dict[str, Any]) -> list[Any]:
    """What ran in each measurement."""
    from tonnage.nouns.precision import Precision
    from tonnage.planner.calibrate.loads import Stack

    models = options["models"] or tuple(measurement.model or "" for measurement in found)
    if len(models) == 1:
        models = models * len(found)
    if len(models) != len(found):
        raise BadRequest(f"--model: {len(models)} given for {len(found)} measurements; give one, or one for each")
    weights = options["weights"]
    return [
        Stack(
            model=model or _missing("--model", "which model ran"),
            accelerator=options["accelerator"],
            engine=options["engine"] or _engine(measurement),
            engine_version=options["engine_version"],
            options=dict(_setting(text) for text in options["settings"]),
            precision=Precision(weights=weights) if weights else None,
        )
        for measurement, model in zip(found, models, strict=True)
    ]


def _missing(option: str, what: str) -> str:
    raise BadRequest(f"{option}: the measurement does not say {what}; give it")


def _engine(measurement: Any) -> str:
    """As the server named itself while it was measured."""
    named = [point.server.engine for point in measurement.points if point.server is not None]
    if not named and measurement.tool == "vllm bench":
        return "vllm"
    return str(named[0]).replace("llama.cpp", "llamacpp") if named else _missing("--engine", "which engine ran")


def _setting(text: str) -> tuple[str, Any]:
    from tonnage.nouns.layout import Engine

    name, separator, value = text.partition("=")
    known = sorted(set(Engine.__struct_fields__) - {"name", "version"})
    if not separator or name not in known:
        raise BadRequest(f"--option '{echo(text)}': write NAME=VALUE with a name of {', '.join(known)}")
    plain = {"true": True, "false": False}.get(value.lower())
    if plain is not None:
        return name, plain
    try:
        return name, float(value) if "." in value else int(value)
    except ValueError:
        return name, value


def _path(given: str | None, own: Any) -> Path:
    if given is not None:
        return Path(given)
    from tonnage.catalog.additions import user_folder

    return user_folder() / f"calibration-{own.accelerator}-{own.engine}.toml"
