"""The fleet programme is right: against brute force on small instances, and in the laws that hold for all of them."""

import itertools
import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tonnage.optimize.fleet import (
    Fleet,
    FleetProblem,
    Machine,
    Pool,
    Quota,
    Step,
    Term,
    Way,
    _programme,
    cheapest_fleet,
    least_cost,
)
from tonnage.optimize.programme import solve, trim

EXACT = 1e-6


def instance(seed: int, *, periods: int = 1) -> FleetProblem:
    """Up to three machines and two pools of one bucket, with reserved and hourly terms, sometimes a quota."""
    rng = random.Random(seed)
    machines = tuple(
        Machine(
            id=f"m{m}",
            slots=float(rng.choice((1, 2, 4))),
            terms=(
                Term(name="on-demand", cost_per_hour=(price := rng.uniform(1, 9))),
                *([Term(name="reserved", cost_per_hour=price * 0.6, always=True)] if rng.random() < 0.5 else []),
            ),
            domain=f"d{m % 2}",
        )
        for m in range(rng.choice((2, 3)))
    )
    pools = tuple(
        Pool(id=f"p{p}", demand=(tuple(rng.uniform(0.2, 6.0) for _ in range(periods)),), survives=0.0)
        for p in range(rng.choice((1, 2)))
    )
    ways = tuple(
        Way(pool=p, machine=m, charge=float(charge), rates=(charge * rng.uniform(0.5, 3.0),))
        for p in range(len(pools))
        for m, machine in enumerate(machines)
        if (charge := rng.choice([c for c in (1, 2) if c <= machine.slots]))
    )
    quotas = (Quota(name="q", machines=(0,), most=machines[0].slots),) if rng.random() < 0.4 else ()
    return FleetProblem(
        hours=tuple(rng.uniform(1, 12) for _ in range(periods)),
        machines=machines,
        pools=pools,
        ways=ways,
        quotas=quotas,
    )


def replicas_that_serve(problem: FleetProblem, t: int) -> Iterator[tuple[float, ...]]:
    """Slots of each machine that some choice of replicas needs in a period: every choice without a surplus replica."""
    choices = []
    for p, pool in enumerate(problem.pools):
        ways = [way for way in problem.ways if way.pool == p]
        found = []
        most = [range(math.ceil(pool.demand[0][t] / way.rates[0]) + 1) for way in ways]
        for counts in itertools.product(*most):
            if sum(n * way.rates[0] for n, way in zip(counts, ways, strict=True)) >= pool.demand[0][t] - 1e-9:
                found.append([(way.machine, n * way.charge) for n, way in zip(counts, ways, strict=True)])
        choices.append(found)
    for picked in itertools.product(*choices):
        used = [0.0] * len(problem.machines)
        for m, slots in itertools.chain(*picked):
            used[m] += slots
        yield tuple(used)


def brute_force(problem: FleetProblem) -> float:
    """The least cost over every choice of replicas and every split between reserved and hourly instances."""
    needs = [
        sorted(
            {
                tuple(math.ceil(s / m.slots - 1e-9) for s, m in zip(used, problem.machines, strict=True))
                for used in replicas_that_serve(problem, t)
            }
        )
        for t in range(len(problem.hours))
    ]
    most = [max(need[m] for period in needs for need in period) for m in range(len(problem.machines))]
    prices = [{term.name: term.cost_per_hour for term in machine.terms} for machine in problem.machines]
    best = math.inf
    for held in itertools.product(*(range(n + 1 if "reserved" in p else 1) for n, p in zip(most, prices, strict=True))):
        total = sum(p.get("reserved", 0.0) * n for p, n in zip(prices, held, strict=True)) * sum(problem.hours)
        for t, span in enumerate(problem.hours):
            hourly = math.inf
            for need in needs[t]:
                hired = [max(0, n - h) for n, h in zip(need, held, strict=True)]
                slots = [(h + n) * machine.slots for h, n, machine in zip(held, hired, problem.machines, strict=True)]
                if any(sum(slots[m] for m in quota.machines) > quota.most + 1e-9 for quota in problem.quotas):
                    continue
                hourly = min(hourly, sum(p["on-demand"] * n for p, n in zip(prices, hired, strict=True)))
            total += hourly * span
        best = min(best, total)
    return best


