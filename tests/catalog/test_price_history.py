"""Dated prices: the market's middle and spread, and a fall that is sellers' and not the mix of sellers."""

import json
import math
from datetime import date

import pytest
from click.testing import CliRunner

from tonnage.catalog.price_history import PricePoint, market_path, price_fall, price_points, prices_listing
from tonnage.cli import root


def point(day: str, provider: str, usd: float, part: str = "h100") -> PricePoint:
    return PricePoint(day, provider, part, "on-demand", usd)


def test_a_fall_is_of_sellers_and_not_of_who_joins() -> None:
    falling = [point("2025-01-01", name, usd) for name, usd in (("a", 2.0), ("b", 4.0), ("c", 3.0))]
    falling += [point("2026-01-01", one.provider, one.usd_per_hour * 0.8) for one in falling]
    falling += [point("2026-01-01", "dear", 12.0), point("2026-01-20", "dear", 12.0)]  # nineteen days say nothing
    found = price_fall(falling, "h100")
    assert found is not None and found.pairs == 3
    assert found.per_year == pytest.approx(-math.log(0.8) * 365.25 / 365, rel=1e-9)
    assert price_fall(falling[:5], "h100") is None  # two sellers
    assert price_fall(falling, "a100") is None


def test_the_market_of_a_day_is_of_the_last_prices_until_then() -> None:
    points = [point("2025-01-01", "a", 2.0), point("2025-02-01", "b", 4.0), point("2025-03-01", "a", 1.0),
              point("2026-12-01", "c", 3.0)]  # fmt: skip
    days = market_path(points, "h100")
    assert [(day.date, day.usd_per_hour, day.sellers) for day in days] == [
        ("2025-01-01", 2.0, 1),
        ("2025-02-01", 3.0, 2),
        ("2025-03-01", 2.5, 2),
        ("2026-12-01", 3.0, 1),
    ]
    assert days[2].low < days[2].usd_per_hour < days[2].high


def test_the_shipped_book_has_paths_and_says_what_it_does_not_know() -> None:
    points = price_points()
    assert len({one.accelerator for one in points}) > 20 and all(0.02 < one.usd_per_hour < 200 for one in points)
    found = prices_listing(["h100"], every=True, today=date(2026, 11, 22))
    days = [row["date"] for row in found.rows]
    assert len(days) > 3 and days == sorted(days)
    assert all(row["low"] <= row["market"] <= row["high"] for row in found.rows)
    assert "sellers" in found.notes[0]


def test_the_command_lists_and_draws(tmp_path: object) -> None:
    done = CliRunner().invoke(root, ["catalog", "prices", "h100", "--json"], prog_name="tonnage")
    assert done.exit_code == 0 and json.loads(done.stdout)["kind"] == "prices"
    from tonnage.report.charts.chart import price_chart

    (chart,) = price_chart(prices_listing(["h100", "h200"], every=True, today=date(2026, 11, 22)))
    assert len(chart.rows) > 6 and "another seller" in chart.says
