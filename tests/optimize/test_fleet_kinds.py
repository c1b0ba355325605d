"""Machines that hold the same replicas as fast are one kind: the optimum stays, and what runs fits what stands."""

import math
import random

import pytest
from msgspec.structs import replace

import tonnage.optimize.fleet as module
from tonnage.optimize.fleet import Fleet, FleetProblem, Machine, Pool, Quota, Term, Way, cheapest_fleet
from tonnage.optimize.fleet_machines import merge_machines


def listed(seed: int, *, buckets: int = 1, cores: bool = False) -> FleetProblem:
    """Two or three kinds of accelerator in instances of one to eight at several prices, spot on all or none."""
    rng = random.Random(seed)
    machines: list[Machine] = []
    of_kind: list[int] = []
    kinds = rng.choice((2, 3))
    for kind in range(kinds):
        spot = (Term(name="spot", cost_per_hour=0.0, firm=False, available=0.9),) if rng.random() < 0.5 else ()
        for _ in range(rng.choice((1, 2, 3))):
            slots = rng.choice((1, 2, 4, 8))
            price = slots * (1 + kind) * rng.uniform(0.8, 1.3)
            terms = (Term(name="on-demand", cost_per_hour=price),
                     Term(name="reserved", cost_per_hour=0.6 * price, always=True),
                     *(replace(term, cost_per_hour=0.4 * price) for term in spot))  # fmt: skip
            machines.append(
                Machine(
                    id=f"k{kind} x{slots}",
                    slots=float(slots),
                    terms=terms,
                    start_h=0.1,
                    domain=f"d{len(machines)}",
                    cores=8.0 * slots if cores else None,
                )
            )
            of_kind.append(kind)
    pools, ways = [], []
    for p in range(3):
        loads = tuple(tuple(rng.uniform(1, 9) for _ in range(2)) for _ in range(buckets))
        pools.append(Pool(id=f"p{p}", demand=loads, loose=rng.choice((0.0, 0.4))))
        charge = rng.choice((1, 1, 2))
        for kind in range(kinds):
            rates = tuple(charge * (1 + kind) * rng.uniform(0.8, 1.6) for _ in range(buckets))
            ways += [
                Way(pool=p, machine=m, charge=float(charge), rates=rates, cores=2.0 * charge)
                for m, machine in enumerate(machines)
                if of_kind[m] == kind and charge <= machine.slots
            ]
        if not all(any(way.pool == p for way in ways) for p in range(len(pools))):
            pools[-1] = replace(pools[-1], demand=tuple((0.0, 0.0) for _ in range(buckets)))
    if cores:
        pools.append(Pool(id="host", demand=((3.5, 9.25),)))
        ways += [Way(pool=3, machine=m, charge=0.0, rates=(1.0,), cores=1.0, whole=False) for m in range(len(machines))]
    return FleetProblem(
        hours=(1.0, 1.0),
        machines=tuple(machines),
        pools=tuple(pools),
        ways=tuple(ways),
        follows=((0, 1, 1.0), (1, 0, 1.0)),
        quotas=(Quota(name="all", machines=tuple(range(len(machines))), most=60.0),),
    )


