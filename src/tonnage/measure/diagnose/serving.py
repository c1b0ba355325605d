"""What limits a server? Rules over what engines and clients say; each is a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.domain.diagnosis import Evidence, Fact, Missing, Verdict
from tonnage.domain.engine_spec import ServerMetrics
from tonnage.engines.registry import server_metrics
from tonnage.measure.diagnose import limits
from tonnage.measure.diagnose.limits import fact, has_enough_requests
from tonnage.units import show

__all__ = ["RULES"]

Found = Verdict | Missing | None

NO_PAGE: Final = "give the engine's /metrics page (SGLang: --enable-metrics, llama.cpp: --metrics), or a measurement"
"""Where it is not known which server runs."""
MORE_CACHE: Final = "a cache of fewer bits, shorter contexts, or fewer requests at once"
"""The same of settings that make more room."""


def client_late(e: Evidence) -> Found:
    """The measuring client is late itself: latencies hold its delay."""
    if e.client_delay_s is None or e.ttft_s is None or e.client_delay_s <= limits.CLIENT.value * e.ttft_s:
        return None
    return Verdict(
        name="client-bound",
        sentence=f"The measuring client is late by {e.client_delay_s * 1e3:.3g} ms itself; latencies here hold it.",
        facts=(fact("client delay, p99, of time to first token", e.client_delay_s / e.ttft_s, limit=limits.CLIENT),),
        remedy="measure",
        next_step="give the client a core of its own or less load, and measure again before changing anything",
    )


def failing(e: Evidence) -> Found:
    """Requests fail."""
    if e.failed_share is None or e.failed_share <= limits.FAILING.value or not e.requests:
        return None
    return Verdict(
        name="failing",
        sentence=f"{e.failed_share:.0%} of the requests fail or are given up.",
        facts=(fact("requests failed or aborted", e.failed_share, limit=limits.FAILING),),
        remedy="code",
        next_step="read the server's log for the first failure; time-outs of clients count as aborted",
        gain=e.failed_share,
    )


def memory_capacity(e: Evidence) -> Found:
    """The cache is full: requests wait for blocks, or are thrown out and computed again."""
    if e.kv_used_most is None:
        return Missing(verdict="memory-capacity bound", needs="share of the KV cache in use", how=_how_kv(e.engine))
    share = e.preemptions / e.requests if e.preemptions is not None and e.requests else 0.0
    full, waits = e.kv_used_most >= limits.KV_FULL.value, (e.waiting or 0.0) > 0.0
    preempts = share >= limits.PREEMPTED.value
    if not (preempts or (full and waits)):
        return None
    facts: list[Fact] = [fact("KV cache in use, most", e.kv_used_most, limit=limits.KV_FULL)]
    if e.preemptions is not None and e.requests:
        facts.append(fact("preemptions per request", share, limit=limits.PREEMPTED))
    if e.waiting is not None:
        facts.append(fact("requests waiting, mean", e.waiting, unit="requests"))
    if e.running is not None:
        facts.append(fact("requests running, mean", e.running, unit="requests"))
    what = f"{e.preemptions:,.0f} preemptions in {e.requests:,.0f} requests" if preempts else "new requests wait for it"
    return Verdict(
        name="memory-capacity bound",
        sentence=f"The KV cache is full ({e.kv_used_most:.0%} in use at most): {what}.",
        facts=tuple(facts),
        remedy="accelerator",
        next_step=f"first settings: {_more_cache(e.engine)}; then more memory: tensor parallelism, a larger card",
        gain=_queue_share(e) or share,
    )


def _more_cache(engine: str | None) -> str:
    page = _pages().get(engine or "")
    return page.cache_advice if page is not None else MORE_CACHE


def _how_queue(engine: str | None) -> str:
    page = _pages().get(engine or "")
    return page.queue_advice if page is not None else NO_PAGE


def _how_kv(engine: str | None) -> str:
    page = _pages().get(engine or "")
    return page.cache_unstated if page is not None and page.cache_unstated else _how_queue(engine)


def _pages() -> Mapping[str, ServerMetrics]:
    return {page.name: page for page in server_metrics()}


def _queue_share(e: Evidence) -> float | None:
    """Waiting as a share of the time to first token, or of the whole answer where that is not known."""
    whole = e.ttft_s or e.e2e_s
    return None if e.queue_s is None or not whole else min(1.0, e.queue_s / whole)


def queueing(e: Evidence) -> Found:
    """Requests wait although the cache has room: there are too few seats or too few replicas."""
    share = _queue_share(e)
    if share is None and e.waiting is None:
        return Missing(verdict="queueing", needs="time or requests in the queue", how=_how_queue(e.engine))
    facts: list[Fact] = []
    long = share is not None and has_enough_requests(e) and share >= limits.QUEUED.value
    many = e.waiting is not None and e.waiting >= limits.WAITING.value and (e.samples or 0) > 1
    if not (long or many):
        return None
    if share is not None and e.queue_s is not None:
        facts.append(fact("queueing, share of time to first token", share, limit=limits.QUEUED))
        facts.append(fact("queueing, mean", e.queue_s, unit="s"))
    if e.waiting is not None:
        facts.append(fact("requests waiting, mean", e.waiting, unit="requests", limit=limits.WAITING))
    seats = e.running_limit is not None and e.running_most is not None and e.running_most >= e.running_limit
    if seats and e.running_limit is not None:
        facts.append(fact("requests running, of the engine's limit", e.running_limit, unit="requests"))
    said = f"{e.waiting or 0.0:.3g} requests wait on average"
    if e.queue_s and e.ttft_s:
        said = f"{show(e.queue_s, 's')} of {show(e.ttft_s, 's')} to the first token is waiting"
    room = e.kv_used_most is not None and e.kv_used_most < limits.KV_FULL.value
    first = "raise the engine's limit of running requests, for its cache has room; then " if seats and room else ""
    return Verdict(
        name="queueing",
        sentence=f"Requests queue: {said}.",
        facts=tuple(facts),
        remedy="settings" if first else "capacity",
        next_step=f"{first}add replicas for the peak (`tonnage measure capacity` says how many), or admit less",
        gain=share,
    )


def past_knee(e: Evidence) -> Found:
    """p95 grows faster than throughput."""
    if len(e.levels) < 2:
        return Missing(
            verdict="p95 growing faster than throughput",
            needs="at least two loads",
            how="`tonnage measure serve URL --sweep`, or a window over which the load varies",
        )
    levels = sorted(e.levels, key=lambda level: level.level)
    best = max(levels, key=lambda level: level.requests_per_s / level.p95_s)
    last = levels[-1]
    if best is last or last.level <= best.level:
        return None
    slower, more = last.p95_s / best.p95_s, last.requests_per_s / best.requests_per_s
    if slower - 1.0 <= limits.WORSE.value or slower <= limits.KNEE.value * more:
        return None
    return Verdict(
        name="p95 growing faster than throughput",
        sentence=f"Above a load of {best.level:.3g} p95 grows faster than throughput: at {last.level:.3g} it is "
        f"{slower:.3g} times as long for {more:.3g} times the requests.",
        facts=(
            fact("growth of p95 over growth of throughput", slower / more, unit="count", limit=limits.KNEE),
            fact(f"p95 at {best.level:.3g}", best.p95_s, unit="s"),
            fact(f"p95 at {last.level:.3g}", last.p95_s, unit="s"),
            fact(f"throughput at {best.level:.3g}", best.requests_per_s, unit="requests/s"),
            fact(f"throughput at {last.level:.3g}", last.requests_per_s, unit="requests/s"),
        ),
        remedy="capacity",
        next_step=f"hold each replica at a load of about {best.level:.3g} and add replicas beyond it",
        gain=1.0 - more / slower,
    )


def over_provisioned(e: Evidence) -> Found:
    """Far less load than the server could take: nothing waits, the cache is nearly empty, few run."""
    if e.waiting_most is None or e.running_most is None or (e.samples or 0) < 2:
        return Missing(
            verdict="over-provisioned",
            needs="running and waiting requests over a window of its usual load",
            how="a Prometheus server, or --window for a live endpoint, over hours that include the peak",
        )
    if e.waiting_most > 0 or e.slo_missed or (e.failed_share or 0.0) > limits.FAILING.value:
        return None
    idle = e.idle_share is not None and e.idle_share >= limits.IDLE.value
    roomy = e.kv_used_most is not None and e.kv_used_most < limits.KV_EMPTY.value
    seats = e.running_limit is None or e.running_most <= limits.KV_EMPTY.value * e.running_limit
    if not ((roomy and seats) or (idle and (roomy or e.kv_used_most is None))):
        return None
    facts = [
        fact("requests waiting, most", e.waiting_most, unit="requests"),
        fact("requests running, most", e.running_most, unit="requests"),
    ]
    if e.kv_used_most is not None:
        facts.append(fact("KV cache in use, most", e.kv_used_most, limit=limits.KV_EMPTY))
    if e.idle_share is not None:
        facts.append(fact("readings with nothing to do", e.idle_share, limit=limits.IDLE))
    seen = f"over {e.window_s / 3600:.3g} h" if e.window_s and e.window_s >= 600 else "in this short window"
    return Verdict(
        name="over-provisioned",
        sentence=f"More is rented than is used {seen}: nothing ever waits, and at most {e.running_most:.3g} requests "
        "run at once.",
        facts=tuple(facts),
        remedy="capacity",
        next_step="check that the window holds the peak; then fewer replicas, a smaller card, or scale to zero",
        gain=e.idle_share,
    )


def cold_start(e: Evidence) -> Found:
    """The first requests take far longer: weights are loaded, graphs captured, kernels compiled."""
    if e.first_s is None or e.later_s is None:
        return None
    if e.later_s <= 0 or e.first_s < limits.COLD.value * e.later_s:
        return None
    return Verdict(
        name="cold start",
        sentence=f"The first requests wait {show(e.first_s, 's')} for a token, later ones {show(e.later_s, 's')}.",
        facts=(
            fact("first over later time to first token", e.first_s / e.later_s, unit="count", limit=limits.COLD),
            fact("time to first token, first requests", e.first_s, unit="s"),
            fact("time to first token, later", e.later_s, unit="s"),
        ),
        remedy="settings",
        next_step="send warm-up requests before a replica takes traffic, keep compiled kernels and graphs in a cache "
        "that outlives the container, and keep one replica warm",
    )


def regression(e: Evidence) -> Found:
    """Worse than an earlier measurement of the same load."""
    worse = [one for one in e.baseline if one.value > limits.WORSE.value]
    if not worse:
        return None
    most = max(worse, key=lambda one: one.value)
    return Verdict(
        name="regression",
        sentence=f"Worse than the baseline: {most.name} by {most.value:.0%}.",
        facts=tuple(worse),
        remedy="code",
        next_step="compare versions and settings of both runs (`tonnage history show`); go back unless it is meant",
        gain=most.value,
    )


RULES: Final = (client_late, failing, regression, memory_capacity, queueing, past_knee, cold_start, over_provisioned)
"""What limits more comes first."""
