"""A settled serving case, opened: its TTFT, TPOT, latency and rates down to operators and the engine's overheads.

The same engine model answers as in `traffic.served`; what it says becomes a tree. Nothing here runs unless it is asked.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.engine.closed_loop import Load, LoopLog, closed_loop
from tonnage.engine.open_loop import open_loop
from tonnage.engine.served import Served
from tonnage.engine.served_tree import (
    ServedTree,
    closed_tree,
    held_tree,
    open_tree,
    pooled_tree,
    saturated_tree,
    static_tree,
)
from tonnage.engine.step_tree import Pricing, StepTrees, encode_tree
from tonnage.engine.steps import step_table
from tonnage.nouns.breakdown import Evidence, Node
from tonnage.physics.transformer import encode_work
from tonnage.planner.serve import traffic
from tonnage.planner.serve.setup import Setup

__all__ = ["NOT_OPENED", "engine_evidence", "opened", "pricing_of"]

NOT_OPENED: Final = "not opened"
_ROUNDING: Final = 1e-9
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def opened(at: Setup, found: Served, *, additions: Additions = catalog.NOTHING) -> tuple[Node, ...]:
    """
    The numbers of a case as trees: TTFT, TPOT, end-to-end latency, requests and output tokens per second.

    `found` is what `traffic.served` says of the case; the trees have its values.
    """
    case, scale = at.case, float(at.case.replicas)
    if case.phase == "encode":
        tree = _encoded(at, additions)
    elif case.disaggregation is not None:
        tree = _disaggregated(at, found, additions)
    else:
        tree = _replica(at, found, additions)
    numbers = [] if case.phase == "decode" else [_settled(tree.ttft, found.ttft_s)]
    if case.osl > 1:
        numbers.append(_settled(tree.tpot, found.tpot_s))
    numbers.append(_settled(tree.e2e, found.e2e_s))
    rate = found.requests_per_s * scale
    numbers.append(_rate(tree, "requests per second", "1/s", value=rate, each=scale))
    if case.osl and case.phase == "decode":
        told = f"{found.running:.4g} requests decode, a token each"
        numbers.append(
            Node.rate("output tokens per second", (tree.tpot,), times=found.running, unit="tokens/s", how=told)
        )
    elif case.osl:
        tokens = "output tokens per second"
        numbers.append(_rate(tree, tokens, "tokens/s", value=rate * case.osl, each=scale * case.osl))
    return tuple(numbers)


def pricing_of(at: Setup, *, additions: Additions = catalog.NOTHING) -> Pricing:
    """What the times of a case's steps rest on."""
    part, placed = catalog.accelerator(at.case.accelerator, additions), at.placement.accelerator
    rated = part.memory_bytes_per_s * at.case.accelerator_fraction
    return Pricing(
        placement=at.placement,
        overheads=at.overheads,
        engine=engine_evidence(at),
        datasheet=msgspec.structs.replace(placed, memory_bytes_per_s=rated),
    )


def engine_evidence(at: Setup) -> Evidence:
    """Where the engine's host times and factors come from: the user's calibration, else the catalogue's row."""
    if at.calibration is not None:
        own = at.calibration
        return Evidence(tier="fitted", grid=f"{own.engine} as calibrated", source=own.source, date=own.date)
    times = at.times
    release = ".".join(str(number) for number in times.since)
    found = _DATE.search(times.source)
    return Evidence(
        tier="assumed" if times.source.startswith("seed") or times.borrowed else "fitted",
        grid=f"{times.engine} from {release}" if release not in {"", "0"} else times.engine,
        source=times.source,
        file="engines/overheads.csv",
        date=found.group() if found else "",
    )


