"""
What do a plan's sessions cost and find again, and what does cache buy: over its size, behind which router, in units.

Units of prefill and decode workers: prefill workers keep the cache of prompts, one after the other as replicas do;
answers are made elsewhere, and the next turn computes them anew. The router sends a session to the worker that has its
context. Every prompt's whole cache is moved to its decode worker, found again or not, because that one keeps nothing
between turns.

Left out: decode workers that give caches back, and stores that they write answers to.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tonnage.core.replica import Replica, replica_of, state_of
from tonnage.core.session_reuse import profile_of, replica_at, reusing_replica, with_reuse
from tonnage.domain.model import Model
from tonnage.domain.plan import ServeOption
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.groups import SessionFields
from tonnage.domain.requests.serve import Serve
from tonnage.domain.sessions import CacheSize, CacheTier, PrefixReuse, RouteHits, SessionCosts, SessionProfile
from tonnage.physics.known import Known
from tonnage.questions.serve.option import Candidate, bills_of, replicas_of
from tonnage.simulation.capacity import Point, Steady
from tonnage.simulation.router import peak_load
from tonnage.units import GiB

if TYPE_CHECKING:
    from tonnage.simulation.disaggregated import Unit


def unit_within(request: Serve, deployment: Replica, *, unit: Unit) -> tuple[Replica, Steady | None]:
    """
    A worker with what it finds again, and the steady states of a unit of as many of them; None in their place where a
    worker does not hold the model.
    """
    parts: Known = {}

    def build(lengths: Lengths) -> Replica:
        return replica_of(deployment, lengths, known=parts)

    def of(worker: Replica) -> Steady | None:
        return state_of(request, worker, unit=unit) if worker.times else None

    def best_of(worker: Replica) -> Point | None:
        made = of(worker)
        best = made.largest()[0] if made else None
        return best and replace(best, rate_per_s=best.rate_per_s / unit.prefill)

    worker = with_reuse(request, build=build, best_of=best_of, answers=False, near=deployment)
    return worker, of(worker)


HOST_SIZES: Final = (256.0 * GiB, 512.0 * GiB, 1024.0 * GiB, 2048.0 * GiB, 4096.0 * GiB)
"""Host memory of a node that is looked at: what servers of eight accelerators are sold with. [bytes]"""
UNBOUNDED: Final = 1e18
"""Stands for a cache that nothing limits. [bytes]"""
ROUTES: Final = ("prefix-aware", "least-loaded", "round-robin")
PLAYED: Final = 40_000
"""Turns, which settle hits within a point. [turns]"""
BLOCK: Final = 16


def session_costs(
    request: Serve, option: ServeOption, *, found: Candidate, model: Model, today: date
) -> SessionCosts | None:
    """
    What sessions cost on an option whose prompts find their cache again, and what other sizes and routers would change;
    None where nothing comes back.
    """
    profile = profile_of(request.sessions, request.lengths)
    if option.reuse is None or profile is None:
        return None
    each = option.unit_costs.usd_per_request * option.reuse.turns if option.unit_costs is not None else 0.0
    solved = request.sessions.success_rate
    sizes = _sizes(request, found, model=model, today=today)
    none = next((size for size in sizes if size.tokens == 0.0), None)
    return SessionCosts(
        profile=profile.name,
        source=profile.source,
        turns=option.reuse.turns,
        usd_per_session=each,
        usd_per_solved=each / solved if solved else None,
        without_reuse_usd_per_hour=none.usd_per_hour if none else None,
        sizes=sizes,
        routes=() if request.quick else _routes(request, option, profile=profile),
    )


def _sizes(request: Serve, found: Candidate, *, model: Model, today: date) -> tuple[CacheSize, ...]:
    """
    The option's configuration with less and with more cache; those that then miss the objectives, or that no offer
    holds, are left out.
    """
    fields = request.sessions
    none = replace(request, sessions=SessionFields(reuse=False))
    alone = replace(request, sessions=replace(fields, kv_host_bytes=None, kv_host_bytes_per_s=None))
    ways: list[tuple[str, Serve, bool]] = [("no reuse", none, False)]
    if fields.kv_host_bytes:
        ways.append(("without host memory", alone, False))
    ways.append(("as planned", request, True))
    for size in HOST_SIZES:
        if size > (fields.kv_host_bytes or 0.0):
            more = replace(request, sessions=replace(fields, kv_host_bytes=size))
            ways.append((f"{size / GiB:,.0f} GiB of host memory a node", more, False))
    ways.append(("room for everything", replace(request, sessions=replace(fields, kv_host_bytes=UNBOUNDED)), False))
    configuration, site = found.configuration, found.site
    seen = [(name, asked, now, *_capacity(asked, found, model=model)) for name, asked, now in ways]
    own = next((best.rate_per_s for _, _, now, _, best in seen if now and best is not None), None)
    # The plan's own capacity may be simulated; the others are as much more or less as the steady state says.
    factor = found.best.rate_per_s / own if own else 1.0
    sizes = []
    for name, asked, now, replica, best in seen:
        if best is None:
            continue
        point = replace(best, rate_per_s=best.rate_per_s * factor, concurrency=best.concurrency * factor)
        firm = found.firm(request) * best.rate_per_s / own if own else None
        replicas = replicas_of(asked, found.best if now else point, firm=firm)
        bills = bills_of(site, replicas=replicas, ranks=configuration.ranks, request=asked, today=today)
        if bills:
            reuse = _reuse_at(asked, found, replica=found.replica if now else replica, rate_per_s=point.rate_per_s)
            sizes.append(
                CacheSize(
                    name=name,
                    tokens=sum(tier.tokens for tier in reuse.tiers) if reuse else 0.0,
                    hit_rate=reuse.hit_rate if reuse else 0.0,
                    rate_per_s=point.rate_per_s,
                    replicas=replicas,
                    usd_per_hour=bills[0].usd_per_hour,
                    now=now,
                )
            )
    return tuple(sizes)


def _reuse_at(request: Serve, found: Candidate, *, replica: Replica, rate_per_s: float) -> PrefixReuse | None:
    """What the cache of such a replica gives at the rate that is told, as that of the plan's own does."""
    if found.state.unit is None and replica is not found.replica:
        replica = replica_at(request, found.configuration, replica=replica, rate_per_s=rate_per_s)
    return replica.reuse


