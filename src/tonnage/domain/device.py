"""What microbenchmarks found out about one device: `tonnage measure device` writes it as the user's own accelerator."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["DEVICE_SCHEMA", "DeviceMeasurement", "Rate"]

DEVICE_SCHEMA: Final = "tonnage.device/1"


class Rate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One microbenchmark: the best of its repetitions."""

    name: str
    """product, convolution, depthwise, attention, copy, upload, peer copy, start."""
    value: float
    unit: str
    """FLOP/s, bytes/s, s."""
    dtype: str = ""
    shape: str = ""
    """What ran, as text."""
    repetitions: int = 1


class DeviceMeasurement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every microbenchmark of one device, and what the device says of itself."""

    schema: str
    id: str
    name: str
    kind: str
    """cpu, cuda, rocm, mps, xpu."""
    rates: tuple[Rate, ...]
    memory_bytes: float
    power_w: float | None = None
    threads: int | None = None
    """Of a processor. [threads]"""
    library: str = ""
    """What ran the benchmarks."""
    date: str = ""

    def best(self, name: str, dtype: str = "") -> float | None:
        """The highest rate of that name (for one format); absent = not measured."""
        return max((r.value for r in self.rates if r.name == name and dtype in {"", r.dtype}), default=None)
