"""Unit costs of images, texts, audio and cameras multiply back to the bill (D1)."""

from functools import cache
from typing import Any

import pytest
from tests.command import printed

import tonnage

CASES: dict[str, dict[str, Any]] = {
    "cameras": {"model": "ultralytics/yolov8m", "streams": 20, "fps": 25, "resolution": 640},
    "images": {"model": "stabilityai/stable-diffusion-xl-base-1.0", "rate": "0.5/s", "resolution": 1024},
    "texts": {"model": "BAAI/bge-base-en-v1.5", "rate": "2000/s", "seq_len": 256},
    "audio": {"model": "openai/whisper-large-v3", "audio": 100},
}
MONTH_S = 730 * 3600


@cache
def plan(name: str) -> Any:
    found = tonnage.plan_infer(**CASES[name])
    assert found.options
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_is_delivered_in_a_month_costs_a_months_bill(name: str) -> None:
    found = plan(name)
    for option in found.options:
        if option.bill is None:
            assert option.costs is None
            continue
        costs, month = option.costs, option.bill.usd_per_hour * 730
        assert costs.usd_per_month == pytest.approx(month)
        if name == "audio":
            assert costs.usd_per_thousand is None
            assert costs.usd_per_audio_hour * 100 * 730 == pytest.approx(month)
        else:
            assert costs.usd_per_audio_hour is None
            assert costs.usd_per_thousand / 1e3 * found.request.rate_per_s * MONTH_S == pytest.approx(month)
            # What is not used is paid too: at full use each costs the used share of it.
            assert costs.usd_per_thousand_full == pytest.approx(costs.usd_per_thousand * option.used, rel=1e-6)
        if name == "cameras":
            assert costs.usd_per_stream_month * 20 == pytest.approx(month)


@pytest.mark.parametrize(("name", "told"), [
    ("cameras", "a month for each stream"), ("images", "per thousand at this load"), ("audio", "per hour of audio"),
])  # fmt: skip
def test_the_plan_prints_what_its_money_buys(name: str, told: str) -> None:
    said = printed("infer", "--top", 1, "--why", **CASES[name])
    assert told in said and plan(name).options[0].bill.as_of in said and "without VAT" in said
    assert "kWh a month" in said


@pytest.mark.parametrize(("fields", "buys"), [
    ({"eu": True, "country": "US"}, {"--eu", "--country"}),
    ({"latency": "0.1 ms"}, {"--latency"}),
    ({"max_power": "5 W", "segment": "datacenter"}, {"--max-power"}),
])  # fmt: skip
def test_constraints_that_leave_nothing_say_what_dropping_each_alone_buys(
    fields: dict[str, Any], buys: set[str]
) -> None:
    found = tonnage.plan_infer(**CASES["cameras"] | fields)
    assert not found.feasible
    assert buys <= {told.split(":")[0].removeprefix("without ") for told in found.relaxing}
