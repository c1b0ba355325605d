"""`tonnage advise`: what to change in a service that runs, by what its metrics show."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.adopt import read_service
from tonnage.cli.options import (
    Grouped,
    additions_option,
    json_option,
    output_of,
    own_facts,
    reads,
    request_options,
    struct_of,
    today_option,
    why_option,
)
from tonnage.questions.registry import REQUESTS


@click.command(cls=Grouped)
@click.argument("file", metavar="FILE")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@request_options(REQUESTS["adopt"], argument="file")
@click.option(
    "--window",
    "window_s",
    callback=reads("s"),
    help="how long to look: 10 s of a live page, the last 1 h of Prometheus",
)
@click.option("--match", help="""labels that series of Prometheus must have: 'job="llm"'""")
@click.option("--reuse", help="of a prompt, what an earlier prompt began with: 40%")
@click.option(
    "--log", help="requests as a gateway logged them (any log of `tonnage simulate`), replayed on each change"
)
@click.option("--no-calibration", is_flag=True, help="predict without what was measured, to see the difference")
@why_option
@json_option("advice")
@today_option
@additions_option
def advise(file: str, sources: tuple[str, ...], **options: Any) -> None:
    """
    What to change in the service that FILE starts, by what every SOURCE shows of it.

    \b
    FILE is what starts it, as `tonnage adopt` reads it. A SOURCE is its Prometheus, a live metrics page or a saved
    one, a measurement. Its own latencies calibrate the model of it, so that differences are predicted and today is as
    measured. Its traffic (--log, else drawn as it was seen) is replayed on each change. A page counts for one replica,
    a Prometheus for the whole service; --rate states the rate instead.
    """
    from tonnage.measure.diagnose.sources import Watch
    from tonnage.measure.points import look_at_service
    from tonnage.questions.adopt.service import View, advise_service

    output, additions = output_of(options), own_facts(options)
    taken = ("window_s", "match", "reuse", "log", "no_calibration", "today")
    own = {name: options.pop(name) for name in taken}
    asked, running = read_service(file, options, additions=additions)
    looked = look_at_service(*sources, watch=struct_of(Watch, own))
    view = struct_of(View, own, pages=looked.pages, measured=looked.measured, calibrates=not own["no_calibration"])
    found, today = looked.diagnosis, own["today"]
    output.show(advise_service(asked, running, found=found, view=view, additions=additions, today=today))