def _capacity(request: Serve, found: Candidate, *, model: Model) -> tuple[Replica, Point | None]:
    """
    The replica of the option (or its unit's worker) for a request with another cache, and the most that it takes; None
    in place of that where it does not fit or misses the objectives.
    """
    if (unit := found.state.unit) is not None:
        worker, state = unit_within(request, found.replica, unit=unit)
        return worker, state.largest()[0] if state else None
    replica = reusing_replica(request, found.configuration, model=model, accelerator=found.site.accelerator)
    return replica, state_of(request, replica).largest()[0] if replica.times else None


def _routes(request: Serve, option: ServeOption, *, profile: SessionProfile) -> tuple[RouteHits, ...]:
    """
    Share of prompt tokens that all replicas find behind each router at the planned peak, block by block; empty for one
    replica, for separate prefill workers and without a rate.
    """
    from tonnage.simulation.sessions import PrefillCost, Replicas, simulate_sessions

    reuse = option.reuse
    if reuse is None or not reuse.answers or option.replicas < 2 or request.rate_per_s is None:
        return ()
    tiers = tuple(_blocks(tier.name, tier.tokens, load_s=tier.load_s, option=option) for tier in reuse.tiers)
    # A computed token's time at capacity: prompts take their share of it, answers theirs.
    token_s = option.capacity.prompt_share / reuse.rate_per_s / reuse.computed_tokens
    answer_s = (1.0 - option.capacity.prompt_share) / reuse.rate_per_s / request.lengths.output_tokens
    hits = []
    for route in ROUTES:
        served = Replicas(
            number=option.replicas,
            route=route,
            block_tokens=BLOCK,
            prefill=PrefillCost(token_s=token_s, output_token_s=answer_s),
        )
        played = simulate_sessions(profile, tiers, turns_per_s=peak_load(request), turns=PLAYED, served=served)
        hits.append(RouteHits(route=route, hit_rate=played.hit_rate))
    return tuple(hits)


def _blocks(name: str, tokens: float, *, load_s: float, option: ServeOption) -> CacheTier:
    """A tier as the played caches take it; what all replicas share is theirs together."""
    shared = name == "store"
    room = tokens * option.replicas if shared else tokens
    return CacheTier(name=name, blocks=int(min(room, 1e15) / BLOCK), load_s_per_block=load_s * BLOCK, shared=shared)
