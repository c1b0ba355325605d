"""
In how many modules does a question run code? `python -m tools.benchmarks.modules [plan serve ... | fit ...]`

A module counts when one of its functions is called while the question is answered; class bodies, imports and
lambdas of tables that nobody calls do not. Few modules a question are few files to open when its answer looks wrong.
Without arguments it counts two usual questions, each in a process of its own because what one question reads is kept
for the next, and compares them with the most that we want.
"""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2] / "src" / "tonnage"
USUAL: Final[dict[str, int]] = {
    # One more than 90: hidden characters in the words of a question are refused (foreign.py).
    "plan serve llama-3.1-70b --rate 4/s --traffic chat --ttft 1s --tpot 50ms --quick": 91,
    "fit llama-3.1-70b --accelerator H100": 55,
}
"""Questions, and the most modules in which a function may run."""


def modules_run(arguments: tuple[str, ...]) -> dict[str, int]:
    """Modules of the package in which a function ran, and how many of their functions did."""
    from tonnage.cli import main

    seen: set[CodeType] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    before, sys.argv = sys.argv, ["tonnage", *arguments]
    with redirect_stdout(io.StringIO()), suppress(SystemExit):
        sys.setprofile(profile)
        try:
            main()
        finally:
            sys.setprofile(None)
            sys.argv = before
    found: dict[str, int] = {}
    for code in seen:
        path = Path(code.co_filename)
        if path.is_relative_to(ROOT) and not code.co_name.startswith("<") and not _is_class_body(code):
            name = str(path.relative_to(ROOT))
            found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))


def _is_class_body(code: CodeType) -> bool:
    """A class body runs as a frame of its own when its module is imported; functions have optimised locals."""
    return not code.co_flags & 0x1


def run() -> int:
    arguments = tuple(sys.argv[1:])
    if arguments:
        for name, functions in (found := modules_run(arguments)).items():
            print(f"{functions:5} {name}")
        print(f"{len(found)} modules")
        return 0
    over = 0
    for question, most in USUAL.items():
        count = count_alone(question)
        over += count > most
        print(f"{count:4} modules (at most {most}): tonnage {question}")
    return int(over > 0)


def count_alone(question: str) -> int:
    """Modules that a question passes through in a process that has answered nothing before."""
    again = [sys.executable, "-m", "tools.benchmarks.modules", *question.split()]
    lines = subprocess.run(again, check=True, capture_output=True, text=True, cwd=ROOT.parents[1]).stdout.splitlines()
    return int(lines[-1].partition(" ")[0])


if __name__ == "__main__":
    sys.exit(run())
