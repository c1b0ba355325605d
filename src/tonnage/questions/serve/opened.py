"""A settled serving case, opened: its TTFT, TPOT, latency and rates down to operators and the engine's overheads.

The same engine model answers as in `traffic.served`; what it says becomes a tree. Nothing here runs unless it is asked.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core import serving_traffic as traffic
from tonnage.core.deployment import Deployment
from tonnage.core.replica import Prompts, steady_grid
from tonnage.domain.answer import Evidence, Quantity
from tonnage.simulation.capacity import step_of_clients
from tonnage.simulation.closed_loop import LoopLog, closed_loop
from tonnage.simulation.mean_step import mean_step
from tonnage.simulation.served_tree import (
    ServedTree,
    closed_tree,
    formula_tree,
    held_tree,
    node_of,
    pooled_tree,
    steady_tree,
    sum_of,
)
from tonnage.simulation.simulated import Served
from tonnage.simulation.step_tree import OpenTable, Pricing, pass_tree
from tonnage.simulation.steps import StepGrid, StepTable, step_table

NOT_OPENED: Final = "not opened"
MEASURED_NEAR: Final = "measured near this configuration, beyond the causes of the stack"
_ROUNDING: Final = 1e-9
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def open_numbers(at: Deployment, found: Served, *, additions: Additions) -> tuple[Quantity, ...]:
    """
    The numbers of a case as trees: TTFT, TPOT, end-to-end latency, requests and output tokens per second.

    `found` is what `traffic.served` says of the case; the trees have its values.
    """
    case, scale = at.case, float(at.case.replicas)
    if case.phase == "encode":
        tree = _open_encoder(at, additions)
    elif case.disaggregation is not None:
        tree = _open_disaggregated(at, found, additions)
    else:
        tree = _replica(at, additions)
    rest = NOT_OPENED if at.drift is None else MEASURED_NEAR
    numbers = [] if case.phase == "decode" else [_settle_value(tree.ttft, found.ttft_s, rest)]
    if case.osl > 1:
        numbers.append(_settle_value(tree.tpot, found.tpot_s, rest))
    numbers.append(_settle_value(tree.e2e, found.e2e_s, rest))
    rate = found.requests_per_s * scale
    numbers.append(_rate(tree, "requests per second", "1/s", value=rate, each=scale))
    if case.osl and case.phase == "decode":
        told = f"{found.running:.4g} requests decode, a token each"
        numbers.append(
            Quantity.rate("output tokens per second", (tree.tpot,), times=found.running, unit="tokens/s", how=told)
        )
    elif case.osl:
        tokens = "output tokens per second"
        numbers.append(_rate(tree, tokens, "tokens/s", value=rate * case.osl, each=scale * case.osl))
    return tuple(numbers)


def pricing_of(at: Deployment, additions: Additions) -> Pricing:
    """What the times of a case's steps rest on."""
    part, placed = catalog.accelerator(at.case.accelerator, additions), at.placement.accelerator
    rated = part.memory_bytes_per_s * at.case.accelerator_fraction
    return Pricing(
        placement=at.placement,
        engine=engine_evidence(at),
        datasheet=msgspec.structs.replace(placed, memory_bytes_per_s=rated),
    )


def engine_evidence(at: Deployment) -> Evidence:
    """Where the engine's host times and factors come from: the user's calibration, else the catalogue's row."""
    if at.calibration is not None:
        own = at.calibration
        return Evidence(tier="fitted", grid=f"{own.engine} as calibrated", source=own.source, date=own.date)
    times = at.fitted
    release = ".".join(str(number) for number in times.since)
    found = _DATE.search(times.source)
    return Evidence(
        tier="assumed" if times.source.startswith("seed") or times.borrowed else "fitted",
        grid=f"{times.engine} from {release}" if release not in {"", "0"} else times.engine,
        source=times.source,
        file="engines/overheads.csv",
        date=found.group() if found else "",
    )


def _replica(at: Deployment, additions: Additions) -> ServedTree:
    """
    TTFT, TPOT and end-to-end latency of one replica as trees: by formula where it is saturated or a batch, by the
    steady state at a rate, by the steps of the loop with clients.
    """
    grid, load, asked = traffic.grid_of(at), traffic.load_of(at), at.case.traffic
    plain, pricing, copies = step_table(grid, at.overheads), pricing_of(at, additions), float(at.case.replicas)
    table = OpenTable.of(plain, grid, pricing=pricing)
    if asked.saturated:
        return _steady(traffic.offline(at), pricing)
    if asked.static or (asked.batch is not None and asked.concurrency is None):
        return formula_tree(traffic.under_load(at, table)[0])
    if asked.concurrency is None:
        return _steady(at, pricing, rate_per_s=(asked.rate_per_s or 0.0) / copies)
    if not traffic.starts_together(asked):
        return _steady(at, pricing, clients=asked.concurrency / copies)
    log, clients, each = LoopLog([], []), asked.concurrency / copies, asked.requests_per_client
    seen = closed_loop(plain, load, clients=clients, requests_per_client=each, log=log)
    tree = closed_tree(table, log, clients=clients)
    if (empty_s := clients / seen.requests_per_s - seen.e2e_s) > _ROUNDING * seen.e2e_s:
        empty = pricing.leaf("slots that are empty when the run ends", empty_s, how="answers differ in length")
        tree = tree._replace(cost=(*tree.cost, empty))
    return held_tree(tree, traffic.wait_steps(seen, traffic.who_waits(at, load)))


