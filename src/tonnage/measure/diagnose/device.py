"""What limits the accelerator and its host? Rules over their counters; utilisation alone judges nothing."""

from __future__ import annotations

from functools import partial
from typing import Final

from tonnage.domain.diagnosis import Evidence, Fact, Missing, Verdict
from tonnage.measure.diagnose.limits import (
    DISK_BUSY,
    DRAM,
    EMPTY_DRAM,
    EMPTY_TENSOR,
    HOST_BUSY,
    LINK,
    MBU,
    MFU,
    TENSOR,
    THROTTLED,
    Rule,
    Seen,
    fact,
    known_facts,
    rule,
)

PROFILING: Final = (
    "dcgm-exporter with DCGM_FI_PROF_PIPE_TENSOR_ACTIVE and DCGM_FI_PROF_DRAM_ACTIVE among its counters "
    "(-f dcp-metrics-included.csv, needs the capability SYS_ADMIN)"
)
VIOLATIONS: Final = (
    "dcgm-exporter with DCGM_FI_DEV_POWER_VIOLATION, DCGM_FI_DEV_THERMAL_VIOLATION or "
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS among its counters; `nvidia-smi -q -d PERFORMANCE` shows the moment"
)


def throttled(e: Evidence) -> Verdict | Missing | None:
    """
    The clock is held down by power or heat, for a twentieth of the window or by the reasons that the driver states.

    Where shares of the window are known, they alone decide. Of accelerators whose sources tell neither, how to know is
    the answer.
    """
    causes = (("power", e.power_throttled_share), ("temperature", e.thermal_throttled_share))
    shares = {name: value for name, value in causes if value is not None}
    if not shares and not e.throttle_reasons:
        missing = Missing(verdict="throttled", needs="time spent throttled, or the reasons", how=VIOLATIONS)
        return missing if "accelerator" in e.kinds else None
    facts = [
        fact(f"clock held down by {name}", value, limit=THROTTLED)
        for name, value in shares.items()
        if value >= THROTTLED.value
    ]
    if not facts and shares:
        return None
    facts += known_facts(e, "temperature_c", "power_w")
    heat = shares.get("temperature", 0.0) >= THROTTLED.value or any("temperature" in one for one in e.throttle_reasons)
    named = f" ({', '.join(e.throttle_reasons)})" if e.throttle_reasons else ""
    return Verdict(
        name="throttled",
        sentence=f"The accelerator's clock is held down by {'heat' if heat else 'power'}{named}.",
        facts=tuple(facts) or tuple(Fact(name=reason, value=1.0, unit="count") for reason in e.throttle_reasons),
        remedy="settings",
        next_step="check air flow, dust and inlet temperature"
        if heat
        else "raise the power limit (nvidia-smi -pl) if the node's supply allows; work at the cap is no fault",
        gain=max(shares.values(), default=None),
    )


_ACTIVE: Final = (
    ("compute", "tensor_active", TENSOR, "cycles with matrix units at work"),
    ("bandwidth", "dram_active", DRAM, "cycles with memory at work"),
)
_REACHED: Final = (
    ("compute", "mfu", MFU, "FLOP/s of the work, of the peak"),
    ("bandwidth", "mbu", MBU, "bytes/s of the work, of the peak"),
)
"""Limit, what shows it in the evidence, threshold, and its name."""


