"""Fitted times: efficiency grids of accelerators and overheads of engines."""

import csv
import time

import pytest
from tests.every_row import every_row
from tests.patience import assert_quick

from tonnage.catalog import accelerator, accelerators
from tonnage.catalog.efficiency import FOLDER, grids_by_accelerator, ladder, provenance
from tonnage.catalog.engines import engine_times
from tonnage.catalog.rows import DATA
from tonnage.domain.efficiency import Curve
from tonnage.domain.engine_spec import Overheads
from tonnage.errors import BadFact
from tonnage.physics.collectives import collective_s
from tonnage.physics.efficiency import DEMANDS
from tonnage.physics.work import Operator

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


FACTORS = frozenset({
    "memory", "compute", "experts", "experts_compute", "attention", "prefill_attention", "touch", "collective",
    "narrow", "weight_only",
})  # fmt: skip
"""Fields that multiply; the others add seconds."""


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
    lent = ladder(accelerator("a10")).grids["gemm/bf16"]
    assert lent.origin.accelerator == "l40s"


def test_what_fills_a_memory_does_not_fall_with_the_multiprocessors_before_it() -> None:
    """Jetson Thor with 12 or 20 of them before the same memory; an L40 as an L40S; an A30 half of an A100."""
    small, large = (ladder(accelerator(f"jetson-thor-t{n}000")).grids["gemm/bf16"].crowding for n in (4, 5))
    assert small == large == pytest.approx(1597 / 273, rel=0.15)
    assert ladder(accelerator("l40")).grids["gemm/bf16"].crowding == 1.0
    assert ladder(accelerator("a30")).grids["gemm/bf16"].crowding == pytest.approx(108 / 56)


def test_messages_do_not_wait_for_the_clock_of_multiprocessors() -> None:
    """An H100 over PCIe borrows RTX PRO 6000's all-reduce with its latency; a product's launch is at its own clock."""
    lent, own = (ladder(accelerator(name)).grids for name in ("h100-pcie-80gb", "rtx-pro-6000-bw-server"))
    assert lent["all_reduce/8/pcie"].floor_s == own["all_reduce/8/pcie"].floor_s
    kin, donor = (ladder(accelerator(name)).grids for name in ("h100-pcie-80gb", "h100-sxm5-80gb"))
    assert kin["gemm/bf16"].floor_s == pytest.approx(donor["gemm/bf16"].floor_s * 1980 / 1755)


def test_half_rate_parts_reach_more_of_their_peak_than_who_lends_to_them() -> None:
    lent = ladder(accelerator("rtx-4090")).grids["gemm/bf16"]
    assert 1.4 < lent.arithmetic < 1.7  # an L40S reaches 0.63 of its own
    assert lent.memory > 1.1  # whose GDDR6 keeps codes beside the data
    for part in ("l40s", "a40", "h100-pcie-80gb"):
        other = ladder(accelerator(part)).grids["gemm/bf16"]
        assert (other.arithmetic, other.memory) == (1.0, 1.0)


@pytest.mark.parametrize(("part", "kept"), [("rtx-a6000", False), ("rtx-6000-ada", False), ("a40", True), ("l4", True)])
def test_cards_of_workstations_come_without_codes_in_their_memory(part: str, kept: bool) -> None:
    """Drivers show all 48 GiB of an RTX A6000 and 45 of an A40; an A10G is listed as its cloud sells it, with them."""
    assert (ladder(accelerator(part)).grids["gemm/bf16"].memory == 1.0) is kept
    assert ladder(accelerator("a10g")).grids["gemm/bf16"].memory == 1.0


def _lender(part: str, key: str, family: str = "vllm") -> str:
    origin = ladder(accelerator(part), family=family).grids[key].origin
    return origin.file


def test_an_exchange_that_leaves_its_board_is_lent_by_one_that_does() -> None:
    """Eight GB200 are two trays of four, as eight GB300 are; eight B200 and B300 share a board."""
    assert _lender("gb200-nvl72", "all_reduce/8") == "gb300-nvl72.vllm.grids"
    assert _lender("gb200-nvl72", "all_reduce/4") == "gb200-nvl72.vllm.grids"
    assert _lender("h200-nvl-141gb", "all_reduce/4") == "h200-sxm-141gb.vllm.grids"


def test_latent_attention_is_lent_between_parts_that_run_the_same_kernel() -> None:
    """TensorRT-LLM's of A100 does not divide a context; Triton's runs there under others, as it does on L40S."""
    assert _lender("a100-sxm4-40gb", "mla_decode/bf16", "trtllm") == "a100-sxm4-80gb.trtllm.grids"
    assert {_lender("a100-sxm4-40gb", "mla_decode/bf16", name) for name in ("vllm", "sglang", "lmdeploy")} == {
        "l40s.sglang.grids"
    }
    assert _lender("h20-sxm-96gb", "mla_decode/bf16") == "h100-sxm5-80gb.sglang.grids"


def test_an_engine_may_call_another_family_s_exchanges() -> None:
    """LMDeploy's communicator is NCCL unless asked otherwise."""
    assert _lender("a100-sxm4-80gb", "all_reduce/4", "lmdeploy") == "a100-sxm4-80gb.library.grids"
    assert _lender("a100-sxm4-80gb", "gemm/bf16", "lmdeploy") == "a100-sxm4-80gb.vllm.grids"


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


def test_a_missing_file_is_said_to_be_rebuilt() -> None:
    with pytest.raises(BadFact, match=r"tools/calibration/build\.py"):
        provenance("h100-sxm5-80gb", "nobody")


