"""Watts, hours and grams: the arithmetic."""

import pytest

from tonnage.pricing.energy import busy_share, carbon_kg, energy_kwh, tokens_per_joule


def test_a_kilowatt_for_a_month_is_730_kwh() -> None:
    assert energy_kwh(power_w=1000) == 730
    assert energy_kwh(power_w=1000, hours=1, pue=1.5) == 1.5
    assert carbon_kg(kwh=730, grams_per_kwh=100) == 73


def test_a_server_with_many_requests_is_always_at_work() -> None:
    assert busy_share(mean_requests=0) == 0
    assert busy_share(mean_requests=20) == pytest.approx(1, abs=1e-8)
    assert busy_share(mean_requests=1) < busy_share(mean_requests=2)


def test_performance_per_watt() -> None:
    assert tokens_per_joule(tokens_per_s=500, power_w=250) == 2
