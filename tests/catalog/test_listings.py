"""Lists of the catalogue: what filters keep, what is counted as hidden and why, how rows are ordered."""

from typing import Any

import pytest
from tests.asked import Refused, told

import tonnage

TODAY = ("--today", "2026-09-01")
ALL = 262
"""Accelerators of the catalogue."""


def listed(*asked: str) -> Any:
    return told("catalog", "accelerators", *asked, *TODAY)


def offered(*asked: str) -> Any:
    return told("catalog", "offers", "--limit", "0", *asked, *TODAY)


def reasons(listing: Any) -> dict[str, int]:
    return {hidden.reason: hidden.rows for hidden in listing.hidden or ()}


def test_nothing_asked_hides_nothing() -> None:
    listing = listed()
    assert len(listing.rows) == ALL
    assert not listing.hidden
    assert {column.name for column in listing.columns} == set(listing.rows[0])


def test_every_row_is_shown_or_counted() -> None:
    for wanted in (
        ("--memory", "80 GB", "--precision", "fp8", "--eu"),
        ("--vendor", "amd"),
        ("--segment", "edge", "--segment", "consumer", "--no-ecc", "--power", "300 W"),
        ("--mig", "--nvlink", "--max-price", "$2/h"),
    ):
        listing = listed(*wanted)
        assert len(listing.rows) + sum(reasons(listing).values()) == ALL
        assert listing.rows


def test_filters_on_the_part() -> None:
    rows = listed("--vendor", "nvidia", "--memory", "80 GB", "--precision", "FP8", "--nvlink", "--mig").rows
    names = {row["id"] for row in rows}
    assert {"h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb"} <= names
    assert not {"a100-sxm4-80gb", "mi300x", "l40s", "rtx-pro-6000-bw-server"} & names


def test_unknown_power_does_not_pass_a_power_limit() -> None:
    assert tonnage.accelerator("tpu-v5e").power_w is None
    assert "tpu-v5e" not in {row["id"] for row in listed("--power", "10 kW").rows}


def test_prices_follow_the_filters_and_name_provider_and_date() -> None:
    anywhere, in_eu, at_aws = (
        next(row for row in listed(*asked).rows if row["id"] == "h100-sxm5-80gb")
        for asked in ((), ("--eu",), ("--provider", "AWS"))
    )
    assert anywhere["price"] <= in_eu["price"]
    assert (at_aws["price"], at_aws["provider"], at_aws["as_of"]) == (55.04 / 8, "aws", "2026-07-20")
    assert at_aws["stale"] is False
    assert anywhere["spot"] < anywhere["price"]


def test_history_is_no_price_of_today() -> None:
    every = offered("--history").rows

    def cheapest(id: str, history: bool) -> float | None:
        prices = [
            offer.on_demand / offer.count
            for offer in every
            if offer.accelerator == id and offer.count >= 1 and (history or not offer.history)
            if offer.on_demand is not None
        ]
        return min(prices, default=None)

    gpus = [row for row in listed().rows if row["segment"] != "cpu" and row["vendor"] == "NVIDIA"]
    assert all(row["price"] == cheapest(row["id"], False) for row in gpus)
    with_history = {row["id"]: row["price"] for row in listed("--history").rows}
    assert all(with_history[row["id"]] == cheapest(row["id"], True) for row in gpus)
    assert any(with_history[row["id"]] != row["price"] for row in gpus)
    assert reasons(offered())["superseded or retiring price (--history shows them)"] == 121


def test_a_slice_of_a_card_is_not_the_cheapest_card() -> None:
    (row,) = (row for row in listed("--provider", "azure").rows if row["id"] == "a10")
    offers = offered("--provider", "azure", "--accelerator", "a10").rows
    assert any(offer.count < 1 for offer in offers)
    assert row["price"] == min((offer.on_demand or 99) / offer.count for offer in offers if offer.count >= 1)


def test_the_marketplace_can_be_left_out() -> None:
    assert {row["provider"] for row in listed("--no-marketplace").rows} <= {
        "aws",
        "azure",
        "gcp",
        "crusoe",
        None,
    }


