"""
What limits a system? An address or a file becomes `Evidence`, and every rule is asked.

Consequences are left to their causes, and one sentence says what limits most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tonnage.domain.diagnosis import DIAGNOSIS_SCHEMA, Diagnosis, Evidence, Fact, LoadLevel, Missing, Verdict
from tonnage.domain.measurement import Latency, Measurement, Point, ServerState
from tonnage.domain.train_measurement import (
    TRAIN_MEASUREMENT_SCHEMA,
    DeviceActivity,
    StepTimes,
    TrainMeasurement,
    TrainRun,
)
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.foreign import check_values, plain_text
from tonnage.measure.client import key_of
from tonnage.measure.diagnose import device, rules
from tonnage.measure.diagnose.row import fact
from tonnage.measure.diagnose.window import evidence_of, is_prometheus, merge_readings, readings_between, watch_page
from tonnage.measure.files import json_in, read_whole, refuse_heavy
from tonnage.measure.history import entries, measured_server, place_of
from tonnage.measure.importers import read_report
from tonnage.measure.knee import objective_missed
from tonnage.measure.metrics import reading_of
from tonnage.measure.records import LOG_SCHEMA, Log, read_log
from tonnage.measure.summary import stated_values
from tonnage.measure.train.kineto import measurement_of_trace
from tonnage.record import Record
from tonnage.units import read


def evidence_of_measurement(measurement: Measurement, *, source: str = "") -> Evidence:
    """A measurement of a server: its loads, and what holds at the highest answered; else the failures of one."""
    points = sorted((point for point in measurement.points if point.completed), key=lambda point: point.level)
    if not points:
        failed = next((point for point in measurement.points if point.failed), None)
        return Evidence(
            kinds=("serving",),
            sources=(source,),
            model=measurement.model,
            requests=None if failed is None else float(failed.failed),
            failed_share=None if failed is None else 1.0,
        )
    top = points[-1]
    missed = objective_missed(top, measurement.slo)
    state = top.server or ServerState(engine="")
    ttft, tpot, e2e = (found or Latency() for found in (top.ttft_s, top.tpot_s, top.e2e_s))
    found = {
        "requests": float(top.completed),
        "failed_share": top.failed / (top.completed + top.failed),
        "requests_per_s": top.requests_per_s,
        "prompt_tokens": top.prompt_tokens,
        "output_tokens": top.output_tokens,
        "ttft_s": ttft.mean,
        "ttft_p95_s": ttft.p95,
        "tpot_s": tpot.mean,
        "e2e_s": e2e.mean,
        "e2e_p95_s": e2e.p95,
        "queue_s": _client_queue_s(points),
        "levels": _levels(points),
        "slo_missed": (missed,) if missed else (),
        "client_delay_s": top.client_delay_s,
        "running_most": state.running,
        "waiting_most": state.waiting,
        "kv_used_most": state.kv_used,
        "cached_share": top.cached_share,
        "preemptions": state.preemptions,
        "engine": state.engine or None,
    }
    return replace(Evidence(kinds=("serving",), sources=(source,), model=measurement.model), **stated_values(found))


def evidence_of_log(log: Log, measurement: Measurement, *, source: str) -> Evidence:
    """
    The same of a file of results: at the highest load the server's own numbers first; how slow a first request is.
    """
    whole = evidence_of_measurement(measurement, source=source)
    points = [point for point in measurement.points if point.completed]
    if not points:
        return whole
    highest = max(points, key=lambda point: point.level)
    stage = next((one.stage for one in log.segments if one.load.level == highest.level), 0)
    parts = {one.segment for one in log.segments if one.stage == stage}
    readings = [scrape.reading for scrape in log.scrapes if scrape.segment in parts]
    if readings:
        client = replace(whole, **dict.fromkeys(_BY_SERVER))
        whole = merge_readings([client, evidence_of(readings), replace(whole, sources=())])
    return replace(whole, **_first_and_later(log))


_BY_SERVER: Final = ("engine", "running_most", "waiting_most", "kv_used_most", "preemptions", "queue_s")
"""What the server's own pages say better than the client's summary of them."""


def _first_and_later(log: Log) -> dict[str, float]:
    """At the first load: the longest first token of the very first requests, the median later; nothing of under ten."""
    good = sorted(
        (o for o in log.outcomes if o.failure is None and o.first_s is not None and o.segment == 0),
        key=lambda outcome: outcome.intended_s,
    )
    at_once = max((int(one.load.concurrency or 1) for one in log.segments if one.segment == 0), default=1)
    first = good[: min(at_once, 4)]
    later = [o for o in good if o.intended_s > max((f.last_s or f.end_s for f in first), default=0.0)]
    if not first or len(later) < 10:
        return {}
    took = [(o.first_s or 0.0) - o.intended_s for o in later]
    return {"first_s": max((o.first_s or 0.0) - o.intended_s for o in first), "later_s": median(took)}


def _client_queue_s(points: Sequence[Point]) -> float | None:
    """Waiting at the highest load as seen from outside: time to first token beyond that of the lowest load."""
    low, high = points[0].ttft_s, points[-1].ttft_s
    if len(points) < 2 or low is None or high is None or low.p50 is None or high.mean is None:
        return None
    return max(0.0, high.mean - low.p50)


def _levels(points: Sequence[Point]) -> tuple[LoadLevel, ...] | None:
    """Loads of a sweep that were answered with a known end-to-end time; None where there is none."""
    found = [
        LoadLevel(
            level=point.level,
            requests_per_s=point.requests_per_s,
            p95_s=point.e2e_s.p95,
            requests=float(point.completed),
        )
        for point in points
        if point.requests_per_s and point.e2e_s is not None and point.e2e_s.p95
    ]
    return tuple(found) or None


_OF_DEVICE: Final = (
    "busy_s", "kernel_s", "copies_s", "utilisation", "flop_per_s", "memory_bytes_per_s", "throttle_reasons",
)  # fmt: skip
"""What a trace of kernels says in the words of `Evidence`."""


def evidence_of_training(measurement: TrainMeasurement, *, source: str = "") -> Evidence:
    """A measured training run: the run with the most devices, which is its last."""
    run = measurement.runs[-1]
    seen = run.activity or DeviceActivity()
    memory = run.memory
    found: dict[str, Any] = {
        "accelerator": measurement.device,
        "model": measurement.model,
        "step_s": run.step_s,
        "hidden_communication_s": run.hidden_communication_s,
        "devices": run.devices,
        "scaling_efficiency": run.efficiency,
        "slowest_share": _slowest(run),
        "memory_peak_bytes": memory.peak_bytes,
        "memory_reserved_bytes": memory.reserved_bytes,
        "memory_capacity_bytes": memory.capacity_bytes,
        "alloc_retries": None if memory.alloc_retries is None else float(memory.alloc_retries),
        "samples": run.steps,
        **{name: getattr(seen, name) for name in _OF_DEVICE},
    }
    return replace(Evidence(kinds=("training",), sources=(source,), parts=run.parts), **stated_values(found))


def _computing_s(parts: StepTimes) -> float | None:
    own = (parts.forward_s, parts.backward_s, parts.optimizer_s)
    return None if all(value is None for value in own) else sum(value for value in own if value is not None)


def _slowest(run: TrainRun) -> float | None:
    """Computing time of the slowest rank over the median one, less 1; None below two ranks. [-]"""
    times = [value for rank in run.ranks if (value := _computing_s(rank.parts)) is not None]
    if len(times) < 2 or not median(times):
        return None
    return max(times) / median(times) - 1.0


def compare_with_record(now: Measurement, before: Measurement) -> tuple[Fact, ...]:
    """How much worse the same loads are than they were, as shares: longer medians, fewer requests/s; < 0 = better."""
    old = {(point.rate_per_s, point.concurrency): point for point in before.points}
    found: list[Fact] = []
    for point in now.points:
        other = old.get((point.rate_per_s, point.concurrency))
        if other is None:
            continue
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            later, earlier = getattr(point, name), getattr(other, name)
            if later is not None and earlier is not None and later.p50 and earlier.p50:
                found.append(fact(f"median {name[:-2].upper()} at {point.level:g}", later.p50 / earlier.p50 - 1.0))
        if point.requests_per_s and other.requests_per_s:
            change = other.requests_per_s / point.requests_per_s - 1.0
            found.append(fact(f"fewer requests/s at {point.level:g}", change))
    return tuple(found)


RULES: Final[Mapping[str, tuple[Callable[[Evidence], Verdict | Missing | None], ...]]] = {
    "serving": rules.SERVING_RULES,
    "training": rules.TRAINING_RULES,
    "accelerator": device.RULES,
}
"""Rules by what they judge; the accelerator's are asked of whatever runs on one."""

