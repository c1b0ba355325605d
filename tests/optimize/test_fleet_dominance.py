"""What is left out as needless changes no optimum, and nothing that may be of use is left out."""

import random

import pytest
from msgspec.structs import replace

from tonnage.optimize import fleet
from tonnage.optimize.fleet import FleetProblem, Machine, Pool, Quota, Term, Way, cheapest_fleet
from tonnage.optimize.fleet_machines import drop_dominated


def listed(seed: int) -> FleetProblem:
    """Two kinds of accelerator, each in four offers of several sizes and prices; two pools, two periods."""
    rng = random.Random(seed)
    machines, ways = [], []
    speed = {(p, kind): rng.uniform(0.5, 3.0) for p in range(2) for kind in range(2)}
    base = [rng.uniform(1, 4) for _ in range(2)]
    for m in range(8):
        kind, slots = m % 2, rng.choice((1, 2, 4))
        price = slots * base[kind] * rng.choice((0.8, 1.0, 1.0, 1.3))
        machines.append(
            Machine(
                id=f"m{m}",
                slots=float(slots),
                cores=rng.choice((None, 4.0 * slots)),
                terms=(
                    Term(name="on-demand", cost_per_hour=price),
                    *([Term(name="reserved", cost_per_hour=0.6 * price, always=True)] if rng.random() < 0.5 else []),
                ),
            )
        )
        for p in range(2):
            ways.append(Way(pool=p, machine=m, charge=1.0, rates=(speed[p, kind],), cores=1.0))
    pools = tuple(Pool(id=f"p{p}", demand=((rng.uniform(0.5, 6), rng.uniform(0.5, 6)),)) for p in range(2))
    quotas = (Quota(name="q", machines=(0, 1, 2), most=4.0),) if rng.random() < 0.5 else ()
    return FleetProblem(
        hours=(10.0, 14.0),
        machines=tuple(machines),
        pools=pools,
        ways=tuple(ways),
        quotas=quotas,
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_optimum_stays(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = listed(seed)
    fewer = cheapest_fleet(problem, gap=0.0).cost
    monkeypatch.setattr(fleet, "drop_dominated", lambda same: same)
    assert fewer == pytest.approx(cheapest_fleet(problem, gap=0.0).cost, rel=1e-6)


def test_some_are_left_out_and_the_cheapest_never() -> None:
    gone = 0
    for seed in range(20):
        problem = listed(seed)
        left = drop_dominated(problem)
        assert [machine.id for machine in left.machines] == [machine.id for machine in problem.machines]
        gone += sum(not machine.terms for machine in left.machines)
        assert any(machine.terms for machine in left.machines)
    assert gone > 20


def test_of_two_alike_one_stays_and_quotas_or_places_keep_both() -> None:
    machine = Machine(id="m", slots=2.0, terms=(Term(name="on-demand", cost_per_hour=2.0),))
    ways = tuple(Way(pool=0, machine=m, charge=1.0, rates=(1.0,)) for m in range(2))
    problem = FleetProblem(
        hours=(1.0,), machines=(machine, machine), pools=(Pool(id="p", demand=((1.0,),)),), ways=ways
    )

    def kept(given: FleetProblem) -> int:
        return sum(bool(one.terms) for one in drop_dominated(given).machines)

    assert kept(problem) == 1
    assert kept(replace(problem, quotas=(Quota(name="q", machines=(0,), most=1.0),))) == 2
    assert kept(replace(problem, machines=(machine, replace(machine, domain="b")))) == 2
    assert kept(replace(problem, machines=(machine, replace(machine, slots=4.0)))) == 2  # half the price of a slot
    dear = replace(machine, slots=4.0, terms=(Term(name="on-demand", cost_per_hour=4.0),))
    assert kept(replace(problem, machines=(machine, dear))) == 1
    faster = (ways[0], replace(ways[1], rates=(1.1,)))
    assert kept(replace(problem, machines=(machine, dear), ways=faster)) == 2
