"""Electricity and carbon: what machines draw, where they stand, how it scales."""

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.plan import Bill
from tonnage.errors import Unmeasured
from tonnage.planning.deployment import resolve
from tonnage.planning.energy import energy_use, host_factor, machine_power, serving_load

H100 = catalog.accelerator("h100-sxm5-80gb")
BILL = Bill(
    provider="gcp", instance_type="a3", region="europe-north1", country="FI", term="on-demand", instances=1,
    accelerators_per_instance=8, usd_per_instance_hour=1.0, lines=(), as_of="2026-07-30",
)  # fmt: skip


def test_a_published_machine_is_taken_as_it_is() -> None:
    machine = machine_power(H100, count=8)
    assert machine.watts == 10_200 and machine.board_watts == 5600 and "DGX H100" in machine.source


def test_other_machines_take_the_median_host() -> None:
    part = catalog.accelerator("a10")
    middle, least, most = host_factor()
    machine = machine_power(part, count=4)
    assert part.power_w is not None and 1.2 < least < middle < most < 2.5
    assert machine.watts == pytest.approx(4 * part.power_w * middle)
    assert machine.low < machine.watts < machine.high


def test_a_what_if_on_power_is_not_hidden_by_the_published_machine() -> None:
    capped = replace(H100, power_w=400.0)
    assert machine_power(capped, count=8).watts < machine_power(H100, count=8).watts


def test_power_that_nobody_published_is_unknown() -> None:
    silent = replace(H100, id="x", power_w=None)
    with pytest.raises(Unmeasured, match=r"--set x\.power"):
        machine_power(silent, count=1)
    assert energy_use(silent, count=1, busy=1.0, bill=BILL) is None


def test_an_h100_at_work_in_finland() -> None:
    """1,275 W at the plug x 0.6 x PUE 1.1 = 842 W; 614 kWh a month; times the grid of the region."""
    use = energy_use(H100, count=1, busy=1.0, bill=BILL, output_tokens_per_s=1000)
    grid = catalog.carbon_of(country="FI", provider="gcp", region="europe-north1")
    assert use is not None and grid is not None and use.kg_co2_per_month is not None
    assert use.power_w == pytest.approx(1275 * 0.6 * 1.1)
    assert use.kwh_per_month == pytest.approx(614, rel=0.01)
    assert use.kg_co2_per_month == pytest.approx(use.kwh_per_month * grid.grams_per_kwh / 1000)
    assert use.kwh_per_million_tokens == pytest.approx(use.power_w / 3.6e6 * 1e6 / 1000)
    assert use.tokens_per_joule == pytest.approx(1000 / use.power_w)
    assert (use.board_w + use.host_w) * use.pue == pytest.approx(use.power_w)
    assert use.power_w_low < use.power_w < use.power_w_high
    assert all(use.sources)


def test_idle_draws_less_and_more_accelerators_more() -> None:
    busy = energy_use(H100, count=2, busy=1.0, bill=BILL)
    idle = energy_use(H100, count=2, busy=0.0, bill=BILL)
    more = energy_use(H100, count=4, busy=1.0, bill=BILL)
    assert busy is not None and idle is not None and more is not None
    assert 0 < idle.power_w < busy.power_w and more.power_w == pytest.approx(2 * busy.power_w)


def test_where_the_grid_is_unknown_carbon_is_absent() -> None:
    use = energy_use(H100, count=1, busy=1.0, bill=replace(BILL, provider="vast", region="", country=""))
    assert use is not None and use.kg_co2_per_month is None and use.grams_per_kwh is None


def test_boards_draw_more_the_more_they_read_and_multiply() -> None:
    at = resolve(
        ServeCase(model="Qwen/Qwen3-14B", accelerator="h100-sxm5-80gb", traffic=Traffic(concurrency=8.0), isl=250.0,
                  osl=620.0, engine="vllm")
    )  # fmt: skip

    def share(running: float, tpot_s: float) -> float:
        load = serving_load(at, running=running, tpot_s=tpot_s, requests_per_s=running / tpot_s / 620.0)
        assert load.low < load.value <= load.high <= 1.0
        return load.value

    idle = catalog.parameter("server_power", "idle_share_of_max").value
    assert share(1.0, 10.0) == pytest.approx(idle, abs=0.01)
    assert idle < share(1.0, 0.012) < share(64.0, 0.016) < share(192.0, 0.022) <= 1.0
    assert share(4096.0, 0.02) == 1.0
