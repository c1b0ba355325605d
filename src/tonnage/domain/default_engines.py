"""What runs where a request names no engine; the only two names of engines outside `tonnage.engines`."""

from __future__ import annotations

from typing import Final

__all__ = ["NETWORK_ENGINE", "SERVING_ENGINE"]

SERVING_ENGINE: Final = "vllm"
"""Of models that decode text."""

NETWORK_ENGINE: Final = "pytorch"
"""Of networks that take whole batches."""
