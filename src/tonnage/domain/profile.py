"""What a PyTorch module was seen to do, written down once: operators, parameters, and what training holds.

`tonnage trace` writes one; it stands wherever a model does. Everything is counted per sample of a batch, in values and
not in bytes, so that one file serves every batch and every number format. What does not grow with the batch (weights
read, gradients) is kept apart. Shapes are those of the example inputs: another resolution or length is another trace.
"""

from __future__ import annotations

from typing import Final, Literal

from tonnage.record import Record, SparseRecord

PROFILE_SCHEMA: Final = "tonnage.profile/1"


class TracedInput(Record, kw_only=True):
    """One example input."""

    shape: tuple[int, ...]
    dtype: str


class TracedOperator(SparseRecord, kw_only=True):
    """
    One operation of the module, per sample; equal ones are one entry with their count.

    A product of `groups` pairs of matrices has m rows a group and sample, n columns and k terms.
    """

    kind: Literal["gemm", "convolution", "attention", "elementwise", "embedding"]
    name: str
    """What it is: linear, product, convolution, grouped, depthwise, attention, recurrent, normalisation, group norm,
    softmax, activation, arithmetic, copy, reduction, pooling, resample, lookup, scatter, other."""
    count: float = 1.0
    flop: float = 0.0
    """Of products alone; a multiply-add is two. [FLOP]"""
    read_values: float = 0.0
    """Without parameters. [values]"""
    write_values: float = 0.0
    weight_values: float = 0.0
    """Parameters read in one execution, whatever the batch. [values]"""
    m: float = 0.0
    n: float = 0.0
    k: float = 0.0
    groups: float = 1.0
    """Products of one sample that run together: heads, or groups of a convolution."""
    heads: float = 0.0
    head_dim: float = 0.0
    keys: float = 0.0
    causal: bool = False
    pixels: bool = False
    """On images or feature maps (four dimensions or more), where convolutions are fused with what follows."""


class Moment(SparseRecord, kw_only=True):
    """A moment of a training step that can be its peak: what is held beside weights and optimizer state."""

    activation_values: float
    """Floating-point values that grow with the batch, per sample. [values]"""
    activation_bytes: float = 0.0
    """Masks and indices, per sample: bytes in any format. [bytes]"""
    gradient_values: float = 0.0
    """Gradients of parameters there already, and what else does not grow. [values]"""


class Profile(SparseRecord, kw_only=True):
    """A traced module. Absent = not seen: a module whose backward pass fails has no training part."""

    schema: str
    """`PROFILE_SCHEMA`."""
    name: str
    inputs: tuple[TracedInput, ...]
    samples: int
    """Samples in the example inputs; the counts are divided by it."""
    parameters: float
    trainable_parameters: float
    largest_parameter: float
    """Values of the largest one: what an optimizer that steps them one by one needs beside them."""
    buffer_values: float = 0.0
    value_bytes: float = 4.0
    """Bytes of a parameter in the module as it was traced; where formats mix, their mean. [bytes]"""
    forward: tuple[TracedOperator, ...]
    """Inference: evaluation mode, without gradients."""
    backward: tuple[TracedOperator, ...] = ()
    peak_values: float = 0.0
    """Most that one inference pass holds at once beside the weights, per sample. [values]"""
    peak_bytes: float = 0.0
    """The same of masks and indices. [bytes]"""
    output_values: float = 0.0
    """Outputs of operators with weights, per sample: what tables of networks call activations. [values]"""
    moments: tuple[Moment, ...] = ()
    """Training: no other moment needs more, at any batch."""
    notes: tuple[str, ...] = ()
    """What was not counted, or not as a user may expect."""
    made: str = ""
    """Date, ISO."""
    source: str = ""
    """The module's name and the library that ran it."""

    @property
    def flop(self) -> float:
        """Products of one forward pass, per sample. [FLOP]"""
        return sum(op.flop * op.count for op in self.forward)

    @property
    def backward_flop(self) -> float:
        """Products of one backward pass, per sample. [FLOP]"""
        return sum(op.flop * op.count for op in self.backward)
