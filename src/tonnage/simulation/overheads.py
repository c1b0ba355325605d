"""What an engine adds to its kernels: host time per step, launches, and how well its kernels do.

An engine is a few numbers, shared by every model and accelerator it runs on. The step's parts
(`steps.Parts`) are multiplied by them; host work runs beside the accelerator or before it:

    T_step = max(T_gpu, T_host hidden) + T_host exposed

Values are fitted by `tools/calibration/serving.py` and live in the catalogue by engine and year.
"""

from __future__ import annotations

import msgspec

__all__ = ["Overheads", "captured_batch", "with_async_scheduling"]


class Overheads(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Time an engine adds to the sum of its kernels; the defaults add nothing."""

    step_s: float = 0.0
    """Host work of one step that the accelerator waits for. [s]"""
    sequence_s: float = 0.0
    """The same, for each running sequence. [s]"""
    overlapped: float = 0.0
    """Of both, hidden beside the accelerator where the engine schedules ahead of it. [-]"""
    hidden_s: float = 0.0
    """Host work of one step that overlaps with the accelerator. [s]"""
    launch_s: float = 0.0
    """The same for each kernel, where Python launches them one by one, and each expert of a mixture apart. [s]"""
    kernel_s: float = 0.0
    """Added to each kernel of a decode step: launches that no graph captured. [s]"""
    prefill_launch_s: float = 0.0
    """Host work of a step that carries prompts, for each kernel: no graph captured it, and it overlaps. [s]"""
    prefill_routed_s: float = 0.0
    """Further host work of such a step for each layer with routed experts: sorting tokens, many small launches. [s]"""
    prefill_kernel_s: float = 0.0
    """Added to each kernel of a step that carries prompts. [s]"""
    request_s: float = 0.0
    """Added to the first token of a request: reading, tokenising, first answer. [s]"""
    prompt_s: float = 0.0
    """Host work per prompt that enters a step. [s]"""
    memory: float = 1.0
    """Factor on products bound by memory. [-]"""
    compute: float = 1.0
    """Factor on products bound by arithmetic. [-]"""
    experts: float = 1.0
    """Further factor on products of routed experts bound by memory. [-]"""
    experts_compute: float = 1.0
    """The same for those bound by arithmetic. [-]"""
    attention: float = 1.0
    """Factor on decode attention. [-]"""
    prefill_attention: float = 1.0
    touch: float = 1.0
    """Factor on element-wise passes: below 1 where the engine fuses them. [-]"""
    collective: float = 1.0
    """Factor on collectives inside a node. [-]"""
    narrow: float = 1.0
    """Further factor on products in 8 or 4 bits with quantised activations. [-]"""
    weight_only: float = 1.0
    """Further factor on products with weights of fewer bits than activations. [-]"""
    reach_bytes_per_s: float = 0.0
    """What one multiprocessor keeps in flight in the engine's own kernels (prompts too); 0 = none. [bytes/s]"""
    bubble: float = 0.0
    """Of a decode step, lost per further pipeline stage. [-]"""


def with_async_scheduling(overheads: Overheads, scheduled: bool | None) -> Overheads:
    """
    The same engine where the host prepares a step while the accelerator runs the last one, if it does.

    Examples
    --------
    >>> found = with_async_scheduling(Overheads(step_s=2e-3, overlapped=0.75), True)
    >>> found.step_s, found.hidden_s
    (0.0005, 0.0015)
    """
    share = overheads.overlapped if scheduled else 0.0
    return msgspec.structs.replace(
        overheads,
        step_s=overheads.step_s * (1.0 - share),
        sequence_s=overheads.sequence_s * (1.0 - share),
        hidden_s=overheads.hidden_s + overheads.step_s * share,
        overlapped=0.0,
    )


def captured_batch(batch: float, limit: float = 512.0) -> float:
    """
    Batch that a decode step is padded to: sizes of captured graphs are 1, 2, 4, 8 and multiples of 8.

    Above the largest captured size the step runs as it is.

    Examples
    --------
    >>> captured_batch(3), captured_batch(33), captured_batch(1000)
    (4.0, 40.0, 1000.0)
    """
    if batch > limit:
        return float(batch)
    for size in (1.0, 2.0, 4.0, 8.0):
        if batch <= size:
            return size
    return float(-(-batch // 8) * 8)
