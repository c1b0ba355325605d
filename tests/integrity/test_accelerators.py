"""Every accelerator row: ranges, the ratios datasheets promise, and the traps that public tables fall into."""

import re
from collections import Counter
from datetime import date
from typing import Any

import pytest
from tests.every_row import every_row
from tests.shipped import tables

import tonnage

TABLES = tables("accelerators")
DEFAULTS = TABLES.pop("defaults")
ROWS = {row["id"]: row for table in TABLES.values() for row in table}
SEGMENTS = {"datacenter", "cloud-only", "workstation", "consumer", "edge", "apple", "cpu"}
DTYPES = {"fp64", "fp64_tensor", "fp32", "tf32", "fp16", "fp16_accum16", "bf16", "fp8", "fp4", "int8", "int4"}
EVERY = [tonnage.accelerator(id) for id in ROWS]
PARTS = [part for part in EVERY if part.status != "facts-only"]
FACTS_ONLY = [part for part in EVERY if part.status == "facts-only"]
ANNOUNCED = [part for part in EVERY if part.status == "announced"]
GPUS = [part for part in PARTS if part.segment != "cpu" and part.vendor in {"NVIDIA", "AMD"}]


def part_id(part: Any) -> str:
    return str(part.id)


def test_all_262_are_here() -> None:
    assert len(EVERY) == 262
    assert len({part.name for part in EVERY}) == 262
    assert Counter(part.status for part in EVERY) == {"released": 243, "announced": 11, "facts-only": 8}


@every_row(FACTS_ONLY, name=part_id)
def test_a_part_without_published_throughput_has_its_facts(part: Any) -> None:
    assert part.segment in SEGMENTS
    assert part.memory_bytes > 1e8
    assert part.memory_bytes_per_s > 1e11
    assert set(part.peaks) <= DTYPES
    assert part.fact.checked


@every_row(ANNOUNCED, name=part_id)
def test_an_announced_part_says_who_announced_it(part: Any) -> None:
    assert any(word in part.fact.source for word in ("newsroom", "CES", "Connect", "secondary page"))
    assert part.fact.checked >= "2026-11-22"


@every_row(PARTS, name=part_id)
def test_every_row_is_sane(part: Any) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*", part.id)
    assert part.segment in SEGMENTS
    assert set(part.peaks) <= DTYPES
    assert part.peaks, "a part without any peak computes nothing"
    assert all(1e10 <= rate <= 4e16 for rate in part.peaks.values())
    assert 0.5e9 <= part.memory_bytes <= 2e12
    assert 20e9 <= part.memory_bytes_per_s <= 50e12
    assert part.power_w is None or 5 <= part.power_w <= 1500
    assert part.year is None or 2012 <= part.year <= date.today().year + 1
    assert part.mig_slices in range(9)
    assert part.max_per_node is None or 1 <= part.max_per_node <= 16
    for price in (part.launch_price_usd, part.street_price_usd):
        assert price is None or 50 <= price <= 100_000


@every_row(EVERY, name=part_id)
def test_every_row_has_a_source_and_a_date(part: Any) -> None:
    assert len(part.fact.source) >= 8
    assert date.fromisoformat(part.fact.checked) <= date.today()


@every_row([part for part in PARTS if re.search(r"-\d+gb", part.id)], name=part_id)
def test_the_name_agrees_with_the_memory(part: Any) -> None:
    """A wrong memory was the commonest error of other tables: an id that ends in a size states it."""
    stated = re.search(r"-(\d+)gb", part.id)
    size = float(stated[1])
    assert part.memory_bytes in (size * 1e9, size * 2**30)


@every_row([part for part in PARTS if part.usable_memory_bytes], name=part_id)
def test_the_driver_leaves_a_little_less_than_the_vendor_states(part: Any) -> None:
    assert 0.93 <= part.usable_memory_bytes / part.memory_bytes <= 1.005
    assert part.driver_memory_bytes == part.usable_memory_bytes


