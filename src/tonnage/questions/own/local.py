"""
What runs on this machine, and how fast: every downloadable model in the best format that it takes there, ranked.

For each model formats are tried from the finest: the first that makes the wanted speed is taken, with as little in host
memory as it needs; where none does, the fastest. Beside that of the first model, or of the one that is named, stand
those that no other beats in quality and speed. Models are ranked by a published score of the released weights in a
benchmark of the task (`catalog.standings`), less what the format is taken to lose of it, those that no score places by
size behind them; models below the wanted speed come last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, model_name
from tonnage.catalog.engines import support
from tonnage.catalog.hub.names import looks_like_path
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.models import look_up, model_ids
from tonnage.catalog.published import download_of, downloads
from tonnage.catalog.standings import TASKS, Task, order_of, score_text, standing, told_standings
from tonnage.core.calibration_use import each_once, serving_use
from tonnage.core.machine import is_unified, machine_named
from tonnage.core.quality import share_kept, weights_change
from tonnage.core.ranking import frontier
from tonnage.core.reading import build, read_fields
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.machine import Download, LocalAnswer, LocalRow, Machine
from tonnage.domain.model import Model
from tonnage.domain.precision import Precision, number_format
from tonnage.engines.at_home import NATIVE, OTHERS, OWN_PIECE, files_in, no_files_in, start_commands
from tonnage.errors import BadRequest, UnknownName
from tonnage.physics.parameters import parameters
from tonnage.questions.fit.fit import LANGUAGE
from tonnage.questions.own.beside import another_machine, machine_row
from tonnage.questions.own.question import LocalRequest, OwnRow
from tonnage.questions.own.speed import PROMPT, Asked, case_at_home, roomy, speed_of
from tonnage.questions.own.unlike import device_names, speed_on
from tonnage.units import GiB, show

CONTEXT: Final = LocalRequest().context
"""Context when none is asked for. [tokens]"""
FIRST: Final = 10
"""Rows that also get the rate of a maker's own engine: those that a first screen shows."""
_FORMATS: Final = ("gguf-q8_0", "gguf-q6_k", "gguf-q5_k_m", "gguf-q4_k_m", "gguf-q3_k_m")
"""Formats that publishers of GGUF files offer nearly always, finest first."""
_BY_NAME: Final = "give a word that names hold, for example 'coder' or 'gemma'; what it is for is task (code, agent)"
_CACHES: Final = ("fp16", "gguf-q8_0")
"""Formats of the cache; the second is taken where the first has no room."""


def local(request: LocalRequest, machine: Machine, *, additions: Additions = catalog.NOTHING) -> LocalAnswer:
    """
    Models that run on the machine, best first, with the command that starts each.

    Raises
    ------
    BadRequest
        There is no model of that name.
    """
    best: list[LocalRow] = []
    every: list[LocalRow] = []
    lacking: list[tuple[str, str]] = []
    if request.precisions and not files_in(request.precisions):
        raise BadRequest(f"precision: {no_files_in(request.precisions)}")
    wanted = _wanted(request, additions)
    for download in wanted:
        rows, why = _rows(request, machine, resolve(download.model, additions=additions), download)
        if rows:
            best.append(_best(rows, request))
            every += rows
        else:
            lacking.append((download.model, why))
    best.sort(key=lambda row: _rank(row, request))
    best = [*(_with_other_engines(row, machine, additions) for row in best[:FIRST]), *best[FIRST:]]
    answer = _answer(request, machine, best, every=every, lacking=lacking)
    if best:
        first = next(one for one in wanted if one.model == best[0].model)
        answer = replace(
            answer,
            frontier=_frontier(request, machine, first, best=best[0], additions=additions),
            behind_per_s=_behind(best[0], machine, additions),
        )
    answer = replace(answer, calibrations=each_once(_uses(machine, best, additions)))
    if not request.beside:
        return answer
    if len(wanted) > 1:
        said = f"'{request.model}' names {len(wanted)}" if request.model else "none is named"
        raise BadRequest(f"beside: machines are compared for one model; {said} (--model)")
    alone = replace(request, beside=())
    others = [another_machine(name, request, additions=additions) for name in request.beside]
    found = [(answer, machine), *((local(alone, one, additions=additions), one) for one in others)]
    beside = tuple(machine_row(*one) for one in found)
    return replace(answer, beside=beside, feasible=any(one.row for one in beside))


def _behind(row: LocalRow, machine: Machine, additions: Additions) -> float | None:
    """Output of a row with its whole context behind it. [tokens/s]"""
    if (depth := row.context) <= 2 * PROMPT:
        return None
    model = resolve(row.model, additions=additions)
    found = speed_on(Asked(model=model, precision=row.precision, context=depth, prompt=depth), machine)
    return found.decode_per_s.value if isinstance(found, LocalRow) else None


