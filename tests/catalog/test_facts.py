"""Providers, ownership and carbon: looked up by name, absent when unknown, and loaded fast."""

import subprocess
import sys

import pytest
from tests.patience import assert_quick

from tonnage import catalog
from tonnage.errors import UnknownName


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
    assert region is not None and country is not None
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
