"""
A row that somebody pastes: "TPOT 21 ms at 32 clients", "TTFT 0.4 s, 1.2k tok/s with 64 users, 2048/256 tokens".

What is read: TTFT, TPOT (or ITL, ms per token) and output tokens per second; a load in clients (users, streams,
concurrency) or requests per second; lengths as prompt/answer. Nothing is guessed: what remains of the text is refused
by name, so that no number is lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tonnage.domain.diagnosis import Diagnosis, Evidence
from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Latency, Measurement, Point
from tonnage.domain.train_measurement import (
    TRAIN_MEASUREMENT_SCHEMA,
    StepTimes,
    TrainMeasurement,
    TrainMemory,
    TrainRun,
)
from tonnage.errors import BadRequest, echo
from tonnage.measure.summary import cached_notes
from tonnage.record import Record
from tonnage.units import read

if TYPE_CHECKING:
    from tonnage.measure.diagnose.sources import Watch
    from tonnage.measure.history import Place


_NUMBER: Final = r"(?P<value>\d[\d,]*(?:\.\d+)?(?:[kK](?![a-zA-Z]))?)"
_NAMED: Final = _NUMBER.replace("value", "named")
_TIME: Final = rf"\s*(?:is|of|=|:)?\s*{_NUMBER}\s*(?P<unit>us|µs|ms|s)\b"
_PER_S: Final = r"\s*(?:/|per )\s*s(?:ec(?:ond)?)?\b"
_CLIENTS: Final = r"concurrent(?: (?:users|requests|clients))?|clients?|users?|streams?|requests at once|at once"
_PATTERNS: Final = {
    "ttft_s": rf"\b(?:mean |median |avg )?(?:ttft|time to first token){_TIME}",
    "tpot_s": rf"\b(?:mean |median |avg )?(?:tpot|itl|time per (?:output )?token){_TIME}",
    "output_tokens_per_s": rf"(?:\bthroughput\s*(?:is|of|=|:)?\s*)?{_NUMBER}\s*(?:output\s+)?tok(?:en)?s?{_PER_S}",
    "rate_per_s": rf"{_NUMBER}\s*(?:(?:req(?:uest)?s?|queries){_PER_S}|rps\b|qps\b)",
    "concurrency": rf"(?:\bconcurrency\s*(?:of|=|:)?\s*{_NAMED}|{_NUMBER}\s*(?:{_CLIENTS}))\b",
    "lengths": r"(?P<prompt>\d[\d,]*)\s*(?:/|in\s*[,+/]?\s*|prompt\s*[,+/]\s*)\s*(?P<answer>\d[\d,]*)"
    r"(?:\s*(?:out|answer))?(?:\s*tokens?)?",
}
_FILLING: Final = re.compile(r"[\s,;.@()]+|\b(?:at|with|and|for|tokens?|mean|median|on|the|a)\b", re.IGNORECASE)
_THOUSANDS: Final = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?[kK]?", re.ASCII)
MOST: Final = 1e12
LONGEST_NUMBER: Final = 15
_EACH: Final = 10
"""Requests a client, as public benchmarks send: enough to be steady. [requests]"""


def read_pasted(text: str, *, prompt_tokens: float | None = None, output_tokens: float | None = None) -> Measurement:
    """
    One load as a measurement; a median is taken for a mean, and ten requests a client as sent (a hundred at a rate).

    Parameters
    ----------
    text : str
        The row.
    prompt_tokens, output_tokens : float, optional
        Lengths where the row states none. [tokens]

    Raises
    ------
    BadRequest
        A part is not understood, or lengths, load or every measured number is missing.

    Examples
    --------
    >>> point = read_pasted("TPOT 21 ms at 32 clients", prompt_tokens=1024, output_tokens=256).points[0]
    >>> point.tpot_s.mean, point.concurrency
    (0.021, 32.0)
    """
    example = "write as 'TTFT 300 ms, TPOT 21 ms at 32 clients, 1024/256 tokens'"
    found, _ = _take_numbers(text, _PATTERNS, what="load", example=example)
    prompt, answer = found.get("prompt", prompt_tokens), found.get("answer", output_tokens)
    if not prompt or not answer:
        raise BadRequest(f"'{echo(text)}': lengths are missing; add '1024/256 tokens' (prompt/answer)")
    if ("concurrency" in found) == ("rate_per_s" in found):
        raise BadRequest(f"'{echo(text)}': name one load, 'at 32 clients' or 'at 4 requests/s'")
    if not {"ttft_s", "tpot_s", "output_tokens_per_s"} & set(found):
        raise BadRequest(f"'{echo(text)}': nothing measured; name TTFT, TPOT or tokens/s")
    clients = found.get("concurrency")
    requests = round(_EACH * (clients or 10.0))
    point = Point(
        rate_per_s=found.get("rate_per_s"),
        concurrency=clients,
        requests=requests,
        completed=requests,
        prompt_tokens=prompt,
        output_tokens=answer,
        output_tokens_per_s=found.get("output_tokens_per_s"),
        ttft_s=Latency(mean=found["ttft_s"]) if "ttft_s" in found else None,
        tpot_s=Latency(mean=found["tpot_s"]) if "tpot_s" in found else None,
    )
    return Measurement(schema=MEASUREMENT_SCHEMA, tool="pasted", points=(point,), notes=(f"as pasted: {echo(text)}",))


_TRAINING: Final = {
    "step_s": rf"\bstep(?: time)?{_TIME}",
    "peak_gb": rf"\b(?:peak|memory)(?: memory)?\s*(?:is|of|=|:)?\s*{_NUMBER}\s*GB\b",
    "peak_gib": rf"\b(?:peak|memory)(?: memory)?\s*(?:is|of|=|:)?\s*{_NUMBER}\s*GiB\b",
    "batch": rf"\b(?:global )?batch(?: size)?\s*(?:of|=|:)?\s*{_NUMBER}\b",
    "seq": rf"\b(?:seq(?:uence)?(?: ?len(?:gth)?)?|length)\s*(?:of|=|:)?\s*{_NUMBER}\b",
    "devices": rf"\b(?:on\s+)?{_NUMBER}\s*(?:x\s*)?(?P<part>(?:gpus?|accelerators?|devices?)\b|[A-Za-z][\w-]*\d[\w-]*)",
}


def is_training_row(text: str) -> bool:
    """Whether a pasted row is of a training step."""
    return re.search(_TRAINING["step_s"], text, re.IGNORECASE) is not None


def read_pasted_training(text: str) -> TrainMeasurement:
    """
    One training run as a measurement: "step 1.9 s at batch 8 seq 4096 on 8 H100", a peak of memory where one is named.

    Raises
    ------
    BadRequest
        A part is not understood, or the batch or the number of accelerators is missing.

    Examples
    --------
    >>> found = read_pasted_training("step 1.9 s, peak 61 GB at batch 8 seq 4096 on 8 H100")
    >>> run = found.runs[0]
    >>> found.device, run.devices, run.step_s, run.samples_per_step, run.tokens_per_step, run.memory.peak_bytes
    ('H100', 8, 1.9, 8.0, 32768.0, 61000000000.0)
    """
    example = "write as 'step 1.9 s, peak 61 GB at batch 8 seq 4096 on 8 H100'"
    found, part = _take_numbers(text, _TRAINING, what="run", example=example)
    for name, said in (("batch", "the batch of a step"), ("devices", "the number of accelerators")):
        if not found.get(name):
            raise BadRequest(f"'{echo(text)}': {said} is missing; {example}")
    peak = found["peak_gib"] * 2**30 if "peak_gib" in found else found.get("peak_gb", 0.0) * 1e9
    named = part is not None and part.lower().rstrip("s") not in {"gpu", "accelerator", "device"}
    run = TrainRun(
        devices=round(found["devices"]),
        steps=1,
        step_s=found["step_s"],
        parts=StepTimes(),
        samples_per_step=found["batch"],
        tokens_per_step=found["batch"] * found["seq"] if "seq" in found else None,
        memory=TrainMemory(peak_bytes=peak or None),
    )
    return TrainMeasurement(schema=TRAIN_MEASUREMENT_SCHEMA, tool="pasted", device=part if named else None, runs=(run,))


def _take_numbers(
    text: str, patterns: Mapping[str, str], *, what: str, example: str
) -> tuple[dict[str, float], str | None]:
    """Numbers by name, times in seconds, and the part that is named; what no pattern takes is refused."""
    if len(text) > 500:
        raise BadRequest(f"a pasted row has {len(text)} characters; give one {what}, in at most 500")
    found: dict[str, float] = {}
    rest, part = text, None
    for name, pattern in patterns.items():
        match = re.search(pattern, rest, re.IGNORECASE)
        if match is None:
            continue
        rest = rest[: match.start()] + " " + rest[match.end() :]
        said = {key: value for key, value in match.groupdict().items() if value}
        unit, part = said.pop("unit", "").replace("µ", "u"), said.pop("part", part)
        for key, value in said.items():
            number = _number(value)
            number = read(f"{number:.12g} {unit}", "s", field=name) if unit else number
            found[name if key in {"value", "named"} else key] = number
    if left := _FILLING.sub("", rest):
        raise BadRequest(f"'{echo(text)}': '{echo(left)}' is not understood; {example}")
    return found, part


def _number(text: str) -> float:
    """
    A number as it is pasted: 0.4, 1,024, 1.2k.

    Raises
    ------
    BadRequest
        Its commas are none between thousands: 2,5 may be 2.5. Or it is larger than anything that is measured.
    """
    if "," in text and _THOUSANDS.fullmatch(text) is None:
        raise BadRequest(f"'{echo(text)}': a comma stands between thousands alone; write decimals with a point: 2.5")
    found = float(text.rstrip("kK").replace(",", "")) * (1000.0 if text[-1:] in {"k", "K"} else 1.0)
    if found > MOST:
        raise BadRequest(f"'{echo(text)}' is larger than anything that is measured here ({MOST:.0e})")
    return found


def read_points(
    sources: Sequence[str],
    pasted: Sequence[str] = (),
    *,
    lengths: tuple[float | None, float | None] = (None, None),
    window_s: float | None = None,
    place: Place | None = None,
) -> list[Measurement]:
    """
    Everything that a calibration may rest on: reports of any tool, metrics pages, the history, pasted rows.

    Parameters
    ----------
    sources : sequence of str
        Files that `read_report` knows, saved metrics pages, addresses of live ones or of a Prometheus, "history:12".
    pasted : sequence of str, optional
        Rows as they stand.
    lengths : tuple, optional
        Prompt and answer of pasted rows that state none. [tokens]
    window_s : float, optional
        How long a live page is read; absent = 10 s, of a Prometheus the last hour. [s]
    place : Place, optional
        The history that numbers mean; absent = the usual one.

    Raises
    ------
    TonnageError
        There is none, or one cannot be read.
    """
    if not sources and not pasted:
        raise BadRequest("nothing measured: name a file, an address, history:N, or --point 'TPOT 21 ms at 32 clients'")
    found = [_source(source, window_s, place) for source in sources]
    prompt, answer = lengths
    return [*found, *(read_pasted(text, prompt_tokens=prompt, output_tokens=answer) for text in pasted)]


def read_training(sources: Sequence[str], pasted: Sequence[str]) -> list[TrainMeasurement] | None:
    """
    Training runs, if the first source or row is one; nothing where servers were measured.

    Raises
    ------
    BadRequest
        Some are of training and others of serving.
    """
    from tonnage.measure.diagnose.sources import training_of

    files = [training_of(Path(source)) if Path(source).is_file() else None for source in sources]
    kinds = {one is not None for one in files} | {is_training_row(text) for text in pasted}
    if kinds == {True, False}:
        raise BadRequest("some of these are of training and others of serving; calibrate one at a time")
    if True not in kinds:
        return None
    return [*(one for one in files if one is not None), *map(read_pasted_training, pasted)]


def _source(source: str, window_s: float | None, place: Place | None) -> Measurement:
    """One measurement of a server: of the history, of an address or a saved page of metrics, else of a report."""
    from tonnage.measure.diagnose.sources import Watch, evidence_from
    from tonnage.measure.importers import read_report

    kind, _, number = source.partition(":")
    if kind == "history":
        return _read_number(number, place)
    live = source.startswith(("http://", "https://"))
    if not live:
        path = Path(source)
        if not path.is_file():
            raise BadRequest(
                f"'{echo(source)}' is neither a file, an address such as http://127.0.0.1:8000, nor history:N"
            )
        with path.open("rb") as file:
            start = file.read(64).lstrip()
        if not start.startswith(b"# ") and not re.match(rb"[A-Za-z_:][\w:]*(\{|\s+\d)", start):
            return read_report(path)
    return measurement_of_page(evidence_from(source, watch=Watch(window_s=window_s)), source)


def measurement_of_page(seen: Evidence, source: str) -> Measurement:
    """
    The mean load that a server's own metrics tell, as so many requests at once.

    Raises
    ------
    BadRequest
        They lack lengths, the requests that ran, or both latencies.
    """
    needed = {
        "requests that ran": seen.running,
        "prompt tokens": seen.prompt_tokens,
        "output tokens": seen.output_tokens,
    }
    missing = [name for name, value in needed.items() if not value]
    if missing or not (_ttft_without_queue(seen) or seen.tpot_s):
        lacks = ", ".join([*missing, *([] if _ttft_without_queue(seen) or seen.tpot_s else ["TTFT and TPOT"])])
        raise BadRequest(f"{echo(source)}: its metrics lack {lacks} of answered requests; was it idle?")
    requests = max(1, round(seen.requests or 1.0))
    ttft_s = _ttft_without_queue(seen)
    point = Point(
        concurrency=max(1.0, seen.running or 1.0),
        requests=requests,
        completed=requests,
        prompt_tokens=seen.prompt_tokens,
        output_tokens=seen.output_tokens,
        ttft_s=Latency(mean=ttft_s) if ttft_s else None,
        tpot_s=Latency(mean=seen.tpot_s) if seen.tpot_s else None,
        cached_share=seen.cached_share,
    )
    return Measurement(
        schema=MEASUREMENT_SCHEMA,
        tool="metrics",
        model=seen.model,
        points=(point,),
        notes=(*cached_notes((point,)), f"mean of {echo(source)} over what it has seen"),
    )


class Looked(Record, kw_only=True):
    """A service as its sources show it."""

    diagnosis: Diagnosis
    measured: Measurement | str
    """Its own latencies as one load; or why there is none."""
    pages: int
    """Replicas whose pages were read; 0 = the whole service, as Prometheus sums it. [-]"""


def look_at_service(*sources: str, watch: Watch | None = None) -> Looked:
    """
    What limits a service, and its own latencies as a load that calibrates.

    Raises
    ------
    TonnageError
        A source cannot be read, or says nothing that is known here.
    """
    from tonnage.measure.client import key_of
    from tonnage.measure.diagnose.sources import diagnose
    from tonnage.measure.diagnose.window import is_prometheus

    found = diagnose(*sources, watch=watch)
    key = key_of(watch.key_env) if watch and watch.key_env else None
    addresses = [source for source in sources if source.startswith(("http://", "https://"))]
    whole = any(not one.rstrip("/").endswith("/metrics") and is_prometheus(one, key=key) for one in addresses)
    try:
        measured: Measurement | str = measurement_of_page(found.evidence, "the service")
    except BadRequest as lacking:
        measured = str(lacking)
    return Looked(diagnosis=found, measured=measured, pages=0 if whole else len(sources))


def _ttft_without_queue(seen: Evidence) -> float | None:
    """Time to the first token without waiting for a seat, which no cause of a calibration makes; None = not known."""
    if seen.ttft_s is None or not seen.waiting:
        return seen.ttft_s
    return seen.ttft_s - seen.queue_s if seen.queue_s and seen.queue_s < seen.ttft_s else None


def _read_number(number: str, place: Place | None) -> Measurement:
    from tonnage.measure.history import measured_server, place_of

    place = place or place_of()
    if place is None:
        raise BadRequest("history: TONNAGE_HISTORY is 'off'; name a file")
    if not number.isdecimal() or len(number) > LONGEST_NUMBER:
        raise BadRequest(f"history:{echo(number)}: write history:N with a number of `tonnage history list`")
    return measured_server(place, int(number))
