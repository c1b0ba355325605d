"""Measurements, traced modules and diagnoses as documents: by load, by part of a step, by verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from tonnage.catalog import part_name
from tonnage.domain.diagnosis import Diagnosis, Verdict
from tonnage.domain.measurement import DeviceMeasurement, Measurement, Point
from tonnage.domain.metrics import LATENCIES, SPEEDS, objectives, objectives_text
from tonnage.domain.profile import Profile, TracedOperator
from tonnage.domain.train_measurement import StepTimes, TrainMeasurement, TrainRun
from tonnage.engines.registry import engine_title
from tonnage.report.document import (
    UNKNOWN,
    Command,
    Document,
    Headline,
    Note,
    Section,
    blocks,
    document,
    grid,
    sections,
)
from tonnage.units import percent, plural, show

FIRST_ROWS = 14
"""Loads of the first screen."""


def sentence(measurement: Measurement) -> str:
    """
    The load that a measured server sustains within its objectives; without a knee, the load with the most requests/s.

    That nothing was measured or answered is a sentence, too.
    """
    if not measurement.points:
        return "Nothing was measured."
    knee = measurement.knee
    if knee is not None:
        unit = "requests/s offered" if knee.by == "rate" else "requests at once"
        tokens = f", {knee.output_tokens_per_s:,.0f} output tokens/s" if knee.output_tokens_per_s is not None else ""
        above = (
            f"; at {knee.first_bad:g} {knee.reason}" if knee.first_bad is not None else "; no load tried is too much"
        )
        turns = (
            f" Beyond about {knee.turns_at:.2g} at once requests mostly wait for each other." if knee.turns_at else ""
        )
        answered = f"{show(knee.requests_per_s, 'count')} requests/s answered{tokens}"
        return f"Sustains {show(knee.level, 'count', digits=4)} {unit}: {answered}{above}.{turns}"
    best = max(measurement.points, key=lambda point: point.requests_per_s or 0.0)
    if not best.completed:
        return f"No request was answered: {_failures(best)}."
    parts = [f"{best.completed:,} requests answered at {_load(best)}"]
    if best.output_tokens_per_s is not None:
        parts.append(f"{best.output_tokens_per_s:,.0f} output tokens/s")
    for metric in SPEEDS:
        found = getattr(best, metric.name)
        if found is not None:
            rank, value = ("p95", found.p95) if found.p95 is not None else ("p99", found.p99)
            parts += [f"{rank} {metric.title} {show(value, 's')}"] if value is not None else []
    failed = f"; {_failures(best)}" if best.failures else ""
    return ", ".join(parts) + failed + "."


def measurement_document(measurement: Measurement) -> Document:
    """A measurement as blocks."""
    about = (
        measurement.model,
        measurement.url,
        f"{measurement.tool} {measurement.tool_version or ''}".strip(),
        measurement.date,
    )
    kept = {head: cell for head, cell in _COLUMNS.items() if any(map(cell, measurement.points))}
    rows = [[cell(point) or UNKNOWN for cell in kept.values()] for point in measurement.points]
    notes = [f"Load {point.level:g} stopped: {point.stopped}" for point in measurement.points if point.stopped]
    notes += [f"Load {point.level:g}: {_failures(point)}" for point in measurement.points if point.failures]
    notes += measurement.notes
    more = len(rows) > FIRST_ROWS
    return document(
        Headline(sentence(measurement)),
        Note(" · ".join(filter(None, about))),
        grid(kept, rows[:FIRST_ROWS]),
        Note(hint=f"{len(notes)} notes{', every load' if more else ''}: --why.") if notes else None,
        _objectives(measurement),
        why={"Every load": grid(kept, rows) if more else None, "Notes": notes},
    )


def _objectives(measurement: Measurement) -> str | None:
    """Of one load whether it met the objectives, each latency beside its limit; of several what was asked."""
    slo, points = measurement.slo, measurement.points
    limits = objectives(slo)
    if not limits or len(points) != 1:
        return f"Objectives: {objectives_text(slo)}" if limits else None
    (point,) = points
    seen = [(metric, point.seen(metric.name, slo.percentile), limit) for metric, limit in limits]
    told = [
        f"{metric.title} {'not measured' if value is None else show(value, 's')} of {show(limit, 's')}"
        + (" (missed)" if value is not None and value > limit else "")
        for metric, value, limit in seen
    ]
    over = point.failed > (1.0 - slo.percentile / 100.0) * (point.requests or point.completed)
    told += [f"{point.failed} requests failed (missed)"] if over else []
    missed = over or any(value is not None and value > limit for _, value, limit in seen)
    verdict = "missed" if missed else "met"
    if measurement.disowned or (not missed and (point.stopped or any(value is None for _, value, _ in seen))):
        verdict = "not judged"
    return f"Objectives {verdict}: p{slo.percentile:g} {', '.join(told)}."


def _load(point: Point) -> str:
    if point.rate_per_s is not None:
        return f"{show(point.rate_per_s, 'count', digits=4)}/s"
    return f"{point.concurrency:g} at once" if point.concurrency is not None else "an unknown load"


def _failures(point: Point) -> str:
    return ", ".join(f"{count} failed: {kind}" for kind, count in point.failures.items())


def _number(value: float | None, form: str | None = None) -> str:
    return "" if value is None else f"{value:{form}}" if form else three_digits(value)


def three_digits(value: float) -> str:
    """Three significant digits, never an exponent."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"