CAUSES: Final[Mapping[str, tuple[str, ...]]] = {
    "memory-capacity bound": ("queueing",),
    "fragmentation": ("memory-capacity bound",),
    "input-bound": ("under-utilised", "over-provisioned"),
    "communication-bound": ("under-utilised",),
    "straggler": ("under-utilised",),
    "over-provisioned": ("under-utilised",),
}
"""What explains what: a verdict on the right is not given beside the one on the left."""

FIRST: Final = ("client-bound", "failing", "throttled", "regression")
"""Given before all others: they make the rest look different."""


def judge(evidence: Evidence) -> Diagnosis:
    """
    What limits the system, by all rules for what the evidence is about; what another verdict explains is left out.

    Examples
    --------
    >>> judge(Evidence(kinds=("accelerator",), utilisation=1.0)).verdicts
    ()
    """
    found: list[Verdict] = []
    missing: list[Missing] = []
    for kind, functions in RULES.items():
        if kind not in evidence.kinds and not (kind == "accelerator" and evidence.kinds):
            continue
        for rule in functions:
            said = rule(evidence)
            if isinstance(said, Verdict):
                found.append(said)
            elif said is not None and said not in missing:
                missing.append(said)
    explained = {effect for verdict in found for effect in CAUSES.get(verdict.name, ())}
    verdicts = {verdict.name: verdict for verdict in reversed(found) if verdict.name not in explained}
    ordered = sorted(verdicts.values(), key=_rank)
    said_of = {verdict.name for verdict in ordered}
    return Diagnosis(
        schema=DIAGNOSIS_SCHEMA,
        sentence=_sentence(ordered, missing, evidence),
        sources=evidence.sources,
        verdicts=tuple(ordered),
        missing=tuple(one for one in missing if one.verdict not in said_of),
        evidence=evidence,
    )


