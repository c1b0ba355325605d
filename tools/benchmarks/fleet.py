"""The fleet programme at its stated size: 20 workloads x 40 offers x 24 hours, gap and CPU seconds.

`listed` has offers as a catalogue lists them: ten kinds of accelerator, each at four providers or sizes, a workload as
fast on each of its offers. `large` draws every offer, and who may use it, by itself: no two are alike, which no
catalogue has and nothing can be left out of. Loads are in requests; the more replicas, the less a whole one matters.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from typing import Final

from tools.benchmarks.measuring import Row

from tonnage.optimize.fleet import FleetProblem, Machine, Pool, Term, Way, cheapest_fleet

SEEDS: Final = (1, 2, 3, 4, 5)
WORKLOADS, MACHINES, HOURS, KINDS = 20, 40, 24, 10


def large(seed: int) -> FleetProblem:
    """Machines of 1 to 8 slots whose speed grows less than their price, loads that follow the day, three terms."""
    rng = random.Random(seed)
    machines = []
    for m in range(MACHINES):
        slots = rng.choice((1, 2, 4, 8))
        price = slots * rng.uniform(0.7, 8.0)
        machines.append(
            Machine(
                id=f"m{m}",
                slots=float(slots),
                start_h=0.1,
                terms=(
                    Term(name="on-demand", cost_per_hour=price),
                    Term(name="reserved", cost_per_hour=0.62 * price, always=True),
                    Term(name="spot", cost_per_hour=0.4 * price, firm=False, available=0.9),
                ),
            )
        )
    pools, ways = [], []
    for p in range(WORKLOADS):
        mean, phase, swing = rng.uniform(2, 60), rng.uniform(0, 24), rng.uniform(0.1, 0.8)
        loads = tuple(mean * (1 + swing * math.sin((hour - phase) / 24 * 2 * math.pi)) for hour in range(HOURS))
        pools.append(Pool(id=f"p{p}", demand=(loads,), loose=rng.choice((0.0, 0.0, 0.3))))
        for m in rng.sample(range(MACHINES), 10):
            each = machines[m].terms[0].cost_per_hour / machines[m].slots
            charge = rng.choice([c for c in (1, 2, 4) if c <= machines[m].slots])
            ways.append(Way(pool=p, machine=m, charge=float(charge), rates=(charge * each**0.9 * rng.uniform(1, 3),)))
    hours = tuple(1.0 for _ in range(HOURS))
    follows = tuple((t, (t + 1) % HOURS, 1.0) for t in range(HOURS))
    return FleetProblem(hours=hours, machines=tuple(machines), pools=tuple(pools), ways=tuple(ways), follows=follows)


def listed(seed: int, *, times: float = 1.0) -> FleetProblem:
    """
    Offers of ten kinds of accelerator at prices within a third of each other.

    Prices of an accelerator are 0.7 to 8 USD/h; reserved at 55 to 70 % of them, spot at 30 to 60 %. A workload runs on
    the five to ten kinds that hold it, in replicas of one, two or four, and its speed follows the price within a half.
    """
    rng = random.Random(seed)
    machines: list[Machine] = []
    for kind in range(KINDS):
        each = 0.7 * (8.0 / 0.7) ** (kind / (KINDS - 1))
        for _ in range(MACHINES // KINDS):
            slots = rng.choice((1, 2, 4, 8))
            price = slots * each * rng.uniform(0.85, 1.3)
            machines.append(
                Machine(
                    id=f"k{kind} x{slots}",
                    slots=float(slots),
                    start_h=0.1,
                    terms=(
                        Term(name="on-demand", cost_per_hour=price),
                        Term(name="reserved", cost_per_hour=rng.uniform(0.55, 0.7) * price, always=True),
                        Term(name="spot", cost_per_hour=rng.uniform(0.3, 0.6) * price, firm=False, available=0.9),
                    ),
                )
            )
    pools, ways = [], []
    for p in range(WORKLOADS):
        mean, phase, swing = times * rng.uniform(2, 60), rng.uniform(0, 24), rng.uniform(0.1, 0.8)
        loads = tuple(mean * (1 + swing * math.sin((hour - phase) / 24 * 2 * math.pi)) for hour in range(HOURS))
        pools.append(Pool(id=f"p{p}", demand=(loads,), loose=rng.choice((0.0, 0.0, 0.3))))
        charge, first = rng.choice((1, 1, 2, 4)), rng.randrange(KINDS // 2 + 1)
        for kind in range(first, KINDS):
            rate = charge * (0.7 * (8.0 / 0.7) ** (kind / (KINDS - 1))) ** 0.9 * rng.uniform(1.5, 2.5)
            ways += [
                Way(pool=p, machine=m, charge=float(charge), rates=(rate,))
                for m in range(MACHINES // KINDS * kind, MACHINES // KINDS * (kind + 1))
                if charge <= machines[m].slots
            ]
    hours = tuple(1.0 for _ in range(HOURS))
    follows = tuple((t, (t + 1) % HOURS, 1.0) for t in range(HOURS))
    return FleetProblem(hours=hours, machines=tuple(machines), pools=tuple(pools), ways=tuple(ways), follows=follows)


INSTANCES: Final[dict[str, Callable[[int], FleetProblem]]] = {
    "as listed": listed,
    "as listed, ten times the load": lambda seed: listed(seed, times=10.0),
    "each offer drawn by itself": large,
}


def fleet() -> list[Row]:
    """Gap and time of each instance and seed."""
    rows = []
    for name, made in INSTANCES.items():
        for seed in SEEDS:
            problem = made(seed)
            start = time.process_time()
            found = cheapest_fleet(problem, gap=0.01)
            spent = time.process_time() - start
            rows.append(Row(f"fleet {name}, seed {seed}: gap", found.gap * 100.0, "%", 1.0))
            rows.append(Row(f"fleet {name}, seed {seed}", spent, "CPU s", 20.0))
            print(f"{rows[-2].name:56} {rows[-2].value:6.2f} %  {spent:6.1f} CPU s  {found.cost:10.2f} USD", flush=True)
    return rows


if __name__ == "__main__":
    fleet()
