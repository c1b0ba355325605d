"""`tonnage local`: what runs on this machine, or on one that is named, and how fast."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import json_option, output_of, own_facts, own_facts_options


@click.command("local")
@click.option("--accelerator", "-a", metavar="NAME",
              help='another machine: "RTX 4090", "M4 Max 64GB", "2 x RTX 3090", "Ryzen 9 9950X", "CPU"')  # fmt: skip
@click.option("--memory", metavar="SIZE", help='its memory: of the host, or the one that both share ("64 GB")')
@click.option("--host-bandwidth", metavar="RATE", help='of host memory ("89.6 GB/s")')
@click.option("--from", "recorded", metavar="FILE", help="recorded output of nvidia-smi, rocm-smi, system_profiler, …")
@click.option("--context", metavar="TOKENS", help="prompt and output of one request: 8192, 32k  [default: 8192]")
@click.option("--min-speed", metavar="RATE", help="output wanted, in tokens/s  [default: 10]")
@click.option("--model", metavar="WORD", help="a model, or a word that names hold")
@click.option("--all", "every_format", is_flag=True, help="every format of every model")
@click.option("--top", type=click.IntRange(1, 500), default=10, help="rows to show")
@click.option("--why", is_flag=True, help="also what was assumed, and which models do not fit")
@own_facts_options
@json_option()
def local(recorded: str | None, **fields: Any) -> None:
    """
    Which models run on this machine, in which format, how fast, and what starts them?

    \b
    tonnage local                                     the machine that this runs on
    tonnage local -a "RTX 4090" --memory "96 GB"      another one, layers and experts in host memory where needed
    tonnage local -a "M4 Max 64GB" --context 32k
    tonnage local --from nvidia-smi.xml
    """
    from tonnage.measure.machine.detect import inventory_here, programs, read_inventory
    from tonnage.planning.own.local import local as answer_local
    from tonnage.planning.own.local import local_request, machine_of_fields
    from tonnage.planning.own.machine import machine_found

    output, own = output_of(fields), own_facts(fields)
    request = local_request(fields)
    if fields.get("accelerator") is not None:
        machine = machine_of_fields(fields, additions=own)
    elif recorded is not None:
        machine = machine_found(read_inventory(recorded), additions=own)
    else:
        machine = machine_found(inventory_here(), engines=programs(), additions=own)
    output.show(answer_local(request, machine, additions=own))
