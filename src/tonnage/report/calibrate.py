"""How does a calibration look? The sentence, the numbers with their priors, each load before and after."""

from __future__ import annotations

import math

from tonnage.domain.calibration import Calibrated, CalibrationError
from tonnage.report.console import lines, make_console
from tonnage.units import show

__all__ = ["show_calibrated"]

_NUMBERS = (
    ("memory", "what memory bounds"),
    ("compute", "what arithmetic bounds"),
    ("step_s", "host time of a step"),
    ("request_s", "start of a request"),
)
_NINETY = 1.645


def show_calibrated(found: Calibrated, *, path: str = "", own: bool = False) -> None:
    """Print a calibration and where it was written."""
    from rich.table import Table

    console = make_console()
    console.print(found.sentence, markup=False)
    numbers = Table(box=None, pad_edge=False)
    for head in ("number", "catalogue", "this stack", "90 % between"):
        numbers.add_column(head, justify="left" if head == "number" else "right", no_wrap=True)
    for name, said in _NUMBERS:
        value, error = getattr(found.calibration.stretch, name), found.calibration.spread.get(name)
        wide = math.exp(_NINETY * error) if error is not None else 1.0
        numbers.add_row(said, *(_value(name, x) for x in (getattr(found.prior, name), value)),
                        f"{_value(name, value / wide)} – {_value(name, value * wide)}")  # fmt: skip
    console.print()
    console.print(numbers)
    loads = Table(box=None, pad_edge=False)
    for head in ("model", "load", "quantity", "measured", "before", "after", "left out"):
        loads.add_column(head, justify="left" if head in {"model", "load", "quantity"} else "right", no_wrap=True)
    for error_of in found.errors:
        loads.add_row(*_row(error_of))
    console.print()
    console.print(loads)
    lines(console, "To know", texts=list(found.notes))
    if path:
        use = "every later answer takes it" if own else f"use it with --calibration {path}"
        console.print(f"\nWritten to {path}; {use}.", markup=False, highlight=False)


def _value(name: str, value: float) -> str:
    return show(value, "s") if name.endswith("_s") else f"x{value:.3g}"


def _row(error: CalibrationError) -> tuple[str, ...]:
    measured = show(error.measured, "s") if error.unit == "s" else f"{error.measured:,.3g} tokens/s"
    shares = (error.before, error.after, error.left_out)
    name = {"ttft_s": "TTFT", "tpot_s": "TPOT"}.get(error.quantity, "throughput")
    model = error.model.rpartition("/")[2]
    return (
        model,
        error.load,
        name,
        measured,
        *("–" if x is None else f"{x / error.measured - 1.0:+.0%}" for x in shares),
    )