def test_a_part_of_unknown_width_is_as_wide_as_its_peak_at_the_rate_of_its_kin() -> None:
    capped, full = accelerator("jetson-orin-nano-8gb-15w"), accelerator("jetson-orin-nx-16gb")
    units, kin = ladder(capped, family="llama.cpp").multiprocessors, ladder(full, family="llama.cpp").multiprocessors
    assert kin == 8
    assert units == pytest.approx(kin * capped.peaks["bf16"] / full.peaks["bf16"])
    assert ladder(accelerator("m4-max"), family="llama.cpp").multiprocessors is None


def test_collectives_of_neuron_cores_take_what_the_sdk_s_own_tool_prints() -> None:
    """Latency and bandwidth of nccom-test's example; an Inferentia2's narrower link reaches as much of it."""
    for part in ("trainium1", "inferentia2"):
        chip = accelerator(part)
        there = ladder(chip)
        small = Operator(kind="all_reduce", name="x", ranks=2, message_bytes=1024.0)
        large = Operator(kind="all_reduce", name="x", ranks=2, message_bytes=2.0**30)
        assert collective_s(small, accelerator=chip, ladder=there)[0] == pytest.approx(58e-6, rel=0.01)
        assert collective_s(large, accelerator=chip, ladder=there)[0] == pytest.approx(18.93e-3, rel=0.01)
    assert ladder(accelerator("trainium2")).curve.link == Curve().link, "nobody printed NeuronLink-v3"


ROWS = list(csv.DictReader((DATA / "engines" / "overheads.csv").open(encoding="utf-8")))


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['engine']}-{r['vendor']}-{r['since']}")
def test_a_row_is_sourced_and_within_reason(row) -> None:
    assert row["source"]
    values = {
        key: float(cell) for key, cell in row.items() if cell and key not in {"engine", "vendor", "since", "source"}
    }
    assert set(values) <= set(Overheads.__struct_fields__)
    assert all(0.04 < values[key] < 20 for key in FACTORS & set(values))
    assert all(-2e-6 < value < 0.5 for key, value in values.items() if key.endswith("_s") and "bytes" not in key)
    if {"memory", "compute"} <= set(values):
        assert 3 / 4 - 0.01 <= values["compute"] / values["memory"] <= 4 / 3 + 0.01


def test_newer_releases_take_newer_rows() -> None:
    old, new = (engine_times("vllm", vendor="NVIDIA", release=r) for r in ((0, 5), (0, 18, 0)))
    assert old.since < new.since
    assert engine_times("vllm", vendor="NVIDIA").since == new.since


def test_an_engine_unmeasured_on_a_vendor_borrows_the_vendors_factors() -> None:
    measured, borrowed = (engine_times("vllm", vendor=v) for v in ("NVIDIA", "Google"))
    assert not measured.borrowed and not engine_times("sglang", vendor="Google").borrowed
    assert borrowed.borrowed


def test_the_host_of_an_engine_is_the_same_on_every_vendors_parts() -> None:
    measured, borrowed = (engine_times("vllm", vendor=v).values for v in ("NVIDIA", "Google"))
    host = ("step_s", "sequence_s", "rank_s", "request_s", "reading_s")
    assert [borrowed[name] for name in host] == [measured[name] for name in host]
    assert min(borrowed[name] for name in host) > 0
    assert borrowed["memory"] != measured.get("memory", 1.0)


def test_a_request_costs_vllms_host_as_much_on_amds_parts() -> None:
    amd, nvidia = (engine_times("vllm", vendor=v, release=(0, 11)).values["request_s"] for v in ("AMD", "NVIDIA"))
    assert amd == pytest.approx(nvidia, rel=0.3)


def test_an_architecture_may_be_fitted_apart_from_its_makers_others() -> None:
    """Cards of two dies reach half of what their data sheet says; the maker's next generation does not."""
    early = engine_times("vllm", vendor="AMD", architecture="CDNA2", release=(0, 3))
    dies, others = (engine_times("vllm", vendor="AMD", architecture=name) for name in ("CDNA2", "CDNA3"))
    assert early.values["memory"] == dies.values["memory"] and early.values["step_s"] > 2 * dies.values["step_s"]
    assert dies.values["step_s"] == others.values["step_s"]
    assert dies.values["memory"] > 1.5 > others.values["memory"]
    assert others.values == engine_times("vllm", vendor="AMD").values
    one_die = engine_times("vllm", vendor="AMD", architecture="CDNA2", part="mi210")
    assert one_die.values == others.values


def test_releases_that_nobody_measured_do_not_inherit_an_early_port() -> None:
    """vLLM of 2024 on one Max 1550 took five times the bytes' time; later releases there take the host's numbers."""
    early, late = (engine_times("vllm", vendor="Intel", release=release) for release in ((0, 5), (0, 11)))
    assert early.values["memory"] > 3.0
    assert late.values["step_s"] == engine_times("vllm", vendor="NVIDIA").values["step_s"]
    assert "memory" not in late.values


def test_a_line_of_an_architecture_says_nothing_of_releases_before_it() -> None:
    """llama.cpp's first SYCL builds on Max 1550 were measured; the seed for later ones does not replace them."""
    early, late = (
        engine_times("llamacpp", vendor="Intel", architecture="Xe-HPC", release=release)
        for release in ((2000,), (6000,))
    )
    assert early.values == engine_times("llamacpp", vendor="Intel", release=(2000,)).values
    assert late.since == (4000,) and late.values["memory"] < early.values["memory"]


def test_an_unknown_engine_is_a_generic_one() -> None:
    found = engine_times("somebodys-server", vendor="NVIDIA")
    assert found.borrowed and found.unknown
    assert found.values == engine_times("generic").values
    assert not engine_times("sglang", vendor="AMD").unknown, "its host was measured beside other parts"
