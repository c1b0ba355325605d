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
from tonnage.core.replica import decode_tokens, drafting_grid, prefill_tokens
from tonnage.domain.answer import Evidence, Quantity
from tonnage.domain.requests.common import Lengths
from tonnage.physics.transformer import Tokens
from tonnage.simulation.closed_loop import LoopLog, closed_loop, saturated_loop
from tonnage.simulation.served_tree import (
    ServedTree,
    closed_tree,
    formula_tree,
    held_tree,
    node_of,
    pooled_tree,
    steady_tree,
)
from tonnage.simulation.simulated import Served
from tonnage.simulation.step_parts import placed_work
from tonnage.simulation.step_tree import OpenTable, Pricing, pass_tree
from tonnage.simulation.steps import StepGrid, StepTable, exchange_beside_s, step_table

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
    if asked.saturated or asked.static or (asked.batch is not None and asked.concurrency is None):
        return formula_tree(traffic.under_load(at, table)[0])
    if asked.concurrency is None:
        return _steady(at, pricing, rate_per_s=(asked.rate_per_s or 0.0) / copies)
    log, clients, each = LoopLog([], []), asked.concurrency / copies, asked.requests_per_client
    seen = closed_loop(plain, load, clients=clients, requests_per_client=each, log=log)
    tree = closed_tree(table, log, clients=clients)
    if seen.requests_per_s * tree.e2e.value < clients * (1.0 - _ROUNDING):
        full = formula_tree(saturated_loop(table, load))
        tree = tree._replace(work=full.work, cost=full.cost)
    return held_tree(tree, traffic.wait_steps(seen, traffic.who_waits(at, load)))


def _steady(at: Deployment, pricing: Pricing, *, rate_per_s: float) -> ServedTree:
    """
    TTFT, TPOT and end-to-end latency of one replica as trees, for arrivals at a rate of its own, by the closed form
    that plans use.
    """
    state = traffic.open_load(at)
    times, load = state.times, state.load
    point, overload = state.at_rate(rate_per_s)
    lengths = Lengths(prompt_tokens=max(1.0, at.case.isl), output_tokens=load.output_tokens)
    context, o = lengths.prompt_tokens + lengths.output_tokens / 2.0, at.overheads
    drafting = None
    if at.placement.speculation is not None:
        grid = drafting_grid(at, lengths, batch=times.batches[-1])
        drafting = OpenTable.of(step_table(grid, o), grid, pricing=pricing)

    def opened_pass(tokens: Tokens, sequences: float, how: str) -> Quantity:
        work = placed_work(at.placement, tokens)
        return pass_tree(pricing, o, name="step", work=work, sequences=sequences, prompts=tokens.prompts, how=how)

    def decode(batch: float) -> Quantity:
        if drafting is not None:
            return node_of(drafting.decode_s(batch, context), "step")
        tokens = decode_tokens(at, batch, context=context)
        whole = opened_pass(tokens, batch / at.placement.layout.dp, f"{batch:.4g} requests at {context:,.0f} tokens")
        beside = exchange_beside_s(at.placement, tokens.rows, overheads=o)
        if not beside:
            return whole
        told = "half of the rows compute while the others are exchanged between nodes"
        return Quantity.total("step", (whole, pricing.leaf("exchange beside products", -beside, how=told)))

    mean, steps = prefill_tokens(at, lengths.prompt_tokens)
    own = opened_pass(mean, 0.0, f"{mean.chunk:,.0f} tokens of a prompt")
    work = Quantity.total("prefill", (own,), times=steps, how=f"{steps:.3g} steps")
    alone = Quantity.total("own prefill", (pricing.request(o), work))
    tree = steady_tree(
        times, load, concurrency=point.concurrency, overload=overload, decode=decode, prefill=(alone, work)
    )
    seen = Served(
        ttft_s=point.ttft_mean_s,
        tpot_s=point.tpot_mean_s,
        e2e_s=0.0,
        requests_per_s=min(rate_per_s, point.rate_per_s),
        running=point.concurrency,
        saturated=overload,
    )
    return held_tree(tree, traffic.wait_steps(seen, at.engine))


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
