"""`tonnage calibrate`: measurements of the user's own stack become the numbers that later answers use."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import click

from tonnage.cli.history import keep_measurement
from tonnage.cli.options import (
    FILE,
    Grouped,
    json_option,
    output_of,
    own_facts,
    own_facts_options,
    reads,
    request_options,
    show_progress,
    why_option,
)
from tonnage.domain.requests.field import fields_of
from tonnage.questions.calibrate.question import CalibrateRequest


@click.command(cls=Grouped)
@click.argument("measurements", nargs=-1, metavar="MEASUREMENTS...")
@request_options(CalibrateRequest, argument="")
@click.option(
    "--point",
    "pasted",
    multiple=True,
    metavar="TEXT",
    help="a row as it stands: 'TPOT 21 ms at 32 clients', 'step 1.9 s at batch 8 seq 4096 on 8 H100'",
)
@click.option("--isl", type=float, help="prompt tokens of pasted rows that state none")
@click.option("--osl", type=float, help="answer tokens of pasted rows that state none")
@click.option("--window", default="10s", callback=reads("s"), help="how long a metrics page is read")
@click.option("--out", type=FILE, help="file to write; the user folder's without this")
@why_option
@json_option("calibrate")
@own_facts_options
def calibrate(measurements: tuple[str, ...], **options: Any) -> None:
    """
    Fit an engine on an accelerator to MEASUREMENTS: any file that `tonnage measure import` reads, the address of a
    live metrics page or Prometheus, `history:12`; and rows as people paste them (--point). One is enough.

    A few causes are fitted (what memory bounds, attention, arithmetic, host of a step and of a sequence, start of a
    request, links), held to the catalogue by what its own runs scatter. The file written is a file of additions: in
    the user folder every later plan, prediction and simulation of that engine on that accelerator takes it; elsewhere
    name it with --calibration. `--calibration none` leaves all out, to see the difference.
    """
    from tonnage.catalog.additions import save_calibration
    from tonnage.measure.points import read_points, read_training
    from tonnage.questions.calibrate.calibrate import calibrate as answer
    from tonnage.questions.calibrate.question import calibrate_request, check_engine, stacks_of
    from tonnage.questions.calibrate.training import calibrate_training, train_rows_of
    from tonnage.report.wording import plural

    output, additions = output_of(options), own_facts(options)
    asked = calibrate_request(
        {field.name: options[field.name] for field in fields_of(CalibrateRequest)}, additions=additions
    )
    trained = read_training(measurements, options["pasted"])
    if not trained:
        check_engine(asked)
    lengths = (options["isl"], options["osl"])
    found = [] if trained else read_points(measurements, options["pasted"], lengths=lengths, window_s=options["window"])
    machine = asked.machine or platform.node()
    with show_progress(f"fitting to {plural(len(trained or found), 'measurement')}"):
        if trained:
            rows = [row for one in trained for row in train_rows_of(one, asked)]
            fitted = calibrate_training(rows, additions=additions, machine=machine)
        else:
            runs = list(zip(found, stacks_of(found, asked), strict=True))
            fitted = answer(runs, additions=additions, machine=machine)
    path = None
    if options["out"] or not output.as_json:
        path = save_calibration(fitted.calibration, Path(options["out"]) if options["out"] else None)
        keep_measurement(fitted)
    output.show(fitted, path=str(path), own=options["out"] is None)
