"""Names: however a tool, a cloud or a person spells a part, it is found; a family says which variant was taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.every_row import every_row

from tonnage import catalog
from tonnage.errors import BadRequest, UnknownName
from tonnage.report.names import part_name, product


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
    assert catalog.accelerator(name).id == id


@every_row(catalog.accelerators())
def test_ids_names_and_aliases_lead_home(id: str) -> None:
    part = catalog.accelerators()[id]
    assert catalog.ambiguity(id) is None
    assert catalog.accelerator(id.upper().replace("-", "_")).id == id
    assert catalog.accelerator(part.name).id == id
    for alias in part.aliases:
        found = catalog.accelerator(alias)
        assert found.id == id or catalog.ambiguity(alias), alias


def test_a_family_says_which_variant_was_taken() -> None:
    said = catalog.ambiguity("H100")
    assert said is not None
    assert said.startswith("'H100' taken as H100 SXM5 80GB; also: H100 PCIe 80GB, H100 NVL 94GB")
    assert catalog.ambiguity("A100-80GB") == "'A100-80GB' taken as A100 SXM4 80GB; also: A100 PCIe 80GB"
    assert catalog.ambiguity("MI300X") is None
    assert "MI300A" in str(catalog.ambiguity("MI300"))


@pytest.mark.parametrize("name", ["RTX", "80GB", "HBM3", "NVIDIA", "datacenter", "", "  ", "H100 8 GB", "x" * 100_000])
def test_what_names_no_part_is_refused(name: str) -> None:
    with pytest.raises(UnknownName):
        catalog.accelerator(name)


def test_a_typing_error_gets_a_suggestion_of_reasonable_length() -> None:
    with pytest.raises(UnknownName, match="no accelerator 'h100-smx'; did you mean 'h100-sxm5-80gb'") as caught:
        catalog.accelerator("h100-smx")
    assert len(str(caught.value)) < 300


@given(st.text(max_size=40))
def test_any_text_is_found_or_refused(name: str) -> None:
    try:
        assert catalog.accelerator(name).id in catalog.accelerators()
    except BadRequest as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", ["2x RTX 4090", "8xH100", "8 × h100", "16 a100"])
def test_a_number_of_accelerators_is_told_apart_from_its_name(name: str) -> None:
    with pytest.raises(BadRequest, match="is a number of accelerators: name '"):
        catalog.accelerator(name)


def test_a_number_that_belongs_to_the_name_is_none() -> None:
    with pytest.raises(UnknownName, match="no accelerator '1030 ti'"):
        catalog.accelerator("1030 ti")
    with pytest.raises(UnknownName, match="no accelerator 'moon99'"):
        catalog.accelerator("4x moon99")


@every_row(catalog.accelerators())
def test_names_that_answers_print_are_taken_as_well(id: str) -> None:
    """With the memory behind the name; a short name of a part with two limits of power means the plain one."""
    assert catalog.accelerator(product(id)).id == id
    assert catalog.accelerator(part_name(id)).id == id.removesuffix("-15w")


def test_a_name_with_another_part_s_memory_is_none() -> None:
    with pytest.raises(UnknownName, match="no accelerator 'MI300X 80 GB'"):
        catalog.accelerator("MI300X 80 GB")
