"""
Owning against a published worked check.

The check was made with the catalogue's middle values for these settings, written down with it: 4 years (3 for the used
A100), residual 15 %, PUE 1.4, 0.085 USD/kWh, 184.06 USD/kW-month, 8 % interest, 5 % support, one administrator for 40
nodes, 35,000 USD of fabric, load 0.8. Source: ownership parameters of the catalogue, "Worked sanity check" (tco.md).
It counts neither spares nor insurance, and full power at any use.
"""

import math

import pytest

from tonnage.domain.cost import OwnedMachine
from tonnage.pricing.owning import owned_usd, owned_usd_per_used_hour
from tonnage.questions.cost.inputs import inputs_of, machine_of, rent_or_buy_request
from tonnage.questions.cost.rent_or_buy import server_of

WORKED = {
    # machine: (years, total USD, USD per accelerator-hour at 100 %, 80 %, 70 %, 30 %)
    "hgx-h100-8gpu": (4, 511_000, 1.82, 2.28, 2.61, 6.08),
    "hgx-h200-8gpu": (4, 560_000, 2.00, 2.50, 2.85, 6.66),
    "dgx-b200-8gpu": (4, 827_000, 2.95, 3.69, 4.22, 9.84),
    "hgx-a100-80g-8gpu-used": (3, 226_000, 1.08, 1.35, 1.54, 3.59),
    "l40s-8gpu-pcie": (4, 214_000, 0.76, 0.96, 1.09, 2.55),
    "rtx-pro-6000-8gpu-pcie": (4, 242_000, 0.86, 1.08, 1.24, 2.88),
}


def machine(name: str, **fields: str) -> OwnedMachine:
    request = rent_or_buy_request({"machine": name, **fields})
    return machine_of(inputs_of(request, server_of(request)))


def as_in_the_check(name: str, years: int) -> OwnedMachine:
    # 15 % left at the end of the life, as a share after three years.
    resale = math.exp(math.log(0.15) * 3 / years)
    return machine(name, years=str(years), resale_3y=str(resale), spares="0", insurance="0", load="80 %", idle="80 %")


@pytest.mark.parametrize("name", WORKED)
def test_totals_with_the_settings_of_the_check(name: str) -> None:
    years, total, *_ = WORKED[name]
    assert owned_usd(as_in_the_check(name, years), utilisation=1.0).value == pytest.approx(total, rel=0.01)


@pytest.mark.parametrize("name", WORKED)
def test_hours_with_the_settings_of_the_check(name: str) -> None:
    years, _, *hourly = WORKED[name]
    own = as_in_the_check(name, years)
    for utilisation, usd in zip((1.0, 0.8, 0.7, 0.3), hourly, strict=True):
        assert owned_usd_per_used_hour(own, utilisation=utilisation) == pytest.approx(usd, rel=0.012)


def test_the_defaults_alone_land_within_five_percent_of_the_check() -> None:
    _, total, *hourly = WORKED["hgx-h100-8gpu"]
    own = machine("hgx-h100-8gpu")
    assert owned_usd(own, utilisation=1.0).value == pytest.approx(total, rel=0.05)
    for utilisation, usd in zip((1.0, 0.8, 0.7, 0.3), hourly, strict=True):
        assert owned_usd_per_used_hour(own, utilisation=utilisation) == pytest.approx(usd, rel=0.05)
