"""Slices of accelerators: facts that add up, names that resolve, parts that work wherever an accelerator does."""

from __future__ import annotations

import pytest

from tonnage import catalog
from tonnage.catalog.efficiency import ladder
from tonnage.catalog.hardware import slices_of
from tonnage.domain.accelerator import parse_slice_name
from tonnage.errors import UnknownName

GIB = 2**30
SPLIT = [part.id for part in catalog.accelerators(catalog.NOTHING).values() if slices_of(part.id)]


def test_every_slice_belongs_to_a_part_that_splits() -> None:
    assert {"a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb"} <= set(SPLIT)
    for name in SPLIT:
        whole = catalog.accelerator(name)
        assert whole.mig_slices == max(piece.most for piece in slices_of(name))


@pytest.mark.parametrize("name", SPLIT)
def test_slices_of_one_kind_fit_into_the_whole(name: str) -> None:
    whole = catalog.accelerator(name)
    for piece in slices_of(name):
        part = catalog.accelerator(piece.id)
        assert piece.most * part.driver_memory_bytes <= whole.driver_memory_bytes
        assert piece.most * part.memory_bytes_per_s <= whole.memory_bytes_per_s * (1 + 1e-9)
        assert all(piece.most * part.peaks[dtype] <= peak * (1 + 1e-9) for dtype, peak in whole.peaks.items())
        # The profile's own name says its memory in GB, rounded.
        assert part.driver_memory_bytes / GIB == pytest.approx(float(piece.profile[3:-2]), rel=0.15)
        assert part.link.domain == 1 and part.mig_slices == 0 and part.power_w is None


def test_an_h100_splits_as_its_driver_lists() -> None:
    part = catalog.accelerator("H100:1g.10gb")
    assert part.id == "h100-sxm5-80gb:1g.10gb"
    assert part.memory_bytes == 9.75 * GIB
    assert part.memory_bytes_per_s == pytest.approx(3.35e12 / 8)
    assert part.peaks["bf16"] == pytest.approx(989.4e12 * 16 / 132)
    assert ladder(part).multiprocessors == 16


def test_names_as_the_driver_writes_them() -> None:
    assert catalog.accelerator("NVIDIA H200 MIG 3g.71gb").id == "h200-sxm-141gb:3g.71gb"
    assert parse_slice_name("h200-sxm-141gb") is None
    with pytest.raises(UnknownName, match=r"1g\.10gb"):
        catalog.accelerator("H100:1g.11gb")
    with pytest.raises(UnknownName):
        catalog.accelerator("L4:1g.10gb")
