"""Engine overheads: every row is readable, plausible and sourced; unmeasured combinations borrow and say so."""

import csv

import pytest

from tonnage.catalog.engines import FACTORS, engine_times
from tonnage.catalog.rows import DATA
from tonnage.domain.engine_spec import Overheads

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
    measured, borrowed = (engine_times("sglang", vendor=v) for v in ("NVIDIA", "AMD"))
    assert not measured.borrowed
    assert borrowed.borrowed


def test_the_host_of_an_engine_is_the_same_on_every_vendors_parts() -> None:
    measured, borrowed = (engine_times("sglang", vendor=v).values for v in ("NVIDIA", "AMD"))
    host = ("step_s", "sequence_s", "prefill_launch_s", "prefill_routed_s", "request_s")
    assert [borrowed[name] for name in host] == [measured[name] for name in host]
    assert borrowed["prefill_launch_s"] > 0
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
