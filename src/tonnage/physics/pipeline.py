"""Pipeline parallelism: how long the bubble lasts, what a stage holds, how many micro-batches are in flight.

A stage's turn is the forward and backward pass of one micro-batch through its layers. Interleaving
cuts each stage into `vpp` chunks: the bubble shrinks by that factor, activations in flight grow.
"""

from __future__ import annotations

import math

from tonnage.errors import BadRequest


def bubble_turns(*, pp: int, vpp: int = 1) -> float:
    """
    Turns of one stage that a step loses to filling and draining the pipeline.

    b = (p - 1) / v, so that a step lasts m + b turns of the slowest stage.

    Parameters
    ----------
    pp : number
        p, pipeline stages. [-]
    vpp : number
        v, virtual stages per rank; 1 = plain 1F1B. [-]

    Returns
    -------
    number
        Idle time in units of one micro-batch's forward and backward pass. [-]

    Valid
    -----
    1F1B and interleaved 1F1B with a flush at the end of the step; equal stages.

    Source
    ------
    arXiv 2104.04473, sections 2.2.1 and 2.2.2.

    Examples
    --------
    >>> bubble_turns(pp=8, vpp=2)
    3.5
    """
    return (pp - 1) / vpp


def split_bubble_s(*, pp: int, forward_s: float, input_s: float, weight_s: float, schedule: str) -> float:
    """
    Idle time of schedules that put off gradients of weights, which nothing waits for, into the bubble.

    H1: (p - 1) (F + B - W); H2: (p - 1) (F + B - 2 W); DualPipe, from both ends at once:
    (p / 2 - 1) (F + 2 (B + W) - 3 W), of one micro-batch on one stage; never below zero.

    Parameters
    ----------
    pp : number
        p, pipeline stages. [-]
    forward_s : number
        F, forward pass. [s]
    input_s : number
        B, gradients of inputs, with what is recomputed. [s]
    weight_s : number
        W, gradients of weights. [s]
    schedule : str
        zb-h1, zb-h2 or dualpipe.

    Returns
    -------
    number
        Idle time of a step. [s]

    Raises
    ------
    BadRequest
        No such schedule.

    Valid
    -----
    At least as many micro-batches as stages (DualPipe twice as many); equal stages.

    Source
    ------
    arXiv 2401.10241, table 1 (H1, H2); arXiv 2412.19437, table 2 (DualPipe, whose backward time includes W).

    Examples
    --------
    >>> parts = {"pp": 8, "forward_s": 1.0, "input_s": 1.0, "weight_s": 1.0}
    >>> [split_bubble_s(schedule=name, **parts) for name in ("zb-h1", "zb-h2", "dualpipe")]
    [7.0, 0.0, 6.0]
    """
    if schedule == "zb-h1":
        idle = (pp - 1) * (forward_s + input_s - weight_s)
    elif schedule == "zb-h2":
        idle = (pp - 1) * (forward_s + input_s - 2 * weight_s)
    elif schedule == "dualpipe":
        backward_s = input_s + weight_s
        idle = (pp / 2 - 1) * (forward_s + backward_s + backward_s - 3 * weight_s)
    else:
        raise BadRequest(f"schedule: '{schedule}' puts nothing off; use zb-h1, zb-h2 or dualpipe")
    return max(0.0, idle)


def in_flight(*, pp: int, vpp: int, micro_batches: int, stage: int = 0, schedule: str = "1f1b") -> float:
    """
    Micro-batches whose activations a stage holds at once, in units of the stage's own layers.

    1F1B: min(m, p - i). Interleaved: 2 (p - i - 1) + (v - 1) p + 1 chunks of 1 / v of the stage's layers.

    Parameters
    ----------
    pp : number
        p, pipeline stages. [-]
    vpp : number
        v, virtual stages per rank. [-]
    micro_batches : number
        m, micro-batches of the step. [-]
    stage : number
        i, counted from 0 at the input. [-]
    schedule : str, optional
        Of `TrainLayout`. ZB-H2 starts 2 p - 1 micro-batches, DualPipe p + 1 from its two ends together.

    Returns
    -------
    number
        Micro-batches held at the peak. [-]

    Valid
    -----
    Schedules that start a backward pass as early as they can; a GPipe schedule holds all m.

    Source
    ------
    arXiv 2401.10241, table 1; arXiv 2412.19437, table 2; arXiv 2104.04473, section 2.2; arXiv 2205.05198, section
    4.2.3 (first stage: L (1 + (p - 1) / (p v)) layers).

    Examples
    --------
    >>> in_flight(pp=8, vpp=1, micro_batches=64)
    8
    >>> round(8 / 8 * in_flight(pp=8, vpp=3, micro_batches=64) / 8, 2)
    1.29
    """
    if pp == 1:
        return 1
    if schedule == "zb-h2":
        return min(micro_batches, 2 * (pp - stage) - 1)
    if schedule == "dualpipe":
        return min(micro_batches, pp + 1)
    if vpp == 1:
        return min(micro_batches, pp - stage)
    chunks = 2 * (pp - stage - 1) + (vpp - 1) * pp + 1
    return min(micro_batches * vpp, chunks) / vpp


def stage_layers(*, layers: int, pp: int, vpp: int = 1) -> int:
    """
    Layers of the fullest stage.

    Parameters
    ----------
    layers : number
        Layers of the model. [-]
    pp : number
        Pipeline stages. [-]
    vpp : number
        Virtual stages per rank. [-]

    Returns
    -------
    number
        Layers that the fullest rank holds. [-]

    Valid
    -----
    Layers spread as evenly as whole chunks allow.

    Source
    ------
    Counting.

    Examples
    --------
    >>> stage_layers(layers=126, pp=16), stage_layers(layers=80, pp=8, vpp=5)
    (8, 10)
    """
    chunks = pp * vpp
    return math.ceil(layers / chunks) * vpp if layers % chunks == 0 else math.ceil(layers / pp)