def test_a_family_name_is_told() -> None:
    (note,) = listed("H100", "L4").notes
    assert note == listed("H100").ambiguity and "H100 SXM5 80GB" in note


def test_order_and_limit() -> None:
    by_price = [row["price"] for row in listed().rows]
    known = [price for price in by_price if price is not None]
    assert by_price == sorted(known) + [None] * (len(by_price) - len(known))
    dearest = [row["price"] for row in listed("--sort", "price", "--reverse").rows]
    assert dearest == sorted(known, reverse=True) + [None] * (len(by_price) - len(known)), (
        "unknown ones last either way"
    )
    memory = [row["memory"] for row in listed("--sort", "memory").rows]
    assert memory == sorted(memory, reverse=True)
    smallest = listed("--sort", "memory", "--reverse", "--limit", "10")
    assert [row["memory"] for row in smallest.rows] == sorted(memory)[:10]
    assert reasons(smallest) == {"beyond --limit 10": ALL - 10}


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (("--vendor", "Nvidea"), "no vendor 'Nvidea'; did you mean 'NVIDIA'"),
        (("--precision", "fp7"), "no precision 'fp7'; did you mean 'fp8'"),
        (("--country", "Germanie"), "no country 'Germanie'"),
        (("--region", "eu-nort1"), "no region 'eu-nort1'; did you mean 'eu-north-1'"),
        (("--provider", "nebias"), "no provider 'nebias'; did you mean 'nebius'"),
        (("h100-smx",), "no accelerator"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest(wanted: tuple[str, ...], says: str) -> None:
    with pytest.raises(Refused, match=says):
        listed(*wanted)


def test_a_wrong_order_is_refused() -> None:
    with pytest.raises(Refused, match="no column 'prize'; did you mean 'price'"):
        listed("--sort", "prize")
    with pytest.raises(Refused, match="--limit -1"):
        listed("--limit", "-1")


def test_offers_by_accelerator_hour() -> None:
    listing = offered("--accelerator", "H200", "--eu", "--spot")
    prices = [row["price"] for row in listing.rows]
    assert prices == sorted(prices)
    for row in listing.rows:
        assert row["eu"] is True
        assert row["price"] == row["spot"] / row["count"]
    assert len(listing.rows) + sum(reasons(listing).values()) == 1293 + 457


def test_nvlink_of_an_offer_is_the_instance_s() -> None:
    rows = offered("--accelerator", "H100", "--no-nvlink").rows
    assert rows
    assert all(row["nvlink"] is False for row in rows)


def test_providers_that_rent_something_in_the_eu() -> None:
    listing = told("catalog", "providers", "--accelerator", "MI300X", *TODAY)
    renting = {offer.provider for offer in offered("--accelerator", "MI300X").rows}
    assert {row["provider"] for row in listing.rows} == renting
    assert reasons(listing) == {"no offer as asked": 40 - len(listing.rows)}


def test_a_card_lists_each_provider_once_at_its_cheapest() -> None:
    card = listed("H100")
    assert card.accelerator.id == "h100-sxm5-80gb"
    assert card.ambiguity.startswith("'H100' taken as H100 SXM5 80GB; also: ")
    providers = [row["provider"] for row in card.offers.rows]
    assert len(providers) == len(set(providers))
    prices = [row["price"] for row in card.offers.rows if row["price"] is not None]
    assert prices == sorted(prices)
    aws = next(row for row in card.offers.rows if row["provider"] == "aws")
    assert aws["on_demand"] == 55.04


def test_a_row_is_counted_under_the_first_filter_that_it_fails() -> None:
    of_amd, both = listed("--vendor", "AMD"), listed("--vendor", "AMD", "--precision", "fp8")
    (vendor,) = reasons(of_amd)
    assert reasons(both).pop(vendor) == reasons(of_amd)[vendor]
    assert reasons(both)["no fp8 unit (--precision)"] == len(of_amd.rows) - len(both.rows) > 0
