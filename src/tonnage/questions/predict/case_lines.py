"""
How are many cases read and answered? One JSON object a line in, one a line out, in order, nothing lost.

A line that cannot be read or predicted is answered in its place by {"error": sentence, "line": number} and the run
goes on. A file may also hold one JSON array, or (named .yaml or .yml) one YAML list, of the same objects; "line" is
then the place in the list. Field names are checked to the letter: an unknown one is refused with the nearest known
one, because a misspelt field would otherwise silently not count. A training case may say `batch` and `resolution`,
as vision cases do, for its micro-batch and image size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Final

import msgspec

from tonnage.catalog.fitted import network_engines
from tonnage.catalog.hub.fields import decode_json
from tonnage.core.files import read_yaml
from tonnage.core.reading import LONGEST_TEXT, MOST_WHOLE
from tonnage.domain.case import Case, InferCase, Result, ServeCase, TrainCase
from tonnage.domain.layout import Layout
from tonnage.domain.requests.field import attributes_of, fields_of, groups_of, refuse_unknown_names
from tonnage.domain.rl import RlCase
from tonnage.engines.registry import engines, find_engine, framework_words, unlisted_engine
from tonnage.errors import UNSEEN, BadFact, BadRequest, TonnageError, UnknownName, echo, nearest
from tonnage.foreign import check_values
from tonnage.questions.registry import CASES
from tonnage.record import Record

LONGEST_LINE: Final = 1024 * 1024
"""Of one case; an inline model with every layer is some 10 kB. [bytes]"""
LARGEST_LIST: Final = 64 * 1024 * 1024
"""Of a JSON array or YAML list, which cannot be read line by line. [bytes]"""

_LOADS: Final = ("concurrency", "rate_per_s", "batch", "trace")
MAX_CLIENTS: Final = 100_000
"""Of a closed loop: each is simulated, 20 microseconds of the processor and more."""

_NO_CASE: Final = 'no case is given; write one object a line, such as {"kind": "serve", …}'


class Answer(Record, kw_only=True):
    """One line out."""

    text: bytes
    failed: bool = False


def answers(cases: Iterable[tuple[int, Any]], predict: Callable[[Case], Result]) -> Iterator[Answer]:
    """
    One answer for each numbered raw case, in order.

    Parameters
    ----------
    cases : iterable of (line number, raw case)
        As `raw_cases` gives them: an object, or the `TonnageError` that its line was.
    predict : callable
        Case -> Result.
    """
    for line, raw in cases:
        name = raw.get("id") if isinstance(raw, dict) else None
        try:
            if isinstance(raw, TonnageError):
                raise raw
            yield Answer(text=msgspec.json.encode(predict(case_of_object(raw))))
        except TonnageError as error:
            yield _failure(str(error), line, name)
        except Exception as error:  # a crash of ours in one case must not lose the others
            yield _failure(f"internal error: {type(error).__name__}: {error}", line, name)


def raw_cases(file: IO[bytes], *, yaml: bool = False) -> Iterator[tuple[int, Any]]:
    """
    Numbered raw cases of an open file, read as they are asked for.

    Raises
    ------
    BadFact
        A list as a whole is too large or malformed, or there is no case. A bad line is no exception: it comes as one.
    """
    if yaml:
        yield from enumerate(_list_of(read_yaml(_read_whole(file), where="the list")), 1)
        return
    number, first = 0, b""
    while not first.strip():
        first, number = _line(file), number + 1
        if not first:
            raise BadFact(_NO_CASE)
    if first.lstrip().startswith(b"["):
        yield from enumerate(_list_of(decode_json(first + _read_whole(file), where="the list")), 1)
        return
    while first:
        if first.strip():
            yield number, _json_line(first)
        first, number = _line(file), number + 1


def case_of_object(raw: Any) -> Case:
    """
    The case that a decoded JSON or YAML object is.

    Raises
    ------
    BadRequest
        No object, an unknown or missing field, a value of the wrong kind or out of range.
    """
    if not isinstance(raw, dict):
        raise BadRequest(f'a case is an object such as {{"kind": "serve", …}}, not {echo(raw)}')
    check_values(raw, where="the case", lines=False)
    kind = raw.get("kind")
    if kind is None:
        raise BadRequest("kind is missing: write serve, train, infer or rl")
    if not isinstance(kind, str) or kind not in CASES:
        raise UnknownName("kind of case", str(kind), known=CASES)
    struct: type[Any] = CASES[kind]
    named = _rename_fields(raw, struct)
    _refuse_unknown(named, struct, "")
    _refuse_out_of_range(named, struct, "")
    try:
        case: Case = msgspec.convert(named, struct, strict=True)
    except msgspec.ValidationError as error:
        raise BadRequest(_convert_sentence(error)) from None
    refuse_unknown_names(named, case)
    refuse_misspelt(case)
    _check_load(case)
    return case


def check_case(case: Case) -> Case:
    """
    A case noun after the checks that its JSON form passes.

    Raises
    ------
    BadRequest
        A number out of range, or a load that is missing or contradicts itself.
    """
    _refuse_out_of_range(msgspec.to_builtins(case, builtin_types=(type(case.model),)), type(case), "")
    _check_load(case)
    return case


def _rename_fields(raw: dict[str, Any], struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The case with each field under its first name."""
    named = dict(raw)
    for attribute in attributes_of(struct):
        for alias in attribute.fields[1:]:
            if alias.name in named:
                if attribute.name in named:
                    raise BadRequest(f"{alias.name} and {attribute.name} are the same field; give one of them")
                named[attribute.name] = named.pop(alias.name)
    if struct is ServeCase and isinstance(named.get("precision"), str):
        named["precision"] = {"weights": named["precision"]}  # whoever names one format names the weights'
    return named


