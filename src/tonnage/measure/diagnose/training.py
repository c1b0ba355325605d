"""What limits a training step? Rules over its parts; a stall is a share of the step that is no computing."""

from __future__ import annotations

from typing import Final

from tonnage.domain.diagnosis import Evidence, Fact, Missing, Verdict
from tonnage.measure.diagnose import limits
from tonnage.measure.diagnose.limits import fact

__all__ = ["RULES"]

Found = Verdict | Missing | None

STEPS: Final = "`tonnage measure train -- python train.py`, or the probe inside the script"


def input_bound(e: Evidence) -> Found:
    """The step waits for its data."""
    if e.parts is None or e.parts.input_s is None or not e.step_s:
        return Missing(verdict="input-bound", needs="waiting for data in a step", how=STEPS)
    share = e.parts.input_s / e.step_s
    if share < limits.INPUT_SOME.value:
        return None
    high = share >= limits.INPUT_HIGH.value
    facts = [
        fact("waiting for data, of a step", share, limit=limits.INPUT_HIGH if high else limits.INPUT_SOME),
        fact("waiting for data", e.parts.input_s, unit="s"),
        fact("step", e.step_s, unit="s"),
    ]
    facts += [
        fact(name, value)
        for name, value in (("processors busy", e.cpu_busy), ("busiest disk busy", e.disk_busy))
        if value is not None
    ]
    return Verdict(
        name="input-bound",
        sentence=f"{share:.0%} of each step waits for data: {'highly' if high else 'moderately'} input-bound.",
        facts=tuple(facts),
        remedy="code",
        next_step="more loader processes, pinned memory and prefetch, decoding beforehand or on the accelerator, "
        "data on local NVMe; another accelerator would wait as long",
        gain=share,
    )


def communication_bound(e: Evidence) -> Found:
    """Collectives that nothing hides."""
    if e.parts is None or e.parts.communication_s is None or not e.step_s:
        if e.devices is not None and e.devices < 2:
            return None
        return Missing(verdict="communication-bound", needs="exposed collectives in a step", how=STEPS)
    share = e.parts.communication_s / e.step_s
    if share < limits.COMMUNICATION.value:
        return None
    if e.slowest_share is not None and e.slowest_share >= limits.STRAGGLER.value:
        return None  # the others wait for one: said by straggler
    facts = [
        fact("collectives that nothing hides, of a step", share, limit=limits.COMMUNICATION),
        fact("collectives that nothing hides", e.parts.communication_s, unit="s"),
    ]
    if e.hidden_communication_s is not None:
        facts.append(fact("collectives hidden behind computing", e.hidden_communication_s, unit="s"))
    if e.scaling_efficiency is not None:
        facts.append(fact("scaling efficiency", e.scaling_efficiency))
    return Verdict(
        name="communication-bound",
        sentence=f"{share:.0%} of each step is collectives that nothing hides.",
        facts=tuple(facts),
        remedy="accelerator",
        next_step="first code: larger micro-batches or gradient accumulation, overlap, collectives of fewer bits, "
        "sharding inside a node only; then faster links, or fewer and larger accelerators",
        gain=share,
    )


def straggler(e: Evidence) -> Found:
    """One rank computes longer and all others wait for it."""
    if e.slowest_share is None or e.slowest_share < limits.STRAGGLER.value:
        return None
    return Verdict(
        name="straggler",
        sentence=f"One rank computes {e.slowest_share:.0%} longer than the median, and the others wait for it.",
        facts=(fact("slowest over median rank, less 1", e.slowest_share, limit=limits.STRAGGLER),),
        remedy="code",
        next_step="balance what each rank gets (lengths, experts, stages); look at the clocks of a slow host",
        gain=e.slowest_share / (1.0 + e.slowest_share),
    )


def checkpoint_bound(e: Evidence) -> Found:
    """Steps wait for checkpoints."""
    if e.parts is None or e.parts.checkpoint_s is None or not e.step_s:
        return None
    share = e.parts.checkpoint_s / e.step_s
    if share < limits.CHECKPOINT.value:
        return None
    return Verdict(
        name="checkpoint-bound",
        sentence=f"{share:.0%} of the time goes into checkpoints.",
        facts=(fact("checkpoints, of a step", share, limit=limits.CHECKPOINT),),
        remedy="code",
        next_step="write asynchronously (torch.distributed.checkpoint.async_save), to local disks first, or less often",
        gain=share,
    )


