"""Lists of the catalogue: what filters keep, what is counted as hidden and why, how rows are ordered."""

from datetime import date

import pytest

from tonnage import catalog
from tonnage.catalog.accelerators import accelerators
from tonnage.catalog.filters import Condition, Order, Wanted, filter_things, sort_rows
from tonnage.catalog.listings import accelerator_card, accelerators_listing, offers_listing, providers_listing
from tonnage.domain.listing import Column, Listing
from tonnage.errors import BadRequest, UnknownName

TODAY = date(2026, 9, 1)


def listed(wanted: Wanted = Wanted(), order: Order = Order()) -> Listing:  # noqa: B008
    return accelerators_listing(wanted, order=order, today=TODAY)


def reasons(listing: Listing) -> dict[str, int]:
    return {hidden.reason: hidden.rows for hidden in listing.hidden}


def test_nothing_asked_hides_nothing() -> None:
    listing = listed()
    assert len(listing.rows) == len(accelerators())
    assert listing.hidden == ()
    assert {column.name for column in listing.columns} == set(listing.rows[0])


def test_every_row_is_shown_or_counted() -> None:
    for wanted in (
        Wanted(memory_bytes=80e9, precisions=("fp8",), eu=True),
        Wanted(vendors=("amd",)),
        Wanted(segments=("edge", "consumer"), ecc=False, power_w=300),
        Wanted(mig=True, nvlink=True, usd_per_hour=2.0),
    ):
        listing = listed(wanted)
        assert len(listing.rows) + sum(reasons(listing).values()) == len(accelerators())
        assert listing.rows


def test_filters_on_the_part() -> None:
    rows = listed(Wanted(vendors=("nvidia",), memory_bytes=80e9, precisions=("FP8",), nvlink=True, mig=True)).rows
    names = {row["id"] for row in rows}
    assert {"h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb"} <= names
    assert not {"a100-sxm4-80gb", "mi300x", "l40s", "rtx-pro-6000-bw-server"} & names


def test_unknown_power_does_not_pass_a_power_limit() -> None:
    assert catalog.accelerators()["tpu-v5e"].power_w is None
    assert "tpu-v5e" not in {row["id"] for row in listed(Wanted(power_w=10_000)).rows}


def test_prices_follow_the_filters_and_name_provider_and_date() -> None:
    (anywhere,) = listed(Wanted(accelerators=("H100",))).rows
    (in_eu,) = listed(Wanted(accelerators=("H100",), eu=True)).rows
    (at_aws,) = listed(Wanted(accelerators=("H100",), providers=("AWS",))).rows
    assert anywhere["price"] <= in_eu["price"]
    assert (at_aws["price"], at_aws["provider"], at_aws["as_of"]) == (55.04 / 8, "aws", "2026-07-20")
    assert at_aws["stale"] is False
    assert anywhere["spot"] < anywhere["price"]


def test_history_is_no_price_of_today() -> None:
    def cheapest(id: str, history: bool) -> float | None:
        prices = [
            price / offer.count
            for offer in catalog.offers()
            if offer.accelerator == id and offer.count >= 1 and (history or not offer.history)
            if (price := offer.usd_per_hour("on-demand")) is not None
        ]
        return min(prices, default=None)

    gpus = [row for row in listed().rows if row["segment"] != "cpu" and row["vendor"] == "NVIDIA"]
    assert all(row["price"] == cheapest(row["id"], False) for row in gpus)
    with_history = {row["id"]: row["price"] for row in listed(Wanted(history=True)).rows}
    assert all(with_history[row["id"]] == cheapest(row["id"], True) for row in gpus)
    assert any(with_history[row["id"]] != row["price"] for row in gpus)
    assert reasons(offers_listing(Wanted(), today=TODAY))["superseded or retiring price (--history shows them)"] == 121


def test_a_slice_of_a_card_is_not_the_cheapest_card() -> None:
    (row,) = listed(Wanted(accelerators=("a10",), providers=("azure",))).rows
    whole = [o for o in catalog.offers() if o.provider == "azure" and o.accelerator == "a10" and o.count >= 1]
    assert row["price"] == min((o.usd_per_hour("on-demand") or 99) / o.count for o in whole)


def test_the_marketplace_can_be_left_out() -> None:
    assert {row["provider"] for row in listed(Wanted(marketplace=False)).rows} <= {
        "aws",
        "azure",
        "gcp",
        "crusoe",
        None,
    }


