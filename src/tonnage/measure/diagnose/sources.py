"""
What limits a system? An address or a file becomes `Evidence`, and every rule is asked.

Consequences are left to their causes, and one sentence says what limits most.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tonnage.domain.diagnosis import DIAGNOSIS_SCHEMA, Diagnosis, Evidence, Missing, Verdict
from tonnage.domain.measurement import Measurement
from tonnage.domain.train_measurement import TRAIN_MEASUREMENT_SCHEMA, TrainMeasurement
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.foreign import check_values
from tonnage.measure.client import key_of
from tonnage.measure.diagnose import device, serving, training
from tonnage.measure.diagnose.limits import Rule
from tonnage.measure.diagnose.pages import is_prometheus, readings_between, watch_page
from tonnage.measure.diagnose.recorded import (
    compare_with_record,
    evidence_of_log,
    evidence_of_measurement,
    evidence_of_training,
)
from tonnage.measure.diagnose.window import evidence_of, merge_readings
from tonnage.measure.files import json_in, read_whole, refuse_heavy
from tonnage.measure.history import entries, measured_server, place_of
from tonnage.measure.importers import read_report
from tonnage.measure.metrics import reading_of
from tonnage.measure.records import LOG_SCHEMA, read_log
from tonnage.measure.train.kineto import measurement_of_trace
from tonnage.record import Record
from tonnage.units import read

RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "serving": serving.RULES,
    "training": training.RULES,
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
    What limits the system, by all rules that apply to what the evidence is about.

    Examples
    --------
    >>> judge(Evidence(kinds=("accelerator",), utilisation=1.0)).verdicts
    ()
    """
    found: list[Verdict] = []
    missing: list[Missing] = []
    for kind, rules in RULES.items():
        if kind not in evidence.kinds and not (kind == "accelerator" and evidence.kinds):
            continue
        for rule in rules:
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
    if verdicts:
        others = f" Also: {', '.join(verdict.name for verdict in verdicts[1:])}." if len(verdicts) > 1 else ""
        return f"{verdicts[0].name[:1].upper()}{verdicts[0].name[1:]}: {verdicts[0].sentence}{others}"
    if missing:
        alone = (
            " Utilisation alone tells nothing: it counts time with any kernel."
            if (evidence.utilisation is not None and evidence.tensor_active is None)
            else ""
        )
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
    if source.startswith(("http://", "https://")):
        return _from_address(source, watch)
    return _from_file(Path(source))


def _from_address(url: str, watch: Watch) -> Evidence:
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
    name = str(path)
    if not path.is_file():
        raise BadRequest(f"'{echo(name)}' is neither a file nor an address such as http://127.0.0.1:9090")
    if path.stat().st_size > MAX_REPORT_BYTES:
        raise BadFact(f"'{echo(name)}' is larger than {MAX_REPORT_BYTES // 1024**3} GiB")
    if _starts_json(path) or _is_packed(path):
        return _from_json(path)
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


def _from_json(path: Path) -> Evidence:
    trained = training_of(path)
    return _from_report(path) if trained is None else evidence_of_training(trained, source=str(path))


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
