"""What limits the accelerator and its host? Rules over their counters; utilisation alone judges nothing."""

from __future__ import annotations

from functools import partial
from operator import lt
from typing import Final

from msgspec.structs import replace

from tonnage.domain.diagnosis import Evidence, Fact, Missing, Verdict
from tonnage.measure.diagnose.row import DRAM, TENSOR, Limit, Rule, facts_of, known_values
from tonnage.units import percent

MFU: Final = Limit(0.38, "Llama 3 report, section 3.3: 38 to 43 % is what well-tuned runs reach")
MBU: Final = Limit(0.60, "Databricks, LLM inference performance engineering: 55 to 60 % at the limit of bandwidth")
EMPTY_TENSOR: Final = Limit(0.10, "ours: a fifth of what the compute limit takes", lt)
CPU_BUSY: Final = Limit(0.85, "ours: no room left for another loader")
DISK_BUSY: Final = Limit(0.85, "ours: a disk this busy queues what it is asked")
THROTTLED: Final = Limit(0.05, "ours: one twentieth of the time at a lower clock")
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
    known = known_values(e)
    causes = "power_throttled_share", "thermal_throttled_share"
    shares = {name: known[name] for name in causes if name in known}
    if not shares and not e.throttle_reasons:
        missing = Missing(verdict="throttled", needs="time spent throttled, or the reasons", how=VIOLATIONS)
        return missing if "accelerator" in e.kinds else None
    long = {name: THROTTLED for name, value in shares.items() if value >= THROTTLED.value}
    if not long and shares:
        return None
    facts = facts_of(known, {**long, "temperature_c": None, "power_w": None})
    heat = "thermal_throttled_share" in long or any("temperature" in one for one in e.throttle_reasons)
    named = f" ({', '.join(e.throttle_reasons)})" if e.throttle_reasons else ""
    return Verdict(
        name="throttled",
        sentence=f"The accelerator's clock is held down by {'heat' if heat else 'power'}{named}.",
        facts=facts or tuple(Fact(name=reason, value=1.0, unit="count") for reason in e.throttle_reasons),
        remedy="settings",
        next_step="check air flow, dust and inlet temperature"
        if heat
        else "raise the power limit (nvidia-smi -pl) if the node's supply allows; work at the cap is no fault",
        gain=max(shares.values(), default=None),
    )


def _bound(e: Evidence, *, by: str) -> Verdict | Missing | None:
    """
    Whether matrix units (`by` compute) or memory traffic (`by` bandwidth) is the limit: over its threshold, and further
    over it than the other over its own.

    By the counters of cycles, else by FLOP/s and bytes/s of the work over the peaks; where neither pair is known, how
    to know it is the answer, once for both.
    """
    known, compute = known_values(e), by == "compute"
    pairs = {"tensor_active": TENSOR, "dram_active": DRAM}, {"mfu": MFU, "mbu": MBU}
    limits = next((pair for pair in pairs if pair.keys() <= known.keys()), None)
    if limits is None:
        if not compute or "host" in e.kinds[:1]:
            return None  # said once, by the other
        return Missing(
            verdict="compute-bound or bandwidth-bound",
            needs="how busy matrix units and memory are (utilisation does not tell)",
            how=PROFILING,
        )
    own, other = limits if compute else reversed(limits)
    value = known[own]
    if value < limits[own].value or value / limits[own].value < known[other] / limits[other].value:
        return None
    return Verdict(
        name=f"{by}-bound",
        sentence=f"Matrix units are the limit: {percent(value)} {'FLOP/s' if own == 'mfu' else 'cycles'} at work or "
        f"reached."
        if compute
        else f"Memory bandwidth is the limit: {percent(value)} of the peak or of all cycles.",
        facts=facts_of(known, {own: limits[own], other: limits[other], "utilisation": None}),
        remedy="accelerator",
        next_step="fewer bits for weights and activations (FP8), then accelerators with more FLOP/s per dollar"
        if compute
        else "larger batches if latency allows, fewer bits for weights and cache, then accelerators with more "
        "bandwidth",
        gain=min(1.0, value),
    )


_STARVED: Final = Rule(
    "input-bound",
    "The accelerator waits while the host's disk is full.",
    {
        "tensor_active": EMPTY_TENSOR,
        "cpu_busy": CPU_BUSY,
        "disk_busy": DISK_BUSY,
    },
    remedy="code",
    step="cache or decode the data beforehand, local NVMe; `tonnage measure train` says how much of a step it costs",
    only=lambda known: "serving" not in known["kinds"],
)
_IDLE: Final = Rule(
    "under-utilised",
    "There is work, but the accelerator does little of it: kernels are small or far apart.",
    {
        "tensor_active": EMPTY_TENSOR,
        "dram_active": Limit(0.30, "ours: half of what the bandwidth limit takes", lt),
        "utilisation": None,
        "running": None,
        "cpu_busy": None,
    },
    remedy="code",
    step="CUDA graphs (no --enforce-eager) and larger batches; fewer Python steps between kernels; a faster processor "
    "before a faster accelerator",
    gain="idle_gain",
    # Parts of a training step say themselves what stalls.
    only=lambda known: known.get("utilisation", 0.0) >= 0.5 and not {"parts", "step_s"} <= known.keys(),
)

RULES: Final = (
    throttled,
    _STARVED,
    replace(_STARVED, facts={"tensor_active": EMPTY_TENSOR, "disk_busy": DISK_BUSY}),
    replace(
        _STARVED,
        said="The accelerator waits while the host's processors are full.",
        facts={"tensor_active": EMPTY_TENSOR, "cpu_busy": CPU_BUSY},
        step="cache or decode the data beforehand, more loader processes or decoding on the accelerator; `tonnage "
        "measure train` says how much of a step it costs",
    ),
    Rule(
        "communication-bound",
        "The links between accelerators are at {link_share} of their peak.",
        {"link_share": Limit(0.60, "ours: as memory, three quarters of about 0.8 of the peak")},
        remedy="accelerator",
        step="less tensor and more data parallelism, collectives of fewer bits, then faster links",
        gain="link_share",
    ),
    partial(_bound, by="compute"),
    partial(_bound, by="bandwidth"),
    _IDLE,
    replace(
        _IDLE,
        said="There is work, but the accelerator does little of it: it waits for the host.",
        only=lambda known: known.get("running", 0.0) >= 1.0 and not {"parts", "step_s"} <= known.keys(),
    ),
)
