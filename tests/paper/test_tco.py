"""
Owning against a published worked check.

The check was made with the catalogue's middle values for these settings, written down with it: 4 years (3 for the used
A100), residual 15 %, PUE 1.4, 0.085 USD/kWh, 184.06 USD/kW-month, 8 % interest, 5 % support, one administrator for 40
nodes, 35,000 USD of fabric, load 0.8. Source: ownership parameters of the catalogue, "Worked sanity check" (tco.md).
It counts neither spares nor insurance, and full power at any use.
"""

import math
from typing import Any

import pytest

import tonnage

WORKED = {
    # machine: (years, total USD, USD per accelerator-hour at 100 %, 80 %, 70 %, 30 %)
    "hgx-h100-8gpu": (4, 511_000, 1.82, 2.28, 2.61, 6.08),
    "hgx-h200-8gpu": (4, 560_000, 2.00, 2.50, 2.85, 6.66),
    "dgx-b200-8gpu": (4, 827_000, 2.95, 3.69, 4.22, 9.84),
    "hgx-a100-80g-8gpu-used": (3, 226_000, 1.08, 1.35, 1.54, 3.59),
    "l40s-8gpu-pcie": (4, 214_000, 0.76, 0.96, 1.09, 2.55),
    "rtx-pro-6000-8gpu-pcie": (4, 242_000, 0.86, 1.08, 1.24, 2.88),
}


def owned(name: str, used: float, **fields: str) -> Any:
    """Owning the machine with useful work in that share of its hours."""
    return tonnage.rent_or_buy(name, utilisation=f"{used:.0%}", rent="$2/h", **fields)


def as_in_the_check(years: int) -> dict[str, str]:
    # 15 % left at the end of the life, as a share after three years.
    resale = str(math.exp(math.log(0.15) * 3 / years))
    alike = {"spares": "0", "insurance": "0", "load": "80 %", "idle": "80 %"}
    return {"years": str(years), "resale_3y": resale, **alike}


@pytest.mark.parametrize("name", WORKED)
def test_totals_and_hours_with_the_settings_of_the_check(name: str) -> None:
    years, total, *hourly = WORKED[name]
    for used, usd in zip((1.0, 0.8, 0.7, 0.3), hourly, strict=True):
        found = owned(name, used, **as_in_the_check(years))
        assert found.owned_usd_per_used_hour.value == pytest.approx(usd, rel=0.012)
        assert used < 1.0 or found.owning.value == pytest.approx(total, rel=0.01)


def test_the_defaults_alone_land_within_five_percent_of_the_check() -> None:
    _, total, *hourly = WORKED["hgx-h100-8gpu"]
    for used, usd in zip((1.0, 0.8, 0.7, 0.3), hourly, strict=True):
        found = owned("hgx-h100-8gpu", used)
        assert found.owned_usd_per_used_hour.value == pytest.approx(usd, rel=0.05)
        assert used < 1.0 or found.owning.value == pytest.approx(total, rel=0.05)
