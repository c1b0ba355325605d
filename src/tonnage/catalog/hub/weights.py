"""What do weight files hold, by their headers alone?

`Weights` is what a header tells exactly: bytes and values by number format, and the shape of each tensor. No tensor is
ever read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

__all__ = ["Tensor", "Weights", "describe", "weights_of"]


class Tensor(msgspec.Struct, frozen=True):
    """One tensor of a weight file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int

    @property
    def values(self) -> int:
        """Values stored, padding of packed formats included."""
        product = 1
        for side in self.shape:
            product *= side
        return product


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """Exact contents of one or more weight files."""

    tensors: tuple[Tensor, ...]
    bytes: float
    bytes_by_dtype: Mapping[str, float]


def weights_of(tensors: Iterable[Tensor]) -> Weights:
    """Add tensors up."""
    kept = tuple(tensors)
    by_dtype: dict[str, float] = {}
    for tensor in kept:
        by_dtype[tensor.dtype] = by_dtype.get(tensor.dtype, 0.0) + tensor.bytes
    return Weights(tensors=kept, bytes=float(sum(tensor.bytes for tensor in kept)), bytes_by_dtype=by_dtype)


def describe(found: Weights) -> str:
    """The formats of the weights in one line, largest first: "bf16 15.0 GB, fp8 1.2 GB"."""
    ordered = sorted(found.bytes_by_dtype.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {size / 1e9:.4g} GB" for name, size in ordered if size)
