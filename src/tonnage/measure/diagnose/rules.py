"""
What limits a server, or a training step? Rules over what engines, clients and steps say; each is a pure function.
"""

from __future__ import annotations

from typing import Final

from tonnage.domain.diagnosis import Evidence, Missing, Verdict
from tonnage.domain.engine_spec import ServerMetrics
from tonnage.engines.registry import server_metrics
from tonnage.measure.diagnose.limits import (
    CHECKPOINT,
    CLIENT,
    COLD,
    COMMUNICATION,
    FAILING,
    FRAGMENTED,
    IDLE,
    INPUT_HIGH,
    INPUT_SOME,
    KNEE,
    KV_EMPTY,
    KV_FULL,
    LAUNCH,
    MIN_REQUESTS,
    NEARLY_FULL,
    PREEMPTED,
    QUEUED,
    STRAGGLER,
    WAITING,
    WORSE,
    Rule,
    Seen,
    fact,
    known_facts,
    rule,
)
from tonnage.units import show

NO_PAGE: Final = "give the engine's /metrics page (SGLang: --enable-metrics, llama.cpp: --metrics), or a measurement"
"""Where it is not known which server runs."""
MORE_CACHE: Final = "a cache of fewer bits, shorter contexts, or fewer requests at once"
"""The same of settings that make more room."""


@rule(
    "client-bound",
    "measure",
    step="give the client a core of its own or less load, and measure again before changing anything",
)
def client_late(e: Evidence) -> Seen | None:
    """The measuring client is late itself: latencies hold its delay."""
    if e.client_delay_s is None or not e.ttft_s or e.client_delay_s <= CLIENT.value * e.ttft_s:
        return None
    said = f"The measuring client is late by {e.client_delay_s * 1e3:.3g} ms itself; latencies here hold it."
    return said, [fact("client delay, p99, of time to first token", e.client_delay_s / e.ttft_s, limit=CLIENT)], None


@rule("failing", "code", step="read the server's log for the first failure; time-outs of clients count as aborted")
def failing(e: Evidence) -> Seen | None:
    """Requests fail."""
    if e.failed_share is None or e.failed_share <= FAILING.value or not e.requests:
        return None
    said = f"{e.failed_share:.0%} of the requests fail or are given up."
    return said, known_facts(e, failed_share=FAILING), e.failed_share


def memory_capacity(e: Evidence) -> Verdict | Missing | None:
    """The cache is full: requests wait for blocks, or are thrown out and computed again."""
    page = _page(e.engine)
    if e.kv_used_most is None:
        how = (page.cache_unstated or page.queue_advice) if page else NO_PAGE
        return Missing(verdict="memory-capacity bound", needs="share of the KV cache in use", how=how)
    facts, share = known_facts(e, kv_used_most=KV_FULL), 0.0
    if e.preemptions is not None and e.requests:
        share = e.preemptions / e.requests
        facts.append(fact("preemptions per request", share, limit=PREEMPTED))
    preempts = share >= PREEMPTED.value
    if not (preempts or (e.kv_used_most >= KV_FULL.value and (e.waiting or 0.0) > 0.0)):
        return None
    what = f"{e.preemptions:,.0f} preemptions in {e.requests:,.0f} requests" if preempts else "new requests wait for it"
    return Verdict(
        name="memory-capacity bound",
        sentence=f"The KV cache is full ({e.kv_used_most:.0%} in use at most): {what}.",
        facts=(*facts, *known_facts(e, "waiting", "running")),
        remedy="accelerator",
        next_step=f"first settings: {page.cache_advice if page else MORE_CACHE}; then more memory: tensor parallelism, "
        "a larger card",
        gain=_queue_share(e) or share,
    )


def _page(engine: str | None) -> ServerMetrics | None:
    """What is known of an engine's metrics page."""
    return next((page for page in server_metrics() if page.name == engine), None)


def _queue_share(e: Evidence) -> float | None:
    """Waiting as a share of the time to first token, or of the whole answer where that is not known."""
    whole = e.ttft_s or e.e2e_s
    return None if e.queue_s is None or not whole else min(1.0, e.queue_s / whole)