def _ms(latency: str, point: Point) -> str:
    """Percentiles of a latency in milliseconds, one unit for the whole column; empty where none is known."""
    found = getattr(point, latency)
    values = [None if found is None else getattr(found, rank) for rank in ("p50", "p95", "p99")]
    return (
        "/".join(UNKNOWN if value is None else three_digits(value * 1e3) for value in values)
        if any(value is not None for value in values)
        else ""
    )


_COLUMNS: dict[str, Callable[[Point], str]] = {
    "load": _load,
    "done>5": lambda point: f"{point.completed:,}",
    "failed>": lambda point: f"{point.failed:,}" if point.failed else "",
    "req/s>": lambda point: _number(point.requests_per_s),
    "good/s>1": lambda point: _number(point.goodput_per_s),
    "out tok/s>2": lambda point: _number(point.output_tokens_per_s, ",.0f"),
    "in / out tok>6": lambda p: (
        f"{_number(p.prompt_tokens, '.0f') or UNKNOWN} / {_number(p.output_tokens, '.0f') or UNKNOWN}"
    ),
    "cached>4": lambda p: "" if p.cached_share is None else percent(p.cached_share),
    **{
        f"{metric.title} p50/95/99 ms>{spare}": partial(_ms, metric.name)
        for metric, spare in zip(LATENCIES, ("", "", 4, 3), strict=True)
    },
    "client delay ms>7": lambda p: "" if p.client_delay_s is None else f"{p.client_delay_s * 1e3:.2f}",
}
"""Head of a column and its cell."""


def progress_line(point_load: str, *, done: int, failed: int) -> str:
    """What stands on stderr while a load runs."""
    return f"{point_load}: {done:,} done" + (f", {failed:,} failed" if failed else "")


def device_document(found: DeviceMeasurement, *, path: str) -> Document:
    """The microbenchmarks of a device, and where they went."""
    best = max((rate for rate in found.rates if rate.name == "product"), key=lambda rate: rate.value)
    threads = f" on {found.threads} thread{'s' if found.threads != 1 else ''}" if found.threads else ""
    lead = (
        f"{found.name}{threads} multiplies at up to {show(best.value, 'FLOP/s')} ({best.dtype}) and copies at "
        f"{show(found.best('copy') or 0.0, 'bytes/s')}."
    )
    rows = [
        (rate.name, rate.dtype or UNKNOWN, rate.shape, show(rate.value, rate.unit), f"{rate.repetitions:,}")
        for rate in found.rates
    ]
    table = grid(["benchmark", "format", "of~", "best>", "runs>"], rows)
    use = Command(f"Written to {path}; ask about it: --additions {path} --accelerator {found.id}")
    return document(Headline(lead), table, use, map(Note, found.notes))


# Training

_NAMES = {
    "input_s": "waiting for input",
    "forward_s": "forward and loss",
    "backward_s": "backward",
    "communication_s": "communication not hidden",
    "optimizer_s": "optimizer",
    "checkpoint_s": "checkpoint",
    "other_s": "the script's own",
}


def train_sentence(found: TrainMeasurement) -> str:
    """The last run, which has the most devices, in one sentence."""
    run = found.runs[-1]
    rate = run.tokens_per_s if run.tokens_per_s is not None else run.samples_per_s
    unit = "tokens/s" if run.tokens_per_s is not None else "samples/s"
    speed = f", {rate:,.4g} {unit}" if rate is not None else ""
    share = f", {percent(run.efficiency)} of a device's throughput alone" if run.efficiency is not None else ""
    first, second = _largest(run.parts)[:2]
    return (
        f"A step takes {show(run.step_s, 's')} on {run.devices} device{'s' if run.devices > 1 else ''}{speed}{share}: "
        f"{percent(first[1] / run.step_s)} {first[0]}, {percent(second[1] / run.step_s)} {second[0]}."
    )


