"""
Does `tonnage measure accept` find what is wrong, and nothing where nothing is?

    python -m tools.benchmarks.acceptance               50 boxes with each fault, 1,000 good ones
    python -m tools.benchmarks.acceptance --live 3      and three of this processor's cores, a minute each

Boxes are drawn: devices differ by the spread between good parts that `measure/accept.py` cites, rounds by a noise that
is given (1 %: what an idle card shows), the reference is one node of eight good devices, drawn anew. Faults: one device
a tenth slower in everything; a link that carries three quarters (one of four links lost); all devices at 220 of 350 W,
which lowers the clock of their products (`physics.power_cap`); all of it for 1, 2, 4 and 8 devices, with the reference
and, where there are three devices, without it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Mapping

from tonnage.domain.acceptance import Probe
from tonnage.measure.accept import SPREADS, Expected, accepted, expected_of
from tonnage.measure.accept_run import ROUNDS, Setting, run_probes
from tonnage.physics.power_cap import capped_clock

FAULTS = ("none", "slower device", "degraded link", "power cap")
SLOWER, LINK, CAP = 0.9, 0.75, 220 / 350
CAUGHT, FALSE = 0.95, 0.02
"""Least share of faults that are found, most of good boxes that fail. [-]"""


def box(draw: random.Random, count: int, *, fault: str = "none", noise: float = 0.01) -> tuple[Probe, ...]:
    """Rounds of a drawn box, as shares of what the mean of good parts reaches."""
    found = []
    bad = draw.randrange(count)
    for name in ("products", "memory"):
        rows = []
        for place in range(count):
            rate = 1.0 + draw.gauss(0.0, SPREADS[name])
            rate *= SLOWER if fault == "slower device" and place == bad else 1.0
            rate *= capped_clock(power_share=CAP) if fault == "power cap" and name == "products" else 1.0
            rows.append(tuple(rate * (1.0 + draw.gauss(0.0, noise)) for _ in range(ROUNDS)))
        found.append(Probe(name=name, unit="FLOP/s" if name == "products" else "bytes/s", rounds=tuple(rows)))
    for of, large in (("64 kB", False), ("537 MB", True)) if count > 1 else ():
        rate = 1.0 + draw.gauss(0.0, SPREADS["collective"])
        rate *= LINK if fault == "degraded link" and large else 1.0
        rounds = tuple(rate * (1.0 + draw.gauss(0.0, noise)) for _ in range(ROUNDS))
        found.append(Probe(name="collective", of=of, unit="bytes/s", rounds=(rounds,)))
    return tuple(found)


def failing(count: int, *, fault: str, boxes: int, reference: bool, seed: int = 1, noise: float = 0.01) -> float:
    """Share of drawn boxes that are not accepted."""
    draw = random.Random(f"{seed}/{count}/{fault}/{reference}")
    failed = 0
    for _ in range(boxes):
        expected: Mapping[str, Expected] = {}
        if reference:
            expected = expected_of(box(draw, 8, noise=noise), source="a good node")
        failed += not accepted(box(draw, count, fault=fault, noise=noise), expected).feasible
    return failed / boxes


def live(times: int) -> list[str]:
    """Boxes of two of this processor's cores: good ones against each other, and one whose second device is slower."""
    setting = Setting(device="cpu", count=2, duration_s=30.0)
    said = []
    for number in range(times):
        probes, _ = run_probes(setting)
        expected = expected_of(probes, source="the run before")
        again, _ = run_probes(setting)
        slow = tuple(
            Probe(
                name=probe.name,
                unit=probe.unit,
                of=probe.of,
                rounds=tuple(tuple(SLOWER * one for one in row) if at else row for at, row in enumerate(probe.rounds)),
            )
            for probe in again
        )
        for name, found in (("good", again), ("slower device", slow)):
            verdict = accepted(found, expected)
            said.append(f"{number + 1} {name:14} {verdict.sentence} {' '.join(verdict.notes)}")
    return said


def main() -> None:
    """Draws, prints a table, and fails where too little is found or too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, default=50, help="of each fault; twenty times as many good ones")
    parser.add_argument("--noise", type=float, default=0.01, help="of a round")
    parser.add_argument("--live", type=int, default=0)
    options = parser.parse_args()
    wrong = 0
    for reference in (True, False):
        for count in (1, 2, 4, 8) if reference else (4, 8):
            row = []
            for fault in FAULTS:
                if (count == 1 and fault == "degraded link") or (
                    not reference and fault in ("degraded link", "power cap")
                ):
                    row.append(f"{fault}     –")
                    continue
                boxes = options.boxes * (20 if fault == "none" else 1)
                share = failing(count, fault=fault, boxes=boxes, reference=reference, noise=options.noise)
                wrong += share > FALSE if fault == "none" else share < CAUGHT
                row.append(f"{fault} {share:6.1%}")
            print(f"{count} devices, {'reference' if reference else 'no reference':12}   " + "   ".join(row))
    for line in live(options.live):
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
