"""Every parameter of owning and every carbon intensity: banded, in a known unit, sourced."""

import pytest
from tests.every_row import every_row

from tonnage import catalog
from tonnage.domain.money import OwnedParameter

PARAMETERS = list(catalog.tco().values())


def test_all_123_are_here() -> None:
    assert len(PARAMETERS) == 123


@every_row(PARAMETERS, name=lambda p: f"{p.group}-{p.key}")
def test_every_parameter_is_banded_and_sourced(parameter: OwnedParameter) -> None:
    assert parameter.value > 0
    assert parameter.low is None or parameter.low <= parameter.value
    assert parameter.high is None or parameter.high >= parameter.value
    assert parameter.source
    assert parameter.confidence in {"high", "medium", "low", "claim"}
    assert parameter.unit not in {"kW", "MWh", "GWh"}, "powers and energies are converted"


def test_ranges_by_group() -> None:
    limits = {
        "server_price": (500, 5e6), "server_power_max": (300, 200e3), "pue": (1, 2.5), "electricity": (0.03, 0.5),
        "electricity_household": (0.05, 0.6), "electricity_default": (0.03, 0.5), "fx": (0.8, 1.6),
    }  # fmt: skip
    for group, (least, most) in limits.items():
        found = [parameter for parameter in PARAMETERS if parameter.group == group]
        assert found, group
        assert all(least <= parameter.value <= most for parameter in found), group


def test_a_claim_is_marked_as_one() -> None:
    claims = [parameter for parameter in PARAMETERS if parameter.confidence == "claim"]
    assert claims
    assert {parameter.group for parameter in claims} == {"claim"}


def test_failures_follow_from_the_published_counts() -> None:
    """419 interruptions, of which 148 + 72 on GPU and HBM, in 54 days on 16,384 accelerators (Llama 3 paper)."""
    years = 16384 * 54 / 365
    assert catalog.parameter("failure", "interruptions_all_causes_meta").value == pytest.approx(419 / years, rel=0.01)
    assert catalog.parameter("failure", "gpu_annual_failure_h100_meta").value == pytest.approx(220 / years, rel=0.01)


def test_every_default_tariff_is_of_a_known_country() -> None:
    tariffs = [parameter.key for parameter in PARAMETERS if parameter.group == "electricity_default"]
    assert {tariff.removesuffix("-CA").removesuffix("-TX") for tariff in tariffs} <= set(catalog.countries())
    assert {"US", "DE", "FR"} <= set(tariffs)


def test_every_carbon_intensity() -> None:
    carbon = catalog.carbon()
    assert len([id for id in carbon if ":" not in id]) == 213
    assert len([id for id in carbon if ":" in id]) == 40
    for intensity in carbon.values():
        # Grids of water power alone are listed with 0.
        assert 0 < intensity.grams_per_kwh <= 1400 or intensity.id in {"CAF"}, intensity.id
        assert len(intensity.country_iso3) == 3
        assert intensity.source
        assert not intensity.as_of or 2005 <= int(intensity.as_of) <= 2026


def test_every_offered_country_has_a_carbon_intensity() -> None:
    for offer in catalog.offers():
        if offer.country:
            assert catalog.carbon_of(country=offer.country, provider=offer.provider, region=offer.region), offer.country


def test_a_misspelt_region_of_the_source_is_corrected() -> None:
    found = catalog.carbon_of(country="QA", provider="gcp", region="me-central1")
    assert found.grams_per_kwh == 575
