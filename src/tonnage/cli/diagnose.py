"""`tonnage diagnose`: what limits a running system, the evidence, and the next step."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import additions_option, json_option, output_of, own_facts, reads, struct_of, why_option


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--window",
    "window_s",
    callback=reads("s"),
    help="how long to look: 10 s of a live endpoint, the last 1 h of Prometheus",
)
@click.option("--every", "every_s", default="1s", callback=reads("s"), help="between looks at a live endpoint")
@click.option("--match", help="""labels that series of Prometheus must have: 'job="llm"'""")
@click.option(
    "--baseline", help="what got worse since an earlier measurement: its file, its number in the history, or last"
)
@click.option("--model", help="the model that runs: a verdict to change accelerators then shows the plan that would")
@click.option("--accelerator", help="what it runs on, where no source says so: peaks come from the catalogue")
@click.option("--key-env", help="environment variable with a bearer token for addresses")
@why_option
@json_option("diagnosis")
@additions_option
def diagnose(sources: tuple[str, ...], **options: Any) -> None:
    """
    What limits a running system, by evidence from every SOURCE given: each looks from another side.

    A SOURCE is the address of a Prometheus server, of a live endpoint or exporter (its /metrics is read over a
    window), or a file: a scraped page, results of `tonnage measure serve` or `train`, a report of another tool. No
    verdict rests on accelerator utilisation alone; what is missing is said, and how to have it.
    """
    from tonnage.measure.diagnose.sources import Watch
    from tonnage.measure.diagnose.sources import diagnose as answer
    from tonnage.questions.adopt.service import stated_facts, with_plan

    additions = own_facts(options)
    watch = struct_of(Watch, options)
    known = stated_facts(accelerator=options["accelerator"], model=options["model"], additions=additions)
    found = answer(*sources, watch=watch, baseline=options["baseline"], known=known)
    if options["model"]:
        found = with_plan(found, model=options["model"], additions=additions)
    output_of(options).show(found)
