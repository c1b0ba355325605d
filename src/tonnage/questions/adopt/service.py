"""
A service that runs, as its metrics show it: its traffic, its calibrated model, advice; and what a diagnosis calls for.

The one door of command line, Python, HTTP and assistants. Whoever calls has read the sources (a live page, Prometheus,
a file, pasted text); what a metrics page counts for and what it lacks is decided here.
"""

from __future__ import annotations

import shlex
import tempfile
from datetime import date
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.additions import save_calibration
from tonnage.domain.diagnosis import Diagnosis, Evidence, Missing
from tonnage.domain.measurement import Measurement
from tonnage.errors import BadRequest, TonnageError
from tonnage.questions.adopt.adopt import accelerator_of
from tonnage.questions.adopt.advise import advise
from tonnage.questions.adopt.question import Adopt, Advice, Running, Seen
from tonnage.questions.adopt.replayed import logged_traffic
from tonnage.questions.adopt.serve import read_server
from tonnage.questions.ask import answer
from tonnage.questions.calibrate.calibrate import calibrate
from tonnage.questions.calibrate.loads import Stack
from tonnage.record import Record
from tonnage.units import percent, read

OWN: Final = "its own latencies"
"""Where the calibration of a service comes from that was looked at."""


class View(Record, kw_only=True):
    """What the sources look at, beyond what they say."""

    pages: int = 0
    """Replicas whose pages were read; 0 = the whole service, as Prometheus sums it. [-]"""
    reuse: str | None = None
    """Of a prompt, what an earlier prompt began with, as people write it: 40%."""
    measured: Measurement | str = "nothing was measured"
    """The service's own latencies as one load; or why there is none."""
    calibrates: bool = True
    log: str | None = None
    """File of the service's requests, as its gateway logged them: they are replayed instead of drawn ones."""


def advise_service(
    request: Adopt,
    running: Running,
    *,
    found: Diagnosis,
    view: View,
    additions: Additions,
    today: date | None = None,
) -> Advice:
    """
    What to change in the service that was seen.

    Raises
    ------
    TonnageError
        The sources lack the rate or the lengths of requests, or the file does not say what runs.
    """
    replicas = request.replicas or running.replicas
    seen = _seen(found.evidence, request, view, replicas=replicas)
    with tempfile.TemporaryDirectory() as folder:
        told, file = "", Path(folder, f"{Path(folder).name}.toml")
        if view.calibrates and additions.calibrated:
            told, additions = _calibrated(view.measured, running, request, additions, file=file)
        advice = advise(
            request,
            running,
            diagnosis=found,
            seen=seen,
            additions=additions,
            today=today,
            calibrated=told,
        )
    # Its own point lasts no longer than the file that it lay in.
    uses = (replace(use, source=OWN) if use.source == file.name else use for use in advice.calibrations)
    return replace(advice, calibrations=tuple(uses))


def _seen(evidence: Evidence, asked: Adopt, view: View, *, replicas: int) -> Seen:
    """
    The traffic that the metrics show, of the whole service: the user's numbers first, then the log's, then the
    metrics', whose rate is scaled from the pages read to all replicas. Refuses where one is missing.
    """
    logged = None if view.log is None else logged_traffic(view.log)
    rate = asked.rate_per_s or (logged.rate_per_s if logged else None)
    if rate is None and evidence.requests_per_s:
        rate = evidence.requests_per_s * (replicas / view.pages if view.pages else 1.0)
    prompt = asked.prompt_tokens or (logged.prompt_tokens if logged else evidence.prompt_tokens)
    output = asked.output_tokens or (logged.output_tokens if logged else evidence.output_tokens)
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
    share = read(view.reuse, "fraction", field="reuse") if view.reuse else None
    if share is not None and not 0 <= share < 1:
        raise BadRequest(f"reuse: '{view.reuse}' is outside 0 % to 99 %")
    return Seen(
        rate_per_s=rate,
        prompt_tokens=prompt,
        output_tokens=output,
        ttft_s=evidence.ttft_s,
        tpot_s=evidence.tpot_s,
        reused_share=share if share is not None or logged is None else logged.reused_share,
        log=view.log or "",
    )


def _calibrated(
    measured: Measurement | str, running: Running, asked: Adopt, additions: Additions, *, file: Path
) -> tuple[str, Additions]:
    """
    What was learnt from the service's own latencies in a sentence, and additions with it that last as long as the file;
    the additions as they were, and why, where nothing can be fitted.
    """
    try:
        if isinstance(measured, str):
            raise BadRequest(measured)
        stack = _stack_of(asked, running, additions=additions)
        fitted = calibrate([(measured, stack)], additions=additions)
    except TonnageError as error:
        return f"not calibrated: {error}", additions
    path = save_calibration(fitted.calibration, file)
    told = ", ".join(
        f"{one.quantity.removesuffix('_s').upper()} {percent(one.before / one.measured - 1, sign='+')}"
        for one in fitted.errors
    )
    own = replace(additions, paths=(*additions.paths, str(path)))
    return f"calibrated by its own latencies; predicted before: {told}", own


def _stack_of(request: Adopt, running: Running, *, additions: Additions) -> Stack:
    """What runs, as a calibration names it: one replica of it, with its own settings."""
    accelerator = accelerator_of(request, running.machine, additions=additions)
    made = read_server(request, running, accelerator=accelerator, additions=additions)
    own = made.configuration
    settings = {name: value for name, value in msgspec.structs.asdict(own.engine).items() if value is not None}
    name, version = settings.pop("name"), settings.pop("version", None)
    return Stack(
        model=made.model,
        accelerator=accelerator,
        engine=name,
        engine_version=version,
        options=settings,
        precision=own.precision,
        layout=own.layout,
    )


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


def serve_fields(evidence: Evidence) -> dict[str, str] | None:
    """Load and lengths for a plan that carries the largest load seen; None where rate or lengths are not known."""
    load = max((level.requests_per_s for level in evidence.levels), default=None) or evidence.requests_per_s
    if not load or not evidence.prompt_tokens or not evidence.output_tokens:
        return None
    return {
        "rate": f"{load:.3g}/s",
        "prompt_tokens": f"{max(1.0, evidence.prompt_tokens):.0f}",
        "output_tokens": f"{max(1.0, evidence.output_tokens):.0f}",
    }


def with_plan(diagnosis: Diagnosis, *, model: str, additions: Additions) -> Diagnosis:
    """
    The diagnosis with the plan for the load that was seen, where a verdict calls for one; unchanged where none does or
    it is no service. An unknown load is a thing that is missing.
    """
    if (
        not any(verdict.remedy in PLANNED for verdict in diagnosis.verdicts)
        or "serving" not in diagnosis.evidence.kinds
    ):
        return diagnosis
    fields = serve_fields(diagnosis.evidence)
    if fields is None:
        return replace(diagnosis, missing=(*diagnosis.missing, NO_LOAD))
    options = [part for name, value in fields.items() for part in (f"--{name.replace('_', '-')}", value)]
    command = shlex.join(["tonnage", "plan", "serve", model, *options])
    try:
        plan = answer("serve", {**fields, "model": model, "quick": True}, additions=additions)
    except TonnageError as wrong:
        return replace(diagnosis, plan=f"No plan: {wrong}", plan_command=command)
    return replace(diagnosis, plan=plan.sentence, plan_command=command, calibrations=plan.calibrations)
