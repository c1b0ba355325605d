"""Sessions as blocks: what a plan's prompts find again and what cache buys; and what a log's sessions are."""

from __future__ import annotations

from typing import Final

from tonnage.domain.plan import ServePlan
from tonnage.domain.sessions import CacheSize, SessionCosts, SessionProfile, Spread, TraceSessions
from tonnage.report.document import Contents, Document, Headline, Note, Text, document, grid
from tonnage.report.wording import plural
from tonnage.units import percent, show

TRUSTED: Final = 5.0
"""Points by which halves of a log may differ before it is said."""
SAVES: Final = 0.02
"""Of the price, from which on more cache is told on the first screen. [-]"""
TITLES: Final = {"accelerator": "accelerators", "host": "host memory", "nvme": "local disks", "store": "shared store"}


def cache_line(plan: ServePlan) -> str:
    """What the first option's prompts find again, and what that is worth, in a line; empty without sessions."""
    found = plan.sessions
    if found is None or not plan.options or plan.options[0].reuse is None:
        return ""
    reuse = plan.options[0].reuse
    without = found.without_reuse_usd_per_hour
    worth = f"; without reuse ${without:,.2f}/h" if without else "; without reuse it misses the objectives"
    allowed = f"(sessions allow {percent(reuse.unbounded)})"
    told = f"Prefix cache: {percent(reuse.hit_rate)} of prompt tokens found again {allowed}{worth}."
    better = _worth_more(plan, found)
    if better is not None:
        told += f" With {better.name}: ${better.usd_per_hour:,.2f}/h."
    return told


def _worth_more(plan: ServePlan, found: SessionCosts) -> CacheSize | None:
    """The smallest cache beyond the plan's that saves something; None where none does."""
    now = plan.options[0].bill.usd_per_hour
    own = next((size.tokens for size in found.sizes if size.now), 0.0)
    larger = [size for size in found.sizes if not size.now and size.tokens > own]
    return next((size for size in larger if size.usd_per_hour < now * (1.0 - SAVES)), None)


def session_sections(plan: ServePlan) -> dict[str, Contents]:
    """Hits, tiers, money over cache size, routers, and the cost of a session; empty without sessions."""
    found = plan.sessions
    if found is None or not plan.options or plan.options[0].reuse is None:
        return {}
    reuse = plan.options[0].reuse
    each = f"${found.usd_per_session:.3g} a session of {plural(round(found.turns, 1), 'turn')}"
    solved = f", ${found.usd_per_solved:.3g} a solved task" if found.usd_per_solved is not None else ""
    lines = [
        f"{each}{solved}, at the mean load",
        f"{percent(reuse.hit_rate, 1)} of prompt tokens are found again at {show(reuse.rate_per_s, 'count')} "
        f"requests/s of a "
        "replica; "
        f"{reuse.computed_tokens:,.0f} of {plan.request.lengths.prompt_tokens:,.0f} tokens of a prompt are computed",
        *(
            f"{TITLES.get(tier.name, tier.name)}: {tier.tokens:,.0f} tokens give {percent(tier.share, 1)}"
            + (f", {show(tier.load_s * 1000, 's')} to load 1,000 tokens" if tier.load_s else "")
            for tier in reuse.tiers
        ),
        f"the accelerators keep what nobody asks for during {show(reuse.kept_s, 's')}"
        if reuse.kept_s < 1e8
        else "the accelerators have room for every session",
        *(f"router {route.route}: {percent(route.hit_rate, 1)} found behind all replicas" for route in found.routes),
    ]
    rows = [
        (
            f"{size.name} (this plan)" if size.now else size.name,
            f"{size.tokens:,.0f}" if size.tokens < 1e11 else "–",
            percent(size.hit_rate, 1),
            show(size.rate_per_s, "count"),
            f"{size.replicas:,}",
            f"{size.usd_per_hour:,.2f}",
        )
        for size in found.sizes
    ]
    heads = ["cache", "tokens a replica>", "found again>", "req/s a replica>", "replicas>", "$/h>"]
    return {"Sessions": lines, "What cache buys": grid(heads, rows)}


def trace_document(found: TraceSessions) -> Document:
    """A log's sessions: what they are, and what caches of some sizes have of its prompts."""
    span = f"{found.requests:,} requests in {show(found.span_s, 's')}" if found.span_s > 0 else "1 request"
    question = f"{found.source} · {span}, {found.prompt_tokens:,.0f} in / {found.output_tokens:,.0f} out"
    rows = [
        (
            f"{at.tokens:,.0f}",
            percent(at.hit_rate, 1),
            "–" if at.predicted is None else percent(at.predicted, 1),
            "–" if at.predicted is None else f"{100 * (at.predicted - at.hit_rate):+.1f}",
        )
        for at in found.curve
    ]
    missed = _largest_error(found)
    doubt = (
        f"The halves differ by {missed:.0f} points: this log changes as it goes on, and a part of it says little of "
        "what comes."
    )
    return document(
        Text(question, kind="asked"),
        Headline(found.sentence, good=found.profile is not None),
        grid(["cache, tokens>", "second half found>", "predicted from the first>", "points>"], rows),
        Note(doubt) if missed > TRUSTED else None,
        Note(found.licence) if found.licence else None,
        *(Note(f"{remark[0].upper()}{remark[1:]}.") for remark in found.notes),
        why=_classes(found.profile) if found.profile is not None else None,
    )


def _largest_error(found: TraceSessions) -> float:
    """How far the first half's prediction is off, at most. [points]"""
    return max((100 * abs(at.predicted - at.hit_rate) for at in found.curve if at.predicted is not None), default=0.0)


def _classes(profile: SessionProfile) -> dict[str, Contents]:
    """The fitted sessions, by the length of their first prompt."""
    rows = [
        (
            percent(one.share),
            f"{_median(one.first_tokens):,.0f}",
            f"{_median(one.growth_tokens):,.0f}",
            f"{_median(one.output_tokens):,.0f}",
            " ".join(percent(chance) for chance in one.go_on),
            show(_median(one.gap_s), "s"),
            percent(one.branch_share),
        )
        for one in profile.classes
    ]
    heads = ["sessions>", "first prompt>", "new a turn>", "answer>", "goes on after turn 1, 2, 3+>", "gap>", "branch>"]
    shared = [f"{tokens:,.0f} tokens begin {percent(share)} of the sessions" for tokens, share in profile.shared[:8]]
    return {
        "Fitted sessions (medians)": grid(heads, rows),
        "Shared beginnings": shared or "none that 2 % of the requests share",
    }


def _median(spread: Spread) -> float:
    """Value of the spread at the share nearest to one half."""
    return min(spread, key=lambda point: abs(point[0] - 0.5))[1]
