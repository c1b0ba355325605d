"""What a process sees of an accelerator's memory."""

import pytest

import tonnage


@pytest.mark.parametrize(
    ("accelerator", "gib"),
    [("h100-sxm5-80gb", 79.18), ("rtx-3090", 23.58), ("rtx-4090", 23.52), ("t4", 14.56), ("h200-sxm-141gb", 139.8)],
)
def test_memory_a_process_sees(accelerator: str, gib: float) -> None:
    """Totals that engines logged at start (docs/physics.md 4)."""
    assert tonnage.accelerator(accelerator).visible_memory_bytes / 2**30 == pytest.approx(gib, rel=0.004)


def test_unified_memory_is_shared_with_the_system() -> None:
    part = tonnage.accelerator("m3-ultra")
    assert part.visible_memory_bytes == 0.75 * part.driver_memory_bytes
