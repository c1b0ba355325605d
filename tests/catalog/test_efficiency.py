"""The shipped grids: provenance, size, who lends to whom."""

import time

import pytest
from tests.every_row import every_row
from tests.patience import assert_quick

from tonnage.catalog import accelerator, accelerators
from tonnage.catalog.efficiency import FOLDER, grids_by_accelerator, ladder, provenance
from tonnage.errors import BadFact
from tonnage.physics.efficiency import DEMANDS

FILES = [(part, family) for part, families in grids_by_accelerator().items() for family in families]


@every_row(FILES)
def test_every_file_says_where_it_comes_from(file: tuple[str, str]) -> None:
    part, family = file
    origin = provenance(part, family)
    assert (origin.accelerator, origin.family) == (part, family)
    assert origin.package.startswith("aiconfigurator-core 0.")
    assert origin.licence.startswith("Apache-2.0")
    assert origin.script.endswith("calibration/build.py")  # grids keep the path their script had when they were built
    assert origin.date >= "2026-01-01"
    assert part in accelerators()


@every_row(sorted(grids_by_accelerator()))
def test_every_grid_is_whole(part: str) -> None:
    for key, grid in ladder(accelerator(part)).grids.items():
        nodes = 1
        for axis in grid.axes:
            assert list(axis) == sorted(set(axis)), key
            nodes *= len(axis)
        assert len(grid.excess) == nodes, key
        assert grid.kind in DEMANDS
        assert 5e-7 < grid.floor_s < 2e-4, key


def test_all_grids_together_stay_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 6e6


def test_one_accelerator_loads_quickly() -> None:
    accelerators()
    started = time.process_time()
    ladder(accelerator("b300-sxm-288gb"), family="sglang")
    assert_quick(time.process_time() - started, 0.05)


@pytest.mark.parametrize(
    ("part", "key", "rung"),
    [
        ("h200-sxm-141gb", "gemm/bf16", "own"),
        ("h100-nvl-94gb", "gemm/bf16", "architecture"),
        ("a100-pcie-40gb", "attention_decode/bf16/128", "architecture"),
        ("rtx-4090", "gemm/bf16", "architecture"),
        ("rtx-5090", "gemm/bf16", "architecture"),
        ("a10", "gemm/bf16", "generation"),
        ("v100-sxm2-32gb", "gemm/bf16", "generation"),
    ],
)
def test_who_lends_to_whom(part: str, key: str, rung: str) -> None:
    assert ladder(accelerator(part)).grids[key].rung == rung


def test_cards_borrow_from_cards() -> None:
    """A10 (GDDR) is nearer to L40S than to A100, whatever the generation is called."""
    crowding = ladder(accelerator("a10")).grids["gemm/bf16"].crowding
    assert crowding == pytest.approx(142 / 72)


def test_half_rate_parts_reach_more_of_their_peak_than_who_lends_to_them() -> None:
    lent = ladder(accelerator("rtx-4090")).grids["gemm/bf16"]
    assert 1.4 < lent.arithmetic < 1.7  # an L40S reaches 0.63 of its own
    assert lent.memory > 1.1  # whose GDDR6 keeps codes beside the data
    for part in ("l40s", "rtx-a6000", "h100-pcie-80gb"):
        other = ladder(accelerator(part)).grids["gemm/bf16"]
        assert (other.arithmetic, other.memory) == (1.0, 1.0)


def test_parts_of_other_vendors_borrow_nothing() -> None:
    assert ladder(accelerator("mi300x")).grids == {}


def test_a_server_s_odd_sockets_are_never_lent() -> None:
    assert any("/local" in key for key in ladder(accelerator("l40s")).grids)
    assert not any("/local" in key for key in ladder(accelerator("rtx-4090")).grids)


def test_families_differ_and_strangers_are_told() -> None:
    h100 = accelerator("h100-sxm5-80gb")
    sources = {family: ladder(h100, family=family).grids["gemm/bf16"].source for family in ("vllm", "sglang", "trtllm")}
    assert len(set(sources.values())) == 3
    assert "vllm stand in" in ladder(h100, family="tgi").notes[0]
    assert ladder(h100, family="llama.cpp").grids == {}


def test_wider_rungs_have_wider_intervals() -> None:
    there = ladder(accelerator("h100-sxm5-80gb"))
    for kind in ("gemm", "attention_prefill", "attention_decode", "elementwise"):
        assert (
            0 < there.half_width(kind, "own") < there.half_width(kind, "generation") < there.half_width(kind, "generic")
        )


def test_a_missing_file_is_said_to_be_rebuilt() -> None:
    with pytest.raises(BadFact, match=r"tools/calibration/build\.py"):
        provenance("h100-sxm5-80gb", "nobody")


def test_a_part_of_unknown_width_is_as_wide_as_its_peak_at_the_rate_of_its_kin() -> None:
    b100, b200 = accelerator("b100-sxm-192gb"), accelerator("b200-sxm-180gb")
    units, kin = ladder(b100, family="llama.cpp").multiprocessors, ladder(b200, family="llama.cpp").multiprocessors
    assert units is not None and kin == 148
    assert units == pytest.approx(kin * b100.peaks["bf16"] / b200.peaks["bf16"])
    assert ladder(accelerator("m4-max"), family="llama.cpp").multiprocessors is None
