"""
What every request of `examples/` takes to answer, and what leads: CPU time, memory, accelerators, price and its source.

    python -m tools.examples [NAME ...]        all of them, or those whose file is named

Each is answered in a process of its own, after the catalogue was read. The exit code is 1 where a leading price is not
its seller's own, or an example is not answered.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tonnage import catalog
from tonnage.core.files import read_mapping
from tonnage.errors import TonnageError
from tonnage.questions.ask import answer_file
from tonnage.units import show

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
PARTS: Final = ("train", "serve")
"""Plans within the plan of a lifecycle."""
TODAY: Final = date(2026, 11, 23)


class Answered(NamedTuple):
    """One example as it was answered."""

    name: str
    cpu_s: float
    memory_bytes: float
    """At its peak, of the whole process. [bytes]"""
    led_by: str
    """Accelerators of what leads, instances and price; a sentence where there is none."""
    distrusted: tuple[str, ...]
    """Leading prices that their seller does not state."""


def answered(path: Path) -> Answered:
    """One example, answered in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        child = os.fork()
        if not child:
            told.write_bytes(msgspec.json.encode(_led_by(path)))
            os._exit(0)
        _, status, used = os.wait4(child, 0)
        led_by, distrusted = msgspec.json.decode(told.read_bytes()) if not status else ("it ended", [path.name])
    return Answered(path.name, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024.0, led_by, tuple(distrusted))


def _led_by(path: Path) -> tuple[str, list[str]]:
    """What leads in words, and its prices that are not their seller's."""
    try:
        plan: dict[str, Any] = msgspec.to_builtins(answer_file(str(path), today=TODAY))
    except TonnageError as wrong:
        return f"refused: {wrong}", [path.name]
    firsts = [first for part in (plan, *map(plan.get, PARTS)) if isinstance(part, dict) for first in _firsts(part)]
    words = [_described(first) for first in firsts] or [
        f"{_count(line)} {line.get('instance_type', '')}" for line in plan.get("instances", ())
    ]
    return "; ".join(words) or str(plan["sentence"])[:60], [bill["source"] for bill in _distrusted(firsts)]


def _firsts(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The first option of a plan that has any."""
    yield from list(plan.get("options") or ())[:1]


def _distrusted(firsts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for first in firsts:
        bill = first.get("bill")
        if isinstance(bill, dict) and bill.get("trust", "primary") != "primary":
            yield bill


def _described(first: dict[str, Any]) -> str:
    """So many accelerators on so many instances, and what the bill is."""
    name = first.get("accelerator") or first["configuration"]["accelerator"]
    count, bill = first.get("accelerators", first.get("count", 1)), first.get("bill")
    if not isinstance(bill, dict):
        return f"{count} x {name}"
    cost = first.get("cost") or {"value": bill["usd_per_hour"], "unit": "USD/h"}
    return f"{count} x {name} on {bill['instances']} instances, {show(cost['value'], cost['unit'])}"


def _count(line: dict[str, Any]) -> str:
    return f"{line.get('count', line.get('instances', ''))} x"


def main() -> None:
    """Print a line for each example; the exit code is 1 where a leading price is not its seller's."""
    wanted = set(sys.argv[1:])
    catalog.accelerators(), catalog.offers(), catalog.models()
    paths = [p for p in sorted(EXAMPLES.glob("*.yaml")) if "plan" in read_mapping(str(p))]
    found = []
    for path in paths:
        if not wanted or path.name in wanted or path.stem in wanted:
            found.append(answered(path))
            one = found[-1]
            bad = f"  NOT ITS SELLER'S PRICE: {', '.join(one.distrusted)}" if one.distrusted else ""
            print(f"{one.name:26s} {one.cpu_s:6.1f} s {one.memory_bytes / 1e6:5.0f} MB  {one.led_by}{bad}", flush=True)
    bad_ones = [one for one in found if one.distrusted]
    cpu_s = sum(one.cpu_s for one in found)
    print(f"{len(found)} examples, {cpu_s:.0f} CPU s, {len(bad_ones)} led by a price that is not its seller's")
    sys.exit(1 if bad_ones else 0)


if __name__ == "__main__":
    main()
