"""`tonnage measure accept`: did I get what I rent?"""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path
from typing import Any

import click

from tonnage import units
from tonnage.cli.history import keep_measurement
from tonnage.cli.options import json_option, output_of, reads, show_progress, why_option
from tonnage.errors import BadRequest, echo

LONGEST_S = 20 * 60.0


@click.command()
@click.argument("what", metavar="PLAN|PART")
@click.option("--count", type=click.IntRange(1, 1024), help="Devices to try; of a plan, those of one machine of it.")
@click.option("--option", "rank", type=click.IntRange(1), default=1, help="Option of the plan.")
@click.option("--device", default="cuda", help="cuda (ROCm too), or cpu.")
@click.option(
    "--time", "duration_s", default="10 min", callback=reads("s"), help="Of the whole protocol, at most 20 min."
)
@click.option("--reference", type=click.Path(exists=True, dir_okay=False), help="What --out wrote of good ones.")
@click.option("--storage", type=click.Path(exists=True, file_okay=False), help="Folder whose device is tried as well.")
@click.option("--out", "-o", type=click.Path(dir_okay=False), help="File of the result, a reference for others.")
@click.option("--busy", is_flag=True, envvar="TONNAGE_BUSY", help="Measure beside other programs, and say so.")
@why_option
@json_option("accept")
def accept(what: str, **options: Any) -> None:
    """
    Did I get what I rent? Products, memory, exchanges and storage of every device, held against good ones; what is
    missing, and what that is worth.

    \b
    tonnage measure accept plan.json --out ours.json           eight cards: each against the other seven
    tonnage measure accept H100 --count 8 --reference good.json     and against a node that was good
    """
    from msgspec.structs import replace

    from tonnage.domain.measurement import forbidden
    from tonnage.measure.accept import accepted, read_reference
    from tonnage.measure.accept_run import Setting, run_probes
    from tonnage.measure.beside import cards_held, watched

    if not 5.0 <= options["duration_s"] <= LONGEST_S:
        raise BadRequest("--time: 5 s to 20 min")
    name, count, usd = _asked(what, options["count"], options["rank"])
    setting = Setting(
        device=options["device"],
        count=count,
        duration_s=options["duration_s"],
        storage=Path(options["storage"]) if options["storage"] else None,
    )
    expected = read_reference(options["reference"]) if options["reference"] else {}
    begun = time.monotonic()
    with watched(busy=options["busy"]) as notes, show_progress("trying the devices"):
        probes, library = run_probes(setting)
    wrong, told = cards_held() if options["device"].startswith("cuda") else ((), ())
    verdict = accepted(probes, expected, reasons=(*wrong, *told), usd_per_month=usd)
    found = replace(
        verdict,
        name=name,
        device=options["device"],
        count=count,
        duration_s=time.monotonic() - begun,
        date=date.today().isoformat(),
        library=library,
        notes=(*notes, *verdict.notes),
    )
    if (why := forbidden(notes)) is not None:
        found = replace(found, feasible=False, sentence=f"Not judged. {why}")
    keep_measurement(found)
    if options["out"]:
        from tonnage.report.document import as_json

        Path(options["out"]).write_text(as_json(found) + "\n", encoding="utf-8")
    output_of(options).show(found)


def _asked(what: str, count: int | None, rank: int) -> tuple[str, int, float | None]:
    """The part, how many of it, and what they cost in a month; of a plan's option, or of a part and its offers."""
    from tonnage import catalog
    from tonnage.catalog import gather
    from tonnage.domain.plan import option_at_rank
    from tonnage.questions.ask import read_plan

    if Path(what).is_file():
        plan = read_plan(what)
        option = option_at_rank(getattr(plan, "options", ()), rank)
        part = catalog.accelerator(option.configuration.accelerator, gather())
        number = count or min(int(option.accelerators), part.max_per_node or 8)
        bill = getattr(option, "bill", None)
        each = bill.usd_per_hour / option.accelerators if bill is not None else None
    else:
        part = catalog.accelerator(what, gather())
        number = count or 0
        if not number:
            raise BadRequest(f"--count: say how many {echo(part.name)} there are")
        prices = [
            offer.usd_per_hour("on-demand") / offer.count  # type: ignore[operator]
            for offer in catalog.offers()
            if offer.accelerator == part.id
            and offer.trust_of("on-demand") == "primary"
            and offer.count >= 1
            and offer.usd_per_hour("on-demand") is not None
            and not offer.history
        ]
        each = min(prices, default=None)
    return part.name, number, None if each is None else each * number * units.read("1 month", "s") / 3600.0