def _rank(verdict: Verdict) -> tuple[int, float]:
    early = FIRST.index(verdict.name) if verdict.name in FIRST else len(FIRST)
    return early, -(verdict.gain or 0.0)


def _sentence(verdicts: list[Verdict], missing: list[Missing], evidence: Evidence) -> str:
    """The first verdict and the names of the others; without one, how many questions lack evidence, if any do."""
    if verdicts:
        others = f" Also: {', '.join(verdict.name for verdict in verdicts[1:])}." if len(verdicts) > 1 else ""
        return f"{verdicts[0].name[:1].upper()}{verdicts[0].name[1:]}: {verdicts[0].sentence}{others}"
    if missing:
        blind = evidence.utilisation is not None and evidence.tensor_active is None
        alone = " Utilisation alone tells nothing: it counts time with any kernel." if blind else ""
        return f"No verdict: {len(missing)} questions lack evidence.{alone}"
    return "Nothing limits it by any rule here."


LIVE_S: Final = 10.0
STORED_S: Final = 3600.0
MAX_REPORT_BYTES: Final = 2 * 1024**3


class Watch(Record, kw_only=True):
    """How to look at an address."""

    window_s: float | None = None
    """Absent: 10 s of a live endpoint, the last hour of a Prometheus server. [s]"""
    every_s: float = 1.0
    """Between looks at a live endpoint. [s]"""
    match: str | None = None
    """Labels that series of a Prometheus server must have."""
    key_env: str | None = None


def diagnose(
    *sources: str, watch: Watch | None = None, baseline: str | None = None, known: Mapping[str, Any] | None = None
) -> Diagnosis:
    """
    What limits the system that the sources look at, each from another side.

    Parameters
    ----------
    *sources : str
        Address of a Prometheus server or of a live endpoint, file of a scrape, of a measurement, of a trace.
    watch : Watch, optional
        How to look at addresses.
    baseline : str, optional
        An earlier measurement of the same loads: its file, its number in the history, or "last".
    known : mapping, optional
        Fields of `Evidence` that the user states, such as the accelerator's link speed.

    Raises
    ------
    TonnageError
        A source cannot be read, or says nothing that is known here.
    """
    if not sources:
        raise BadRequest("SOURCE: name an address or a file to diagnose")
    watch = watch or Watch()
    if watch.window_s is not None and not 0.5 <= watch.window_s <= 31 * 86_400:
        raise BadRequest(f"--window: {watch.window_s:g} s is outside 0.5 s to 31 days")
    found = merge_readings([evidence_from(source, watch=watch) for source in sources])
    if baseline is not None:
        now = _read_measurement(sources[0])
        found = replace(found, baseline=compare_with_record(now, _before(now, baseline)))
    return judge(replace(found, **known) if known else found)


def watch_of(fields: Mapping[str, Any]) -> Watch:
    """How to look, from fields as people write them: window, every, match, key_env."""
    for name in fields:
        if name not in {"window", "every", "match", "key_env"}:
            raise BadRequest(f"no field '{echo(name)}'; known: window, every, match, key_env, baseline")
    window, every = fields.get("window"), fields.get("every")
    return Watch(
        window_s=None if window is None else read(str(window), "s", field="window"),
        every_s=1.0 if every is None else read(str(every), "s", field="every"),
        match=fields.get("match"),
        key_env=fields.get("key_env"),
    )


