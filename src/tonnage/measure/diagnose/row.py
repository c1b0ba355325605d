"""
What is a rule? One row: a verdict, the values of the evidence that show it with their thresholds, and the remedy.

A rule that a row cannot say is a function with the same answer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import asdict

from tonnage.domain.diagnosis import Evidence, Fact, Missing, Remedy, Verdict
from tonnage.domain.engine_spec import ServerMetrics
from tonnage.engines.registry import server_metrics
from tonnage.measure.summary import stated_values
from tonnage.record import Record
from tonnage.units import percent, show


class Limit(NamedTuple):
    """A threshold, where it comes from, and how a value beyond it compares with it."""

    value: float
    why: str
    beyond: Callable[[float, float], bool] = operator.ge


DRAM: Final = Limit(0.60, "NVIDIA's DCGM guide: about 0.8 is the most that memory reaches; three quarters of it")
TENSOR: Final = Limit(0.50, "ours: matrix units at work in half of all cycles are rare below their limit")

Known = Mapping[str, Any]
"""Values of the evidence by name, those that no source states left out."""

SHARES: Final[Mapping[str, Callable[[Known], float]]] = {
    "client_delay_share": lambda k: k["client_delay_s"] / k["ttft_s"],
    "preempted_share": lambda k: k["preemptions"] / k["requests"],
    "queue_share": lambda k: min(1.0, k["queue_s"] / (k.get("ttft_s") or k["e2e_s"])),
    "cache_gain": lambda k: k.get("queue_share") or k.get("preempted_share", 0.0),
    "first_over_later": lambda k: k["first_s"] / k["later_s"],
    "input_share": lambda k: k["input_s"] / k["step_s"],
    "communication_share": lambda k: k["communication_s"] / k["step_s"],
    "checkpoint_share": lambda k: k["checkpoint_s"] / k["step_s"],
    "gap_share": lambda k: (
        (k["step_s"] - k["busy_s"] - sum(k.get(f"{name}_s", 0.0) for name in ("input", "communication", "checkpoint")))
        / k["step_s"]
    ),
    "straggler_gain": lambda k: k["slowest_share"] / (1.0 + k["slowest_share"]),
    "memory_share": lambda k: k["memory_peak_bytes"] / k["memory_capacity_bytes"],
    "idle_gain": lambda k: 1.0 - max(k["tensor_active"] / TENSOR.value, k["dram_active"] / DRAM.value),
    "unused_share": lambda k: (k["memory_reserved_bytes"] - k["memory_peak_bytes"]) / k["memory_capacity_bytes"],
    "held_share": lambda k: k["memory_reserved_bytes"] / k["memory_capacity_bytes"],
    "link_share": lambda k: k["link_bytes_per_s"] / k["link_peak_bytes_per_s"],
    "mfu": lambda k: k["flop_per_s"] / k["peak_flop_per_s"],
    "mbu": lambda k: k["memory_bytes_per_s"] / k["peak_memory_bytes_per_s"],
}
"""What follows from values of the evidence; not known where one of them is not."""

NAMES: Final = {
    "client_delay_s": ("client delay, p99", "s"),
    "client_delay_share": ("client delay, p99, of time to first token", "share"),
    "waiting": ("requests waiting, mean", "requests"),
    "waiting_most": ("requests waiting, most", "requests"),
    "running": ("requests running, mean", "requests"),
    "running_most": ("requests running, most", "requests"),
    "running_limit": ("requests running, of the engine's limit", "requests"),
    "kv_used_most": ("KV cache in use, most", "share"),
    "preempted_share": ("preemptions per request", "share"),
    "queue_share": ("queueing, share of time to first token", "share"),
    "queue_s": ("queueing, mean", "s"),
    "idle_share": ("readings with nothing to do", "share"),
    "failed_share": ("requests failed or aborted", "share"),
    "first_over_later": ("first over later time to first token", "count"),
    "first_s": ("time to first token, first requests", "s"),
    "later_s": ("time to first token, later", "s"),
    "utilisation": ("utilisation", "share"),
    "tensor_active": ("cycles with matrix units at work", "share"),
    "dram_active": ("cycles with memory at work", "share"),
    "mfu": ("FLOP/s of the work, of the peak", "share"),
    "mbu": ("bytes/s of the work, of the peak", "share"),
    "temperature_c": ("temperature, most", "degC"),
    "power_w": ("power, mean", "W"),
    "power_throttled_share": ("clock held down by power", "share"),
    "thermal_throttled_share": ("clock held down by temperature", "share"),
    "link_share": ("link traffic, of the peak", "share"),
    "cpu_busy": ("processors busy", "share"),
    "disk_busy": ("busiest disk busy", "share"),
    "step_s": ("step", "s"),
    "input_share": ("waiting for data, of a step", "share"),
    "input_s": ("waiting for data", "s"),
    "communication_share": ("collectives that nothing hides, of a step", "share"),
    "communication_s": ("collectives that nothing hides", "s"),
    "hidden_communication_s": ("collectives hidden behind computing", "s"),
    "scaling_efficiency": ("scaling efficiency", "share"),
    "checkpoint_share": ("checkpoints, of a step", "share"),
    "gap_share": ("accelerator without a kernel, of a step", "share"),
    "kernel_s": ("mean kernel", "s"),
    "slowest_share": ("slowest over median rank, less 1", "share"),
    "memory_share": ("memory in use, most", "share"),
    "unused_share": ("memory held and not used", "share"),
    "memory_reserved_bytes": ("memory held", "bytes"),
    "memory_peak_bytes": ("memory in use, most", "bytes"),
    "alloc_retries": ("times the allocator had to start again", "count"),
}
"""What a value is called as a fact, and its unit."""

NO_PAGE: Final = ServerMetrics(
    name="",
    series={},
    queue_advice="give the engine's /metrics page (SGLang: --enable-metrics, llama.cpp: --metrics), or a measurement",
    cache_advice="a cache of fewer bits, shorter contexts, or fewer requests at once",
)
"""Where it is not known which server runs."""


def page_of(engine: str | None) -> ServerMetrics:
    """What is known of an engine's metrics page."""
    return next((page for page in server_metrics() if page.name == engine), NO_PAGE)


