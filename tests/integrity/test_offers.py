"""Every offer: it resolves, it is priced, dated, sourced, and its country is in the unions it claims."""

import re
from collections import Counter
from datetime import date

import pytest

from tonnage import catalog
from tonnage.catalog.filters import per_accelerator
from tonnage.catalog.offers import TERMS
from tonnage.domain.money import Offer

LISTED = catalog.offers(marketplace=False)
EVERY = catalog.offers()
MARKETPLACE = EVERY[len(LISTED) :]
EU = {"AT", "BE", "BG", "HR", "CY", "CZ", "DK", "EE", "FI", "FR", "DE", "GR", "HU", "IE", "IT", "LV", "LT", "LU", "MT"}
EU |= {"NL", "PL", "PT", "RO", "SK", "SI", "ES", "SE"}


def wrong(offers: tuple[Offer, ...], rule: object) -> list[str]:
    assert callable(rule)
    return [f"{offer.provider} {offer.instance_type} {offer.region}" for offer in offers if not rule(offer)]


def test_the_two_sheets_are_apart() -> None:
    assert (len(LISTED), len(MARKETPLACE)) == (1293, 457)
    assert wrong(LISTED, lambda offer: not offer.marketplace and offer.licence in {"Apache-2.0", "MPL-2.0"}) == []
    assert wrong(MARKETPLACE, lambda offer: offer.marketplace and offer.licence == "none stated") == []


def test_providers_of_the_licensed_sheet() -> None:
    assert Counter(offer.provider for offer in LISTED) == {"azure": 680, "gcp": 516, "aws": 89, "crusoe": 8}


def test_every_accelerator_and_provider_resolves() -> None:
    parts, providers = catalog.accelerators(), catalog.providers()
    assert wrong(EVERY, lambda offer: offer.accelerator in parts and offer.provider in providers) == []


def test_every_offer_has_a_positive_price_and_known_terms() -> None:
    assert wrong(EVERY, lambda offer: offer.prices and all(price.usd_per_hour > 0 for price in offer.prices)) == []
    assert {price.term for offer in EVERY for price in offer.prices} == set(TERMS)


def test_spot_and_reserved_cost_at_most_on_demand() -> None:
    def rule(offer: Offer) -> bool:
        full = offer.usd_per_hour("on-demand")
        return full is None or all(price.usd_per_hour <= full * 1.0001 for price in offer.prices)

    assert wrong(EVERY, rule) == []


def test_three_years_cost_at_most_one() -> None:
    def rule(offer: Offer) -> bool:
        one, three = offer.usd_per_hour("reserved-1y"), offer.usd_per_hour("reserved-3y")
        return one is None or three is None or three <= one

    assert wrong(EVERY, rule) == []


def test_the_price_of_one_accelerator_times_their_number_is_the_listed_price() -> None:
    priced = [offer for offer in EVERY if offer.usd_per_hour("on-demand") is not None]
    assert len(priced) > 1700
    for offer in priced:
        one = per_accelerator(offer, "on-demand")
        assert one is not None
        assert one * offer.count == pytest.approx(offer.usd_per_hour("on-demand"))


def test_an_accelerator_hour_costs_between_a_cent_and_the_dearest_listed() -> None:
    parts = catalog.accelerators()
    for offer in EVERY:
        for price in offer.prices:
            if parts[offer.accelerator].segment != "cpu":
                assert 0.01 <= price.usd_per_hour / offer.count <= 60, (offer.provider, offer.instance_type, price)


def test_larger_instances_of_a_family_hold_no_more_than_a_node() -> None:
    assert wrong(EVERY, lambda offer: 0 < offer.count <= 16) == []
    assert wrong(EVERY, lambda offer: offer.vcpus is None or 1 <= offer.vcpus <= 1024) == []
    assert wrong(EVERY, lambda offer: offer.ram_bytes is None or 1e9 <= offer.ram_bytes <= 35e12) == []


def test_networks_are_bytes_per_second_of_one_direction() -> None:
    (p5,) = [offer for offer in LISTED if offer.instance_type == "p5.48xlarge"]
    assert p5.network_bytes_per_s == pytest.approx(400e9)  # 3,200 Gbit/s
    assert wrong(EVERY, lambda offer: offer.network_bytes_per_s is None or offer.network_bytes_per_s <= 800e9) == []


def test_eu_flags_follow_the_country() -> None:
    assert wrong(EVERY, lambda offer: offer.eu is (offer.country in EU if offer.country else None)) == []
    eea = EU | {"NO", "IS", "LI"}
    assert wrong(EVERY, lambda offer: offer.eea is (offer.country in eea if offer.country else None)) == []
    assert sum(offer.eu is True for offer in LISTED) == 285
    assert sum(offer.eu is True for offer in MARKETPLACE) == 172


def test_counts_of_terms() -> None:
    terms = Counter(price.term for offer in LISTED for price in offer.prices)
    assert (terms["spot"], terms["reserved-1y"], terms["reserved-3y"]) == (584, 468, 475)


def test_every_offer_is_dated_and_sourced() -> None:
    for offer in EVERY:
        assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", offer.as_of)
        assert date.fromisoformat((offer.as_of + "-01")[:10]) <= date.today()
        assert offer.as_of_kind in {"exact", "month", "estimated"}
        assert len(offer.source) > 8


def test_history_is_marked() -> None:
    old = [offer for offer in EVERY if offer.history]
    assert (
        wrong(
            EVERY,
            lambda offer: (
                offer.history == offer.notes.startswith(("OLD", "retired", "later list", "DataCrunch became"))
            ),
        )
        == []
    )
    assert len(old) == 121


def test_prepaid_blocks_are_not_on_demand() -> None:
    blocks = [offer for offer in EVERY if offer.provider == "aws-capacity-blocks"]
    assert [[price.term for price in offer.prices] for offer in blocks] == [["block"]] * 6


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
    (offer,) = [o for o in LISTED if (o.instance_type, o.region) == (instance_type, region)]
    assert (offer.accelerator, offer.count) == (accelerator, count)
    assert usd_per_hour is None or offer.usd_per_hour("on-demand") == usd_per_hour


def test_every_row_of_the_spot_advisor() -> None:
    records = catalog.spot_records()
    assert len(records) == 756
    parts = catalog.accelerators()
    for record in records:
        assert record.accelerator in parts
        assert record.count > 0
        assert -1 < record.savings_fraction < 1
        assert record.interruption_fraction_max in {0.05, 0.11, 0.16, 0.22, 1.0}
        assert date.fromisoformat(record.as_of) <= date.today()
