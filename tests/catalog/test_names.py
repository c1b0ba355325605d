"""Names: however a tool, a cloud or a person spells a part, it is found; a family says which variant was taken."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.asked import told
from tests.every_row import every_row
from tests.shipped import tables

import tonnage
from tonnage.errors import BadRequest, UnknownName

IDS = [row["id"] for name, rows in tables("accelerators").items() if name != "defaults" for row in rows]


def ambiguity(name: str) -> Any:
    """What a card says of a name that several parts have."""
    return told("catalog", "accelerators", name).ambiguity


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("h100-sxm5-80gb", "h100-sxm5-80gb"),
        ("H100", "h100-sxm5-80gb"),
        ("h100 sxm", "h100-sxm5-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("H100-SXM-80GB", "h100-sxm5-80gb"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("h100_pcie", "h100-pcie-80gb"),
        ("H100NVL", "h100-nvl-94gb"),
        ("A100-80GB", "a100-sxm4-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA H200", "h200-sxm-141gb"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA B200", "b200-sxm-180gb"),
        ("MI300X", "mi300x"),
        ("AMD Instinct MI300X OAM", "mi300x"),
        ("4090", "rtx-4090"),
        ("RTX4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("6000 ada", "rtx-6000-ada"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-bw-server"),
        ("a6000", "rtx-a6000"),
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("TPU v5e", "tpu-v5e"),
        ("v5litepod", "tpu-v5e"),
        ("Gaudi2", "gaudi2"),
        ("Intel Gaudi 3", "gaudi3"),
        ("trn1", "trainium1"),
        ("Apple M4 Max", "m4-max"),
        ("DGX Spark", "gb10"),
        ("A10", "a10"),
        ("A10G", "a10g"),
    ],
)
def test_a_part_is_found_however_it_is_spelt(name: str, id: str) -> None:
    assert tonnage.accelerator(name).id == id


@every_row(IDS)
def test_ids_names_and_aliases_lead_home(id: str) -> None:
    part = tonnage.accelerator(id)
    assert tonnage.accelerator(id.upper().replace("-", "_")).id == id
    assert tonnage.accelerator(part.name).id == id
    for alias in part.aliases:
        found = tonnage.accelerator(alias)
        assert found.id == id or ambiguity(alias), alias


def test_an_id_means_one_part() -> None:
    assert not told("catalog", "accelerators", *IDS).notes


def test_a_family_says_which_variant_was_taken() -> None:
    said = ambiguity("H100")
    assert said.startswith("'H100' taken as H100 SXM5 80GB; also: H100 PCIe 80GB, H100 NVL 94GB")
    assert ambiguity("A100-80GB") == "'A100-80GB' taken as A100 SXM4 80GB; also: A100 PCIe 80GB"
    assert ambiguity("MI300X") is None and ambiguity("h100-sxm5-80gb") is None
    assert "MI300A" in ambiguity("MI300")


@pytest.mark.parametrize("name", ["RTX", "80GB", "HBM3", "NVIDIA", "datacenter", "", "  ", "H100 8 GB", "x" * 100_000])
def test_what_names_no_part_is_refused(name: str) -> None:
    with pytest.raises(UnknownName):
        tonnage.accelerator(name)


def test_a_typing_error_gets_a_suggestion_of_reasonable_length() -> None:
    with pytest.raises(UnknownName, match="no accelerator 'h100-smx'; did you mean 'h100-sxm5-80gb'") as caught:
        tonnage.accelerator("h100-smx")
    assert len(str(caught.value)) < 300


@given(st.text(max_size=40))
def test_any_text_is_found_or_refused(name: str) -> None:
    try:
        assert tonnage.accelerator(name).id in IDS
    except BadRequest as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", ["2x RTX 4090", "8xH100", "8 × h100", "16 a100"])
def test_a_number_of_accelerators_is_told_apart_from_its_name(name: str) -> None:
    with pytest.raises(BadRequest, match="is a number of accelerators: name '"):
        tonnage.accelerator(name)


def test_a_number_that_belongs_to_the_name_is_none() -> None:
    with pytest.raises(UnknownName, match="no accelerator '1030 ti'"):
        tonnage.accelerator("1030 ti")
    with pytest.raises(UnknownName, match="no accelerator 'moon99'"):
        tonnage.accelerator("4x moon99")


def test_a_name_with_another_part_s_memory_is_none() -> None:
    with pytest.raises(UnknownName, match="no accelerator 'MI300X 80 GB'"):
        tonnage.accelerator("MI300X 80 GB")