def _bound(e: Evidence, *, by: str) -> Verdict | Missing | None:
    """
    Whether matrix units (`by` compute) or memory traffic (`by` bandwidth) is the limit: over its threshold, and further
    over it than the other over its own.

    By the counters of cycles, else by FLOP/s and bytes/s of the work over the peaks; where neither pair is known, how
    to know it is the answer, once for both.
    """
    known = next((rows for rows in (_ACTIVE, _REACHED) if all(getattr(e, row[1]) is not None for row in rows)), None)
    if known is None:
        if by == "bandwidth" or "host" in e.kinds[:1]:
            return None  # said once, by the other
        return Missing(
            verdict="compute-bound or bandwidth-bound",
            needs="how busy matrix units and memory are (utilisation does not tell)",
            how=PROFILING,
        )
    own, other = ((getattr(e, field), limit, name) for _, field, limit, name in sorted(known, key=lambda r: r[0] != by))
    value, limit, name = own
    if value < limit.value or value / limit.value < other[0] / other[1].value:
        return None
    compute = by == "compute"
    return Verdict(
        name=f"{by}-bound",
        sentence=f"Matrix units are the limit: {value:.0%} {name.partition(' ')[0]} at work or reached."
        if compute
        else f"Memory bandwidth is the limit: {value:.0%} of the peak or of all cycles.",
        facts=(
            fact(name, value, limit=limit),
            fact(other[2], other[0], limit=other[1]),
            *known_facts(e, "utilisation"),
        ),
        remedy="accelerator",
        next_step="fewer bits for weights and activations (FP8), then accelerators with more FLOP/s per dollar"
        if compute
        else "larger batches if latency allows, fewer bits for weights and cache, then accelerators with more "
        "bandwidth",
        gain=min(1.0, value),
    )


@rule(
    "under-utilised",
    "code",
    step="CUDA graphs (no --enforce-eager) and larger batches; fewer Python steps between kernels; a faster processor "
    "before a faster accelerator",
)
def under_utilised(e: Evidence) -> Seen | None:
    """There is work, and neither matrix units nor memory do much of it: the host is what it waits for."""
    if e.tensor_active is None or e.dram_active is None:
        return None  # said by `_bound`
    working = (e.running or 0.0) >= 1.0 or (e.utilisation or 0.0) >= 0.5
    idle = e.tensor_active < EMPTY_TENSOR.value and e.dram_active < EMPTY_DRAM.value
    stalled = e.parts is not None and e.step_s is not None  # training: its own parts say what stalls
    if not (working and idle) or stalled:
        return None
    small = "kernels are small or far apart" if (e.utilisation or 0.0) >= 0.5 else "it waits for the host"
    return (
        f"There is work, but the accelerator does little of it: {small}.",
        known_facts(e, "utilisation", "running", "cpu_busy", tensor_active=EMPTY_TENSOR, dram_active=EMPTY_DRAM),
        1.0 - max(e.tensor_active / TENSOR.value, e.dram_active / DRAM.value),
    )


@rule(
    "communication-bound",
    "accelerator",
    step="less tensor and more data parallelism, collectives of fewer bits, then faster links",
)
def link_bound(e: Evidence) -> Seen | None:
    """Links between accelerators are the limit, by their own counters."""
    if e.link_bytes_per_s is None or not e.link_peak_bytes_per_s:
        return None
    share = e.link_bytes_per_s / e.link_peak_bytes_per_s
    if share < LINK.value:
        return None
    said = f"The links between accelerators are at {share:.0%} of their peak."
    return said, [fact("link traffic, of the peak", share, limit=LINK)], share


def host_bound(e: Evidence) -> Verdict | None:
    """Processors or a disk of the host are full while accelerators wait; never said of a server."""
    full = {
        name: limit
        for name, limit in (("cpu_busy", HOST_BUSY), ("disk_busy", DISK_BUSY))
        if (getattr(e, name) or 0.0) >= limit.value
    }
    waits = e.tensor_active is not None and e.tensor_active < EMPTY_TENSOR.value
    if not full or not waits or "serving" in e.kinds:
        return None
    disk = "disk_busy" in full
    return Verdict(
        name="input-bound",
        sentence=f"The accelerator waits while the host's {'disk is' if disk else 'processors are'} full.",
        facts=tuple(known_facts(e, tensor_active=EMPTY_TENSOR, **full)),
        remedy="code",
        next_step="cache or decode the data beforehand"
        + (", local NVMe" if disk else ", more loader processes or decoding on the accelerator")
        + "; `tonnage measure train` says how much of a step it costs",
    )


RULES: Final[tuple[Rule, ...]] = (
    throttled,
    host_bound,
    link_bound,
    partial(_bound, by="compute"),
    partial(_bound, by="bandwidth"),
    under_utilised,
)