@pytest.mark.parametrize("block", range(10))
def test_optimal_against_brute_force_on_two_hundred_instances(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        problem = instance(seed, periods=1 + seed % 2)
        found, best = cheapest_fleet(problem, gap=0.0), brute_force(problem)
        assert found.feasible == math.isfinite(best), seed
        if found.feasible:
            assert found.cost == pytest.approx(best, rel=EXACT), seed
            assert found.bound <= found.cost + 1e-9


def lines(problem: FleetProblem, fleet: Fleet) -> list[float]:
    """The bill, line by line."""
    return [
        term.cost_per_hour * count * span
        for (m, name), counts in fleet.instances.items()
        for term in problem.machines[m].terms
        if term.name == name
        for count, span in zip(counts, problem.hours, strict=True)
    ] + [
        term.cost_per_hour * problem.machines[m].start_h * count
        for (m, name), count in fleet.starts.items()
        for term in problem.machines[m].terms
        if term.name == name
    ]


SEEDS = st.integers(0, 10_000)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_cost_is_the_sum_of_its_lines(seed: int) -> None:
    problem = instance(seed, periods=2)
    machines = tuple(replace(machine, start_h=0.25) for machine in problem.machines)
    problem = replace(problem, machines=machines, follows=((0, 1, 1.0), (1, 0, 1.0)))
    fleet = cheapest_fleet(problem, gap=0.0)
    if fleet.feasible:
        assert math.fsum(lines(problem, fleet)) == pytest.approx(fleet.cost, rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_one_more_machine_never_costs_more(seed: int) -> None:
    problem = instance(seed)
    fewer = replace(
        problem,
        ways=tuple(way for way in problem.ways if way.machine != len(problem.machines) - 1),
        machines=problem.machines[:-1],
    )
    assert cheapest_fleet(problem, gap=0.0).cost <= cheapest_fleet(fewer, gap=0.0).cost * (1 + EXACT)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.floats(1.0, 3.0))
def test_more_demand_never_costs_less(seed: int, times: float) -> None:
    problem = instance(seed)
    more = replace(
        problem,
        pools=tuple(replace(p, demand=tuple(tuple(x * times for x in b) for b in p.demand)) for p in problem.pools),
    )
    assert cheapest_fleet(more, gap=0.0).cost >= cheapest_fleet(problem, gap=0.0).cost * (1 - EXACT)


def one(*, slots: float = 1.0, price: float = 1.0, domain: str = "a", **more: object) -> Machine:
    return Machine(id="m", slots=slots, terms=(Term(name="on-demand", cost_per_hour=price),), domain=domain, **more)  # type: ignore[arg-type]


def test_two_buckets_share_a_replica() -> None:
    """Half of its time on each: one replica where two pools would need two."""
    pool = Pool(id="p", demand=((1.0,), (5.0,)))
    problem = FleetProblem(
        hours=(1.0,), machines=(one(),), pools=(pool,), ways=(Way(pool=0, machine=0, charge=1.0, rates=(2.0, 10.0)),)
    )
    assert cheapest_fleet(problem).cost == pytest.approx(1.0)
    slower = replace(problem, ways=(Way(pool=0, machine=0, charge=1.0, rates=(2.0, 9.0)),))
    assert cheapest_fleet(slower).cost == pytest.approx(2.0)


def test_two_workloads_share_an_instance_and_the_slices_of_a_slot() -> None:
    pools = tuple(Pool(id=f"p{p}", demand=((1.0,),)) for p in range(2))
    whole = tuple(Way(pool=p, machine=0, charge=1.0, rates=(1.0,)) for p in range(2))
    problem = FleetProblem(hours=(1.0,), machines=(one(slots=2.0),), pools=pools, ways=whole)
    assert cheapest_fleet(problem).cost == pytest.approx(1.0)
    single = replace(problem, machines=(one(slots=1.0),))
    assert cheapest_fleet(single).cost == pytest.approx(2.0)
    sliced = replace(single, ways=tuple(replace(way, slices=3) for way in whole))
    assert cheapest_fleet(sliced).cost == pytest.approx(1.0)


@pytest.mark.parametrize("buckets", [1, 2])
def test_losing_any_domain_leaves_enough(buckets: int) -> None:
    pool = Pool(id="p", demand=tuple((2.0 / buckets,) for _ in range(buckets)), survives=1.0)
    machines = (one(domain="a"), one(domain="b"))
    ways = tuple(Way(pool=0, machine=m, charge=1.0, rates=(1.0,) * buckets) for m in range(2))
    problem = FleetProblem(hours=(1.0,), machines=machines, pools=(pool,), ways=ways)
    assert cheapest_fleet(problem).cost == pytest.approx(4.0)
    assert not cheapest_fleet(replace(problem, machines=(one(domain="a"), one(domain="a")))).feasible


def test_work_goes_where_capacity_stands_idle() -> None:
    """Reserved for the day, free at night: the batch costs nothing more."""
    machine = Machine(
        id="m",
        slots=1.0,
        terms=(Term(name="reserved", cost_per_hour=0.5, always=True), Term(name="on-demand", cost_per_hour=1.0)),
    )
    pools = (Pool(id="chat", demand=((4.0, 1.0),)), Pool(id="batch", work=30.0))
    ways = tuple(Way(pool=p, machine=0, charge=1.0, rates=(1.0,)) for p in range(2))
    problem = FleetProblem(hours=(12.0, 12.0), machines=(machine,), pools=pools, ways=ways)
    alone = cheapest_fleet(replace(problem, pools=pools[:1], ways=ways[:1]), gap=0.0)
    assert cheapest_fleet(problem, gap=0.0).cost == pytest.approx(alone.cost) == pytest.approx(48.0)


def test_only_so_much_is_loose_and_loose_capacity_counts_less() -> None:
    machine = Machine(
        id="m",
        slots=1.0,
        terms=(
            Term(name="on-demand", cost_per_hour=1.0),
            Term(name="spot", cost_per_hour=0.25, firm=False, available=0.5),
        ),
    )
    way = Way(pool=0, machine=0, charge=1.0, rates=(1.0,))
    for loose, cost in ((0.0, 8.0), (0.5, 4.0 + 8 * 0.25), (1.0, 16 * 0.25)):
        pool = Pool(id="p", demand=((8.0,),), loose=loose)
        problem = FleetProblem(hours=(1.0,), machines=(machine,), pools=(pool,), ways=(way,))
        assert cheapest_fleet(problem, gap=0.0).cost == pytest.approx(cost)


def test_cores_of_the_hosts_carry_what_needs_no_accelerator() -> None:
    """Spare cores of standing hosts come free; beyond them a host of its own is rented."""
    machines = (one(price=5.0, cores=16.0), one(price=1.0, cores=32.0))
    pools = (Pool(id="llm", demand=((1.0,),)), Pool(id="decode", demand=((40.0,),)))
    ways = (
        Way(pool=0, machine=0, charge=1.0, rates=(1.0,), cores=4.0),
        *(Way(pool=1, machine=m, charge=0.0, rates=(1.0,), cores=1.0, whole=False) for m in range(2)),
    )
    problem = FleetProblem(hours=(1.0,), machines=machines, pools=pools, ways=ways)
    assert cheapest_fleet(problem).cost == pytest.approx(6.0)
    lighter = replace(problem, pools=(pools[0], Pool(id="decode", demand=((12.0,),))))
    assert cheapest_fleet(lighter).cost == pytest.approx(5.0)


@pytest.mark.parametrize("seed", range(25))
def test_spares_are_the_least_that_any_loss_leaves_enough(seed: int) -> None:
    """One pool on up to three machines of one slot: every choice of replicas, without the k fastest in it."""
    rng = random.Random(seed)
    prices = [rng.uniform(1, 9) for _ in range(3)]
    rates = [rng.uniform(0.5, 3.0) for _ in range(3)]
    spares, load = rng.choice((1, 2)), rng.uniform(0.5, 5.0)
    problem = FleetProblem(
        hours=(1.0,),
        machines=tuple(one(price=price) for price in prices),
        pools=(Pool(id="p", demand=((load,),), spares=spares),),
        ways=tuple(Way(pool=0, machine=m, charge=1.0, rates=(rate,)) for m, rate in enumerate(rates)),
    )
    most = [math.ceil(load / rate) + spares + 1 for rate in rates]
    best = math.inf
    for counts in itertools.product(*(range(n + 1) for n in most)):
        fleet = sorted((rate for rate, n in zip(rates, counts, strict=True) for _ in range(n)), reverse=True)
        # The programme counts the fastest kind in use as the one to lose, so often: at least as many as the fastest.
        fastest = max(fleet, default=0.0)
        if sum(fleet) - spares * fastest >= load - 1e-9:
            best = min(best, sum(price * n for price, n in zip(prices, counts, strict=True)))
    assert cheapest_fleet(problem, gap=0.0).cost == pytest.approx(best, rel=EXACT)


def test_spares_of_several_buckets_are_of_each_kind() -> None:
    pool = Pool(id="p", demand=((1.0,), (5.0,)), spares=1)
    way = Way(pool=0, machine=0, charge=1.0, rates=(2.0, 10.0))
    problem = FleetProblem(hours=(1.0,), machines=(one(),), pools=(pool,), ways=(way,))
    assert cheapest_fleet(problem).cost == pytest.approx(2.0)


@pytest.mark.parametrize("buckets", [1, 2])
def test_what_survives_stands_in_every_zone(buckets: int) -> None:
    """Two zones: two replicas where one would do. Of three, two are enough unless two may be lost."""
    pool = Pool(id="p", demand=tuple((1.0 / buckets,) for _ in range(buckets)), survives=1.0)
    way = Way(pool=0, machine=0, charge=1.0, rates=(1.0,) * buckets)
    problem = FleetProblem(hours=(1.0,), machines=(one(slots=2.0),), pools=(pool,), ways=(way,), zones=2)
    assert cheapest_fleet(problem).cost == pytest.approx(2.0)
    assert cheapest_fleet(replace(problem, zones=3)).cost == pytest.approx(2.0)
    assert cheapest_fleet(replace(problem, zones=3, lost_zones=2)).cost == pytest.approx(3.0)
    larger = replace(pool, demand=tuple((4.0 / buckets,) for _ in range(buckets)))
    assert cheapest_fleet(replace(problem, pools=(larger,))).cost == pytest.approx(4.0)
    assert cheapest_fleet(replace(problem, pools=(larger,), zones=3)).cost == pytest.approx(3.0)
    half = replace(larger, survives=0.5)
    assert cheapest_fleet(replace(problem, pools=(half,))).cost == pytest.approx(2.0)


def test_slices_and_cores_have_room_in_every_zone() -> None:
    pool = Pool(id="p", demand=((1.0,),), survives=1.0)
    way = Way(pool=0, machine=0, charge=1.0, rates=(0.5,), slices=4)
    problem = FleetProblem(hours=(1.0,), machines=(one(),), pools=(pool,), ways=(way,), zones=2)
    assert cheapest_fleet(problem).cost == pytest.approx(2.0)
    narrow = replace(problem, machines=(one(cores=1.0),), ways=(replace(way, cores=1.0),))
    assert cheapest_fleet(narrow).cost == pytest.approx(4.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_least_cost_is_near_and_no_fleet_undercuts_it(seed: int) -> None:
    problem = instance(seed, periods=2)
    least, fleet = least_cost(problem), cheapest_fleet(problem, gap=0.0)
    assert (least is not None) == fleet.feasible
    if least is not None:
        assert 0.5 * fleet.cost <= least <= fleet.cost * (1.0 + 1e-9)


def run_beside(load: tuple[float, float], *, work: float, hours: tuple[float, float] = (12.0, 12.0)) -> FleetProblem:
    """A service by day and by night, and a run that needs all four slots of a machine or one that it has to itself."""
    hourly = Term(name="on-demand", cost_per_hour=4.0)
    return FleetProblem(
        hours=hours,
        machines=(
            Machine(id="held", slots=4.0, terms=(Term(name="reserved", cost_per_hour=2.0, always=True),)),
            Machine(id="passing", slots=4.0, terms=(hourly,), whole=False),
        ),
        pools=(Pool(id="chat", demand=(load,)), Pool(id="run", work=work, single=True)),
        ways=(
            Way(pool=0, machine=0, charge=1.0, rates=(1.0,)),
            Way(pool=1, machine=0, charge=4.0, rates=(1.0,)),
            Way(pool=1, machine=1, charge=4.0, rates=(1.0,), whole=False),
        ),
        follows=((0, 1, 1.0), (1, 0, 1.0)),
    )


@pytest.mark.parametrize(("night", "work", "cost"), [(0.0, 12.0, 48.0), (1.0, 5.0, 68.0), (0.0, 13.0, 96.0)])
def test_a_run_shares_what_stands_or_pays_for_its_own_hours(night: float, work: float, cost: float) -> None:
    """Free at night: nothing more; else five hours at 4; thirteen of them are beyond a second machine's price."""
    fleet = cheapest_fleet(run_beside((4.0, night), work=work))
    assert fleet.feasible and fleet.cost == pytest.approx(min(cost, 48.0 + 4.0 * work) if night or work > 12 else cost)
    assert len({w for w, _ in fleet.replicas if w > 0}) == 1


def test_work_has_its_pace() -> None:
    """Half of the work in each half of the week costs more than all of it in the half that is free."""
    free = run_beside((4.0, 0.0), work=10.0)
    run = replace(free.pools[1], paces=(((12.0, 0.0), 0.5), ((0.0, 12.0), 0.5)))
    paced = replace(free, pools=(free.pools[0], run))
    assert cheapest_fleet(free).cost == pytest.approx(48.0)
    assert cheapest_fleet(paced).cost == pytest.approx(48.0 + 40.0)


def test_a_run_by_itself_counts_against_a_quota_all_the_time() -> None:
    asked = run_beside((4.0, 4.0), work=3.0)
    within = replace(asked, quotas=(Quota(name="q", machines=(0, 1), most=8.0),))
    beyond = replace(asked, quotas=(Quota(name="q", machines=(0, 1), most=7.0),))
    assert cheapest_fleet(within).cost == pytest.approx(48.0 + 12.0)
    assert not cheapest_fleet(beyond).feasible


@pytest.mark.parametrize("seed", range(12))
def test_a_contract_is_signed_where_its_whole_bill_is_the_least(seed: int) -> None:
    """Against every number of its instances: steps of what is there and due, a bridge, and an hourly seller beside."""
    rng = random.Random(seed)
    steps = tuple(Step(share=0.5, due=rng.choice((0.0, 1.5, 4.0)), most=float(rng.randint(2, 6))) for _ in range(2))
    price, beside, bridge = rng.uniform(1, 3), rng.uniform(1, 6), rng.choice((None, rng.uniform(3, 6)))
    contract = Term(name="contract", cost_per_hour=price, always=True, steps=steps, bridge_per_hour=bridge)
    need = rng.randint(1, 9)
    problem = FleetProblem(
        hours=(24.0,),
        machines=(
            Machine(id="contract", slots=1.0, terms=(contract,), domain="a"),
            Machine(id="hourly", slots=1.0, terms=(Term(name="on-demand", cost_per_hour=beside),), domain="b"),
        ),
        pools=(Pool(id="p", demand=((float(need),),)),),
        ways=tuple(Way(pool=0, machine=m, charge=1.0, rates=(1.0,)) for m in (0, 1)),
    )

    def bill(held: int) -> float:
        if not held:
            return 0.0
        total = 0.0
        for step in steps:
            used = min(float(held), step.most)
            if used < held and bridge is None:
                return math.inf
            total += step.share * (price * max(used, step.due) + (bridge or 0.0) * (held - used))
        return total

    least = min(24.0 * (bill(held) + beside * (need - held)) for held in range(need + 1))
    assert cheapest_fleet(problem, gap=0.0).cost == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize("seed", [3, 24, 57, 80])
def test_what_a_search_left_idle_is_given_back(seed: int) -> None:
    """At a gap of a tenth a search may end with more than its rows ask for; nothing comes in its place."""
    programme, _ = _programme(instance(seed, periods=6))
    found = solve(programme, gap=0.1)
    kept = trim(programme, found)
    assert found.values is not None and kept.values is not None
    assert kept.bound <= found.bound and kept.cost <= found.cost
    assert all(one <= had + EXACT for one, had in zip(kept.values, found.values, strict=True))
    for row in programme.rows:
        total = sum(factor * kept.values[at] for at, factor in row.terms.items())
        assert row.elastic or row.lower - EXACT <= total <= row.upper + EXACT
    if seed == 57:  # an instance of one machine
        assert found.cost > 1.05 * kept.cost and kept.cost == pytest.approx(solve(programme, gap=1e-4).cost)
        assert cheapest_fleet(instance(seed, periods=6), gap=0.1).cost == pytest.approx(kept.cost)
