"""`tonnage diagnose`: what limits a running system, the evidence, and the next step."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import additions_option, why_option
from tonnage.units import read

__all__ = ["diagnose"]


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    return None if value is None else read(value, "s", field=param.opts[0])


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--window", callback=_seconds, help="how long to look: 10 s of a live endpoint, the last 1 h of Prometheus"
)
@click.option("--every", default="1s", show_default=True, callback=_seconds, help="between looks at a live endpoint")
@click.option("--match", help="""labels that series of Prometheus must have: 'job="llm"'""")
@click.option(
    "--baseline", help="what got worse since an earlier measurement: its file, its number in the history, or last"
)
@click.option("--model", help="the model that runs: a verdict to change accelerators then shows the plan that would")
@click.option("--accelerator", help="what it runs on, where no source says so: peaks come from the catalogue")
@click.option("--key-env", help="environment variable with a bearer token for addresses")
@why_option
@click.option("--json", "as_json", is_flag=True, help="machine-readable, schema tonnage.diagnosis/1")
@additions_option
def diagnose(sources: tuple[str, ...], **options: Any) -> None:
    """
    What limits a running system, by evidence from every SOURCE given: each looks from another side.

    A SOURCE is the address of a Prometheus server, of a live endpoint or exporter (its /metrics is read over a
    window), or a file: a scraped page, results of `tonnage measure serve` or `train`, a report of another tool. No
    verdict rests on accelerator utilisation alone; what is missing is said, and how to have it.
    """
    from tonnage.catalog import gather
    from tonnage.measure.diagnose.sources import Watch
    from tonnage.measure.diagnose.sources import diagnose as answer
    from tonnage.planning.remedy import stated_facts, with_plan
    from tonnage.report.answers import show
    from tonnage.report.document import as_json

    additions = gather(paths=options["folders"])
    watch = Watch(
        window_s=options["window"], every_s=options["every"], match=options["match"], key_env=options["key_env"]
    )
    known = stated_facts(accelerator=options["accelerator"], model=options["model"], additions=additions)
    found = answer(*sources, watch=watch, baseline=options["baseline"], known=known)
    if options["model"]:
        found = with_plan(found, model=options["model"], additions=additions)
    if options["as_json"]:
        click.echo(as_json(found))
    else:
        show(found, why=options["why"])
