"""What a stated case finds again of its sessions: the hits of a plan's option, for who names the option himself."""

from __future__ import annotations

import math

from msgspec.structs import replace

from tonnage.catalog.traffic import session_profiles
from tonnage.core.deployment import Deployment
from tonnage.core.replica import replica_of
from tonnage.core.serving_traffic import open_load
from tonnage.core.session_reuse import (
    CLOSE,
    ROUNDS,
    check_sessions,
    drawn_turns,
    profile_of,
    reused_at,
    turns_apart,
)
from tonnage.domain.case import ServeCase
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.groups import SessionFields
from tonnage.domain.requests.serve import Serve
from tonnage.domain.sessions import PrefixReuse
from tonnage.errors import BadRequest, UnknownName


def case_with_reuse(at: Deployment) -> tuple[Deployment, PrefixReuse | None]:
    """
    A case with the share of its prompts that sessions find again on one replica, at the rate that it serves; and what
    each tier of cache gives of it.

    The second is None where nothing is looked for: without sessions, with stated hits, which stay as they are, where
    the engine caches no prefixes, and where the model does not fit.

    Raises
    ------
    BadRequest
        Fields that contradict, or a load other than a rate, under which nothing says who comes back when.
    """
    case, fields = at.case, at.case.sessions
    if fields is None:
        return at, None
    if case.disaggregation is not None and fields.prefix_hits is not None:
        check_sessions(fields, profile=fields.profile)
        return at if at.engine.prefix_caching else _with_hits(at, 0.0), None
    rate, served = _checked_rate(case, fields), at.engine.prefix_caching
    lengths = Lengths(prompt_tokens=max(1.0, case.isl), output_tokens=case.osl, profile=fields.profile)
    profile, plain = profile_of(fields, lengths), replica_of(at, lengths)
    if profile is None or not served or plain.times is None:
        return at if served else _with_hits(at, 0.0), None
    turns = drawn_turns(profile, prompt_tokens=lengths.prompt_tokens, output_tokens=lengths.output_tokens)
    request = Serve(model="", lengths=lengths, rate_per_s=rate, sessions=fields)
    token_s, now, met = plain.times.prefill_s / lengths.prompt_tokens, rate / case.replicas, turns
    for _ in range(ROUNDS):
        reuse, _ = reused_at(request, plain, turns=met, rate_per_s=now, token_s=token_s)
        known = _with_hits(at, 1.0 - reuse.computed_tokens / lengths.prompt_tokens)
        point, _ = open_load(known).at_rate(rate / case.replicas)
        met = turns_apart(turns, point.ttft_mean_s + lengths.output_tokens * point.tpot_mean_s)
        if abs(point.rate_per_s / now - 1.0) < CLOSE:
            break
        now = math.sqrt(now * point.rate_per_s)
    return known, reuse


def _checked_rate(case: ServeCase, fields: SessionFields) -> float:
    """The arrival rate of a case on all replicas, by which its sessions are looked at; refused without one. [1/s]"""
    known = session_profiles()
    if fields.profile is not None and fields.profile not in known:
        raise UnknownName("profile with sessions", fields.profile, known=known)
    check_sessions(fields, profile=fields.profile)
    rate = case.traffic.rate_per_s
    if rate is None or case.disaggregation is not None:
        apart = case.disaggregation is not None
        where, instead = ("separate pools", "state prefix_hits") if apart else ("other loads", "leave sessions out")
        raise BadRequest(
            f"sessions: what comes back is found at a rate of arrivals on one pool, not under {where}; give"
            f" traffic.rate_per_s without disaggregation, or {instead}"
        )
    return rate


def _with_hits(at: Deployment, hits: float) -> Deployment:
    """The deployment with a stated share of hits in the place of sessions."""
    return replace(at, case=replace(at.case, sessions=SessionFields(prefix_hits=max(0.0, hits))))
