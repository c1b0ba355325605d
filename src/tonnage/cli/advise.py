"""`tonnage advise`: what to change in a service that runs, by what its metrics show."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.options import Grouped, request_options, why_option
from tonnage.domain.requests.table import REQUESTS
from tonnage.units import read

if TYPE_CHECKING:
    from tonnage.catalog import Additions
    from tonnage.domain.adoption import Running
    from tonnage.domain.advice import Seen
    from tonnage.domain.diagnosis import Evidence
    from tonnage.domain.requests.adopt import Adopt

__all__ = ["advise"]


@click.command(cls=Grouped)
@click.argument("file", metavar="FILE")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@request_options(REQUESTS["adopt"], argument="file")
@click.option("--window", help="how long to look: 10 s of a live page, the last 1 h of Prometheus")
@click.option("--match", help="""labels that series of Prometheus must have: 'job="llm"'""")
@click.option("--reuse", help="of a prompt, what an earlier prompt began with: 40%")
@click.option("--no-calibration", is_flag=True, help="predict without what was measured, to see the difference")
@why_option
@click.option("--json", "as_json", is_flag=True, help="machine-readable, schema tonnage.advice/1")
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="count the age of prices from this date")
@click.option("--additions", "folders", multiple=True, type=click.Path(), help="your own accelerators and offers")
def advise(file: str, sources: tuple[str, ...], **options: Any) -> None:
    """
    What to change in the service that FILE starts, by what every SOURCE shows of it.

    \b
    FILE is what starts it, as `tonnage adopt` reads it. A SOURCE is its Prometheus, a live metrics page or a saved
    one, a measurement, a gateway's log. Its own latencies calibrate the model of it, so that differences are
    predicted and today is as measured. A page counts for one replica, a Prometheus for the whole service; --rate
    states the rate instead.
    """
    from tonnage.adopt import read_running
    from tonnage.catalog import gather
    from tonnage.measure.diagnose.sources import Watch
    from tonnage.measure.diagnose.sources import diagnose as limits
    from tonnage.planning.adopt.advise import advise as answer
    from tonnage.planning.files import read_text
    from tonnage.planning.requests.adopt import adopt_request
    from tonnage.report.advise import advice_document
    from tonnage.report.answers import show_document
    from tonnage.report.document import as_json

    taken = ("window", "match", "reuse", "no_calibration", "why", "as_json", "today", "folders")
    own = {name: options.pop(name) for name in taken}
    additions = gather(paths=own["folders"])
    text = read_text(file)
    running = read_running(text, name="standard input" if file == "-" else file)
    asked = adopt_request({**options, "file": text}, additions=additions)
    window_s = read(own["window"], "s", field="--window") if own["window"] else None
    found = limits(*sources, watch=Watch(window_s=window_s, match=own["match"]))
    replicas = asked.replicas or running.replicas
    seen = _seen(found.evidence, asked, own["reuse"], pages=_pages(sources), replicas=replicas)
    with tempfile.TemporaryDirectory() as folder:
        told = ""
        if not own["no_calibration"]:
            told, additions = _calibrated(found.evidence, running, asked, additions, folder=Path(folder))
        today = own["today"].date() if own["today"] else None
        given = answer(asked, running, diagnosis=found, seen=seen, additions=additions, today=today, calibrated=told)
    if own["as_json"]:
        click.echo(as_json(given))
    else:
        show_document(advice_document(given), why=own["why"])


def _pages(sources: tuple[str, ...]) -> int:
    """How many replicas the sources look at; 0 = the whole service."""
    from tonnage.measure.diagnose.pages import is_prometheus

    addresses = [source for source in sources if source.startswith(("http://", "https://"))]
    return 0 if any(is_prometheus(address) for address in addresses) else len(sources)


def _seen(evidence: Evidence, asked: Adopt, reuse: str | None, *, pages: int, replicas: int) -> Seen:
    """
    The traffic that the metrics show.

    Raises
    ------
    BadRequest
        They lack the rate or the lengths of requests.
    """
    from tonnage.domain.advice import Seen
    from tonnage.errors import BadRequest

    rate = asked.rate_per_s
    if rate is None and evidence.requests_per_s:
        rate = evidence.requests_per_s * (replicas / pages if pages else 1.0)
    prompt, output = asked.prompt_tokens or evidence.prompt_tokens, asked.output_tokens or evidence.output_tokens
    lacks = [
        f"{what} ({flag})"
        for what, flag, value in (
            ("requests per second", "--rate", rate),
            ("prompt tokens", "--prompt-tokens", prompt),
            ("output tokens", "--output-tokens", output),
        )
        if not value
    ]
    if lacks or rate is None or prompt is None or output is None:
        raise BadRequest(f"the sources show no {', '.join(lacks)} of answered requests; look while the service works")
    share = read(reuse, "fraction", field="--reuse") if reuse else None
    if share is not None and not 0 <= share < 1:
        raise BadRequest(f"--reuse {reuse}: expected a share from 0% to 99%")
    return Seen(
        rate_per_s=rate, prompt_tokens=prompt, output_tokens=output, ttft_s=evidence.ttft_s, tpot_s=evidence.tpot_s,
        reused_share=share,
    )  # fmt: skip


def _calibrated(
    evidence: Evidence, running: Running, asked: Adopt, additions: Additions, *, folder: Path
) -> tuple[str, Additions]:
    """What the service's own latencies teach, as additions that last as long as the folder; a word on how far off."""
    from tonnage.catalog import gather
    from tonnage.catalog.additions import save_calibration
    from tonnage.errors import TonnageError
    from tonnage.measure.points import measurement_of_page
    from tonnage.planning.adopt.advise import stack_of
    from tonnage.planning.calibrate.calibrate import calibrate

    try:
        stack = stack_of(asked, running, additions=additions)
        fitted = calibrate([(measurement_of_page(evidence, "the service"), stack)], additions=additions)
    except TonnageError as error:
        return f"not calibrated: {error}", additions
    path = save_calibration(fitted.calibration, folder / "calibration.toml")
    told = ", ".join(
        f"{one.quantity.removesuffix('_s').upper()} {one.before / one.measured - 1:+.0%}" for one in fitted.errors
    )
    return f"calibrated by its own latencies; predicted before: {told}", gather(paths=(*additions.paths, str(path)))
