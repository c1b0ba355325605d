"""`tonnage predict`: cases in as JSON lines, predictions out as JSON lines, for scripts, spreadsheets and agents."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.errors import BadFact, echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from tonnage.catalog import Additions
    from tonnage.domain.case import Case, Result

__all__ = ["predict"]

BAD_REQUEST = 2


@click.command()
@click.argument("cases", type=click.Path(dir_okay=False, allow_dash=True), default="-")
@click.option("--why", is_flag=True, help="open each number down to operators and overheads (field `opened`)")
@click.option("--set", "overrides", multiple=True, metavar="ID.FIELD=VALUE", help="what-if on a catalogue fact")
@click.option("--additions", "--calibration", "folders", multiple=True, type=click.Path(),
              help="your own accelerators, offers and calibrations")  # fmt: skip
@click.option("--near", "limit", type=click.IntRange(1, 100), metavar="N",
              help="Beside each prediction the N nearest published results, and what differs in each.")  # fmt: skip
@click.pass_context
def predict(
    ctx: click.Context, cases: str, why: bool, overrides: tuple[str, ...], folders: tuple[str, ...], limit: int | None
) -> None:
    """
    Predict each case of a file, or of standard input.

    CASES holds one JSON object a line (or one JSON array, or a YAML list in a file named .yaml). Each is answered by
    one JSON object a line, in order; a line that cannot be answered gets {"error": …, "line": n}, and the exit code
    is then 2.

    \b
    {"kind": "serve", "model": "meta-llama/Llama-3.1-8B-Instruct", "accelerator": "h100-sxm5-80gb",
     "traffic": {"concurrency": 64}, "isl": 1024, "osl": 1024}
    """
    from tonnage.catalog import gather
    from tonnage.planning.predict.case_lines import answers, raw_cases
    from tonnage.planning.predict.predict import predict as one

    additions = gather(paths=folders, overrides=overrides)
    failed = False
    try:
        with nullcontext(sys.stdin.buffer) if cases == "-" else Path(cases).open("rb") as file:
            listed = Path(cases).suffix.lower() in {".yaml", ".yml"}
            asked = partial(one, additions=additions, why=why)
            if limit is not None:
                asked = partial(_beside, asked, additions, limit)
            for answer in answers(raw_cases(file, yaml=listed), asked):
                failed = failed or answer.failed
                sys.stdout.buffer.write(answer.text + b"\n")
                sys.stdout.buffer.flush()
    except FileNotFoundError:
        raise BadFact(f"'{echo(cases)}' does not exist; name a file of cases, or - for standard input") from None
    if failed:
        ctx.exit(BAD_REQUEST)


def _beside(one: Callable[[Case], Result], additions: Additions, limit: int, case: Case) -> Any:
    """The prediction with what others published near its case."""
    import msgspec

    from tonnage.planning.near import near

    result = msgspec.to_builtins(one(case))
    return {**result, "near": near(case, limit=limit, additions=additions)}
