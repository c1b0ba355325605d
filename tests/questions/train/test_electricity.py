"""Electricity of a run: mean power times the time that is paid for, and carbon of the grid where it stands (D5)."""

from typing import Any

import pytest

import tonnage

ASKED = {"model": "7B", "tokens": "20B", "deadline": "20 days"}


@pytest.fixture(scope="module")
def option() -> Any:
    return tonnage.plan_train(**ASKED, accelerator="H100").options[0]


def test_energy_is_power_times_paid_time_and_carbon_that_of_the_grid(option: Any) -> None:
    use = option.energy
    assert option.kwh == pytest.approx(use.power_w * option.run.billed_s / 3.6e6)
    assert option.kg_co2 == pytest.approx(option.kwh * use.grams_per_kwh / 1e3)
    assert use.power_w == pytest.approx((use.board_w + use.host_w) * use.pue)
    limit_wh = 700.0 * option.accelerators * option.run.billed_s / 3600.0
    assert option.energy_wh == pytest.approx(use.board_w * option.run.billed_s / 3600.0)
    assert 0.6 * limit_wh < option.energy_wh < limit_wh, "the boards' own draw, below their limit"
    # A machine of eight H100 was measured at 8.4 kW at most; training takes most of that.
    assert 0.75 * 1050 < use.power_w / use.pue / option.accelerators <= 1050
    assert use.power_w_low < use.power_w < use.power_w_high


def test_a_cleaner_grid_takes_as_much_electricity_and_less_carbon() -> None:
    """The same boards of one seller, in Finland and in the Netherlands."""
    where = {"accelerator": "h100-sxm5-80gb", "count": 8, "term": "on-demand"}
    clean, coal = (tonnage.plan_train(**ASKED, **where, country=country).options[0] for country in ("FI", "DE"))
    assert clean.energy.board_w == pytest.approx(coal.energy.board_w)
    per_kwh = [one.kg_co2 / one.kwh for one in (clean, coal)]
    assert per_kwh == pytest.approx([one.energy.grams_per_kwh / 1e3 for one in (clean, coal)])
    assert per_kwh[0] < 0.3 * per_kwh[1]


def test_a_power_that_nobody_published_is_absent() -> None:
    dark = tonnage.plan_train(**ASKED, accelerator="tpu-v6e").options[0]
    assert dark.energy is None and dark.kwh is None and dark.kg_co2 is None
