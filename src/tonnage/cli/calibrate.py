"""`tonnage calibrate`: measurements of the user's own stack become the numbers that later answers use."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import click

from tonnage.cli.options import why_option, working

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
@why_option
@click.option("--json", "as_json", is_flag=True, help="machine-readable, schema tonnage.calibrate/1")
@click.option("--set", "overrides", multiple=True, metavar="ID.FIELD=VALUE", help="what-if on a catalogue fact")
@click.option("--additions", "--calibration", "folders", multiple=True, type=click.Path(),
              help="your own accelerators, offers and calibrations")  # fmt: skip
def calibrate(measurements: tuple[str, ...], **options: Any) -> None:
    """
    Fit an engine on an accelerator to MEASUREMENTS: any file that `tonnage measure import` reads.

    A few numbers are fitted (what memory bounds, what arithmetic bounds, host time of a step and of a request), held
    to the catalogue by its own spread. The file written is a file of additions: in the user folder every later plan,
    prediction and simulation of that engine on that accelerator takes it; elsewhere name it with --additions.
    """
    from tonnage.catalog import gather
    from tonnage.catalog.additions import saved_calibration
    from tonnage.measure.importers import read_report
    from tonnage.planning.calibrate.calibrate import calibrate as answer
    from tonnage.planning.requests.calibrate import FIELDS, read_setting, stacks_of
    from tonnage.report.answers import show_document
    from tonnage.report.calibrate import calibrated_document
    from tonnage.report.document import as_json as json_text
    from tonnage.report.wording import plural

    found = [read_report(Path(path)) for path in measurements]
    told: dict[str, Any] = {name: options[name] for name in FIELDS if name in options}
    settings = dict(read_setting(text) for text in options["settings"])
    stacks = stacks_of(found, {**told, "model": options["models"], "options": settings})
    additions = gather(paths=options["folders"], overrides=options["overrides"])
    runs = list(zip(found, stacks, strict=True))
    with working(f"fitting to {plural(len(runs), 'measurement')}"):
        fitted = answer(runs, additions=additions, machine=options["machine"] or platform.node())
    path = None
    if options["out"] or not options["as_json"]:
        path = saved_calibration(fitted.calibration, Path(options["out"]) if options["out"] else None)
    if options["as_json"]:
        click.echo(json_text(fitted))
    else:
        show_document(calibrated_document(fitted, path=str(path), own=options["out"] is None), why=options["why"])
