"""`tonnage local`: what runs on this machine, or on one that is named, and how fast."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import Grouped, json_option, output_of, own_facts, own_facts_options, request_options
from tonnage.questions.own.question import LocalRequest


@click.command("local", cls=Grouped)
@request_options(LocalRequest, argument="every_format")
@click.option("--from", "recorded", metavar="FILE", help="recorded output of nvidia-smi, rocm-smi, system_profiler, …")
@click.option("--all", "every_format", is_flag=True, help="every format of every model")
@click.option("--top", type=click.IntRange(1, 500), default=10, help="rows to show")
@click.option("--why", is_flag=True, help="also what was assumed, and which models do not fit")
@click.option(
    "--files", "place", metavar="FOLDER", help="write what starts the first model into this folder or archive (.zip)"
)
@click.option("--force", is_flag=True, help="overwrite files that are there")
@own_facts_options
@json_option()
def local(recorded: str | None, place: str | None, force: bool, **fields: Any) -> None:
    """
    Which models run on this machine, in which format, how fast, and what starts them?

    \b
    tonnage local                                     the machine that this runs on
    tonnage local -a "RTX 4090" --memory "96 GB"      another one, layers and experts in host memory where needed
    tonnage local -a "M4 Max 64GB" --context 32k
    tonnage local -a "2 x RTX 3090" --model Qwen/Qwen3.8-27B --files start     scripts and compose.yaml
    tonnage local --from nvidia-smi.xml
    """
    from tonnage.core.machine import machine_found
    from tonnage.measure.machine.detect import inventory_here, programs, read_inventory
    from tonnage.questions.own.local import asked_machine, local_request
    from tonnage.questions.own.local import local as answer_local

    output, own = output_of(fields), own_facts(fields)
    request = local_request(fields)
    if request.accelerator is not None:
        machine = asked_machine(request, additions=own)
    elif recorded is not None:
        machine = machine_found(read_inventory(recorded), additions=own)
    else:
        machine = machine_found(inventory_here(), engines=programs(), additions=own)
    answer = answer_local(request, machine, additions=own)
    output.show(answer)
    if place is not None:
        from tonnage.cli.export import write_into
        from tonnage.export.at_home import home_files

        vendor = machine.device.vendor if machine.device is not None and not machine.others else ""
        write_into(place, home_files(answer, vendor=vendor), force=force)