def _refuse_unknown(raw: dict[str, Any], struct: type[msgspec.Struct], path: str) -> None:
    """Refuses a field that the case or one of its groups does not have; of a group, under its `path`."""
    groups = {group.name: group.of for group in groups_of(struct)}
    known = {*(attribute.name for attribute in attributes_of(struct)), *([] if path else ["kind"])}
    for name, value in raw.items():
        if name not in known:
            if not path and "layout" in known and name in Layout.__struct_fields__:
                raise BadRequest(f"'{name}' belongs to the layout of a case: write layout: {{{name}: {echo(value)}}}")
            raise UnknownName("field", f"{path}{name}", known=[f"{path}{field}" for field in known])
        if name in groups and isinstance(value, dict):
            _refuse_unknown(value, groups[name], f"{path}{name}.")


def _refuse_out_of_range(raw: dict[str, Any], struct: type[msgspec.Struct], path: str) -> None:
    """Refuses a number of the case that leaves the bounds of its field, or is infinite or absurd, and long texts."""
    groups = {group.name: group.of for group in groups_of(struct)}
    fields = {field.name: field for field in fields_of(struct)}
    for name, value in raw.items():
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise BadRequest(f"{path}{name}: {len(value):,} characters are more than {LONGEST_TEXT:,}")
        if name in groups and isinstance(value, dict):
            _refuse_out_of_range(value, groups[name], f"{path}{name}.")
        elif name in fields and isinstance(value, int | float) and not isinstance(value, bool) and name != "id":
            field = fields[name]
            if value > field.high == 1.0:
                raise BadRequest(f"{path}{name}: {echo(value)} is more than the whole part; at most 1")
            if not field.low < value <= min(field.high, MOST_WHOLE):  # not a number is neither
                raise BadRequest(f"{path}{name}: {echo(value)} is out of range; expected a positive number")