def _frontier(
    request: LocalRequest, machine: Machine, download: Download, *, best: LocalRow, additions: Additions
) -> tuple[LocalRow, ...]:
    """
    Formats of one model that no other beats in quality and speed: the best one, those that are fast enough, the rest.

    A cache in fewer bits is one where it is fast enough because fewer whole layers then lie in host memory.
    """
    model = resolve(download.model, additions=additions)
    asked = replace(request, every_format=True)
    rows, narrow = (_rows(asked, machine, model, download, cache=cache)[0] for cache in _CACHES)
    whole = {row.precision.weights: row.offload.layers for row in rows}
    rows += [
        row
        for row in narrow
        if row.offload.layers < whole.get(row.precision.weights, math.inf)
        and row.decode_per_s.value >= request.min_per_s
    ]
    kept = frontier(
        rows,
        objectives=(
            lambda row: -number_format(row.precision.stored).bits,
            lambda row: -number_format(row.precision.kv).bits,
            lambda row: -row.decode_per_s.value,
        ),
    )
    left = (rows[n] for n in kept if rows[n].precision != best.precision)
    return best, *sorted(left, key=lambda row: row.decode_per_s.value < request.min_per_s)


def _wanted(request: LocalRequest, additions: Additions) -> tuple[Download, ...]:
    """Models to try: the one that is named, whether or not its files are known, or all whose name holds the word."""
    word = request.model
    if word is None:
        return downloads()
    found = tuple(one for one in downloads() if f" {_spaced(word)} " in f" {_spaced(one.model)} ")
    own = word.lower() in {one.rpartition("/")[2].lower() for one in model_ids(additions)}
    # A family's name may stand for its best known member elsewhere; here it is all of them.
    one = look_up(word) is not None and (len(found) < 2 or re.search(r"\db\b", _spaced(word)) is not None)
    if request.exact or "/" in word or looks_like_path(word) or own or not found or one:
        try:
            model = resolve(word, additions=additions)
        except UnknownName as wrong:
            raise wrong if wrong.close else BadRequest(f"{wrong}; {_BY_NAME}") from None
        if model.kind not in LANGUAGE or not model.layers:
            raise BadRequest(f"model: {model.id} is no language model; ask `tonnage fit` or `tonnage predict` about it")
        word = (None if own or "/" in word or looks_like_path(word) else look_up(word)) or word
        named = None if looks_like_path(word) else download_of(word)
        return (named or Download(model=word, released=""),)
    return found


def _spaced(name: str) -> str:
    """
    A name's words and numbers, however they are joined.

    Examples
    --------
    >>> _spaced("gemma 4 31B"), _spaced("google/gemma-4-31B-it")
    ('gemma 4 31b', 'google gemma 4 31b it')
    """
    return " ".join(re.findall(r"[a-z]+|\d+(?:\.\d+)?b?(?![a-z0-9])|\d+(?:\.\d+)?", name.lower()))


def _uses(machine: Machine, rows: list[LocalRow], additions: Additions) -> Iterator[CalibrationUse]:
    """What moved the rates of the rows: measurements of the device, or of the host where it reads a part."""
    for row in rows:
        model = resolve(row.model, additions=additions)
        asked = Asked(model=model, precision=row.precision, context=row.context)
        sides = [(machine.device, machine.count)] if machine.device is not None else []
        sides += [(group.part, group.count) for group in machine.others if group.part is not None]
        sides += [(machine.host.part, 1)] if row.offload.read_share > 0.0 or not sides else []
        for part, count in sides:
            if part.calibrations or part.published:
                there = roomy(part)
                use = serving_use(case_at_home(asked, there, count=count), model=model, part=there)
                if use is not None:
                    yield use


def _with_other_engines(row: LocalRow, machine: Machine, additions: Additions) -> LocalRow:
    """The row with the rates of engines that run files of their own on one device, and without those that cannot."""
    device, told = machine.device, []
    alone = replace(machine, count=1, others=(), host=replace(machine.host, memory_bytes=0.0))
    for name, command in row.commands:
        engine, weights = OTHERS.get(name, ("", ""))
        if not engine or device is None:
            told.append((name, command))
        elif support(engine, device, weights=weights) is not None:
            asked = Asked(
                model=resolve(row.model, additions=additions),
                context=row.context,
                engine=engine,
                piece=OWN_PIECE,
                precision=Precision(weights=weights, kv="fp16", activations="fp16"),
            )
            found = speed_of(asked, alone)
            if isinstance(found, LocalRow):
                told.append((f"{name[:-1]}, {found.decode_per_s.value:.0f} tokens/s)", command))
    return replace(row, commands=tuple(told))


