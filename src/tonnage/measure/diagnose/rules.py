"""What limits a server, or a training step? Rules over what engines, clients and steps say, a row each."""

from __future__ import annotations

from operator import gt, lt
from typing import Final

from msgspec.structs import replace

from tonnage.domain.diagnosis import Evidence, Missing, Verdict
from tonnage.measure.diagnose.row import Limit, Rule, fact, facts_of, known_values, page_of
from tonnage.units import percent, show

FAILING: Final = Limit(0.05, "as the sweep: a load whose requests fail more often is not sustained", gt)
WORSE: Final = Limit(0.10, "ours: twice the 5 % by which repeated runs differ", gt)
KV_FULL: Final = Limit(0.90, "ours: vLLM admits nothing more and preempts from here on as requests grow")
KV_EMPTY: Final = Limit(0.25, "ours: four times the load would fit into the cache", lt)
QUEUED: Final = Limit(0.50, "ours: more than half of the time to first token is waiting")
WAITING: Final = Limit(1.0, "ours: on average at least one request waits")
KNEE: Final = Limit(1.0, "Kleinrock 1979: beyond the knee latency grows faster, in proportion, than throughput")
IDLE: Final = Limit(0.50, "ours: nothing to do half of the time")
STRAGGLER: Final = Limit(0.10, "ours: beyond the 5 to 10 % by which equal machines differ")
FRAGMENTED: Final = Limit(0.20, "ours: a fifth of the memory held and not used")
MIN_REQUESTS: Final = 20.0
"""Requests below which a mean says little. [requests]"""


def regression(e: Evidence) -> Verdict | None:
    """Worse than an earlier measurement of the same loads: facts are the shares by which it is worse."""
    worse = [one for one in e.baseline if one.value > WORSE.value]
    if not worse:
        return None
    most = max(worse, key=lambda one: one.value)
    return Verdict(
        name="regression",
        sentence=f"Worse than the baseline: {most.name} by {percent(most.value)}.",
        facts=tuple(worse),
        remedy="code",
        next_step="compare versions and settings of both runs (`tonnage history show`); go back unless it is meant",
        gain=most.value,
    )


