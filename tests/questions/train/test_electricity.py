"""Electricity of a run: mean power times the time that is paid for, and carbon of the grid where it stands (D5)."""

from datetime import date

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.core.host import USUAL_LOAD
from tonnage.domain.train_plan import TrainOption
from tonnage.questions.train.machine import with_electricity
from tonnage.questions.train.plan import plan_train
from tonnage.questions.train.question import train_request


@pytest.fixture(scope="module")
def option() -> TrainOption:
    asked = {"model": "7B", "tokens": "20B", "deadline": "20 days", "accelerator": "H100"}
    return plan_train(train_request(asked), today=date(2026, 11, 21)).options[0]


def test_energy_is_power_times_paid_time_and_carbon_that_of_the_grid(option: TrainOption) -> None:
    use = option.energy
    assert use is not None and option.kwh is not None and use.grams_per_kwh is not None and option.kg_co2 is not None
    assert option.kwh == pytest.approx(use.power_w * option.run.billed_s / 3.6e6)
    assert option.kg_co2 == pytest.approx(option.kwh * use.grams_per_kwh / 1e3)
    assert use.power_w == pytest.approx((use.board_w + use.host_w) * use.pue)
    limit_wh = 700.0 * option.accelerators * option.run.billed_s / 3600.0
    assert option.energy_wh == pytest.approx(use.board_w * option.run.billed_s / 3600.0)
    assert 0.6 * limit_wh < option.energy_wh < limit_wh, "the boards' own draw, below their limit"
    # A machine of eight H100 was measured at 8.4 kW at most; training takes most of that.
    assert 0.75 * 1050 < use.power_w / use.pue / option.accelerators <= 1050
    assert use.power_w_low < use.power_w < use.power_w_high


def test_a_cleaner_grid_takes_as_much_electricity_and_less_carbon(option: TrainOption) -> None:
    part = catalog.accelerator("h100-sxm5-80gb")
    made = {
        country: with_electricity(
            replace(option, bill=replace(option.bill, provider="verda", region="", country=country)),
            accelerator=part,
            load=USUAL_LOAD,
        )
        for country in ("SE", "PL")
    }
    assert made["SE"].kwh == made["PL"].kwh
    lighter, own = made["SE"].energy_wh, option.energy_wh
    assert lighter is not None and own is not None and lighter < own, "boards that draw less take less"
    assert made["SE"].kg_co2 is not None and made["PL"].kg_co2 is not None
    assert made["SE"].kg_co2 < 0.2 * made["PL"].kg_co2


def test_a_power_that_nobody_published_is_absent(option: TrainOption) -> None:
    bare = replace(option, energy=None, kwh=None, kg_co2=None)
    dark = with_electricity(
        bare, accelerator=replace(catalog.accelerator("h100-sxm5-80gb"), power_w=None), load=USUAL_LOAD
    )
    assert dark.energy is None and dark.kwh is None and dark.kg_co2 is None
