"""`tonnage calibrate`: measurements of the user's own stack become the numbers that later answers use."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import click

from tonnage.cli.options import why_option, working
from tonnage.units import read

__all__ = ["calibrate"]


@click.command()
@click.argument("measurements", nargs=-1, metavar="[MEASUREMENTS]...")
@click.option("--point", "pasted", multiple=True, metavar="TEXT", help="a row as it stands: 'TPOT 21 ms at 32 clients'")
@click.option("--isl", type=float, help="prompt tokens of pasted rows that state none")
@click.option("--osl", type=float, help="answer tokens of pasted rows that state none")
@click.option("--tp", type=click.IntRange(1), help="tensor-parallel ranks of the replica that was measured")
@click.option("--pp", type=click.IntRange(1), help="pipeline stages of it")
@click.option("--window", default="10s", show_default=True, help="how long a metrics page is read")
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
    Fit an engine on an accelerator to MEASUREMENTS: any file that `tonnage measure import` reads, the address of a
    live metrics page or Prometheus, `history:12`; and rows as people paste them (--point). One is enough.

    A few causes are fitted (what memory bounds, attention, arithmetic, host of a step and of a sequence, start of a
    request, links), held to the catalogue by what its own runs scatter. The file written is a file of additions: in
    the user folder every later plan, prediction and simulation of that engine on that accelerator takes it; elsewhere
    name it with --calibration. `--calibration none` leaves all out, to see the difference.
    """
    from tonnage.catalog import gather
    from tonnage.catalog.additions import saved_calibration
    from tonnage.measure.points import read_points
    from tonnage.planning.calibrate.calibrate import calibrate as answer
    from tonnage.planning.requests.calibrate import FIELDS, read_setting, stacks_of
    from tonnage.report.answers import show_document
    from tonnage.report.calibrate import calibrated_document
    from tonnage.report.document import as_json as json_text
    from tonnage.report.wording import plural

    window_s = read(options["window"], "s", field="--window")
    found = read_points(measurements, options["pasted"], lengths=(options["isl"], options["osl"]), window_s=window_s)
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
