"""Pipeline parallelism: how long the bubble lasts, what a stage holds, how many micro-batches are in flight.

A stage's turn is the forward and backward pass of one micro-batch through its layers. Interleaving
cuts each stage into `vpp` chunks: the bubble shrinks by that factor, activations in flight grow.
"""

from __future__ import annotations

import math

__all__ = ["bubble_turns", "in_flight", "stage_layers"]


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


def in_flight(*, pp: int, vpp: int, micro_batches: int, stage: int = 0) -> float:
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

    Returns
    -------
    number
        Micro-batches held at the peak. [-]

    Valid
    -----
    1F1B schedules; a GPipe schedule holds all m.

    Source
    ------
    arXiv 2104.04473, section 2.2; arXiv 2205.05198, section 4.2.3 (first stage: L (1 + (p - 1) / (p v)) layers).

    Examples
    --------
    >>> in_flight(pp=8, vpp=1, micro_batches=64)
    8
    >>> round(8 / 8 * in_flight(pp=8, vpp=3, micro_batches=64) / 8, 2)
    1.29
    """
    if pp == 1:
        return 1
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
