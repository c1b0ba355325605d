"""`tonnage predict`: cases in as JSON lines, predictions out as JSON lines, or as a table where someone looks."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.options import INPUT, on_terminal, own_facts, own_facts_options, show_progress
from tonnage.errors import BadFact, echo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tonnage.domain.case import Case, Result
    from tonnage.domain.published import Near

    NearOf = Callable[[Case], tuple[Near, ...]]


BAD_REQUEST = 2


@click.command()
@click.argument("cases", type=INPUT, default="-")
@click.option("--why", is_flag=True, help="open each number down to operators and overheads (field `opened`)")
@click.option("--all", "every", is_flag=True, help="on a terminal: every case")
@click.option("--json", "as_json", is_flag=True, help="JSON lines on a terminal too, as a file or pipe gets them")
@own_facts_options
@click.option("--near", "limit", type=click.IntRange(1, 100), metavar="N",
              help="Beside each prediction the N nearest published results, and what differs in each.")  # fmt: skip
@click.pass_context
def predict(
    ctx: click.Context, /, cases: str, why: bool, every: bool, as_json: bool, limit: int | None, **facts: Any
) -> None:
    """
    Predict each case of a file, or of standard input.

    CASES holds one JSON object a line (or one JSON array, or a YAML list in a file named .yaml). Each is answered by
    one JSON object a line, in order; a line that cannot be answered gets {"error": …, "line": n}, and the exit code
    is then 2. On a terminal a table is shown instead, unless --json asks for the lines.

    \b
    {"kind": "serve", "model": "meta-llama/Llama-3.1-8B-Instruct", "accelerator": "h100-sxm5-80gb",
     "traffic": {"concurrency": 64}, "isl": 1024, "osl": 1024}
    """
    from tonnage.core.near import near
    from tonnage.questions.predict.case_lines import raw_cases
    from tonnage.questions.predict.predict import predict as predict_case

    additions = own_facts(facts)
    try:
        with nullcontext(sys.stdin.buffer) if cases == "-" else Path(cases).open("rb") as file:
            listed = Path(cases).suffix.lower() in {".yaml", ".yml"}
            predict_one = partial(predict_case, additions=additions, why=why)
            near_of = None if limit is None else partial(near, limit=limit, additions=additions)
            raw = raw_cases(file, yaml=listed)
            if on_terminal() and not as_json:
                failed = _show_screen(raw, predict_one, near_of, why=why, every=every)
            else:
                failed = _write_lines(
                    raw, predict_one if near_of is None else partial(_with_near, predict_one, near_of)
                )
    except FileNotFoundError:
        raise BadFact(f"'{echo(cases)}' does not exist; name a file of cases, or - for standard input") from None
    if failed:
        ctx.exit(BAD_REQUEST)


def _write_lines(cases: Iterable[tuple[int, Any]], predict_one: Callable[[Case], Any]) -> bool:
    """Predictions as JSON lines, each as soon as it is there; whether any case was refused."""
    from tonnage.questions.predict.case_lines import answers

    failed = False
    for answer in answers(cases, predict_one):
        failed = failed or answer.failed
        sys.stdout.buffer.write(answer.text + b"\n")
        sys.stdout.buffer.flush()
    return failed


def _show_screen(
    cases: Iterable[tuple[int, Any]],
    predict_one: Callable[[Case], Result],
    near_of: NearOf | None,
    *,
    why: bool,
    every: bool,
) -> bool:
    """Predictions as a first screen; whether any case was refused."""
    import msgspec

    from tonnage.questions.answers import show_document
    from tonnage.questions.predict.case_lines import answers
    from tonnage.questions.predict.page import Predicted, predictions_document

    found: list[Predicted | str] = []

    def keeping(case: Case) -> Result:
        kept = Predicted(case, predict_one(case), near=near_of(case) if near_of is not None else ())
        found.append(kept)
        return kept.result

    failed = False
    with show_progress("predicting") as tell:
        for answer in answers(cases, keeping):
            if answer.failed:
                failed = True
                found.append(msgspec.json.decode(answer.text)["error"])
            tell(len(found), 0)
    if found:
        show_document(predictions_document(found, every=every), why=why)
    return failed


def _with_near(predict_one: Callable[[Case], Result], near_of: NearOf, case: Case) -> Any:
    """The prediction with what others published near its case."""
    import msgspec

    return {**msgspec.to_builtins(predict_one(case)), "near": near_of(case)}