def queueing(e: Evidence) -> Verdict | Missing | None:
    """Requests wait although the cache has room: there are too few seats or too few replicas."""
    share = _queue_share(e)
    if share is None and e.waiting is None:
        page = _page(e.engine)
        how = page.queue_advice if page else NO_PAGE
        return Missing(verdict="queueing", needs="time or requests in the queue", how=how)
    long = share is not None and (e.requests or 0.0) >= MIN_REQUESTS and share >= QUEUED.value
    many = e.waiting is not None and e.waiting >= WAITING.value and (e.samples or 0) > 1
    if not (long or many):
        return None
    facts = []
    if share is not None and e.queue_s is not None:
        facts += [
            fact("queueing, share of time to first token", share, limit=QUEUED),
            fact("queueing, mean", e.queue_s, unit="s"),
        ]
    facts += known_facts(e, waiting=WAITING)
    first = ""
    if e.running_limit is not None and e.running_most is not None and e.running_most >= e.running_limit:
        facts.append(fact("requests running, of the engine's limit", e.running_limit, unit="requests"))
        if e.kv_used_most is not None and e.kv_used_most < KV_FULL.value:
            first = "raise the engine's limit of running requests, for its cache has room; then "
    said = f"{e.waiting or 0.0:.3g} requests wait on average"
    if e.queue_s and e.ttft_s:
        said = f"{show(e.queue_s, 's')} of {show(e.ttft_s, 's')} to the first token is waiting"
    return Verdict(
        name="queueing",
        sentence=f"Requests queue: {said}.",
        facts=tuple(facts),
        remedy="settings" if first else "capacity",
        next_step=f"{first}add replicas for the peak (`tonnage measure capacity` says how many), or admit less",
        gain=share,
    )


def past_knee(e: Evidence) -> Verdict | Missing | None:
    """
    Beyond the load with the most throughput over p95 latency (the knee), p95 grows faster than throughput at the
    highest load.
    """
    if len(e.levels) < 2:
        return Missing(
            verdict="p95 growing faster than throughput",
            needs="at least two loads",
            how="`tonnage measure serve URL --sweep`, or a window over which the load varies",
        )
    levels = sorted(e.levels, key=lambda level: level.level)
    best, last = max(levels, key=lambda level: level.requests_per_s / level.p95_s), levels[-1]
    if last.level <= best.level:
        return None
    slower, more = last.p95_s / best.p95_s, last.requests_per_s / best.requests_per_s
    if slower - 1.0 <= WORSE.value or slower <= KNEE.value * more:
        return None
    return Verdict(
        name="p95 growing faster than throughput",
        sentence=f"Above a load of {best.level:.3g} p95 grows faster than throughput: at {last.level:.3g} it is "
        f"{slower:.3g} times as long for {more:.3g} times the requests.",
        facts=(
            fact("growth of p95 over growth of throughput", slower / more, unit="count", limit=KNEE),
            *(fact(f"p95 at {one.level:.3g}", one.p95_s, unit="s") for one in (best, last)),
            *(fact(f"throughput at {one.level:.3g}", one.requests_per_s, unit="requests/s") for one in (best, last)),
        ),
        remedy="capacity",
        next_step=f"hold each replica at a load of about {best.level:.3g} and add replicas beyond it",
        gain=1.0 - more / slower,
    )


@rule(
    "over-provisioned",
    "capacity",
    step="check that the window holds the peak; then fewer replicas, a smaller card, or scale to zero",
)
def over_provisioned(e: Evidence) -> Seen | Missing | None:
    """Far less load than the server could take: nothing waits, the cache is nearly empty, few run."""
    if e.waiting_most is None or e.running_most is None or (e.samples or 0) < 2:
        return Missing(
            verdict="over-provisioned",
            needs="running and waiting requests over a window of its usual load",
            how="a Prometheus server, or --window for a live endpoint, over hours that include the peak",
        )
    if e.waiting_most > 0 or e.slo_missed or (e.failed_share or 0.0) > FAILING.value:
        return None
    idle = e.idle_share is not None and e.idle_share >= IDLE.value
    roomy = e.kv_used_most is not None and e.kv_used_most < KV_EMPTY.value
    seats = e.running_limit is None or e.running_most <= KV_EMPTY.value * e.running_limit
    if not ((roomy and seats) or (idle and (roomy or e.kv_used_most is None))):
        return None
    facts = [*known_facts(e, "waiting_most", "running_most"), *known_facts(e, kv_used_most=KV_EMPTY, idle_share=IDLE)]
    seen = f"over {e.window_s / 3600:.3g} h" if e.window_s and e.window_s >= 600 else "in this short window"
    said = f"nothing ever waits, and at most {e.running_most:.3g} requests run at once."
    return f"More is rented than is used {seen}: {said}", facts, e.idle_share


