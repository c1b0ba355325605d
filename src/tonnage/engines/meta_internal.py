"""Meta's own framework of the Llama runs: as Megatron, before the kernels of 2024."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import FrameworkSpec

FRAMEWORK: Final = FrameworkSpec(words=("meta-internal",), software="megatron", older_attention=True)