def queueing(e: Evidence) -> Verdict | Missing | None:
    """Requests wait although the cache has room: there are too few seats or too few replicas."""
    known = known_values(e)
    share = known.get("queue_share")
    if share is None and e.waiting is None:
        how = page_of(e.engine).queue_advice
        return Missing(verdict="queueing", needs="time or requests in the queue", how=how)
    long = share is not None and (e.requests or 0.0) >= MIN_REQUESTS and share >= QUEUED.value
    many = e.waiting is not None and e.waiting >= WAITING.value and (e.samples or 0) > 1
    if not (long or many):
        return None
    shown: dict[str, Limit | None] = {} if share is None else {"queue_share": QUEUED, "queue_s": None}
    shown["waiting"] = WAITING
    first = ""
    if e.running_limit is not None and e.running_most is not None and e.running_most >= e.running_limit:
        shown["running_limit"] = None
        if e.kv_used_most is not None and e.kv_used_most < KV_FULL.value:
            first = "raise the engine's limit of running requests, for its cache has room; then "
    said = f"{e.waiting or 0.0:.3g} requests wait on average"
    if e.queue_s and e.ttft_s:
        said = f"{show(e.queue_s, 's')} of {show(e.ttft_s, 's')} to the first token is waiting"
    return Verdict(
        name="queueing",
        sentence=f"Requests queue: {said}.",
        facts=facts_of(known, shown),
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


def over_provisioned(e: Evidence) -> Verdict | Missing | None:
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
    seen = f"over {e.window_s / 3600:.3g} h" if e.window_s and e.window_s >= 600 else "in this short window"
    said = f"nothing ever waits, and at most {e.running_most:.3g} requests run at once."
    return Verdict(
        name="over-provisioned",
        sentence=f"More is rented than is used {seen}: {said}",
        facts=facts_of(
            known_values(e),
            {"waiting_most": None, "running_most": None, "kv_used_most": KV_EMPTY, "idle_share": IDLE},
        ),
        remedy="capacity",
        next_step="check that the window holds the peak; then fewer replicas, a smaller card, or scale to zero",
        gain=e.idle_share,
    )


_PREEMPTING: Final = Rule(
    "memory-capacity bound",
    "The KV cache is full ({kv_used_most} in use at most): {preemptions:,.0f} preemptions in {requests:,.0f} requests.",
    {
        "kv_used_most": KV_FULL,
        "preempted_share": Limit(0.01, "ours: one request in a hundred computed twice"),
        "waiting": None,
        "running": None,
    },
    remedy="accelerator",
    step="first settings: {page.cache_advice}; then more memory: tensor parallelism, a larger card",
    gain="cache_gain",
    by=("preempted_share",),
    only=lambda known: "kv_used_most" in known,
)

SERVING_RULES: Final = (
    Rule(
        "client-bound",
        "The measuring client is late by {client_delay_s} itself; latencies here hold it.",
        {"client_delay_share": Limit(0.10, "ours: guidellm warns at 1 %; a tenth changes what is concluded", gt)},
        remedy="measure",
        step="give the client a core of its own or less load, and measure again before changing anything",
    ),
    Rule(
        "failing",
        "{failed_share} of the requests fail or are given up.",
        {"failed_share": FAILING},
        remedy="code",
        step="read the server's log for the first failure; time-outs of clients count as aborted",
        gain="failed_share",
        only=lambda known: known.get("requests"),
    ),
    regression,
    _PREEMPTING,
    replace(
        _PREEMPTING,
        said="The KV cache is full ({kv_used_most} in use at most): new requests wait for it.",
        by=("kv_used_most",),
        only=lambda known: known.get("waiting"),
        needs="share of the KV cache in use",
        how="{cache}",
    ),
    queueing,
    past_knee,
    Rule(
        "cold start",
        "The first requests wait {first_s} for a token, later ones {later_s}.",
        {
            "first_over_later": Limit(3.0, "ours: three times a warm request, beyond what load alone explains"),
            "first_s": None,
            "later_s": None,
        },
        remedy="settings",
        step="send warm-up requests before a replica takes traffic, keep compiled kernels and graphs in a cache that "
        "outlives the container, and keep one replica warm",
    ),
    over_provisioned,
)
"""What limits more comes first; of one name the first counts."""


STEPS: Final = "`tonnage measure train -- python train.py`, or the probe inside the script"

_INPUT: Final = Rule(
    "input-bound",
    "{input_share} of each step waits for data: moderately input-bound.",
    {
        "input_share": Limit(0.05, "TensorFlow Profiler calls a step moderately input-bound from 5 % on"),
        "input_s": None,
        "step_s": None,
        "cpu_busy": None,
        "disk_busy": None,
    },
    remedy="code",
    step="more loader processes, pinned memory and prefetch, decoding beforehand or on the accelerator, data on local "
    "NVMe; another accelerator would wait as long",
    gain="input_share",
    needs="waiting for data in a step",
    how=STEPS,
)
_FULL: Final = Rule(
    "memory-capacity bound",
    "Memory is full: the next longer batch fails, and the allocator already starts again.",
    {"alloc_retries": None, "memory_share": Limit(0.95, "ours: what allocators and libraries take besides")},
    remedy="accelerator",
    step="recompute activations, shard optimizer and weights (FSDP), smaller micro-batches; then more memory",
    by=("alloc_retries",),
    # What the allocator holds and no tensor uses is the next rule's.
    only=lambda known: known.get("alloc_retries") and known.get("unused_share", 0.0) < FRAGMENTED.value,
)


TRAINING_RULES: Final = (
    replace(
        _INPUT,
        said="{input_share} of each step waits for data: highly input-bound.",
        facts={
            **_INPUT.facts,
            "input_share": Limit(0.20, "TensorFlow Profiler calls a step highly input-bound from 20 % on"),
        },
    ),
    _INPUT,
    Rule(
        "communication-bound",
        "{communication_share} of each step is collectives that nothing hides.",
        {
            "communication_share": Limit(0.20, "the share from which TensorFlow Profiler calls a stall high"),
            "communication_s": None,
            "hidden_communication_s": None,
            "scaling_efficiency": None,
        },
        remedy="accelerator",
        step="first code: larger micro-batches or gradient accumulation, overlap, collectives of fewer bits, sharding "
        "inside a node only; then faster links, or fewer and larger accelerators",
        gain="communication_share",
        # Where the others wait for one, the next rule says it.
        only=lambda known: known.get("slowest_share", 0.0) < STRAGGLER.value,
        needs="exposed collectives in a step",
        how=STEPS,
    ),
    Rule(
        "straggler",
        "One rank computes {slowest_share} longer than the median, and the others wait for it.",
        {"slowest_share": STRAGGLER},
        remedy="code",
        step="balance what each rank gets (lengths, experts, stages); look at the clocks of a slow host",
        gain="straggler_gain",
    ),
    Rule(
        "checkpoint-bound",
        "{checkpoint_share} of the time goes into checkpoints.",
        {"checkpoint_share": Limit(0.05, "the share from which TensorFlow Profiler calls a stall moderate")},
        remedy="code",
        step="write asynchronously (torch.distributed.checkpoint.async_save), to local disks first, or less often",
        gain="checkpoint_share",
    ),
    Rule(
        "under-utilised",
        "The accelerator has nothing to run in {gap_share} of each step, and data is not the reason.",
        {
            "gap_share": Limit(0.15, "TensorFlow Profiler calls a step highly launch-bound from 15 % on"),
            "kernel_s": None,
            "utilisation": None,
        },
        remedy="code",
        step="torch.compile or CUDA graphs, larger micro-batches, no .item() or print between steps",
        gain="gap_share",
    ),
    _FULL,
    replace(
        _FULL,
        said="Memory is full: the next longer batch fails.",
        by=("memory_share",),
        only=lambda known: known.get("unused_share", 0.0) < FRAGMENTED.value,
    ),
    Rule(
        "fragmentation",
        "{unused_share} of the memory is held by the allocator and used by no tensor.",
        {"unused_share": FRAGMENTED, "memory_reserved_bytes": None, "memory_peak_bytes": None},
        remedy="settings",
        step="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or batches padded to few lengths; no larger card",
        only=lambda known: known.get("alloc_retries") or known["held_share"] >= 0.9,
        needs="memory in use and memory held by the allocator",
        how="the probe of `tonnage measure train` on an accelerator, or torch.cuda.memory_stats()",
    ),
)