def top_rows(request: LocalRequest, machine: Machine, *, most: int, additions: Additions) -> list[LocalRow]:
    """The first `most` models of the answer, without looking at those whose published score puts them behind."""
    found: list[LocalRow] = []
    for download in sorted(_wanted(request, additions), key=lambda one: order_of(standing(one.model, request.task))):
        before = [one for one in found if one.decode_per_s.value >= request.min_per_s]
        stands = standing(download.model, request.task)
        if sum(score_of(one) >= (stands.score if stands else 0.0) for one in before) >= most:
            break
        rows, _ = _rows(request, machine, resolve(download.model, additions=additions), download)
        if rows:
            found.append(_best(rows, request))
    return sorted(found, key=lambda row: _rank(row, request))[:most]


def _rows(
    request: LocalRequest, machine: Machine, model: Model, download: Download, *, cache: str = ""
) -> tuple[list[LocalRow], str]:
    """
    Rows of one model, finest format first, up to the first that is fast enough unless every format is asked for; and
    why the last format that does not fit does not ("" where all fit).

    With a cache of the stated format; else with the first of which any format fits.
    """
    context = min(request.context, model.max_context or request.context)
    rows: list[LocalRow] = []
    formats = _weights(model, download, request.precisions)
    why = "" if formats else f"comes in none of the formats asked for ({', '.join(request.precisions)})"
    for kv in (cache,) if cache else _CACHES:
        for weights in formats:
            precision = Precision(**weights, kv=kv, activations="fp16")
            found = speed_on(Asked(model=model, precision=precision, context=context), machine)
            if isinstance(found, str):
                why = found
                continue
            rows.append(_published(found, machine, model, download, task=request.task))
            if found.decode_per_s.value >= request.min_per_s and not request.every_format:
                break
        if rows:
            break
    return rows, why


def _weights(model: Model, download: Download, precisions: tuple[str, ...]) -> tuple[dict[str, str], ...]:
    """Formats of the weights to try, finest first, of those asked for; of a model published in few bits its own."""
    asked = files_in(precisions)
    if NATIVE in (download.native, model.experts_dtype):  # files keep all that is no expert in 8 bits
        return ({"weights": _FORMATS[0], "experts": NATIVE},) if not precisions or NATIVE in asked else ()
    return tuple({"weights": name} for name in (asked if precisions else _FORMATS) if name != NATIVE)


def _published(row: LocalRow, machine: Machine, model: Model, download: Download, *, task: Task) -> LocalRow:
    """The row with what is published of its files: scores, size, and the commands that start them."""
    precision, stands = row.precision, standing(download.model, task)
    known = replace(
        row,
        model=download.model,
        quality=stands.published if stands else None,
        stands=stands,
        change=weights_change(model.id, model, weights=precision.stored),
        parameters=model.published_parameters or parameters(model).value,
    )
    vendor = machine.device.vendor if machine.device else ""
    return replace(known, commands=tuple(start_commands(known, download, model=model, vendor=vendor)))


def _best(rows: list[LocalRow], request: LocalRequest) -> LocalRow:
    """The finest format that makes the wanted speed; else the fastest."""
    fast = next((row for row in rows if row.decode_per_s.value >= request.min_per_s), None)
    return fast or max(rows, key=lambda row: row.decode_per_s.value)


def _rank(row: LocalRow, request: LocalRequest) -> tuple[bool, float, float, float]:
    slow = row.decode_per_s.value < request.min_per_s
    return slow, -score_of(row), order_of(row.stands)[1], -row.parameters


def score_of(row: LocalRow | OwnRow) -> float:
    """The score that a row is ranked by, less what the format is taken to lose of it; 0 where none places it."""
    return (row.stands.score if row.stands else 0.0) * share_kept(row.change)


def score_cell(row: LocalRow | OwnRow) -> str:
    """The same in a table, > where it is a lower bound; empty where none places it."""
    return score_text(row.stands, kept=share_kept(row.change))


def _answer(
    request: LocalRequest,
    machine: Machine,
    best: list[LocalRow],
    *,
    every: list[LocalRow],
    lacking: list[tuple[str, str]],
) -> LocalAnswer:
    """The answer: models in their order, those that do not fit, and what was assumed."""
    fast = [row for row in best if row.decode_per_s.value >= request.min_per_s]
    return LocalAnswer(
        sentence=_sentence(request, machine, best, fast=len(fast), lacking=lacking),
        feasible=bool(best),
        machine=machine.title,
        device=machine.device.id if machine.device else "",
        others=tuple(f"{other.count} x {other.part.id}" for other in machine.others if other.part),
        count=machine.count if machine.device else 0,
        host=machine.host.part.name,
        evidence=machine.evidence,
        benchmark=TASKS[request.task][0],
        rows=tuple(best),
        all_rows=tuple(every) if request.every_format else (),
        infeasible=tuple(lacking),
        assumed=(*machine.host.assumed, *_assumptions(machine)),
        notes=tuple(_notes(request, machine, best)),
        engines=machine.engines,
    )


