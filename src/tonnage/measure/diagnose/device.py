"""What limits the accelerator and its host? Rules over their counters; utilisation alone judges nothing."""

from __future__ import annotations

from typing import Final

from tonnage.domain.diagnosis import Evidence, Fact, Missing, Verdict
from tonnage.measure.diagnose import limits
from tonnage.measure.diagnose.limits import fact

__all__ = ["RULES"]

Found = Verdict | Missing | None

PROFILING: Final = (
    "dcgm-exporter with DCGM_FI_PROF_PIPE_TENSOR_ACTIVE and DCGM_FI_PROF_DRAM_ACTIVE among its counters "
    "(-f dcp-metrics-included.csv, needs the capability SYS_ADMIN)"
)
VIOLATIONS: Final = (
    "dcgm-exporter with DCGM_FI_DEV_POWER_VIOLATION, DCGM_FI_DEV_THERMAL_VIOLATION or "
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS among its counters; `nvidia-smi -q -d PERFORMANCE` shows the moment"
)


def throttled(e: Evidence) -> Found:
    """The clock is held down by power or heat."""
    shares = (("power", e.power_throttled_share), ("temperature", e.thermal_throttled_share))
    if all(value is None for _, value in shares) and not e.throttle_reasons:
        if "accelerator" not in e.kinds:
            return None
        return Missing(verdict="throttled", needs="time spent throttled, or the reasons", how=VIOLATIONS)
    facts = [
        fact(f"clock held down by {name}", value, limit=limits.THROTTLED)
        for name, value in shares
        if value is not None and value >= limits.THROTTLED.value
    ]
    if not facts and not (e.throttle_reasons and all(value is None for _, value in shares)):
        return None
    if e.temperature_c is not None:
        facts.append(fact("temperature, most", e.temperature_c, unit="degC"))
    if e.power_w is not None:
        facts.append(fact("power, mean", e.power_w, unit="W"))
    heat = (e.thermal_throttled_share or 0.0) >= limits.THROTTLED.value or any(
        "temperature" in reason for reason in e.throttle_reasons
    )
    why = "heat" if heat else "power"
    named = f" ({', '.join(e.throttle_reasons)})" if e.throttle_reasons else ""
    return Verdict(
        name="throttled",
        sentence=f"The accelerator's clock is held down by {why}{named}.",
        facts=tuple(facts) or tuple(Fact(name=reason, value=1.0, unit="count") for reason in e.throttle_reasons),
        remedy="settings",
        next_step="check air flow, dust and inlet temperature"
        if heat
        else "raise the power limit (nvidia-smi -pl) if the node's supply allows; work at the cap is no fault",
        gain=max((value for _, value in shares if value is not None), default=None),
    )


def compute_bound(e: Evidence) -> Found:
    """Matrix units are the limit."""
    return _bound(e, by="compute")


def bandwidth_bound(e: Evidence) -> Found:
    """Memory traffic is the limit."""
    return _bound(e, by="bandwidth")


def _bound(e: Evidence, *, by: str) -> Found:
    """Which of the two is the limit: the one nearer to what it reaches, if it is near at all."""
    if e.tensor_active is not None and e.dram_active is not None:
        of = {
            "compute": (e.tensor_active, limits.TENSOR, "cycles with matrix units at work"),
            "bandwidth": (e.dram_active, limits.DRAM, "cycles with memory at work"),
        }
    elif e.mfu is not None and e.mbu is not None:
        of = {
            "compute": (e.mfu, limits.MFU, "FLOP/s of the work, of the peak"),
            "bandwidth": (e.mbu, limits.MBU, "bytes/s of the work, of the peak"),
        }
    else:
        if by == "bandwidth" or "host" in e.kinds[:1]:
            return None  # said once, by the other
        return Missing(
            verdict="compute-bound or bandwidth-bound",
            needs="how busy matrix units and memory are (utilisation does not tell)",
            how=PROFILING,
        )
    value, limit, name = of[by]
    other = of["bandwidth" if by == "compute" else "compute"]
    if value < limit.value or value / limit.value < other[0] / other[1].value:
        return None
    facts = [fact(name, value, limit=limit), fact(other[2], other[0], limit=other[1])]
    if e.utilisation is not None:
        facts.append(fact("utilisation", e.utilisation))
    if by == "compute":
        sentence = f"Matrix units are the limit: {value:.0%} {name.partition(' ')[0]} at work or reached."
        step = "fewer bits for weights and activations (FP8), then accelerators with more FLOP/s per dollar"
    else:
        sentence = f"Memory bandwidth is the limit: {value:.0%} of the peak or of all cycles."
        step = (
            "larger batches if latency allows, fewer bits for weights and cache, then accelerators with more bandwidth"
        )
    return Verdict(
        name=f"{by}-bound",
        sentence=sentence,
        facts=tuple(facts),
        remedy="accelerator",
        next_step=step,
        gain=min(1.0, value),
    )


