"""What has been measured about an accelerator's kernels: grids on disk -> `Ladder`."""

from __future__ import annotations

from tonnage.nouns.accelerator import Accelerator
from tonnage.physics.efficiency import Ladder

__all__ = ["ladder"]


def ladder(accelerator: Accelerator, *, family: str = "vllm", inter_node_bytes_per_s: float | None = None) -> Ladder:
    """
    The ladder of one accelerator for one family of kernels.

    `family` is whose kernels run (vllm, sglang, trtllm …); a family that nobody measured borrows the
    nearest one's grids and says so in `notes`.
    """
    return Ladder(accelerator=accelerator.id, family=family, inter_node_bytes_per_s=inter_node_bytes_per_s)