def test_a_family_name_is_told() -> None:
    assert listed(Wanted(accelerators=("H100", "L4"))).notes == (catalog.ambiguity("H100"),)


def test_order_and_limit() -> None:
    by_price = [row["price"] for row in listed().rows]
    known = [price for price in by_price if price is not None]
    assert by_price == sorted(known) + [None] * (len(by_price) - len(known))
    memory = [row["memory"] for row in listed(order=Order(sort="memory")).rows]
    assert memory == sorted(memory, reverse=True)
    smallest = listed(order=Order(sort="memory", reverse=True, limit=10))
    assert [row["memory"] for row in smallest.rows] == sorted(memory)[:10]
    assert reasons(smallest) == {"beyond --limit 10": len(accelerators()) - 10}


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (Wanted(vendors=("Nvidea",)), "no vendor 'Nvidea'; did you mean 'NVIDIA'"),
        (Wanted(precisions=("fp7",)), "no precision 'fp7'; did you mean 'fp8'"),
        (Wanted(countries=("Germany",)), "no country 'Germany'"),
        (Wanted(regions=("eu-nort1",)), "no region 'eu-nort1'; did you mean 'eu-north-1'"),
        (Wanted(providers=("nebias",)), "no provider 'nebias'; did you mean 'nebius'"),
        (Wanted(accelerators=("h100-smx",)), "no accelerator"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest(wanted: Wanted, says: str) -> None:
    with pytest.raises(UnknownName, match=says):
        listed(wanted)


def test_a_wrong_order_is_refused() -> None:
    with pytest.raises(UnknownName, match="no column 'prize'; did you mean 'price'"):
        listed(order=Order(sort="prize"))
    with pytest.raises(BadRequest, match="--limit -1"):
        listed(order=Order(limit=-1))


def test_offers_by_accelerator_hour() -> None:
    listing = offers_listing(Wanted(accelerators=("H200",), eu=True, spot=True), today=TODAY)
    prices = [row["price"] for row in listing.rows]
    assert prices == sorted(prices)
    for row in listing.rows:
        assert row["eu"] is True
        assert row["price"] == row["spot"] / row["count"]
    assert len(listing.rows) + sum(reasons(listing).values()) == len(catalog.offers())


def test_nvlink_of_an_offer_is_the_instance_s() -> None:
    rows = offers_listing(Wanted(accelerators=("H100",), nvlink=False), today=TODAY).rows
    assert rows
    assert all(row["nvlink"] is False for row in rows)


def test_providers_that_rent_something_in_the_eu() -> None:
    listing = providers_listing(Wanted(accelerators=("MI300X",)), today=TODAY)
    assert {row["provider"] for row in listing.rows} == {
        offer.provider for offer in catalog.offers() if offer.accelerator == "mi300x" and not offer.history
    }
    assert reasons(listing) == {"no offer as asked": 40 - len(listing.rows)}


def test_a_card_lists_each_provider_once_at_its_cheapest() -> None:
    card = accelerator_card("H100", today=TODAY)
    assert card.accelerator.id == "h100-sxm5-80gb"
    assert card.ambiguity == catalog.ambiguity("H100")
    providers = [row["provider"] for row in card.offers.rows]
    assert len(providers) == len(set(providers))
    prices = [row["price"] for row in card.offers.rows if row["price"] is not None]
    assert prices == sorted(prices)
    aws = next(row for row in card.offers.rows if row["provider"] == "aws")
    assert aws["on_demand"] == 55.04


def test_sift_counts_the_first_failure() -> None:
    kept, failed = filter_things(
        range(10), [Condition("odd", lambda n: n % 2 == 0), Condition("small", lambda n: n > 3)]
    )
    assert (kept, failed) == ([4, 6, 8], {"odd": 5, "small": 2})


def test_unknown_values_come_last_either_way() -> None:
    rows = [{"a": None}, {"a": 2.0}, {"a": 1.0}]
    columns = (Column(name="a", unit="W"),)
    assert [row["a"] for row in sort_rows(rows, columns, order=Order(sort="a"))[0]] == [1.0, 2.0, None]
    assert [row["a"] for row in sort_rows(rows, columns, order=Order(sort="a", reverse=True))[0]] == [2.0, 1.0, None]
