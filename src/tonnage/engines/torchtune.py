"""torchtune: compiled recipes with a chunked loss, adapters of its own and paged 8-bit states."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import FrameworkSpec

FRAMEWORK: Final = FrameworkSpec(
    words=("torchtune",), software="compiled", fused_loss=True, own_adapters=True, pages_states=True
)