@pytest.mark.parametrize("seed", (0, 1, 2, 4, 5, 6, 8, 10, 12, 14))
def test_the_optimum_stays(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = listed(seed, buckets=1 + seed % 2, cores=seed % 3 == 0)
    together = cheapest_fleet(problem, gap=1e-6)
    monkeypatch.setattr(module, "merge_machines", lambda problem: problem)
    monkeypatch.setattr(module, "place_on_instances", lambda problem, asked, *, fleet: fleet)
    alone = cheapest_fleet(problem, gap=1e-6)
    assert together.feasible is alone.feasible
    if alone.feasible:
        assert together.cost == pytest.approx(alone.cost, rel=1e-5)
        fits(problem, together)


def fits(problem: FleetProblem, fleet: Fleet) -> None:
    """Slots, cores and demand of every machine and period, from what the fleet says alone."""
    for t in range(len(problem.hours)):
        for m, machine in enumerate(problem.machines):
            for firm in (True, False):
                stands = sum(
                    fleet.instances.get((m, term.name), (0.0, 0.0))[t] for term in machine.terms if term.firm is firm
                )
                mine = [
                    (problem.ways[w], counts[t])
                    for (w, is_firm), counts in fleet.replicas.items()
                    if is_firm is firm and problem.ways[w].machine == m
                ]
                assert sum(way.charge * count for way, count in mine) <= stands * machine.slots + 1e-6
                if machine.cores is not None:
                    assert sum(way.cores * count for way, count in mine) <= stands * machine.cores + 1e-6
                assert all(count == round(count) for way, count in mine if way.whole)
        for p, pool in enumerate(problem.pools):
            for b, load in enumerate(pool.demand):
                able = [(w, firm) for w, firm in fleet.replicas if problem.ways[w].pool == p]
                if len(pool.demand) > 1:
                    carried = sum(fleet.flows[w, firm, b][t] for w, firm in able)
                else:
                    carried = sum(
                        fleet.replicas[w, firm][t] * problem.ways[w].rates[b] * (1.0 if firm else 0.9)
                        for w, firm in able
                    )
                assert carried >= load[t] * (1 - 1e-6)


def test_offers_of_an_accelerator_are_one_kind_whatever_their_size() -> None:
    terms = (Term(name="on-demand", cost_per_hour=1.0),)
    small, large = (Machine(id=str(n), slots=n, terms=terms) for n in (1.0, 8.0))
    pools = (Pool(id="a", demand=((4.0,),)), Pool(id="b", demand=((4.0,),)))
    one = Way(pool=0, machine=0, charge=1.0, rates=(1.0,))
    pair = Way(pool=1, machine=1, charge=2.0, rates=(1.0,))
    problem = FleetProblem(
        hours=(1.0,), machines=(small, large), pools=pools, ways=(one, replace(one, machine=1), pair)
    )
    together = merge_machines(problem)
    assert together.kinds == (1, 1) and together.alike(1) == (0, 1) and len(together.ways) == 2
    faster = replace(problem, ways=(one, replace(one, machine=1, rates=(2.0,)), pair))
    assert merge_machines(faster).kinds == (0, 1)
    elsewhere = replace(problem, machines=(small, replace(large, domain="other")))
    assert merge_machines(elsewhere).kinds == (1, 1), "nothing has to survive"
    must = replace(elsewhere, pools=(replace(pools[0], survives=0.5), pools[1]))
    assert merge_machines(must).kinds == (0, 1)
    apart = replace(problem, zones=2, pools=(replace(pools[0], survives=0.5), pools[1]))
    assert merge_machines(apart).kinds == (0, 1), "room in a zone is that of instances of one size"
    odd = replace(problem, machines=(small, replace(large, slots=3.0)))
    assert merge_machines(odd).kinds == (0, 1), "two of three slots leave one to waste"


def test_a_larger_replica_that_smaller_ones_do_the_work_of_is_left_out() -> None:
    machine = Machine(id="m", slots=4.0, terms=(Term(name="on-demand", cost_per_hour=1.0),))
    one = Way(pool=0, machine=0, charge=1.0, rates=(1.0, 3.0))
    ways = (one, replace(one, charge=2.0, rates=(2.0, 5.0)), replace(one, charge=4.0, rates=(4.5, 8.0)))
    pool = Pool(id="a", demand=((7.0,), (2.0,)))
    problem = FleetProblem(hours=(1.0,), machines=(machine,), pools=(pool,), ways=ways)
    assert merge_machines(problem).ways == (ways[0], ways[2])


def test_two_of_a_kind_in_one_machine_go_where_there_is_room() -> None:
    """A box of four at less than three singles beside one single: five replicas of one slot fill both."""
    box = Machine(id="box", slots=4.0, terms=(Term(name="on-demand", cost_per_hour=2.5),))
    single = Machine(id="single", slots=1.0, terms=(Term(name="on-demand", cost_per_hour=1.0),))
    way = Way(pool=0, machine=0, charge=1.0, rates=(1.0,))
    problem = FleetProblem(
        hours=(1.0,),
        machines=(box, single),
        pools=(Pool(id="a", demand=((5.0,),)),),
        ways=(way, replace(way, machine=1)),
    )
    found = cheapest_fleet(problem, gap=1e-6)
    assert found.cost == pytest.approx(3.5)
    assert found.replicas == {(0, True): (4.0,), (1, True): (1.0,)} and math.isclose(found.bound, 3.5)
