"""`tonnage fit`: what must be resident, does it fit, and the largest x that still does."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import (
    Grouped,
    json_option,
    name_argument,
    output_of,
    own_facts,
    own_facts_options,
    plot_option,
    request_options,
    show_options,
    show_progress,
)
from tonnage.questions.fit.question import FitRequest


@click.command("fit", cls=Grouped)
@name_argument("model", "models", required=False)
@request_options(FitRequest)
@own_facts_options
@click.option("--offline", is_flag=True, help="read nothing over the network")
@show_options("accelerators", most=500)
@plot_option
@json_option()
def fit(offline: bool, **fields: Any) -> None:
    """
    Does MODEL fit, what takes the memory, and how far is it from the limit?

    \b
    tonnage fit Llama-3.1-70B --accelerator H100 --tp 2 --precision fp8
    tonnage fit Llama-3.1-8B                                  every usual accelerator, smallest first
    tonnage fit Qwen/Qwen3-32B -a "RTX 4090" --solve context
    tonnage fit Llama-3.1-8B -a A100 --finetune lora --batch 4 --seq-len 4096
    """
    from tonnage.questions.fit.fit import fit as answer_fit
    from tonnage.questions.fit.question import fit_request

    output, own = output_of(fields), own_facts(fields)
    with show_progress("checking what fits: accelerators, layouts, formats"):
        answer = answer_fit(fit_request(fields), additions=own, offline=offline or None)
    output.show(answer)