def _largest(parts: StepTimes) -> list[tuple[str, float]]:
    """Names and seconds of the parts of a step, the longest first; filled up so that there are two at least."""
    known = [(_NAMES[name], value) for name, value in msgspec.structs.asdict(parts).items() if value is not None]
    return [*sorted(known, key=lambda part: -part[1]), ("other", 0.0), ("other", 0.0)]


def train_measurement_document(found: TrainMeasurement) -> Document:
    """A measured training run as blocks."""
    about = (found.model, found.parallel, found.device or found.kind, found.backend, found.library, found.date)
    heads = ["a step"]
    for run in found.runs:
        heads += [f"{plural(run.devices, 'device')}>", ">"]
    rows = []
    for name, said in _NAMES.items():
        values = [getattr(run.parts, name) for run in found.runs]
        if any(value is not None for value in values):
            rows.append((said, *_cells(found.runs, values)))
    rows.append(("together", *_cells(found.runs, [run.step_s for run in found.runs])))
    if any(run.hidden_communication_s for run in found.runs):
        rows.append(("communication hidden", *_cells(found.runs, [r.hidden_communication_s for r in found.runs])))
    rows += [(said, *(x for cell in cells for x in (cell, ""))) for said, cells in _rates(found.runs)]
    notes = [*([found.stopped] if found.stopped else []), *(note for run in found.runs for note in run.notes)]
    notes += found.notes
    return document(
        Headline(train_sentence(found)),
        Note(" · ".join(filter(None, about))),
        grid(heads, rows),
        Note(hint=f"Memory, checkpoints, {len(notes)} notes: --why.") if notes else None,
        why={
            "Memory of a rank, the most of any": _memory(found.runs[-1]),
            "Checkpoints": _checkpoints(found),
            "Notes": notes,
        },
    )


def _cells(runs: Sequence[TrainRun], values: Sequence[float | None]) -> list[str]:
    """Two cells for each run: a part of its step [s], and the share of the step that it takes."""
    return [
        text
        for run, value in zip(runs, values, strict=True)
        for text in (("–", "") if value is None else (show(value, "s"), percent(value / run.step_s)))
    ]


def _rates(runs: Sequence[TrainRun]) -> list[tuple[str, list[str]]]:
    rows = [
        ("tokens/s", ["–" if run.tokens_per_s is None else f"{run.tokens_per_s:,.4g}" for run in runs]),
        ("samples/s", ["–" if run.samples_per_s is None else f"{run.samples_per_s:,.4g}" for run in runs]),
        ("efficiency", ["–" if run.efficiency is None else percent(run.efficiency) for run in runs]),
    ]
    return [(said, cells) for said, cells in rows if any(cell != "–" for cell in cells)]


def _memory(run: TrainRun) -> list[str]:
    """Memory of a rank in one line, each number the most of any rank; no line where none is known."""
    m = run.memory
    parts = (
        ("most in use", m.peak_bytes),
        ("reserved", m.reserved_bytes),
        ("of", m.capacity_bytes),
        ("weights", m.weights_bytes),
        ("gradients", m.gradients_bytes),
        ("optimizer", m.optimizer_bytes),
    )
    told = ", ".join(f"{said} {show(value, 'bytes')}" for said, value in parts if value is not None)
    return [told] if told else []


def _checkpoints(found: TrainMeasurement) -> list[str]:
    c = found.checkpoint
    if c is None:
        return []
    size = f" of {show(c.size_bytes, 'bytes')}" if c.size_bytes is not None else ""
    told = [f"{c.writes} written{size}, {show(c.write_s, 's')} each"] if c.write_s is not None else []
    return [*told, *([f"restored in {show(c.restore_s, 's')}"] if c.restore_s is not None else [])]


def traced_sentence(profile: Profile) -> str:
    """Parameters and FLOP of one sample of a traced module, in one sentence."""
    shapes = ", ".join("x".join(map(str, given.shape)) for given in profile.inputs)
    backward = f" forward, {_flop(profile.backward_flop)} backward" if profile.backward else ""
    held = ""
    if profile.moments:
        most = max(moment.activation_values for moment in profile.moments)
        held = f"; a training step holds up to {_count(most)} activation values of a sample"
    return (
        f"{profile.name} has {profile.parameters:,.0f} parameters and computes {_flop(profile.flop)}{backward} "
        f"a sample (inputs {shapes}){held}."
    )