def known_values(e: Evidence) -> dict[str, Any]:
    """All that the evidence states or that follows from it, by name."""
    known = stated_values({**(asdict(e.parts) if e.parts else {}), **asdict(e)})
    if e.devices == 1:
        known.setdefault("communication_s", 0.0)
    for name, share in SHARES.items():
        try:
            known[name] = share(known)
        except (KeyError, ZeroDivisionError):
            continue
    return known


def facts_of(known: Known, limits: Mapping[str, Limit | None]) -> tuple[Fact, ...]:
    """Values as facts with the thresholds that they are held against; what is not known is left out."""
    return tuple(
        fact(NAMES[name][0], known[name], unit=NAMES[name][1], limit=limit)
        for name, limit in limits.items()
        if name in known
    )


def fact(name: str, value: float, *, unit: str = "share", limit: Limit | None = None) -> Fact:
    """A number with the threshold that it is held against."""
    return Fact(
        name=name, value=value, unit=unit, limit=limit.value if limit else None, why=limit.why if limit else None
    )


class Rule(Record):
    """
    A verdict where all its values are beyond their thresholds.

    Texts name values in braces: seconds are written with their unit, others take a format.
    """

    name: str
    said: str
    facts: Mapping[str, Limit | None]
    """Values that show it and their thresholds; others that are told with them have none."""
    remedy: Remedy
    step: str
    gain: str = ""
    """The value that is the most that removing it brings."""
    by: tuple[str, ...] = ()
    """Whose thresholds count; empty = all."""
    only: Callable[[Known], object] = lambda known: True
    """What a threshold cannot say."""
    needs: str = ""
    how: str = ""
    """Of values that are not known: what they are, and how one gets to know them; empty = they are not missed."""

    def __call__(self, e: Evidence) -> Verdict | Missing | None:
        """The verdict of this row; what is missing where a value with a threshold is not known."""
        known, page = known_values(e), page_of(e.engine)
        held = {name: limit for name, limit in self.facts.items() if limit and name in (self.by or self.facts)}
        if not held.keys() <= known.keys():
            how = self.how.format(cache=page.cache_unstated or page.queue_advice)
            return Missing(verdict=self.name, needs=self.needs, how=how) if self.needs else None
        if not all(limit.beyond(known[name], limit.value) for name, limit in held.items()) or not self.only(known):
            return None
        units = ((name, unit) for name, (_, unit) in NAMES.items() if unit in ("s", "share") and name in known)
        told = {name: percent(known[name]) if unit == "share" else show(known[name], unit) for name, unit in units}
        return Verdict(
            name=self.name,
            sentence=self.said.format(**known | told),
            facts=facts_of(known, self.facts),
            remedy=self.remedy,
            next_step=self.step.format(page=page),
            gain=known.get(self.gain),
        )