def launch_bound(e: Evidence) -> Found:
    """The accelerator has gaps that neither data nor collectives explain: kernels come too slowly."""
    if e.busy_s is None or not e.step_s:
        return None
    parts = e.parts
    known = (
        sum(value for value in (parts.input_s, parts.communication_s, parts.checkpoint_s) if value) if parts else 0.0
    )
    share = (e.step_s - e.busy_s - known) / e.step_s
    if share < limits.LAUNCH.value:
        return None
    facts: list[Fact] = [fact("accelerator without a kernel, of a step", share, limit=limits.LAUNCH)]
    if e.kernel_s is not None:
        facts.append(fact("mean kernel", e.kernel_s, unit="s"))
    if e.utilisation is not None:
        facts.append(fact("utilisation", e.utilisation))
    return Verdict(
        name="under-utilised",
        sentence=f"The accelerator has nothing to run in {share:.0%} of each step, and data is not the reason.",
        facts=tuple(facts),
        remedy="code",
        next_step="torch.compile or CUDA graphs, larger micro-batches, no .item() or print between steps",
        gain=share,
    )


def memory_capacity(e: Evidence) -> Found:
    """Memory is full: the allocator had to give back and start again."""
    if (e.memory_capacity_bytes is None or e.memory_peak_bytes is None) and e.alloc_retries is None:
        return None
    full = (
        e.memory_peak_bytes is not None
        and e.memory_capacity_bytes is not None
        and e.memory_peak_bytes >= limits.NEARLY_FULL.value * e.memory_capacity_bytes
    )
    if not e.alloc_retries and not full:
        return None
    if _held_share(e) >= limits.FRAGMENTED.value:
        return None  # said by fragmentation
    facts = []
    if e.alloc_retries is not None:
        facts.append(fact("times the allocator had to start again", e.alloc_retries, unit="count"))
    if e.memory_peak_bytes is not None and e.memory_capacity_bytes is not None:
        facts.append(
            fact("memory in use, most", e.memory_peak_bytes / e.memory_capacity_bytes, limit=limits.NEARLY_FULL)
        )
    return Verdict(
        name="memory-capacity bound",
        sentence="Memory is full: the next longer batch fails, and the allocator already starts again."
        if e.alloc_retries
        else "Memory is full: the next longer batch fails.",
        facts=tuple(facts),
        remedy="accelerator",
        next_step="recompute activations, shard optimizer and weights (FSDP), smaller micro-batches; then more memory",
    )


def _held_share(e: Evidence) -> float:
    if e.memory_reserved_bytes is None or e.memory_peak_bytes is None or not e.memory_capacity_bytes:
        return 0.0
    return (e.memory_reserved_bytes - e.memory_peak_bytes) / e.memory_capacity_bytes


def fragmentation(e: Evidence) -> Found:
    """The allocator holds much that no tensor uses, and memory is nearly gone."""
    if e.memory_reserved_bytes is None or e.memory_peak_bytes is None or not e.memory_capacity_bytes:
        return Missing(
            verdict="fragmentation",
            needs="memory in use and memory held by the allocator",
            how="the probe of `tonnage measure train` on an accelerator, or torch.cuda.memory_stats()",
        )
    held = _held_share(e)
    tight = e.memory_reserved_bytes >= 0.9 * e.memory_capacity_bytes
    if held < limits.FRAGMENTED.value or not (tight or e.alloc_retries):
        return None
    return Verdict(
        name="fragmentation",
        sentence=f"{held:.0%} of the memory is held by the allocator and used by no tensor.",
        facts=(
            fact("memory held and not used", held, limit=limits.FRAGMENTED),
            fact("memory held", e.memory_reserved_bytes, unit="bytes"),
            fact("memory in use, most", e.memory_peak_bytes, unit="bytes"),
        ),
        remedy="settings",
        next_step="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or batches padded to few lengths; no larger card",
    )


RULES: Final = (
    input_bound,
    communication_bound,
    straggler,
    checkpoint_bound,
    launch_bound,
    memory_capacity,
    fragmentation,
)
