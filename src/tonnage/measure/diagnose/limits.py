"""From which value on is something a limit, and who says so? One line a threshold; verdicts cite them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tonnage.domain.diagnosis import Evidence, Fact, Missing, Remedy, Verdict

Rule = Callable[[Evidence], Verdict | Missing | None]
Seen = tuple[str, Iterable[Fact], float | None]
"""A sentence, the facts that it rests on, and the most that removing the limit brings."""


class Limit(NamedTuple):
    """A threshold and where it comes from."""

    value: float
    why: str


INPUT_SOME: Final = Limit(0.05, "TensorFlow Profiler calls a step moderately input-bound from 5 % on")
INPUT_HIGH: Final = Limit(0.20, "TensorFlow Profiler calls a step highly input-bound from 20 % on")
COMMUNICATION: Final = Limit(0.20, "the share from which TensorFlow Profiler calls a stall high")
CHECKPOINT: Final = Limit(0.05, "the share from which TensorFlow Profiler calls a stall moderate")
LAUNCH: Final = Limit(0.15, "TensorFlow Profiler calls a step highly launch-bound from 15 % on")
STRAGGLER: Final = Limit(0.10, "ours: beyond the 5 to 10 % by which equal machines differ")
DRAM: Final = Limit(0.60, "NVIDIA's DCGM guide: about 0.8 is the most that memory reaches; three quarters of it")
TENSOR: Final = Limit(0.50, "ours: matrix units at work in half of all cycles are rare below their limit")
MFU: Final = Limit(0.38, "Llama 3 report, section 3.3: 38 to 43 % is what well-tuned runs reach")
MBU: Final = Limit(0.60, "Databricks, LLM inference performance engineering: 55 to 60 % at the limit of bandwidth")
EMPTY_TENSOR: Final = Limit(0.10, "ours: a fifth of what the compute limit takes")
EMPTY_DRAM: Final = Limit(0.30, "ours: half of what the bandwidth limit takes")
LINK: Final = Limit(0.60, "ours: as memory, three quarters of about 0.8 of the peak")
KV_FULL: Final = Limit(0.90, "ours: vLLM admits nothing more and preempts from here on as requests grow")
PREEMPTED: Final = Limit(0.01, "ours: one request in a hundred computed twice")
QUEUED: Final = Limit(0.50, "ours: more than half of the time to first token is waiting")
WAITING: Final = Limit(1.0, "ours: on average at least one request waits")
CLIENT: Final = Limit(0.10, "ours: guidellm warns at 1 %; a tenth changes what is concluded")
COLD: Final = Limit(3.0, "ours: three times a warm request, beyond what load alone explains")
FAILING: Final = Limit(0.05, "as the sweep: a load whose requests fail more often is not sustained")
KV_EMPTY: Final = Limit(0.25, "ours: four times the load would fit into the cache")
IDLE: Final = Limit(0.50, "ours: nothing to do half of the time")
THROTTLED: Final = Limit(0.05, "ours: one twentieth of the time at a lower clock")
FRAGMENTED: Final = Limit(0.20, "ours: a fifth of the memory held and not used")
NEARLY_FULL: Final = Limit(0.95, "ours: what allocators and libraries take besides")
KNEE: Final = Limit(1.0, "Kleinrock 1979: beyond the knee latency grows faster, in proportion, than throughput")
HOST_BUSY: Final = Limit(0.85, "ours: no room left for another loader")
DISK_BUSY: Final = Limit(0.85, "ours: a disk this busy queues what it is asked")
WORSE: Final = Limit(0.10, "ours: twice the 5 % by which repeated runs differ")
MIN_REQUESTS: Final = 20.0
"""Requests below which a mean says little. [requests]"""

_NAMES: Final = {
    "waiting": ("requests waiting, mean", "requests"),
    "waiting_most": ("requests waiting, most", "requests"),
    "running": ("requests running, mean", "requests"),
    "running_most": ("requests running, most", "requests"),
    "kv_used_most": ("KV cache in use, most", "share"),
    "idle_share": ("readings with nothing to do", "share"),
    "failed_share": ("requests failed or aborted", "share"),
    "first_s": ("time to first token, first requests", "s"),
    "later_s": ("time to first token, later", "s"),
    "utilisation": ("utilisation", "share"),
    "tensor_active": ("cycles with matrix units at work", "share"),
    "dram_active": ("cycles with memory at work", "share"),
    "temperature_c": ("temperature, most", "degC"),
    "power_w": ("power, mean", "W"),
    "cpu_busy": ("processors busy", "share"),
    "disk_busy": ("busiest disk busy", "share"),
    "step_s": ("step", "s"),
    "kernel_s": ("mean kernel", "s"),
    "hidden_communication_s": ("collectives hidden behind computing", "s"),
    "scaling_efficiency": ("scaling efficiency", "share"),
    "slowest_share": ("slowest over median rank, less 1", "share"),
    "memory_reserved_bytes": ("memory held", "bytes"),
    "memory_peak_bytes": ("memory in use, most", "bytes"),
    "alloc_retries": ("times the allocator had to start again", "count"),
}
"""What a value of the evidence is called as a fact, and its unit."""


def fact(name: str, value: float, *, unit: str = "share", limit: Limit | None = None) -> Fact:
    """A number with the threshold that it is held against."""
    return Fact(
        name=name, value=value, unit=unit, limit=limit.value if limit else None, why=limit.why if limit else None
    )


def known_facts(evidence: Evidence, *names: str, **held: Limit) -> list[Fact]:
    """Values of the evidence as facts, those held against a threshold first; what no source states is left out."""
    return [
        fact(_NAMES[name][0], value, unit=_NAMES[name][1], limit=held.get(name))
        for name in (*held, *names)
        if (value := getattr(evidence, name)) is not None
    ]


def rule(name: str, remedy: Remedy, *, step: str) -> Callable[[Callable[[Evidence], Seen | Missing | None]], Rule]:
    """A rule whose verdict is always called the same and always leads to the same step."""

    def named(look: Callable[[Evidence], Seen | Missing | None]) -> Rule:
        def judged(evidence: Evidence) -> Verdict | Missing | None:
            seen = look(evidence)
            if seen is None or isinstance(seen, Missing):
                return seen
            sentence, facts, gain = seen
            return Verdict(name=name, sentence=sentence, facts=tuple(facts), remedy=remedy, next_step=step, gain=gain)

        return judged

    return named
