"""Unsloth: fused kernels on one device, a chunked loss, and adapters of its own in the base's format."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import FrameworkSpec

FRAMEWORK: Final = FrameworkSpec(words=("unsloth",), software="compiled", fused_loss=True, own_adapters=True)
