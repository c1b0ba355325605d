"""Every offer: it resolves, it is priced, dated, sourced, and its country is in the unions it claims."""

import re
from collections import Counter
from collections.abc import Callable
from datetime import date
from functools import cache

import pytest
from tests.asked import Fields, told
from tests.shipped import table, tables

import tonnage

TERMS = ("on_demand", "spot", "reserved_1y", "reserved_3y", "block")


@cache
def every() -> list[Fields]:
    found: list[Fields] = told("catalog", "offers", "--history", "--limit", "0").rows
    return found


def listed() -> list[Fields]:
    return [offer for offer in every() if not offer.marketplace]


def marketplace() -> list[Fields]:
    return [offer for offer in every() if offer.marketplace]


EU = {"AT", "BE", "BG", "HR", "CY", "CZ", "DK", "EE", "FI", "FR", "DE", "GR", "HU", "IE", "IT", "LV", "LT", "LU", "MT"}
EU |= {"NL", "PL", "PT", "RO", "SK", "SI", "ES", "SE"}


def prices(offer: Fields) -> dict[str, float]:
    """Term -> listed price of the whole instance. [USD/h]"""
    return {term: offer[term] for term in TERMS if offer[term] is not None}


def wrong(offers: list[Fields], rule: Callable[[Fields], bool]) -> list[str]:
    return [f"{offer.provider} {offer.instance_type} {offer.region}" for offer in offers if not rule(offer)]


def test_the_two_sheets_are_apart() -> None:
    assert (len(listed()), len(marketplace())) == (1293, 457)
    assert wrong(listed(), lambda offer: offer.licence in {"Apache-2.0", "MPL-2.0"}) == []
    assert wrong(marketplace(), lambda offer: offer.licence == "none stated") == []


def test_providers_of_the_licensed_sheet() -> None:
    assert Counter(offer.provider for offer in listed()) == {"azure": 680, "gcp": 516, "aws": 89, "crusoe": 8}


def test_every_accelerator_and_provider_resolves() -> None:
    parts = {row["id"] for rows in tables("accelerators").values() for row in rows}
    providers = {row["provider"] for row in table("providers/providers.csv")}
    assert wrong(every(), lambda offer: offer.accelerator in parts and offer.provider in providers) == []


def test_every_offer_has_a_positive_price_and_known_terms() -> None:
    assert wrong(every(), lambda offer: bool(prices(offer)) and min(prices(offer).values()) > 0) == []
    assert {term for offer in every() for term in prices(offer)} == set(TERMS)


def test_spot_and_reserved_cost_at_most_on_demand() -> None:
    def rule(offer: Fields) -> bool:
        full = offer.on_demand
        return full is None or max(prices(offer).values()) <= full * 1.0001

    assert wrong(every(), rule) == []


def test_three_years_cost_at_most_one() -> None:
    def rule(offer: Fields) -> bool:
        return None in (offer.reserved_1y, offer.reserved_3y) or offer.reserved_3y <= offer.reserved_1y

    assert wrong(every(), rule) == []


def test_the_price_of_one_accelerator_times_their_number_is_the_listed_price() -> None:
    priced = [offer for offer in every() if offer.on_demand is not None]
    assert len(priced) > 1700
    for offer in priced:
        assert offer.price * offer.count == pytest.approx(offer.on_demand)


def test_an_accelerator_hour_costs_between_a_cent_and_the_dearest_listed() -> None:
    for offer in every():
        for usd_per_hour in prices(offer).values():
            if tonnage.accelerator(offer.accelerator).segment != "cpu":
                assert 0.01 <= usd_per_hour / offer.count <= 60, offer


def test_larger_instances_of_a_family_hold_no_more_than_a_node() -> None:
    assert wrong(every(), lambda offer: 0 < offer.count <= 16) == []
    assert wrong(every(), lambda offer: offer.vcpus is None or 1 <= offer.vcpus <= 1024) == []
    assert wrong(every(), lambda offer: offer.ram is None or 1e9 <= offer.ram <= 35e12) == []


def test_networks_are_bytes_per_second_of_one_direction() -> None:
    (p5,) = [offer for offer in listed() if offer.instance_type == "p5.48xlarge"]
    assert p5.network == pytest.approx(400e9)  # 3,200 Gbit/s
    assert wrong(every(), lambda offer: offer.network is None or offer.network <= 800e9) == []


def test_eu_flags_follow_the_country() -> None:
    assert wrong(every(), lambda offer: offer.eu is (offer.country in EU if offer.country else None)) == []
    eea = EU | {"NO", "IS", "LI"}
    assert wrong(every(), lambda offer: offer.eea is (offer.country in eea if offer.country else None)) == []
    assert sum(offer.eu is True for offer in listed()) == 285
    assert sum(offer.eu is True for offer in marketplace()) == 172


def test_counts_of_terms() -> None:
    terms = Counter(term for offer in listed() for term in prices(offer))
    assert (terms["spot"], terms["reserved_1y"], terms["reserved_3y"]) == (584, 468, 475)


def test_every_offer_is_dated_and_sourced() -> None:
    for offer in every():
        assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", offer.as_of)
        assert date.fromisoformat((offer.as_of + "-01")[:10]) <= date.today()
        assert offer.as_of_kind in {"exact", "month", "estimated"}
        assert len(offer.source) > 8


def test_history_is_marked() -> None:
    old = [offer for offer in every() if offer.history]
    assert (
        wrong(
            every(),
            lambda offer: (
                offer.history == (offer.notes or "").startswith(("OLD", "retired", "later list", "DataCrunch became"))
            ),
        )
        == []
    )
    assert len(old) == 121


def test_prepaid_blocks_are_not_on_demand() -> None:
    blocks = [offer for offer in every() if offer.provider == "aws-capacity-blocks"]
    assert [list(prices(offer)) for offer in blocks] == [["block"]] * 6


@pytest.mark.parametrize(
    ("instance_type", "region", "accelerator", "count", "usd_per_hour"),
    [
        ("p5.48xlarge", "us-east-1", "h100-sxm5-80gb", 8, 55.04),  # 98.32 before July 2026
        ("p4d.24xlarge", "us-east-1", "a100-sxm4-40gb", 8, 21.957642),  # 32.77
        ("Standard_NC40ads_H100_v5", "westeurope", "h100-nvl-94gb", 1, None),  # Azure NC H100 v5 is NVL
    ],
)
def test_known_prices(
    instance_type: str, region: str, accelerator: str, count: float, usd_per_hour: float | None
) -> None:
    (offer,) = [o for o in listed() if (o.instance_type, o.region) == (instance_type, region)]
    assert (offer.accelerator, offer.count) == (accelerator, count)
    assert usd_per_hour is None or offer.on_demand == usd_per_hour


def test_every_row_of_the_spot_advisor() -> None:
    records = table("spot/advisor.csv")
    assert len(records) == 756
    for record in records:
        assert tonnage.accelerator(record["accelerator"]).id == record["accelerator"]
        assert float(record["count"]) > 0
        assert -100 < float(record["savings_percent"]) < 100
        assert record["interruption_band"] in {"<5%", "5-10%", "10-15%", "15-20%", ">20%"}
    (source,) = table("spot/sources.csv")
    assert date.fromisoformat(source["as_of"]) <= date.today()
