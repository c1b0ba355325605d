"""What limits a training step? Rules over its parts; a stall is a share of the step that is no computing."""

from __future__ import annotations

from typing import Final

from tonnage.domain.diagnosis import Evidence, Missing
from tonnage.measure.diagnose.limits import (
    CHECKPOINT,
    COMMUNICATION,
    FRAGMENTED,
    INPUT_HIGH,
    INPUT_SOME,
    LAUNCH,
    NEARLY_FULL,
    STRAGGLER,
    Rule,
    Seen,
    fact,
    known_facts,
    rule,
)

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
    """Steps wait for checkpoints."""
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
    """The accelerator has gaps that neither data nor collectives explain: kernels come too slowly."""
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
def memory_capacity(e: Evidence) -> Seen | None:
    """Memory is full: the allocator had to give back and start again."""
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


RULES: Final[tuple[Rule, ...]] = (
    input_bound,
    communication_bound,
    straggler,
    checkpoint_bound,
    launch_bound,
    memory_capacity,
    fragmentation,
)