def _sentence(
    request: LocalRequest, machine: Machine, best: list[LocalRow], *, fast: int, lacking: list[tuple[str, str]]
) -> str:
    """How many models run at the wanted speed, and the best; why not, where one model is asked for and does not fit."""
    known = len(best) + len(lacking)
    if known == 1 and lacking:
        model, why = lacking[0]
        return (
            f"{model_name(model)} does not fit {machine.title} with a context of {request.context:,} tokens: it {why}."
        )
    if not best:
        return f"None of {known} downloadable models fits {machine.title} with a context of {request.context:,} tokens."
    first = best[0]
    rate = f"{first.decode_per_s.value:.{int(first.decode_per_s.value < 10.0)}f} tokens/s"
    place, name, least = _with_host(machine, best), model_name(first.model), f"{request.min_per_s:g} tokens/s"
    own = f" Its context ends at {first.context:,} tokens." if first.context < request.context else ""
    if known == 1:
        why = f"the finest format that makes {least}" if fast else f"the fastest format; none makes {least}"
        return f"{place} runs {name} at {rate} in {first.format.upper()}, {why}.{own}"
    how = f"{name} ({first.format.upper()}, {rate})"
    if not fast:
        return f"{place} runs {len(best)} of {known} models, all below {least}; the best is {how}.{own}"
    rule = "each in the finest format that does; the best by published score, less what its format loses, is"
    return f"{place} runs {fast} of {known} models at {least} or more, {rule} {how}.{own}"


def _with_host(machine: Machine, best: list[LocalRow]) -> str:
    """The machine, how models lie on several cards, and what is free in its host where one lies there in part."""
    split = " (one box, models split by layers)" if machine.count > 1 or machine.others else ""
    if machine.device is None or not any(row.offload.moved_bytes for row in best):
        return f"{machine.title}{split}"
    host, told = machine.host, " ".join(machine.host.assumed)
    guess = "processor: taken as" in told and "host memory reads" in told
    assumed = ["memory"] * ("host memory of" in told) + ["bandwidth"] * guess
    said = f" (the host's {' and '.join(assumed)} assumed)" if assumed else ""
    rate = show(host.part.memory_bytes_per_s, "bytes/s")
    return f"{machine.title}{split} beside {host.memory_bytes / 1e9:,.0f} GB free in its host at {rate}{said}"


def _assumptions(machine: Machine) -> Iterator[str]:
    yield f"one request at a time; a prompt of {PROMPT:,} tokens, 16-bit cache unless said"
    if machine.device is not None and not is_unified(machine.device) and machine.device.host_link.bytes_per_s is None:
        yield "the card sits in a PCIe 4.0 slot of 16 lanes"


def no_files(model: str) -> str:
    """What the command of a model leaves to its reader of which nobody's GGUF files are known."""
    return f"GGUF files of {model_name(model)} are not in the catalogue: find or convert the one that the command names"


def _notes(request: LocalRequest, machine: Machine, best: list[LocalRow]) -> Iterator[str]:
    """What a reader could get wrong about machine, scores and files."""
    if machine.others:
        yield f"layers of {', '.join(device_names(machine))}, in the order of -ts: the fastest is filled first"
    elif machine.count > 1:
        yield f"a model is spread over {machine.count} by its layers: memory of all, speed of one"
    if machine.device is not None and is_unified(machine.device):
        visible_gib = machine.device.visible_memory_bytes / GiB
        yield f"one memory for processor and graphics: {visible_gib:.0f} GiB of it are usable for models"
    benchmark = TASKS[request.task][0]
    if any(row.stands for row in best):
        yield f"scores are {benchmark} of the released weights as publishers ran it"
    yield from told_standings({row.model: row.stands for row in best}, benchmark)
    source = next((one.source for one in downloads() if best and one.model == best[0].model), None)
    if best and source is None:
        yield no_files(best[0].model)
    if "not opened" in (source or ""):
        yield "names in the commands follow the publishers' conventions and were not opened: look before you pull"


def local_request(values: Mapping[str, Any]) -> LocalRequest:
    """
    The request from named texts; absent ones take their defaults.

    Raises
    ------
    TonnageError
        An unknown field or a value that cannot be read.

    Examples
    --------
    >>> local_request({"context": "32k", "min_speed": "20 tokens/s"}).context
    32000
    """
    return build(LocalRequest, read_fields(values, LocalRequest))


def asked_machine(request: LocalRequest, *, additions: Additions = catalog.NOTHING) -> Machine:
    """
    The machine that a request names.

    Raises
    ------
    TonnageError
        A name is unknown, or a size does not go with it.
    """
    return machine_named(
        request.accelerator or "",
        memory_bytes=request.memory_bytes,
        host_bytes_per_s=request.host_bytes_per_s,
        additions=additions,
    )