def under_utilised(e: Evidence) -> Found:
    """There is work, and neither matrix units nor memory do much of it: the host is what it waits for."""
    if e.tensor_active is None or e.dram_active is None:
        return None  # said by compute_bound
    working = (e.running or 0.0) >= 1.0 or (e.utilisation or 0.0) >= 0.5
    idle = e.tensor_active < limits.EMPTY_TENSOR.value and e.dram_active < limits.EMPTY_DRAM.value
    stalled = e.parts is not None and e.step_s is not None  # training: its own parts say what stalls
    if not (working and idle) or stalled:
        return None
    facts = [
        fact("cycles with matrix units at work", e.tensor_active, limit=limits.EMPTY_TENSOR),
        fact("cycles with memory at work", e.dram_active, limit=limits.EMPTY_DRAM),
    ]
    if e.utilisation is not None:
        facts.append(fact("utilisation", e.utilisation))
    if e.running is not None:
        facts.append(fact("requests running, mean", e.running, unit="requests"))
    if e.cpu_busy is not None:
        facts.append(fact("processors busy", e.cpu_busy))
    small = "kernels are small or far apart" if (e.utilisation or 0.0) >= 0.5 else "it waits for the host"
    return Verdict(
        name="under-utilised",
        sentence=f"There is work, but the accelerator does little of it: {small}.",
        facts=tuple(facts),
        remedy="code",
        next_step="CUDA graphs (no --enforce-eager) and larger batches; fewer Python steps between kernels; a faster "
        "processor before a faster accelerator",
        gain=1.0 - max(e.tensor_active / limits.TENSOR.value, e.dram_active / limits.DRAM.value),
    )


def link_bound(e: Evidence) -> Found:
    """Links between accelerators are the limit, by their own counters."""
    if e.link_bytes_per_s is None or e.link_peak_bytes_per_s is None:
        return None
    share = e.link_bytes_per_s / e.link_peak_bytes_per_s
    if share < limits.LINK.value:
        return None
    return Verdict(
        name="communication-bound",
        sentence=f"The links between accelerators are at {share:.0%} of their peak.",
        facts=(fact("link traffic, of the peak", share, limit=limits.LINK),),
        remedy="accelerator",
        next_step="less tensor and more data parallelism, collectives of fewer bits, then faster links",
        gain=share,
    )


def host_bound(e: Evidence) -> Found:
    """Processors or a disk of the host are full while accelerators wait."""
    busy = e.cpu_busy is not None and e.cpu_busy >= limits.HOST_BUSY.value
    disk = e.disk_busy is not None and e.disk_busy >= limits.DISK_BUSY.value
    waits = e.tensor_active is not None and e.tensor_active < limits.EMPTY_TENSOR.value
    if not (busy or disk) or not waits or "serving" in e.kinds:
        return None
    facts = [fact("cycles with matrix units at work", e.tensor_active or 0.0, limit=limits.EMPTY_TENSOR)]
    if busy:
        facts.append(fact("processors busy", e.cpu_busy or 0.0, limit=limits.HOST_BUSY))
    if disk:
        facts.append(fact("busiest disk busy", e.disk_busy or 0.0, limit=limits.DISK_BUSY))
    return Verdict(
        name="input-bound",
        sentence=f"The accelerator waits while the host's {'disk is' if disk else 'processors are'} full.",
        facts=tuple(facts),
        remedy="code",
        next_step="cache or decode the data beforehand"
        + (", local NVMe" if disk else ", more loader processes or decoding on the accelerator")
        + "; `tonnage measure train` says how much of a step it costs",
    )


RULES: Final = (throttled, host_bound, link_bound, compute_bound, bandwidth_bound, under_utilised)
