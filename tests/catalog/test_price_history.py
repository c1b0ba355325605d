"""Dated prices: the market and how it falls, and what speaks against prices of the book."""

import json
import math
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace
from tests.command import told
from tools import prices

from tonnage import catalog
from tonnage.catalog import price_history
from tonnage.catalog.price_history import (
    PricePoint,
    market_path,
    market_prices,
    offers_audit,
    price_fall,
    price_points,
    prices_listing,
)
from tonnage.core.sites import sites
from tonnage.domain.money import Offer, Price, is_stale
from tonnage.domain.requests.common import Filters
from tonnage.pricing.bills import bill, primary_first


def point(day: str, provider: str, usd: float, part: str = "h100") -> PricePoint:
    return PricePoint(day, provider, part, "on-demand", usd)


def test_a_fall_is_of_sellers_and_not_of_who_joins() -> None:
    falling = [point("2025-01-01", name, usd) for name, usd in (("a", 2.0), ("b", 4.0), ("c", 3.0))]
    falling += [point("2026-01-01", one.provider, one.usd_per_hour * 0.8) for one in falling]
    falling += [point("2026-01-01", "dear", 12.0), point("2026-01-20", "dear", 12.0)]  # nineteen days say nothing
    found = price_fall(falling, "h100")
    assert found.pairs == 3
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
    done = told("catalog", "prices", "h100", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["kind"] == "prices"
    from tonnage.report.charts.catalogue import price_chart

    (chart,) = price_chart(prices_listing(["h100", "h200"], every=True, today=date(2026, 11, 22)))
    assert len(chart.rows) > 6 and "another seller" in chart.says


TODAY = date(2026, 11, 22)


def offer(provider: str, usd: float, **facts: Any) -> Offer:
    return Offer(
        provider=provider,
        instance_type="8x",
        accelerator="h100-sxm5-80gb",
        count=8.0,
        as_of="2026-10-01",
        prices=(Price(term="on-demand", usd_per_hour=8 * usd),),
        source=f"{provider}'s page",
        **facts,
    )


BOOK = tuple(offer(name, usd) for name, usd in (("aws", 3.0), ("gcp", 3.2), ("oci", 2.8), ("lambda", 3.1)))


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[str, str]]]:
    """The findings on a book besides who is missing, as kind and provider."""

    def ask(*more: Offer) -> list[tuple[str, str]]:
        monkeypatch.setattr(price_history, "offers", lambda additions: (*BOOK, *more))
        rows = offers_audit(today=TODAY).rows
        return [(row["finding"], row["provider"]) for row in rows if row["finding"] != "unlisted"]

    return ask


def test_a_sound_book_has_no_findings(audited: Callable[..., list[tuple[str, str]]]) -> None:
    assert audited() == []


def test_each_kind_of_finding_is_found(audited: Callable[..., list[tuple[str, str]]]) -> None:
    assert audited(offer("crusoe", 1.2)) == [("outlier", "crusoe")]
    assert audited(offer("crusoe", 3.0, trust="secondary")) == [("secondary", "crusoe")]
    assert audited(replace(BOOK[0], prices=(Price(term="on-demand", usd_per_hour=30.0),), source="another")) == [
        ("contradicting", "aws")
    ]
    assert audited(replace(BOOK[0], as_of="2026-05")) == [("stale", "aws")]
    only = replace(BOOK[0], accelerator="gaudi2", trust="secondary")
    assert audited(only) == [("secondary", "aws"), ("no seller's price", "")]


def test_the_market_is_of_sellers_alone() -> None:
    strange = (offer("vast", 0.5, kind="marketplace"), offer("crusoe", 0.5, trust="secondary"))
    assert market_prices((*BOOK, *strange)) == {"h100-sxm5-80gb": pytest.approx(3.05)}
    assert market_prices(BOOK[:3]) == {}


def test_rows_known_to_be_wrong_are_not_primary() -> None:
    book = [one for one in catalog.offers() if not one.history]
    doubted = {(one.provider, one.trust) for one in book if one.trust != "primary"}
    assert ("coreweave", "secondary") in doubted
    assert ("runpod", "contradicted") in doubted
    assert {one.kind for one in book if one.provider == "runpod-serverless"} == {"serverless worker"}
    assert {one.trust_of("spot") for one in book if one.provider == "aws" and "ESTIMATE" in one.notes} == {"secondary"}


def test_no_secondary_price_stands_where_a_seller_names_one() -> None:
    found, _ = sites(Filters(accelerators=("h100-sxm5-80gb", "a30")), additions=catalog.NOTHING)
    by_part = {site.accelerator.id: {one.trust for one in site.offers} for site in found}
    assert by_part == {"h100-sxm5-80gb": {"primary"}, "a30": {"secondary"}}


def test_a_worker_that_a_platform_starts_trains_nothing() -> None:
    asked = Filters(accelerators=("h100-sxm5-80gb",), providers=("runpod-serverless",))
    assert sites(asked, additions=catalog.NOTHING)[0]
    assert not sites(asked, additions=catalog.NOTHING, without=("serverless worker",))[0]


def test_options_at_sellers_prices_come_first() -> None:
    class Option:
        def __init__(self, one: Offer, *, sure: bool = True) -> None:
            made = bill(one, replicas=1, ranks=8, term="on-demand", today=TODAY)
            assert not hasattr(made, "ok")
            self.bill, self.sure = made, sure

    cheap, listed = Option(offer("crusoe", 1.0, trust="secondary")), Option(BOOK[0])
    doubted = Option(BOOK[2], sure=False)
    # What is likely enough comes before what is not, whoever says its price.
    assert primary_first([doubted, cheap, listed]) == [listed, cheap, doubted]  # type: ignore[type-var]


def test_the_page_of_prices_is_of_this_book() -> None:
    written = re.search(r"tools\.prices (\S+)`", prices.PAGE.read_text())
    assert prices.PAGE.read_text() == prices.page(date.fromisoformat(written[1]))


def test_a_price_goes_stale_after_ninety_days() -> None:
    assert not is_stale("2026-08-19", today=date(2026, 11, 17))
    assert is_stale("2026-08-19", today=date(2026, 11, 18))
    assert not is_stale("2026-05", today=date(2026, 8, 29))
    assert is_stale("2026-05", today=date(2026, 9, 1))
    assert is_stale("soon", today=date(2026, 9, 1))