@every_row(PARTS, name=part_id)
def test_links_have_a_domain_and_no_link_has_none(part: Any) -> None:
    if part.link.kind == "none":
        assert part.link.bytes_per_s is None
        assert part.link.domain == 1
    else:
        assert part.link.domain > 1
        assert part.link.bytes_per_s is None or 10e9 <= part.link.bytes_per_s <= 2e12
    rate = part.host_link.bytes_per_s
    assert rate is None or 3e9 <= rate <= 600e9


# Bytes/s of one PCIe lane in one direction, by generation: GT/s x encoding / 8.
LANE = {"pcie3": 0.985e9, "pcie4": 1.97e9, "pcie5": 3.94e9, "pcie6": 7.56e9}


def test_pcie_rates_are_of_one_direction() -> None:
    checked = 0
    for part in PARTS:
        if part.host_link.kind in LANE and part.host_link.bytes_per_s:
            lanes = int(ROWS[part.id]["host_lanes"])
            assert part.host_link.bytes_per_s == pytest.approx(lanes * LANE[part.host_link.kind], rel=0.03), part.id
            checked += 1
    assert checked > 120


@every_row([part for part in GPUS if {"bf16", "fp16"} <= set(part.peaks)], name=part_id)
def test_bf16_runs_at_the_fp16_rate(part: Any) -> None:
    expected = 0.5 if part.id == "mi100" else 1.0  # CDNA1 has half-rate bf16
    assert part.peaks["bf16"] / part.peaks["fp16"] == pytest.approx(expected, rel=0.01)


@every_row([part for part in GPUS if {"bf16", "fp8"} <= set(part.peaks)], name=part_id)
def test_fp8_doubles_bf16(part: Any) -> None:
    assert part.peaks["fp8"] / part.peaks["bf16"] == pytest.approx(2, rel=0.02)


@every_row([part for part in GPUS if {"fp4", "fp8"} <= set(part.peaks)], name=part_id)
def test_fp4_is_a_whole_multiple_of_fp8(part: Any) -> None:
    # Blackwell Ultra triples it; GeForce quadruples it, its fp8 being with FP32 accumulate.
    expected = 4 if part.segment == "consumer" else 3 if part.architecture == "Blackwell Ultra" else 2
    assert part.peaks["fp4"] / part.peaks["fp8"] == pytest.approx(expected, rel=0.02)


@every_row([part for part in GPUS if "fp16_accum16" in part.peaks], name=part_id)
def test_fp16_accumulate_is_faster_only_where_it_is_listed(part: Any) -> None:
    assert part.vendor == "NVIDIA"
    assert part.peaks["fp16_accum16"] / part.peaks["fp16"] == pytest.approx(2, rel=0.02)


@every_row([p for p in PARTS if p.vendor == "NVIDIA" and p.status == "released"], name=part_id)
def test_no_nvidia_part_has_a_dtype_before_its_generation(part: Any) -> None:
    capability = float(part.compute_capability or 0)
    assert ("bf16" in part.peaks) <= (capability >= 8.0)
    assert ("fp8" in part.peaks) <= (capability >= 8.9)
    assert ("fp4" in part.peaks) <= (capability >= 10.0)


@pytest.mark.parametrize(
    ("id", "dtype", "flop_per_s"),
    [
        ("h100-sxm5-80gb", "fp8", 1979e12),  # 3,958 is sparse
        ("h100-sxm5-80gb", "bf16", 989e12),  # 1,979 is sparse
        ("h100-pcie-80gb", "bf16", 756e12),
        ("b200-sxm-180gb", "fp8", 4500e12),  # 9,000 is sparse
        ("b200-sxm-180gb", "bf16", 2250e12),
        ("mi355x", "fp8", 5033e12),  # 10.1 PFLOP/s is sparse for fp8
        ("mi355x", "fp4", 10066e12),
        ("rtx-4090", "bf16", 165e12),  # 330 is with fp16 accumulate
        ("rtx-4090", "fp16_accum16", 330e12),
        ("rtx-3090", "bf16", 71e12),
        ("l4", "fp8", 242.5e12),
        ("l40s", "bf16", 362e12),
        ("a100-sxm4-80gb", "bf16", 312e12),
        ("mi300x", "bf16", 1307e12),
        ("jetson-agx-orin-64gb", "int8", 137.5e12),  # 275 is sparse with DLA
    ],
)
def test_peaks_are_dense_and_of_fp32_accumulate(id: str, dtype: str, flop_per_s: float) -> None:
    assert tonnage.accelerator(id).peaks[dtype] == pytest.approx(flop_per_s, rel=0.002)


