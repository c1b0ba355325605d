"""
How far does a question reach? `python -m tools.benchmarks.modules [plan serve ... | fit ...]`

Two figures, imports included. A module counts when one of its functions is called while the question is answered; class
bodies, module bodies and lambdas of tables that nobody calls do not. The deepest stack is the largest number of the
package's own functions that wait for each other. Few modules are few files to open when an answer looks wrong, and a
shallow stack is a short way from the question to the formula. Without arguments two usual questions are counted, each
in a process of its own because what one question reads is kept for the next, and compared with the most that we want.
"""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, NamedTuple
from unittest.mock import patch

ROOT: Final = Path(__file__).resolve().parents[2] / "src" / "tonnage"


class Reach(NamedTuple):
    """Modules in which a function runs, and functions that wait for each other at the deepest point."""

    modules: int
    depth: int


USUAL: Final[dict[str, Reach]] = {
    # 15 modules more than 90: hidden characters are refused (foreign.py), Ctrl-C is looked for (stop.py); plans read
    # the simulator's table of steps (steps.py, drafting.py), whose mean is a module of its own (mean_step.py), a call
    # deeper; driver, limits, metrics, pages, the registry of kinds, readers of loads and filters and the steady state
    # are modules that several questions share; which options are shown is one (shown.py).
    "plan serve llama-3.1-70b --rate 4/s --traffic chat --ttft 1s --tpot 50ms --quick": Reach(108, 29),
    "fit llama-3.1-70b --accelerator H100": Reach(49, 17),
}
"""Questions, and the furthest that each may reach."""


class _Trace:
    """What a profile sees of the package's own functions."""

    def __init__(self) -> None:
        self.functions: dict[CodeType, bool] = {}
        """Of each code object that ran, whether it is a function of the package."""
        self.deepest: tuple[str, ...] = ()
        self.depth = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event.startswith("c_"):
            return  # of C functions there are most
        code = frame.f_code
        ours = self.functions.get(code)
        if ours is None:
            # A class or module body is no function: its locals are not optimised.
            function = code.co_flags & 0x1 and not code.co_name.startswith("<")
            ours = self.functions[code] = bool(function) and code.co_filename.startswith(str(ROOT))
        if ours:
            self.depth += 1 if event == "call" else -1
            if self.depth > len(self.deepest):
                self.deepest = tuple(self._names(frame))

    def _names(self, frame: FrameType | None) -> list[str]:
        names = []
        while frame is not None:
            if self.functions.get(frame.f_code):
                names.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
            frame = frame.f_back
        return names[::-1]

    def modules(self) -> dict[str, int]:
        """Modules of the package in which a function ran, and how many of their functions did."""
        found: dict[str, int] = {}
        for code, ours in self.functions.items():
            if ours:
                name = str(Path(code.co_filename).relative_to(ROOT))
                found[name] = found.get(name, 0) + 1
        return dict(sorted(found.items()))


def traced(arguments: tuple[str, ...]) -> _Trace:
    """What runs while the command line answers; only in a process that has imported nothing of the package."""
    trace = _Trace()
    with redirect_stdout(io.StringIO()), suppress(SystemExit), patch.object(sys, "argv", ["tonnage", *arguments]):
        sys.setprofile(trace)
        try:
            from tonnage.cli import main

            main()
        finally:
            sys.setprofile(None)
    return trace


def run() -> int:
    arguments = tuple(sys.argv[1:])
    if arguments:
        trace = traced(arguments)
        named = trace.modules()
        for name, functions in named.items():
            print(f"{functions:5} {name}")
        print("\ndeepest: " + " > ".join(trace.deepest))
        print(f"{len(named)} modules, {len(trace.deepest)} deep")
        return 0
    over = 0
    for question, most in USUAL.items():
        found = reach_alone(question)
        over += found.modules > most.modules or found.depth > most.depth
        print(f"{found.modules:4} modules (at most {most.modules}), {found.depth} deep ({most.depth}): {question}")
    return int(over > 0)


def reach_alone(question: str) -> Reach:
    """How far a question reaches in a process that has answered nothing before."""
    again = [sys.executable, "-m", "tools.benchmarks.modules", *question.split()]
    lines = subprocess.run(again, check=True, capture_output=True, text=True, cwd=ROOT.parents[1]).stdout.splitlines()
    modules, depth = (int(part.split()[0]) for part in lines[-1].split(", "))
    return Reach(modules, depth)


if __name__ == "__main__":
    sys.exit(run())