def evidence_from(source: str, *, watch: Watch) -> Evidence:
    """What one source says."""
    plain_text(source, where="source")
    if source.startswith(("http://", "https://")):
        return _from_address(source, watch)
    return _from_file(Path(source))


def _from_address(url: str, watch: Watch) -> Evidence:
    """
    What a Prometheus server has stored of the window; of any other server its /metrics page, watched until it is over.
    """
    key = key_of(watch.key_env) if watch.key_env else None
    if not url.rstrip("/").endswith("/metrics") and is_prometheus(url, key=key):
        window = watch.window_s or STORED_S
        readings = readings_between(url, window_s=window, match=watch.match, key=key)
        if not readings:
            raise BadRequest(
                f"{echo(url)}: this Prometheus has no series known here in the last {window:g} s; "
                "does it scrape the engine, and is --match right?"
            )
    else:
        readings = watch_page(url, window_s=watch.window_s or LIVE_S, every_s=watch.every_s, key=key)
    return evidence_of(readings, source=url)


def training_of(path: Path) -> TrainMeasurement | None:
    """The measured training run in a file, or the steps of a trace; nothing where it holds something else."""
    if _is_packed(path):
        return measurement_of_trace(path)
    document = _document(path) if _starts_json(path) else None
    if document is not None and "traceEvents" in document:
        return measurement_of_trace(path)
    if document is None or document.get("schema") != TRAIN_MEASUREMENT_SCHEMA:
        return None
    check_values(document, where=f"'{echo(str(path))}'")
    try:
        return msgspec.convert(document, TrainMeasurement)
    except msgspec.ValidationError as error:
        raise BadFact(f"'{echo(str(path))}': {error}") from None


def _from_file(path: Path) -> Evidence:
    """Evidence of a file: JSON by its schema, packed or not, else a page of metrics; what is neither is refused."""
    name = str(path)
    if not path.is_file():
        raise BadRequest(f"'{echo(name)}' is neither a file nor an address such as http://127.0.0.1:9090")
    if path.stat().st_size > MAX_REPORT_BYTES:
        raise BadFact(f"'{echo(name)}' is larger than {MAX_REPORT_BYTES // 1024**3} GiB")
    if _starts_json(path) or _is_packed(path):
        trained = training_of(path)
        return _from_report(path) if trained is None else evidence_of_training(trained, source=name)
    reading = reading_of(read_whole(path, what="metrics"), at_s=0.0)
    if reading is None:
        raise BadFact(f"'{echo(name)}' is neither JSON nor a metrics page of an engine or exporter known here")
    return evidence_of([reading], source=name)


def _is_packed(path: Path) -> bool:
    """Whether a file is packed by gzip, as torch.profiler writes large traces."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _starts_json(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(256).lstrip()[:1] in {b"{", b"["}


def _document(path: Path) -> dict[str, Any] | None:
    """The one JSON object of a file, or nothing where it holds lines or a list."""
    data = read_whole(path, what="measurements")
    refuse_heavy(data, path)
    found = json_in(data)
    return found if isinstance(found, dict) else None


def _from_report(path: Path) -> Evidence:
    with path.open("rb") as file:
        first = file.readline(4096)
    measurement = read_report(path)
    if LOG_SCHEMA.encode() in first:
        return evidence_of_log(read_log(path), measurement, source=str(path))
    return evidence_of_measurement(measurement, source=str(path))


def _before(now: Measurement, baseline: str) -> Measurement:
    """What a file, a number of the history, or "last" means: the latest before now of the same model."""
    number = baseline.isdecimal() and len(baseline) < 16
    if not (baseline == "last" or number):
        return _read_measurement(baseline)
    place = place_of()
    if place is None:
        raise BadRequest("--baseline: no history is kept (TONNAGE_HISTORY=off); name a file")
    if number:
        return measured_server(place, int(baseline))
    kept = entries(place, kind="serve", model=now.model, most=1000).entries
    earlier = next((one for one in kept if now.date is None or one.date < now.date), None)
    if earlier is None:
        raise BadRequest(f"--baseline: the history holds no earlier measurement of '{echo(now.model or 'it')}'")
    return measured_server(place, earlier.id)


def _read_measurement(source: str) -> Measurement:
    if source.startswith(("http://", "https://")) or not Path(source).is_file():
        raise BadRequest(f"--baseline compares files of measurements, and '{echo(source)}' is none")
    return read_report(Path(source))