def _replica(at: Setup, found: Served, additions: Additions) -> ServedTree:
    """What `traffic.under_load` answers, as trees."""
    grid, load, asked = traffic.grid_of(at), traffic.load_of(at), at.case.traffic
    table, copies = step_table(grid, at.overheads), float(at.case.replicas)
    if asked.saturated:
        table = traffic.offline_table(at, table)
    pricing = msgspec.structs.replace(pricing_of(at, additions=additions), overheads=table.overheads)
    trees = StepTrees(pricing=pricing, table=table, grid=grid)
    if asked.saturated:
        return saturated_tree(trees, load)
    if asked.static or asked.batch is not None:
        return _batch(at, trees, load, found)
    if asked.concurrency is not None:
        log, clients, each = LoopLog([], [], []), asked.concurrency / copies, asked.requests_per_client
        seen = closed_loop(table, load, clients=clients, requests_per_client=each, log=log)
        tree = closed_tree(trees, log, clients=clients, requests=each)
        return held_tree(tree, traffic.wait_steps(seen, traffic.who_waits(at, load)))
    if found.saturated:
        return saturated_tree(trees, load)
    seen = open_loop(table, load, rate_per_s=(asked.rate_per_s or 0.0) / copies)
    return held_tree(open_tree(trees, load, found=seen), traffic.wait_steps(seen, at.engine))


def _batch(at: Setup, trees: StepTrees, load: Load, found: Served) -> ServedTree:
    """A batch that starts together, or a burst."""
    each, case = float(at.case.traffic.batch or 1) / at.case.replicas, at.case
    if case.traffic.static and not found.saturated:
        budget, piped = traffic.static_budget(at, load), traffic.piped(at, each * load.prompt_tokens)
        return static_tree(trees, load, found=found, requests=each, budget=budget, piped=piped)
    load = msgspec.structs.replace(load, prompt_tokens=case.isl, output_tokens=case.osl)
    return static_tree(trees, load, found=found, requests=each, budget=load.budget, piped=1.0)


def _encoded(at: Setup, additions: Additions) -> ServedTree:
    p, case, batch = at.placement, at.case, traffic.encoded_batch(at)
    work = encode_work(
        p.model, sequences=batch / case.replicas, length=max(1.0, case.isl), precision=p.precision, layout=p.layout,
        domain=p.domain,
    )  # fmt: skip
    pricing = pricing_of(at, additions=additions)
    whole = encode_tree("pass", pricing, work=work, sequences=batch)
    request = pricing.leaf("request handling", at.overheads.request_s, how="reading, tokenising, answering")
    tree = Node.total("latency", (request, whole))
    cost = () if case.traffic.rate_per_s is not None else (tree,)
    return ServedTree(ttft=tree, tpot=tree, e2e=tree, work=batch / case.replicas, cost=cost)


def _disaggregated(at: Setup, found: Served, additions: Additions) -> ServedTree:
    split, grids = at.case.disaggregation, traffic.pool_grids(at)
    assert split is not None
    pools, pricing = traffic.pools_of(at, grids), pricing_of(at, additions=additions)
    trees = tuple(
        StepTrees(
            pricing=msgspec.structs.replace(
                pricing, placement=msgspec.structs.replace(at.placement, layout=table.layout)
            ),
            table=table, grid=grid,
        )
        for table, grid in zip((pools.prefill, pools.decode), grids, strict=True)
    )  # fmt: skip
    clients = (at.case.traffic.concurrency or 1.0) / at.case.replicas
    return pooled_tree(
        (trees[0], trees[1]), found, prompt=(at.case.isl, pools.transfer_s), decode_workers=split.decode_workers,
        clients=clients,
    )  # fmt: skip


def _rate(tree: ServedTree, name: str, unit: str, *, value: float, each: float) -> Node:
    """A rate over the seconds that it costs; a stated one is its own reason."""
    if not tree.cost:
        told = "as the case states" if tree.work else "as simulated, once the loop is steady"
        return Node(name=name, value=value, unit=unit, how=told, evidence=Evidence(tier="stated"))
    how = f"{tree.work:.4g} requests over what they cost together"
    return _settled(Node.rate(name, tree.cost, times=tree.work * each, unit=unit, how=how), value)


def _settled(node: Node, value: float) -> Node:
    """The tree under the number that was answered; should a tree fall short of it, the difference is a part."""
    if abs(node.value - value) <= _ROUNDING * abs(value):
        return msgspec.structs.replace(node, value=value)
    if node.rule == "quotient":
        return Node(name=node.name, value=value, unit=node.unit, how=NOT_OPENED, evidence=Evidence(tier="formula"))
    rest = Node(name=NOT_OPENED, value=value - node.value, unit=node.unit)
    return Node.total(node.name, (msgspec.structs.replace(node, name="opened"), rest), unit=node.unit)