def _steady(
    at: Deployment, pricing: Pricing, *, rate_per_s: float | None = None, clients: float | None = None
) -> ServedTree:
    """
    TTFT, TPOT and end-to-end latency of one replica as trees, by the steady state that plans use: for arrivals at a
    rate, for clients, or for as many requests as it takes.
    """
    state, lengths = traffic.open_load(at, in_flight=clients is not None), traffic.mean_lengths(at)
    times, load = state.times, state.load
    if clients is not None:
        point, full = state.at(clients), clients > state.room
    else:
        point, full = (state.full, True) if rate_per_s is None else state.at_rate(rate_per_s)
    if clients is not None or full:
        _, busy, step = step_of_clients(times, load, clients=point.concurrency)
    else:
        busy, step = point.concurrency, mean_step(times, load, concurrency=point.concurrency)
    if at.drift is None:
        step = step._replace(wait_s=point.ttft_mean_s - step.own_s)
    grid = steady_grid(at, lengths)
    table = OpenTable.of(step_table(grid, at.overheads), grid, pricing=pricing)
    prompts = Prompts(at, table, lengths=lengths)
    decode, own = node_of(prompts.decode_s(1.0 + busy)), sum_of("prefill", prompts.alone_s(prompts.tokens)[0])
    alone = Quantity.total("own prefill", (pricing.request(at.overheads), own))
    tree = steady_tree(step, decode=decode, prefill=(alone, own), tokens=load.output_tokens, busy=busy)
    if clients is not None or full:
        tree = tree._replace(work=clients or point.concurrency, cost=(tree.e2e,))
    else:
        tree = tree._replace(work=1.0)
    return held_tree(tree, traffic.wait_steps(traffic.of_point(state, point, full=full), at.engine))


def _open_encoder(at: Deployment, additions: Additions) -> ServedTree:
    """One pass of encoded sequences and the handling of a request; the pass is all that a rate costs."""
    case, batch, pricing = at.case, traffic.encoded_batch(at), pricing_of(at, additions)
    work = traffic.encoded_batch_work(at)
    told = f"{batch:.4g} sequences"
    whole = pass_tree(pricing, at.overheads, name="pass", work=work, sequences=batch, prompts=1.0, how=told)
    request = pricing.leaf("request handling", at.overheads.request_s, how="reading, tokenising, answering")
    tree = Quantity.total("latency", (request, whole))
    cost = () if case.traffic.rate_per_s is not None else (tree,)
    return ServedTree(tree, tree, tree, batch / case.replicas, cost)


def _open_disaggregated(at: Deployment, found: Served, additions: Additions) -> ServedTree:
    """A case with separate prefill and decode workers, each pool's steps opened on its own grid."""
    split, grids = at.case.disaggregation, traffic.pool_grids(at)
    assert split is not None
    pools, pricing = traffic.pools_of(at, grids), pricing_of(at, additions)

    def opened(table: StepTable, grid: StepGrid) -> OpenTable:
        return OpenTable.of(table, grid, pricing=msgspec.structs.replace(pricing, placement=grid.placement))

    return pooled_tree(
        opened(pools.prefill, grids[0]),
        opened(pools.decode, grids[1]),
        found=found,
        prompt=(at.case.isl, pools.transfer_s),
        running=max(1.0, found.running / split.decode_workers),
        clients=(at.case.traffic.concurrency or 1.0) / at.case.replicas,
    )


def _rate(tree: ServedTree, name: str, unit: str, *, value: float, each: float) -> Quantity:
    """
    A rate over the seconds that it costs; a stated or simulated one has no parts. `each` is what one request counts:
    replicas, or replicas times output tokens.
    """
    if not tree.cost:
        told = "as the case states" if tree.work else "as simulated, once the loop is steady"
        return Quantity(name=name, value=value, unit=unit, how=told, evidence=Evidence(tier="stated"))
    how = f"{tree.work:.4g} requests over what they cost together"
    return _settle_value(Quantity.rate(name, tree.cost, times=tree.work * each, unit=unit, how=how), value)


def _settle_value(node: Quantity, value: float, why: str = NOT_OPENED) -> Quantity:
    """
    The tree under the number that was answered; should a tree fall short of it, the difference is a part. A quotient
    cannot have such a part and loses its own.
    """
    if abs(node.value - value) <= _ROUNDING * abs(value):
        return msgspec.structs.replace(node, value=value)
    if node.rule == "quotient":
        return Quantity(name=node.name, value=value, unit=node.unit, how=why, evidence=Evidence(tier="formula"))
    rest = Quantity(name=why, value=value - node.value, unit=node.unit)
    return Quantity.total(node.name, (msgspec.structs.replace(node, name="opened"), rest), unit=node.unit)
