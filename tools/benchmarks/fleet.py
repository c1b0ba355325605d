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
        machines.append(_machine(f"m{m}", slots, price=slots * rng.uniform(0.7, 8.0), reserved=0.62, spot=0.4))
    pools, ways = [], []
    for p in range(WORKLOADS):
        pools.append(_pool(p, rng))
        for m in rng.sample(range(MACHINES), 10):
            each = machines[m].terms[0].cost_per_hour / machines[m].slots
            charge = rng.choice([c for c in (1, 2, 4) if c <= machines[m].slots])
            ways.append(Way(pool=p, machine=m, charge=float(charge), rates=(charge * each**0.9 * rng.uniform(1, 3),)))
    return _over_a_day(machines, pools, ways)


def listed(seed: int, *, times: float = 1.0) -> FleetProblem:
    """
    Offers of ten kinds of accelerator at prices within a third of each other.

    Prices of an accelerator are 0.7 to 8 USD/h; reserved at 55 to 70 % of them, spot at 30 to 60 %. A workload runs on
    the five to ten kinds that hold it, in replicas of one, two or four, and its speed follows the price within a half.
    """
    rng = random.Random(seed)
    usual = [0.7 * (8.0 / 0.7) ** (kind / (KINDS - 1)) for kind in range(KINDS)]
    machines: list[Machine] = []
    for kind, each in enumerate(usual):
        for _ in range(MACHINES // KINDS):
            slots = rng.choice((1, 2, 4, 8))
            price = slots * each * rng.uniform(0.85, 1.3)
            reserved, spot = rng.uniform(0.55, 0.7), rng.uniform(0.3, 0.6)
            machines.append(_machine(f"k{kind} x{slots}", slots, price=price, reserved=reserved, spot=spot))
    pools, ways = [], []
    for p in range(WORKLOADS):
        pools.append(_pool(p, rng, times=times))
        charge, first = rng.choice((1, 1, 2, 4)), rng.randrange(KINDS // 2 + 1)
        for kind in range(first, KINDS):
            rate = charge * usual[kind] ** 0.9 * rng.uniform(1.5, 2.5)
            ways += [
                Way(pool=p, machine=m, charge=float(charge), rates=(rate,))
                for m in range(MACHINES // KINDS * kind, MACHINES // KINDS * (kind + 1))
                if charge <= machines[m].slots
            ]
    return _over_a_day(machines, pools, ways)


def _machine(name: str, slots: int, *, price: float, reserved: float, spot: float) -> Machine:
    """Its three terms; reserved and spot as shares of the price."""
    terms = (
        Term(name="on-demand", cost_per_hour=price),
        Term(name="reserved", cost_per_hour=reserved * price, always=True),
        Term(name="spot", cost_per_hour=spot * price, firm=False, available=0.9),
    )
    return Machine(id=name, slots=float(slots), start_h=0.1, terms=terms)


def _pool(place: int, rng: random.Random, *, times: float = 1.0) -> Pool:
    """A workload whose load follows the day."""
    mean, phase, swing = times * rng.uniform(2, 60), rng.uniform(0, 24), rng.uniform(0.1, 0.8)
    loads = tuple(mean * (1 + swing * math.sin((hour - phase) / 24 * 2 * math.pi)) for hour in range(HOURS))
    return Pool(id=f"p{place}", demand=(loads,), loose=rng.choice((0.0, 0.0, 0.3)))


def _over_a_day(machines: list[Machine], pools: list[Pool], ways: list[Way]) -> FleetProblem:
    follows = tuple((t, (t + 1) % HOURS, 1.0) for t in range(HOURS))
    return FleetProblem(
        hours=(1.0,) * HOURS, machines=tuple(machines), pools=tuple(pools), ways=tuple(ways), follows=follows
    )


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