@rule(
    "cold start",
    "settings",
    step="send warm-up requests before a replica takes traffic, keep compiled kernels and graphs in a cache that "
    "outlives the container, and keep one replica warm",
)
def cold_start(e: Evidence) -> Seen | None:
    """The first requests take far longer: weights are loaded, graphs captured, kernels compiled."""
    if e.first_s is None or e.later_s is None or not 0.0 < COLD.value * e.later_s <= e.first_s:
        return None
    facts = [
        fact("first over later time to first token", e.first_s / e.later_s, unit="count", limit=COLD),
        *known_facts(e, "first_s", "later_s"),
    ]
    said = f"The first requests wait {show(e.first_s, 's')} for a token, later ones {show(e.later_s, 's')}."
    return said, facts, None


@rule(
    "regression",
    "code",
    step="compare versions and settings of both runs (`tonnage history show`); go back unless it is meant",
)
def regression(e: Evidence) -> Seen | None:
    """Worse than an earlier measurement of the same loads: facts are the shares by which it is worse."""
    worse = [one for one in e.baseline if one.value > WORSE.value]
    if not worse:
        return None
    most = max(worse, key=lambda one: one.value)
    return f"Worse than the baseline: {most.name} by {most.value:.0%}.", worse, most.value


SERVING_RULES: Final[tuple[Rule, ...]] = (
    client_late,
    failing,
    regression,
    memory_capacity,
    queueing,
    past_knee,
    cold_start,
    over_provisioned,
)
"""What limits more comes first."""


STEPS: Final = "`tonnage measure train -- python train.py`, or the probe inside the script"


def _part_s(e: Evidence, name: str) -> float | None:
    """One part of a step; None where it, or the step, is not known. [s]"""
    found: float | None = getattr(e.parts, name, None)
    return found if e.step_s else None


@rule(
    "input-bound",
    "code",
    step="more loader processes, pinned memory and prefetch, decoding beforehand or on the accelerator, data on local "
    "NVMe; another accelerator would wait as long",
)
def input_bound(e: Evidence) -> Seen | Missing | None:
    """The step waits for its data."""
    waits = _part_s(e, "input_s")
    if waits is None or not e.step_s:
        return Missing(verdict="input-bound", needs="waiting for data in a step", how=STEPS)
    share = waits / e.step_s
    if share < INPUT_SOME.value:
        return None
    high = share >= INPUT_HIGH.value
    facts = [
        fact("waiting for data, of a step", share, limit=INPUT_HIGH if high else INPUT_SOME),
        fact("waiting for data", waits, unit="s"),
        *known_facts(e, "step_s", "cpu_busy", "disk_busy"),
    ]
    return f"{share:.0%} of each step waits for data: {'highly' if high else 'moderately'} input-bound.", facts, share


@rule(
    "communication-bound",
    "accelerator",
    step="first code: larger micro-batches or gradient accumulation, overlap, collectives of fewer bits, sharding "
    "inside a node only; then faster links, or fewer and larger accelerators",
)
def communication_bound(e: Evidence) -> Seen | Missing | None:
    """Collectives that nothing hides."""
    exposed = _part_s(e, "communication_s")
    if exposed is None or not e.step_s:
        if e.devices is not None and e.devices < 2:
            return None
        return Missing(verdict="communication-bound", needs="exposed collectives in a step", how=STEPS)
    share = exposed / e.step_s
    # Where the others wait for one, straggler says it.
    if share < COMMUNICATION.value or (e.slowest_share or 0.0) >= STRAGGLER.value:
        return None
    facts = [
        fact("collectives that nothing hides, of a step", share, limit=COMMUNICATION),
        fact("collectives that nothing hides", exposed, unit="s"),
        *known_facts(e, "hidden_communication_s", "scaling_efficiency"),
    ]
    return f"{share:.0%} of each step is collectives that nothing hides.", facts, share


