"""
What does any other program say to the same rows? Asked over one line of JSON a case, judged as we are.

The program is started once. Every question comes as one line on its standard input, in the order of the rows:

    {"protocol": "tonnage.referee/1", "id": "IMAX-0001", "case": {...}, "wanted": [{"quantity": "tpot_ms",
     "statistic": "mean", "unit": "ms"}]}

`case` is what `tonnage predict` reads. With `cached_tokens` beside it, the first tokens of the prompt are in the cache,
and the time to the first token is wanted of the rest. An answer is one line on its standard output, in any order:

    {"id": "IMAX-0001", "answers": {"tpot_ms": 86.1}}            or {"value": 86.1, "low": 70, "high": 105} for a number
    {"id": "IMAX-0001", "refused": "no such accelerator"}

Refusals and cases without an answer are counted, never dropped. One line may say who it is and which sources its own
fits have read: {"predictor": "name 1.0", "fitted_on": ["SIL"]}; errors on those are shown as in sample. A program that
crashes, stays silent or writes anything else ends the run in one sentence that names the line.
"""

from __future__ import annotations

import math
import queue
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence
from typing import IO, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from tonnage.domain.case import Case
from tonnage.errors import BadRequest, TonnageError, echo
from tonnage.record import Record
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.quantities import UNITS, Measured, measured_numbers
from tonnage_accuracy.rows import Row, number
from tonnage_accuracy.scoring import Score, score_of

PROTOCOL: Final = "tonnage.referee/1"
PATIENCE_S: Final = 600.0
"""Longest silence between two lines of a program that is asked. [s]"""


class Question(NamedTuple):
    """One row, its case, and the numbers that are wanted."""

    row: Row
    case: Case
    wanted: tuple[Measured, ...]


class Answer(Record):
    """One number as it was answered."""

    value: float
    low: float | None = None
    high: float | None = None


class Said(Record, kw_only=True):
    """Everything a program said."""

    answers: dict[str, dict[str, Answer]]
    """By row id and quantity."""
    refused: dict[str, str]
    """Row id -> why it has no answer."""
    name: str = ""
    fitted_on: frozenset[str] = frozenset()
    """Sources that its own fits have read, as it says."""


def referee_scores(rows: Iterable[Row], command: str, *, patience_s: float = PATIENCE_S) -> tuple[list[Score], Said]:
    """
    Every scored number of the usable rows as the program answered it, in order, and what the program said of itself.

    Raises
    ------
    BadRequest
        The program cannot be started, crashes, stays silent, or writes something else; the sentence names the line.
    """
    usable = [row for row in rows if row.usable]
    questions: list[Question] = []
    unasked: dict[str, str] = {}
    for row in usable:
        try:
            questions.append(Question(row, case_of(row), tuple(m for m in measured_numbers(row) if not m.problem)))
        except TonnageError as error:
            unasked[row.id] = " ".join(str(error).split())[:300]
    said = ask(command, [question for question in questions if question.wanted], patience_s=patience_s)
    return [item for row in usable for item in _scores(row, said, unasked.get(row.id, ""))], said


def ask(command: str, questions: Sequence[Question], *, patience_s: float = PATIENCE_S) -> Said:
    """What a program answers to some questions; see the module for the lines, `referee_scores` for what is raised."""
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise BadRequest(f"--predictor: the command '{echo(command)}' cannot be read: {error}") from None
    if not argv:
        raise BadRequest("--predictor needs a command, as in --predictor 'python tools/peers/roofline.py'")
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise BadRequest(f"the predictor '{echo(argv[0])}' cannot be run: {error.strerror}") from None
        with process:
            try:
                said = _heard(process, questions, patience_s=patience_s)
                process.wait(timeout=patience_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise BadRequest(f"the predictor did not end within {patience_s:g} s of its last line") from None
            except BaseException:
                process.kill()
                raise
        left = [question.row.id for question in questions if question.row.id not in {*said.answers, *said.refused}]
        if process.returncode:
            raise BadRequest(_crash(process.returncode, said, questions, left, complaints))
    return replace(said, refused={**said.refused, **dict.fromkeys(left, "no answer")})


def _heard(process: subprocess.Popen[str], questions: Sequence[Question], *, patience_s: float) -> Said:
    """Ask everything from one thread and listen in another, so that neither side waits for the other."""
    assert process.stdin is not None and process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_tell, args=(process.stdin, questions), daemon=True).start()
    threading.Thread(target=_listen, args=(process.stdout, lines), daemon=True).start()
    known = {question.row.id for question in questions}
    said = Said(answers={}, refused={})
    for place in range(1, 10_000_000):
        try:
            line = lines.get(timeout=patience_s)
        except queue.Empty:
            done = len(said.answers) + len(said.refused)
            raise BadRequest(
                f"the predictor said nothing for {patience_s:g} s after {done:,} of {len(questions):,} answers; it "
                "must write each answer out at once (flush)"
            ) from None
        if line is None:
            break
        if line.strip():
            said = _add_line(said, line, place=place, known=known)
    return said


