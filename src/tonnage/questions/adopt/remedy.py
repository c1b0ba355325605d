"""What would do instead? A diagnosis that calls for other accelerators, and the plan for the load that was seen."""

from __future__ import annotations

import shlex
from typing import Any, Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.diagnosis import Diagnosis, Evidence, Missing
from tonnage.errors import TonnageError
from tonnage.questions.ask import answer

PLANNED: Final = frozenset({"accelerator", "capacity"})
"""Remedies that a plan answers."""


NO_LOAD: Final = Missing(
    verdict="the plan that would",
    needs="requests per second, and tokens of prompts and answers",
    how="a window of a live endpoint or of Prometheus, or a measurement, instead of one page",
)


def stated_facts(*, accelerator: str | None, model: str | None, additions: Additions) -> dict[str, Any]:
    """
    What the user states, as fields of `Evidence`: names, and the peaks of the accelerator.

    Raises
    ------
    TonnageError
        No such accelerator.
    """
    found: dict[str, Any] = {} if model is None else {"model": model}
    if accelerator is not None:
        card = catalog.accelerator(accelerator, additions)
        found["accelerator"] = card.id
        found["peak_memory_bytes_per_s"] = card.memory_bytes_per_s
        peak = card.peak("bf16") or card.peak("fp16")
        if peak is not None:
            found["peak_flop_per_s"] = peak
        if card.link.bytes_per_s is not None:
            found["link_peak_bytes_per_s"] = card.link.bytes_per_s
    return found


def serve_fields(evidence: Evidence, *, model: str) -> dict[str, str] | None:
    """The request for a serving plan that carries the load seen; nothing where rate or lengths are not known."""
    load = max((level.requests_per_s for level in evidence.levels), default=None) or evidence.requests_per_s
    if not load or not evidence.prompt_tokens or not evidence.output_tokens:
        return None
    return {
        "model": model,
        "rate": f"{load:.3g}/s",
        "prompt_tokens": f"{max(1.0, evidence.prompt_tokens):.0f}",
        "output_tokens": f"{max(1.0, evidence.output_tokens):.0f}",
    }


def with_plan(diagnosis: Diagnosis, *, model: str, additions: Additions) -> Diagnosis:
    """The diagnosis with the plan for the load that was seen, where a verdict calls for one."""
    if (
        not any(verdict.remedy in PLANNED for verdict in diagnosis.verdicts)
        or "serving" not in diagnosis.evidence.kinds
    ):
        return diagnosis
    fields = serve_fields(diagnosis.evidence, model=model)
    if fields is None:
        return replace(diagnosis, missing=(*diagnosis.missing, NO_LOAD))
    options = [
        part for name, value in fields.items() if name != "model" for part in (f"--{name.replace('_', '-')}", value)
    ]
    command = shlex.join(["tonnage", "plan", "serve", model, *options])
    try:
        plan = answer("serve", {**fields, "quick": True}, additions=additions)
    except TonnageError as wrong:
        return replace(diagnosis, plan=f"No plan: {wrong}", plan_command=command)
    return replace(diagnosis, plan=plan.sentence, plan_command=command, calibrations=plan.calibrations)