@rule(
    "straggler",
    "code",
    step="balance what each rank gets (lengths, experts, stages); look at the clocks of a slow host",
)
def straggler(e: Evidence) -> Seen | None:
    """One rank computes longer and all others wait for it."""
    slower = e.slowest_share
    if slower is None or slower < STRAGGLER.value:
        return None
    said = f"One rank computes {slower:.0%} longer than the median, and the others wait for it."
    return said, known_facts(e, slowest_share=STRAGGLER), slower / (1.0 + slower)


@rule(
    "checkpoint-bound",
    "code",
    step="write asynchronously (torch.distributed.checkpoint.async_save), to local disks first, or less often",
)
def checkpoint_bound(e: Evidence) -> Seen | None:
    """Steps wait for checkpoints; a part that is not known counts as none."""
    share = (_part_s(e, "checkpoint_s") or 0.0) / (e.step_s or 1.0)
    if share < CHECKPOINT.value:
        return None
    said = f"{share:.0%} of the time goes into checkpoints."
    return said, [fact("checkpoints, of a step", share, limit=CHECKPOINT)], share


@rule(
    "under-utilised",
    "code",
    step="torch.compile or CUDA graphs, larger micro-batches, no .item() or print between steps",
)
def launch_bound(e: Evidence) -> Seen | None:
    """
    The accelerator has gaps that neither data, collectives nor checkpoints explain: kernels come too slowly. Parts that
    are not known count as none.
    """
    if e.busy_s is None or not e.step_s:
        return None
    known = sum(_part_s(e, name) or 0.0 for name in ("input_s", "communication_s", "checkpoint_s"))
    share = (e.step_s - e.busy_s - known) / e.step_s
    if share < LAUNCH.value:
        return None
    facts = [
        fact("accelerator without a kernel, of a step", share, limit=LAUNCH),
        *known_facts(e, "kernel_s", "utilisation"),
    ]
    said = f"The accelerator has nothing to run in {share:.0%} of each step, and data is not the reason."
    return said, facts, share


@rule(
    "memory-capacity bound",
    "accelerator",
    step="recompute activations, shard optimizer and weights (FSDP), smaller micro-batches; then more memory",
)
def training_memory_capacity(e: Evidence) -> Seen | None:
    """Memory is full, or the allocator had to give back and start again; fragmentation is a verdict of its own."""
    facts, full = known_facts(e, "alloc_retries"), False
    if e.memory_peak_bytes is not None and e.memory_capacity_bytes:
        used = e.memory_peak_bytes / e.memory_capacity_bytes
        facts.append(fact("memory in use, most", used, limit=NEARLY_FULL))
        full = used >= NEARLY_FULL.value
    if not (e.alloc_retries or full) or _held_share(e) >= FRAGMENTED.value:  # which fragmentation says
        return None
    more = ", and the allocator already starts again" if e.alloc_retries else ""
    return f"Memory is full: the next longer batch fails{more}.", facts, None


def _held_share(e: Evidence) -> float:
    """Of the memory, what the allocator holds and no tensor uses; 0 where it is not known."""
    if e.memory_reserved_bytes is None or e.memory_peak_bytes is None or not e.memory_capacity_bytes:
        return 0.0
    return (e.memory_reserved_bytes - e.memory_peak_bytes) / e.memory_capacity_bytes


@rule(
    "fragmentation",
    "settings",
    step="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or batches padded to few lengths; no larger card",
)
def fragmentation(e: Evidence) -> Seen | Missing | None:
    """The allocator holds much that no tensor uses, and memory is nearly gone."""
    if e.memory_reserved_bytes is None or e.memory_peak_bytes is None or not e.memory_capacity_bytes:
        return Missing(
            verdict="fragmentation",
            needs="memory in use and memory held by the allocator",
            how="the probe of `tonnage measure train` on an accelerator, or torch.cuda.memory_stats()",
        )
    held = _held_share(e)
    tight = e.memory_reserved_bytes >= 0.9 * e.memory_capacity_bytes
    if held < FRAGMENTED.value or not (tight or e.alloc_retries):
        return None
    facts = [
        fact("memory held and not used", held, limit=FRAGMENTED),
        *known_facts(e, "memory_reserved_bytes", "memory_peak_bytes"),
    ]
    return f"{held:.0%} of the memory is held by the allocator and used by no tensor.", facts, None


TRAINING_RULES: Final[tuple[Rule, ...]] = (
    input_bound,
    communication_bound,
    straggler,
    checkpoint_bound,
    launch_bound,
    training_memory_capacity,
    fragmentation,
)