def _tell(pipe: IO[str], questions: Sequence[Question]) -> None:
    """Write every question; a program that stopped reading is judged by its answers and its exit status."""
    try:
        with pipe:
            for question in questions:
                pipe.write(_line(question) + "\n")
                pipe.flush()
    except (BrokenPipeError, ValueError):
        return


def _listen(pipe: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in pipe:
        lines.put(line)
    lines.put(None)


def _line(question: Question) -> str:
    cached = number(question.row, "cached_tokens")
    wanted: list[dict[str, Any]] = []
    for item in question.wanted:
        of = {"quantity": item.quantity, "statistic": item.statistic, "unit": UNITS[item.quantity]}
        wanted.append({**of, "flop_per_sample": item.flop} if item.flop else of)
    said = {"protocol": PROTOCOL, "id": question.row.id, "case": question.case, "wanted": wanted}
    return msgspec.json.encode({**said, "cached_tokens": int(cached)} if cached else said).decode()


def _add_line(said: Said, line: str, *, place: int, known: set[str]) -> Said:
    """What was said with one more line."""
    where = f"line {place} of the predictor's output"
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadRequest(f"{where} is not JSON: '{echo(line.strip())}'") from None
    if isinstance(found, dict) and "predictor" in found and "id" not in found:
        return replace(
            said, name=str(found["predictor"])[:80], fitted_on=frozenset(map(str, found.get("fitted_on") or ()))
        )
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        raise BadRequest(f"{where} has no id: '{echo(line.strip())}'; every answer repeats the id of its question")
    id_ = found["id"]
    if id_ not in known:
        raise BadRequest(f"{where} answers '{echo(id_)}', which was not asked")
    if id_ in said.answers or id_ in said.refused:
        raise BadRequest(f"{where} answers '{echo(id_)}' a second time")
    if "refused" in found:
        said.refused[id_] = " ".join(str(found["refused"]).split())[:200] or "no reason given"
        return said
    answers = found.get("answers")
    if not isinstance(answers, dict):
        raise BadRequest(f"{where} has neither answers nor refused: '{echo(line.strip())}'")
    said.answers[id_] = {str(name): _answer(value, f"{where}, {name}") for name, value in answers.items()}
    return said


def _answer(value: Any, where: str) -> Answer:
    """A number, or a number with the ends of its 90 % interval."""
    parts = value if isinstance(value, dict) else {"value": value}
    numbers = {name: parts.get(name) for name in ("value", "low", "high")}
    for name, part in numbers.items():
        if part is None and name != "value":
            continue
        if isinstance(part, bool) or not isinstance(part, int | float) or not math.isfinite(part) or part < 0:
            raise BadRequest(f"{where}: {name} '{echo(str(part))}' is not a number of at least 0")
    return Answer(float(numbers["value"] or 0), numbers["low"], numbers["high"])


def _crash(status: int, said: Said, questions: Sequence[Question], left: Sequence[str], complaints: IO[str]) -> str:
    """One sentence: the status, how far it came, and the last thing it complained of."""
    complaints.seek(0)
    last = next((line.strip() for line in reversed(complaints.read().splitlines()) if line.strip()), "")
    place = next((n for n, question in enumerate(questions, 1) if question.row.id in left), 0) if left else 0
    far = f"the first without one is line {place} ({left[0]})" if left else "every case has one"
    how = f"signal {-status}" if status < 0 else f"status {status}"
    done = len(said.answers) + len(said.refused)
    return f"the predictor ended with {how} after {done:,} of {len(questions):,} answers; {far}" + (
        f": {echo(last)}" if last else ""
    )


def _scores(row: Row, said: Said, unasked: str) -> list[Score]:
    found = []
    for item in measured_numbers(row):
        score, answer = score_of(row, item), said.answers.get(row.id, {}).get(item.quantity)
        if answer is not None:
            found.append(replace(score, predicted=answer.value, low=answer.low, high=answer.high))
            continue
        refused = f"refused: {said.refused[row.id]}" if row.id in said.refused else f"no prediction of {item.quantity}"
        found.append(replace(score, reason=unasked or item.problem or refused))
    return found
