"""The fleet programme at its stated size: 20 workloads x 40 machines x 24 hours, gap and CPU seconds."""

from __future__ import annotations

import math
import random
import time

from benchmarks.measuring import Row
from tonnage.search.fleet import FleetProblem, Machine, Pool, Term, Way, cheapest_fleet

SEEDS = (1, 2, 3)
WORKLOADS, MACHINES, HOURS = 20, 40, 24


def large(seed: int) -> FleetProblem:
    """Machines of 1 to 8 slots whose speed grows less than their price, loads that follow the day, three terms."""
    rng = random.Random(seed)
    machines = []
    for m in range(MACHINES):
        slots = rng.choice((1, 2, 4, 8))
        price = slots * rng.uniform(0.7, 8.0)
        machines.append(
            Machine(
                id=f"m{m}", slots=float(slots), start_h=0.1,
                terms=(
                    Term(name="on-demand", cost_per_hour=price),
                    Term(name="reserved", cost_per_hour=0.62 * price, always=True),
                    Term(name="spot", cost_per_hour=0.4 * price, firm=False, available=0.9),
                ),
            )
        )  # fmt: skip
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


def fleet() -> list[Row]:
    """Gap and time of each seed."""
    rows = []
    for seed in SEEDS:
        problem = large(seed)
        start = time.process_time()
        found = cheapest_fleet(problem, gap=0.01)
        spent = time.process_time() - start
        rows.append(Row(f"fleet 20 x 40 x 24, seed {seed}: gap", found.gap * 100.0, "%", 1.0))
        rows.append(Row(f"fleet 20 x 40 x 24, seed {seed}", spent, "CPU s", 20.0))
    return rows


if __name__ == "__main__":
    for row in fleet():
        print(f"{row.name:44} {row.value:8.2f} {row.unit:6} target {row.target:g}")
