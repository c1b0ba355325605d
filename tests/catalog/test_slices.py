"""Parts that split, providers, ownership and carbon: looked up by name, absent when unknown."""

import subprocess
import sys

import pytest
from tests.every_row import every_row
from tests.patience import assert_quick

from tonnage import catalog
from tonnage.catalog import part_name, product
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


@every_row(catalog.accelerators())
def test_names_that_answers_print_are_taken_as_well(id: str) -> None:
    """With the memory behind the name; a short name of a part with two limits of power means the plain one."""
    assert catalog.accelerator(product(id)).id == id
    assert catalog.accelerator(part_name(id)).id == id.removesuffix("-15w")


def test_a_parameter_in_base_units() -> None:
    found = catalog.parameter("server_power_max", "dgx-b200-8gpu")
    assert (found.value, found.unit) == (14300, "W")
    assert catalog.parameter("electricity_default", "DE").unit == "USD/kWh"


def test_an_unknown_parameter_suggests_one() -> None:
    with pytest.raises(UnknownName, match="no server_price 'dgx-h100'; did you mean 'dgx-h100-8gpu'"):
        catalog.parameter("server_price", "dgx-h100")
    with pytest.raises(UnknownName, match="did you mean 'electricity'"):
        catalog.parameter("electrcity", "DE")


def test_carbon_of_a_region_a_country_and_nowhere() -> None:
    region = catalog.carbon_of(country="US", provider="gcp", region="us-west1")
    country = catalog.carbon_of(country="us", provider="aws", region="us-west-2")
    assert (region.grams_per_kwh, country.id) == (94, "USA")
    assert catalog.carbon_of(country="XX") is None


def test_loading_is_quick_and_imports_no_numpy() -> None:
    """262 accelerators within 15 ms and 1,750 offers within 60 ms of CPU; the best of three starts."""
    program = (
        "import time, sys; from tonnage import catalog; a = time.process_time(); catalog.accelerators();"
        "b = time.process_time(); catalog.offers(); c = time.process_time();"
        "assert not {'numpy', 'rich', 'click'} & set(sys.modules); print(b - a, c - b)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in range(3)
    ]
    times = [tuple(map(float, run.stdout.split())) for run in runs]
    assert_quick(min(first for first, _ in times), 0.015)
    assert_quick(min(second for _, second in times), 0.060)