def refuse_misspelt(case: Case) -> None:
    """
    Nothing, unless software is called nearly as one that is known; what is like none is answered as any such software.

    Raises
    ------
    UnknownName
        An engine or a framework is probably misspelt; the message names the nearest.
    """
    engine = "" if isinstance(case, TrainCase) else case.engine.lower()
    names = {*engines(), *(network_engines() if isinstance(case, InferCase) else ())}
    listed = not engine or engine in names or find_engine(engine) is not None or engine in unlisted_engine().stands_for
    if not listed and nearest(engine, names):
        raise UnknownName("engine", engine, known=names)
    if isinstance(case, TrainCase | RlCase) and case.framework is not None:
        known = framework_words()
        if not any(word in case.framework.lower() for word in known) and nearest(case.framework, known):
            raise UnknownName("framework", case.framework, known=known)


def _check_load(case: Case | RlCase) -> None:
    """Refuses a serving case without exactly one load, or with a load that cannot be; other kinds have none here."""
    if isinstance(case, RlCase):
        return  # its own checks need the split as a whole (questions.rl.step)
    if not isinstance(case, ServeCase):
        return
    traffic = case.traffic
    given = [name for name in _LOADS if getattr(traffic, name) is not None]
    given += ["saturated"] if traffic.saturated else []
    if len(given) != 1:
        what = f"{' and '.join(given)} contradict" if given else "no load is given"
        raise BadRequest(f"traffic: {what}; give exactly one of concurrency, rate_per_s, batch, saturated or trace")
    if traffic.concurrency is not None and traffic.concurrency > MAX_CLIENTS:
        raise BadRequest(
            f"traffic.concurrency: {traffic.concurrency:g} clients at once are more than {MAX_CLIENTS:,}, the "
            "most that is simulated; give the load of one replica"
        )
    if traffic.static and traffic.batch is None:
        raise BadRequest("traffic.static needs traffic.batch: the size of the batch that starts together")
    if case.osl < 1:
        raise BadRequest(f"osl: {case.osl:g} is out of range; an answer has at least one token")
    spread = case.length_spread
    if spread is not None and not 0 < spread[0] <= spread[1] <= 10:
        raise BadRequest(f"length_spread: [{spread[0]:g}, {spread[1]:g}] must rise within (0, 10], as in [0.8, 1.0]")


def _convert_sentence(error: msgspec.ValidationError) -> str:
    """msgspec's message with the field first: "isl: expected `float`, got `str`"."""
    message, _, place = str(error).partition(" - at `$.")
    field = place.rstrip("`")
    return f"{field}: {message[:1].lower()}{message[1:]}" if field else message[:1].lower() + message[1:]


def _failure(sentence: str, line: int, name: Any) -> Answer:
    """The answer line of a case that was refused, with the case's own id where it has one."""
    said = {"error": " ".join(sentence.split()), "line": line}
    if isinstance(name, str | int):
        said["id"] = UNSEEN.sub("\ufffd", name) if isinstance(name, str) else name
    return Answer(text=msgspec.json.encode(said), failed=True)


def _line(file: IO[bytes]) -> bytes:
    """The next line; of one that is too long, its beginning (which cannot be read as a case) and the rest skipped."""
    line = file.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
        while (rest := file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
            pass
    return line


def _json_line(line: bytes) -> Any:
    """One line decoded; what is wrong with it comes back as the error, not raised."""
    if len(line) > LONGEST_LINE:
        return BadFact(f"the line is longer than {LONGEST_LINE // 1024} KiB, which no case needs")
    try:
        return decode_json(line, where="the line")
    except TonnageError as error:
        return error


def _read_whole(file: IO[bytes]) -> bytes:
    """What is left of the file; refuses more than `LARGEST_LIST` bytes."""
    data = file.read(LARGEST_LIST + 1)
    if len(data) > LARGEST_LIST:
        size = LARGEST_LIST // 1024**2
        raise BadFact(f"a list of cases larger than {size} MiB cannot be read at once; write one case a line instead")
    return data


def _list_of(value: Any) -> list[Any]:
    """The cases of a list; refuses one case alone, and an empty list."""
    if isinstance(value, dict):
        raise BadFact("a list of cases is expected, not one case; begin its first line with '- ', in JSON write [{…}]")
    if not isinstance(value, list):
        raise BadFact(f"a list of cases is expected, not {echo(value)}")
    if not value:
        raise BadFact(_NO_CASE)
    return value