def profile_document(profile: Profile, *, path: str) -> Document:
    """What was counted, and what the file is good for."""
    groups: dict[str, list[TracedOperator]] = defaultdict(list)
    for op in profile.forward:
        groups[op.name].append(op)
    totals = [(name, *_totals(operators)) for name, operators in groups.items()]
    rows = []
    for name, calls, flop, moved, weights in sorted(totals, key=lambda row: (-row[2], -row[3])):
        share = percent(flop / profile.flop, 1) if flop and profile.flop else "–"
        rows.append((name, f"{calls:,.0f}", _flop(flop) if flop else "–", share, _count(moved), _count(weights)))
    heads = ["operators", "of>", "FLOP>", "share>", "read and written>", "weights read>"]
    return document(
        Headline(traced_sentence(profile)),
        grid(heads, rows[:FIRST_ROWS]),
        Command(f"Written to {path}, which stands wherever a model does: tonnage fit {path}"),
        why={"Every operator": grid(heads, rows) if len(rows) > FIRST_ROWS else None, "Unexpected": profile.notes},
    )


def _totals(operators: list[TracedOperator]) -> tuple[float, float, float, float]:
    """Calls, FLOP, values read and written, and weight values read, of all these operators together."""
    return (
        sum(op.count for op in operators),
        sum(op.flop * op.count for op in operators),
        sum((op.read_values + op.write_values) * op.count for op in operators),
        sum(op.weight_values * op.count for op in operators),
    )


def _flop(value: float) -> str:
    for unit, size in (("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
        if value >= size:
            return f"{value / size:,.3g} {unit}" if value < 1000 * size else f"{value / size:,.0f} {unit}"
    return f"{value:,.0f} FLOP"


def _count(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:,.3g} {unit}"
    return f"{value:,.0f}"


REMEDIES = {
    "code": "Fix the code",
    "settings": "Change a setting",
    "capacity": "Change how many",
    "accelerator": "Change the accelerator",
    "measure": "Measure again",
}
FINDINGS = 3
"""Findings of the first screen."""
UNITS = {"s", "bytes", "bytes/s", "W", "tokens"}


def diagnosis_document(diagnosis: Diagnosis, *, most: int | None = None) -> Document:
    """
    A diagnosis as blocks: each finding with its next step; under --why its evidence and what is not known.

    The first screen shows `most` findings, `FINDINGS` where it is None.
    """
    shown = diagnosis.verdicts[: most or FINDINGS]
    more = len(diagnosis.verdicts) - len(shown)
    first = blocks(
        Headline(diagnosis.sentence),
        Note(_about(diagnosis)),
        grid(
            ["finding~", "evidence~", "next step~"],
            [(_title(v), _strongest(v), f"{REMEDIES[v.remedy]}: {v.next_step}") for v in shown],
        ),
        f"Instead: {diagnosis.plan}" if diagnosis.plan is not None else None,
        Command(diagnosis.plan_command) if diagnosis.plan_command is not None else None,
        Note(hint=(f"{more} more findings: --all. " if more else "") + "Evidence, what is not known: --why."),
    )
    missing = [f"{one.verdict}: needs {one.needs}. To have it: {one.how}." for one in diagnosis.missing]
    return Document(first, blocks(map(_finding, diagnosis.verdicts), sections({"Not known": missing})))


def _strongest(verdict: Verdict) -> str:
    """The fact that a finding rests on first."""
    if not verdict.facts:
        return ""
    fact = verdict.facts[0]
    limit = "" if fact.limit is None else f" (limit {_value(fact.limit, fact.unit)})"
    return f"{fact.name} {_value(fact.value, fact.unit)}{limit}"


def _finding(verdict: Verdict) -> Section:
    """A finding as a section: its sentence, each fact with its limit and why that, and the next step."""
    rows = [
        (
            fact.name,
            _value(fact.value, fact.unit),
            "" if fact.limit is None else _value(fact.limit, fact.unit),
            fact.why or "",
        )
        for fact in verdict.facts
    ]
    table = grid(["evidence~", "value>", "limit>", "why this limit~"], rows)
    step = f"{REMEDIES[verdict.remedy]}: {verdict.next_step}."
    return Section(_title(verdict), blocks(verdict.sentence, table, step))


def _title(verdict: Verdict) -> str:
    return verdict.name[:1].upper() + verdict.name[1:]


def _about(diagnosis: Diagnosis) -> str:
    seen = diagnosis.evidence
    parts = [*diagnosis.sources, engine_title(seen.engine or ""), part_name(seen.accelerator or "")]
    if seen.window_s:
        parts.append(f"{show(seen.window_s, 's')}, {seen.samples} readings")
    if seen.requests:
        parts.append(f"{seen.requests:,.0f} requests")
    if seen.step_s:
        parts.append(f"{seen.samples} steps of {show(seen.step_s, 's')}")
    return " · ".join(filter(None, parts))


def _value(value: float, unit: str) -> str:
    if unit == "share":
        return percent(value, 1) if abs(value) < 0.1 else percent(value)
    if unit in UNITS:
        return show(value, unit)
    number = f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
    return number if unit in {"count", "requests"} else f"{number} {unit.replace('degC', '°C')}"