@pytest.mark.parametrize(
    ("id", "bytes_per_s"),
    [
        ("mi300x", 5.3e12),  # other tables: 10.3
        ("mi325x", 6.0e12),
        ("h100-sxm5-80gb", 3.35e12),
        ("h100-pcie-80gb", 2.0e12),
        ("h200-sxm-141gb", 4.8e12),
        ("b200-sxm-180gb", 8.0e12),
        ("a100-sxm4-80gb", 2.039e12),
        ("rtx-4090", 1.008e12),
    ],
)
def test_memory_bandwidth(id: str, bytes_per_s: float) -> None:
    assert tonnage.accelerator(id).memory_bytes_per_s == pytest.approx(bytes_per_s, rel=0.05)


@pytest.mark.parametrize(
    ("id", "link_bytes_per_s", "domain"),
    [
        ("h100-sxm5-80gb", 450e9, 8),  # the sheet's 900 is both directions
        ("a100-sxm4-80gb", 300e9, 8),
        ("b200-sxm-180gb", 900e9, 8),
        ("gb200-nvl72", 900e9, 72),
        ("mi300x", 448e9, 8),
        ("h100-nvl-94gb", 300e9, 2),
        ("rtx-3090", 56.25e9, 2),
        ("rtx-4090", None, 1),
        ("gh200-96gb", None, 1),  # its 900 GB/s lead to its own host
    ],
)
def test_link_rates_are_of_one_direction(id: str, link_bytes_per_s: float | None, domain: int) -> None:
    link = tonnage.accelerator(id).link
    assert (link.bytes_per_s, link.domain) == (link_bytes_per_s, domain)


def test_grace_hopper_reaches_its_host_over_c2c() -> None:
    assert tonnage.accelerator("gh200-96gb").host_link.bytes_per_s == 450e9


@pytest.mark.parametrize(
    ("id", "mebibytes"),
    [("h100-sxm5-80gb", 81559), ("h200-sxm-141gb", 143771), ("b200-sxm-180gb", 183359), ("b300-sxm-288gb", 275040),
     ("a10g", 22888), ("l4", 22888)],
)  # fmt: skip
def test_what_the_driver_reports(id: str, mebibytes: int) -> None:
    assert tonnage.accelerator(id).driver_memory_bytes == mebibytes * 2**20


@pytest.mark.parametrize(
    ("id", "memory_bytes", "power_w"),
    [
        ("mi325x", 256 * 2**30, 1000),  # other tables: 288
        ("l40s", 48 * 2**30, 350),  # 300
        ("v100-sxm2-16gb", 16 * 2**30, 300),  # 250
        ("a10g", 24e9, 300),  # 150
        ("jetson-thor-t5000", 128 * 2**30, 130),  # 40
        ("b100-sxm-192gb", 192e9, 700),  # 80 GB
        ("a10", 24 * 2**30, 150),  # 28 GB
        ("p100-pcie-16gb", 16 * 2**30, 250),  # 12 GB
        ("b300-sxm-288gb", 288e9, 1100),
    ],
)
def test_errors_of_other_tables_are_not_ours(id: str, memory_bytes: float, power_w: float) -> None:
    part = tonnage.accelerator(id)
    assert (part.memory_bytes, part.power_w) == (memory_bytes, power_w)


def test_b300_is_compute_capability_10_3() -> None:
    assert tonnage.accelerator("b300-sxm-288gb").compute_capability == "10.3"


def test_every_default_variant_exists_and_says_why() -> None:
    assert {row["id"] for row in DEFAULTS} <= set(ROWS)
    assert all(row["why"] for row in DEFAULTS)
    assert len({row["name"] for row in DEFAULTS}) == len(DEFAULTS)
