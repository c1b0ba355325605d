"""Why a configuration cannot serve: the limit that binds, by how much, and the nearest thing that works."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tonnage.domain.answer import Verdict
from tonnage.domain.plan import Bill, Configuration
from tonnage.domain.workload import Serve
from tonnage.planning.core.rejections import Infeasible
from tonnage.planning.sites import Site
from tonnage.simulation.capacity import Point
from tonnage.units import show

__all__ = ["beyond_limits", "misses_objective", "no_offer", "too_little_cache", "unreachable"]


def too_little_cache(need: float, kv_tokens: float) -> Verdict:
    """The pool holds less than one request of `need` tokens."""
    return Verdict(
        ok=False,
        limit="cache",
        reason=f"{kv_tokens:,.0f} tokens of KV cache are left and one request needs {need:,.0f}",
        short_by=need - kv_tokens,
        unit="tokens",
        nearest="more accelerators per replica, fewer bits per weight, or shorter requests",
    )


def misses_objective(request: Serve, alone: Point, *, limit: str) -> Verdict:
    """Even a single request misses an objective."""
    reached = {"ttft": alone.ttft_tail_s, "tpot": alone.tpot_tail_s, "e2e": alone.e2e_tail_s}[limit]
    wanted = {"ttft": request.slo.ttft_s, "tpot": request.slo.tpot_s, "e2e": request.slo.e2e_s}[limit] or 0.0
    return Verdict(
        ok=False,
        limit=limit,
        reason=f"a request alone takes {limit.upper()} {show(reached, 's')}, above the {show(wanted, 's')} asked for",
        short_by=reached - wanted,
        unit="s",
        nearest=f"{limit.upper()} {show(reached, 's')}",
    )


def unreachable(missed: Sequence[Infeasible]) -> Verdict:
    """No configuration meets the objectives: the best each latency reaches, and where."""
    alone = [(miss.alone, miss.configuration.label()) for miss in missed if miss.alone is not None]
    ttft, ttft_on = min((point.ttft_tail_s, label) for point, label in alone)
    tpot, tpot_on = min((point.tpot_tail_s, label) for point, label in alone)
    nearest = f"TTFT {show(ttft, 's')} on {ttft_on}, TPOT {show(tpot, 's')} on {tpot_on}"
    latency = [miss.verdict for miss in missed if miss.alone is not None]
    closest = min(latency, key=lambda verdict: verdict.short_by or 0.0)
    return replace(closest, reason=f"no accelerator is fast enough; {closest.reason}", nearest=nearest)


def beyond_limits(request: Serve, accelerators: int, *, bills: list[Bill]) -> Verdict | None:
    """Whether a plan exceeds the count or the budget, and by how much."""
    most = request.filters.max_count
    if most is not None and accelerators > most:
        return Verdict(
            ok=False,
            limit="count",
            reason=f"the load needs {accelerators} accelerators and at most {most} are allowed",
            short_by=float(accelerators - most),
            unit="accelerators",
            nearest=f"max_accelerators {accelerators}",
        )
    budget = request.budget_usd_per_h
    if budget is not None and bills and bills[0].usd_per_hour > budget:
        cost = bills[0].usd_per_hour
        return Verdict(
            ok=False,
            limit="budget",
            reason=f"{accelerators} accelerators cost {show(cost, 'USD/h')}, above {show(budget, 'USD/h')}",
            short_by=cost - budget,
            unit="USD/h",
            nearest=f"budget {show(cost, 'USD/h')}",
        )
    return None


def no_offer(site: Site, configuration: Configuration) -> Verdict:
    """A replica of this size cannot be rented."""
    return Verdict(
        ok=False,
        limit="offer",
        reason=f"no offer holds a replica of {configuration.layout.ranks} {site.accelerator.id}",
        nearest=f"at most {site.per_node} per instance",
    )
