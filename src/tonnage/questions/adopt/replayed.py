"""
The traffic of a service, played request by request on what runs and on every change of it.

A change gets the replicas that confidence asks for; played traffic says how many more. The requests are those of a log
(times, lengths, repeated beginnings), else drawn at the rate and mean lengths that the metrics show. A count suffices
where the traffic, made denser by the headroom that is kept, meets the objectives at their percentile behind a router to
the least loaded. Counts are looked for one at a time, to twice the first.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from tonnage.core.replica import Replica
from tonnage.core.session_reuse import reused_requests
from tonnage.domain.requests.serve import Serve
from tonnage.domain.simulate import SimulationTraffic
from tonnage.errors import BadRequest, echo
from tonnage.questions.adopt.question import Action, Replayed, State
from tonnage.version import can_simulate

if TYPE_CHECKING:
    from tonnage.simulation.simulated import Requests


DRAWN: Final = 6_000
"""Requests that are drawn where there is no log: 300 beyond a 95th percentile."""
HOURS: Final = 6
"""Of a log, from which its hours bound an autoscaler. [h]"""
MOST: Final = 50_000
"""Of a log, from its start."""
AUTOSCALING: Final = Action(
    name="autoscaling",
    change="",
    risk="a replica takes its cold start to come back",
    check="tonnage plan serve with --shape says what following the load saves",
)
"""Its change is told with what was seen."""


class ServiceTraffic(NamedTuple):
    """Requests of the whole service as they came, and what is known of them."""

    requests: Requests
    rate_per_s: float
    prompt_tokens: float
    output_tokens: float
    reused_share: float | None
    """Of prompt tokens, those of whole blocks that an earlier prompt had; absent = the log names no blocks. [-]"""
    source: str


def logged_traffic(path: str) -> ServiceTraffic:
    """
    What a gateway or an engine logged: any log that `tonnage simulate` plays.

    Raises
    ------
    TonnageError
        It cannot be read, or holds too few requests to have a rate.
    """
    import numpy as np

    from tonnage.questions.simulate.traffic import traffic_of

    found = traffic_of(SimulationTraffic(trace=path, num_requests=MOST))
    sent = found.requests.sent_s
    span = float(sent[-1] - sent[0]) if len(sent) > 1 else 0.0
    if span <= 0.0:
        raise BadRequest(f"log '{echo(path)}': its requests have no times that differ, so no rate")
    ids, tokens = found.requests.blocks, found.hash_tokens
    reused = None
    if tokens and len(ids):
        again = len(ids) - len(np.unique(ids))
        reused = min(0.99, again * tokens / float(found.requests.prompt.sum()))
    return ServiceTraffic(
        requests=found.requests._replace(offsets=np.zeros(1, np.int64), blocks=np.zeros(0, np.int64), num_ids=0),
        rate_per_s=(len(sent) - 1) / span,
        prompt_tokens=found.prompt_mean,
        output_tokens=found.output_mean,
        reused_share=reused,
        source=f"{len(sent):,} requests of {echo(path)}",
    )


def traffic_of_service(serve: Serve, logged: ServiceTraffic | None = None) -> ServiceTraffic | None:
    """
    The log as it is; without one, requests drawn at the rate and the lengths seen; None where nothing can be simulated
    or no rate is known.
    """
    from tonnage.questions.serve.capacity_search import draw_requests, front_requests
    from tonnage.simulation.arrivals import at_rate

    if not can_simulate() or serve.rate_per_s is None:
        return None
    if logged is not None:
        return logged
    lengths = serve.lengths
    drawn = front_requests(serve, draw_requests(serve), concurrency=DRAWN / 12.0, close=True)
    return ServiceTraffic(
        requests=drawn._replace(sent_s=at_rate(drawn.sent_s, serve.rate_per_s)),
        rate_per_s=serve.rate_per_s,
        prompt_tokens=lengths.prompt_tokens,
        output_tokens=lengths.output_tokens,
        reused_share=None,
        source=f"{len(drawn.prompt):,} requests drawn at the rate and the mean lengths seen",
    )


def replay(
    serve: Serve, replica: Replica, *, traffic: ServiceTraffic, replicas: int, headroom: float = 0.0
) -> Replayed:
    """
    What the traffic sees on so many replicas, at the objectives' percentile; `headroom` makes it as much denser as a
    plan keeps free.
    """
    import numpy as np

    from tonnage.questions.serve.capacity_search import arrays_of
    from tonnage.simulation.router import simulate_fleet
    from tonnage.simulation.slo import settled_requests

    slo, denser = serve.slo, traffic.requests._replace(sent_s=traffic.requests.sent_s * (1.0 - headroom))
    rate = traffic.rate_per_s / (1.0 - headroom)
    sent = reused_requests(serve, replica, requests=denser)(rate / replicas)
    arrays = arrays_of(serve, replica, requests=sent)
    run = simulate_fleet(arrays, requests=sent, replicas=replicas)
    kept = settled_requests(run)
    seen = {"ttft_s": run.ttft_s[kept], "tpot_s": run.tpot_s[kept], "e2e_s": run.e2e_s[kept]}
    tails = {
        name: float(np.nanpercentile(values, slo.percentile)) if not np.isnan(values).all() else 0.0
        for name, values in seen.items()
    }
    limits = {"ttft_s": slo.ttft_s, "tpot_s": slo.tpot_s, "e2e_s": slo.e2e_s}
    keeps = all(limit is None or tails[name] <= limit for name, limit in limits.items())
    return Replayed(requests=len(run.ttft_s), ttft_s=tails["ttft_s"], tpot_s=tails["tpot_s"], keeps=keeps)


def fewest_replicas(serve: Serve, replica: Replica, *, traffic: ServiceTraffic, start: int) -> int:
    """
    The fewest replicas that keep the objectives with the headroom asked for, sought from the count that confidence asks
    for (`start`). Twice `start` plus one where none up to there does.
    """
    counts = range(start, 2 * start + 1)
    played = partial(replay, serve, replica, traffic=traffic, headroom=serve.headroom)
    return next((count for count in counts if played(replicas=count).keeps), 2 * start + 1)


def hourly_bounds(traffic: ServiceTraffic, base: State, *, now: State, headroom: float, worth: float) -> list[Action]:
    """
    Bounds of an autoscaler, by the hours of a log and what a replica of `base` takes: today's state, or that with the
    replicas advised. The saving is against `now`; `worth` is the share of today's money below which it is not told.
    Empty where they bring nothing or the log has fewer than `HOURS`.
    """
    begin, end = float(traffic.requests.sent_s[0]), float(traffic.requests.sent_s[-1])
    hours = int((end - begin) // 3600.0)
    if hours < HOURS:
        return []
    each = base.most_per_s / base.replicas * (1.0 - headroom)
    counts = Counter(((traffic.requests.sent_s - begin) // 3600.0).astype(int).tolist())
    needed = [max(1, math.ceil(counts[hour] / 3600.0 / each - 1e-9)) for hour in range(hours)]
    mean = sum(needed) / hours
    saved = now.usd_per_month - base.usd_per_month / base.replicas * mean
    if saved <= worth * now.usd_per_month or min(needed) == max(needed):
        return []
    return [
        replace(
            AUTOSCALING,
            change=f"scale between {min(needed)} and {max(needed)} replicas with the hour, {mean:.3g} on average over "
            f"the {hours} h of the log",
            usd_per_month=saved,
        )
    ]
