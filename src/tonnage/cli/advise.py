"""`tonnage advise`: what to change in a service that runs, by what its metrics show."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import Grouped, additions_option, request_options, why_option
from tonnage.domain.requests.table import REQUESTS
from tonnage.units import read

__all__ = ["advise"]


@click.command(cls=Grouped)
@click.argument("file", metavar="FILE")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@request_options(REQUESTS["adopt"], argument="file")
@click.option("--window", help="how long to look: 10 s of a live page, the last 1 h of Prometheus")
@click.option("--match", help="""labels that series of Prometheus must have: 'job="llm"'""")
@click.option("--reuse", help="of a prompt, what an earlier prompt began with: 40%")
@click.option(
    "--log", help="requests as a gateway logged them (any log of `tonnage simulate`), replayed on each change"
)
@click.option("--upgrade", metavar="ENGINE@RELEASE", help="the change to expect of a release, and a canary: vllm@0.27")
@click.option("--no-calibration", is_flag=True, help="predict without what was measured, to see the difference")
@why_option
@click.option("--json", "as_json", is_flag=True, help="machine-readable, schema tonnage.advice/1")
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="count the age of prices from this date")
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
    from tonnage.adopt import read_running
    from tonnage.catalog import gather
    from tonnage.measure.diagnose.sources import Watch
    from tonnage.measure.points import look_at_service
    from tonnage.planning.adopt.service import View, advise_service
    from tonnage.planning.files import read_text
    from tonnage.planning.requests.adopt import adopt_request
    from tonnage.report.advise import advice_document
    from tonnage.report.answers import show_document
    from tonnage.report.document import as_json

    taken = ("window", "match", "reuse", "log", "upgrade", "no_calibration", "why", "as_json", "today", "folders")
    own = {name: options.pop(name) for name in taken}
    additions = gather(paths=own["folders"])
    text = read_text(file)
    running = read_running(text, name="standard input" if file == "-" else file)
    asked = adopt_request({**options, "file": text}, additions=additions)
    window_s = read(own["window"], "s", field="--window") if own["window"] else None
    looked = look_at_service(*sources, watch=Watch(window_s=window_s, match=own["match"]))
    view = View(
        pages=looked.pages,
        reuse=own["reuse"],
        log=own["log"],
        measured=looked.measured,
        calibrates=not own["no_calibration"],
        upgrade=own["upgrade"],
    )
    today = own["today"].date() if own["today"] else None
    given = advise_service(asked, running, found=looked.diagnosis, view=view, additions=additions, today=today)
    if own["as_json"]:
        click.echo(as_json(given))
    else:
        show_document(advice_document(given), why=own["why"])
