"""HAI-LLM, DeepSeek's framework: DualPipe, with the exchange between experts behind another micro-batch."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import FrameworkSpec

FRAMEWORK: Final = FrameworkSpec(words=("hai-llm", "dualpipe"), software="megatron", overlapped_experts=True)
