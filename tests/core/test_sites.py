"""Filters on parts and providers: what passes has the fact, what is not published does not pass (D8, C9)."""

import math
from collections.abc import Callable
from datetime import date
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.test_filters import KEPT

from tonnage import catalog
from tonnage.catalog import NOTHING
from tonnage.core.load_fields import read_filters
from tonnage.core.reading import read_fields
from tonnage.core.sites import Site, domain_of, none_passes, reach_of, sites, with_slices
from tonnage.core.stock import machine_size, owned_counts
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.money import Offer
from tonnage.domain.requests.common import Filters
from tonnage.errors import TonnageError
from tonnage.questions.train.places import rentals

TODAY = date(2026, 11, 28)

Passing = tuple[Accelerator, Offer]


def passing(**fields: str | bool) -> list[Passing]:
    """Every accelerator and offer that passes."""
    filters = read_filters(read_fields(fields, Filters), NOTHING)
    return [(site.accelerator, offer) for site in sites(filters, additions=NOTHING)[0] for offer in site.offers]


def fact(offer: Offer, name: str) -> str:
    return catalog.providers()[offer.provider].facts.get(name, "")


HAS: dict[str, tuple[dict[str, str | bool], Callable[[Accelerator, Offer], bool]]] = {
    "slices": ({"mig": True}, lambda a, o: (a.mig_slices or 0) > 1),
    "around the clock": ({"always_on": True}, lambda a, o: a.segment not in {"consumer", "apple"}),
    "kind": ({"provider_kind": "hyperscaler"}, lambda a, o: catalog.providers()[o.provider].kind == "hyperscaler"),
    "owner": ({"eu_owned": True}, lambda a, o: fact(o, "eu_owned_entity").startswith("yes")),
    "second": ({"billing": "second"}, lambda a, o: fact(o, "billing_granularity") == "second"),
    "minute": ({"billing": "minute"}, lambda a, o: fact(o, "billing_granularity") in {"second", "minute"}),
    "egress": ({"free_egress": True}, lambda a, o: catalog.providers()[o.provider].egress_usd_per_gb == 0.0),
    "start": ({"provisioning": "5 min"}, lambda a, o: int(fact(o, "provisioning_time_s").split("-")[-1]) <= 300),
    "eu": ({"eu": True}, lambda a, o: o.eu is True),
    "country": ({"country": "FI,fr"}, lambda a, o: o.country in {"FI", "FR"}),
    "certified": ({"certification": "hipaa,soc2"}, lambda a, o: fact(o, "hipaa") == fact(o, "soc2") == "yes"),
    "ecc": ({"ecc": True}, lambda a, o: a.ecc is True),
    "joined": ({"nvlink": True}, lambda a, o: o.nvlink is True),
    "power": ({"max_power": "100 W"}, lambda a, o: a.power_w is not None and a.power_w <= 100),
    "maker": ({"vendor": "AMD"}, lambda a, o: a.vendor == "AMD"),
}  # fmt: skip


@pytest.mark.parametrize("name", HAS)
def test_what_passes_has_what_was_asked_for_and_some_do_not(name: str) -> None:
    fields, holds = HAS[name]
    left, every = passing(**fields), passing()
    assert 0 < len(left) < len(every)
    assert all(holds(accelerator, offer) for accelerator, offer in left)


def test_what_strangers_alone_rent_is_found_with_them() -> None:
    filters = read_filters(read_fields({"accelerator": "RTX 3060"}, Filters), NOTHING)
    left, refused = sites(filters, additions=NOTHING)
    strangers = [one for one in refused if one.verdict.limit == "community"]
    assert not left and strangers
    assert none_passes(strangers).nearest.endswith("--community")


def test_nothing_that_has_it_is_lost() -> None:
    for fields, holds in (HAS["egress"], HAS["owner"], HAS["slices"]):
        assert {o.instance_type for a, o in passing() if holds(a, o)} <= {o.instance_type for _, o in passing(**fields)}


@given(st.sampled_from(sorted(HAS)), st.sampled_from(sorted(HAS)))
def test_two_filters_leave_what_each_leaves(one: str, other: str) -> None:
    first, second = HAS[one], HAS[other]
    assert all(
        first[1](accelerator, offer) and second[1](accelerator, offer)
        for accelerator, offer in passing(**{**first[0], **second[0]})
        if not set(first[0]) & set(second[0])
    )


def test_no_filter_is_the_default() -> None:
    assert read_filters({}, NOTHING) == Filters()


def test_your_own_price_stands_beside_the_book_and_passes_its_filters() -> None:
    own = {"accelerator": "H100,MI300A", "price": "MI300A=$2.50/h,h100=2.1", "country": "FI"}
    found = {offer.accelerator: offer for _, offer in passing(**own) if offer.provider == "yours"}
    assert {name: offer.usd_per_hour("on-demand") for name, offer in found.items()} == {
        "mi300a": pytest.approx(4 * 2.5),
        "h100-sxm5-80gb": pytest.approx(8 * 2.1),
    }
    filters = read_filters(read_fields({"accelerator": "MI300A", "country": "FI"}, Filters), NOTHING)
    (missing,) = (one for one in sites(filters, additions=NOTHING)[1] if one.what == "mi300a")
    assert missing.verdict.nearest == "add yours: --price 'mi300a=$2.50/h'"


@pytest.mark.parametrize(
    ("part", "bought", "said"),
    [("RTX 5080", True, "purchase ($1,100 each over 4 years)"), ("MI455X", False, "as Instinct MI355X draws")],
)
def test_what_nobody_rents_is_planned_at_what_it_costs_its_owner(part: str, bought: bool, said: str) -> None:
    """Power at work, and where it is published the purchase over the years that a machine is kept."""
    found = [offer for _, offer in passing(accelerator=part)]
    assert {offer.trust for offer in found} == {"unknown"} and {offer.provider for offer in found} == {"no price known"}
    each = {(offer.usd_per_hour("on-demand") or 0.0) / offer.count for offer in found}
    assert len({round(one, 9) for one in each}) == 1 and 0.01 < min(each) < 1.0
    assert all(said in offer.notes and ("purchase" in offer.notes) is bought for offer in found)


def test_what_is_not_named_and_not_rented_stays_out() -> None:
    assert {offer.trust for _, offer in passing()} <= {"primary", "secondary", "contradicted"}


def test_a_discount_is_of_its_provider_alone() -> None:
    full = {(o.provider, o.instance_type, o.region): o for _, o in passing()}
    less = {(o.provider, o.instance_type, o.region): o for _, o in passing(discount="aws=30 %")}
    assert full.keys() == less.keys()
    for name, offer in less.items():
        factor = 0.7 if name[0] == "aws" else 1.0
        for price, before in zip(offer.prices, full[name].prices, strict=True):
            assert price.usd_per_hour == pytest.approx(factor * before.usd_per_hour)


@pytest.mark.parametrize(
    "fields",
    [{"price": "H100"}, {"price": "H100=-1"}, {"price": "H9000=2"}, {"discount": "aws=130 %"}, {"discount": "x=3 %"}],
)
def test_prices_and_discounts_that_mean_nothing_are_refused(fields: dict[str, str | bool]) -> None:
    with pytest.raises(TonnageError):
        passing(**fields)


def prices(filters: Filters) -> list[Any]:
    return [price for site in sites(filters, additions=NOTHING)[0] for offer in site.offers for price in offer.prices]


def test_only_terms_that_bind_and_are_asked_for_are_weighed() -> None:
    only = Filters(providers=("gcp",), accelerators=("h100-sxm5-80gb",))
    assert all(price.commitment is None for price in prices(only))
    both = Filters(providers=("gcp",), accelerators=("h100-sxm5-80gb",), terms=("on-demand", "reserved-1y"))
    held = {price.term: price.commitment for price in prices(both)}
    assert held["on-demand"] is None and held["reserved-3y"] is None
    one = held["reserved-1y"]
    assert one.years == 1.0 and one.against == "" and 0 < one.stops_paying < 1
    assert one.whose in {"h100-sxm5-80gb", "all accelerators"} and one.pays_with[1] >= 3


FILTERS: tuple[dict[str, Any], ...] = (
    {}, *KEPT, {"community": True}, {"region": "FIN-03"}, {"billing": "second"}, {"provider": "oci"},
    {"provider": "azure"}, {"provider": "scaleway"}, {"provider": "hyperstack"}, {"term": "spot"},
    {"term": "reserved-1y"}, {"max_accelerators": "1"}, {"max_accelerators": "2"}, {"vendor": "NVIDIA"},
    {"country": "US"}, {"provider_kind": "hyperscaler"}, {"free_egress": True}, {"nvlink": True}, {"exclude": "h100"},
    {"certification": "soc2"},
)  # fmt: skip

Facts = dict[tuple[str, ...], set[Any]]


@cache
def facts(**fields: Any) -> Facts:
    """How each offer is taken: its machine, its reach, its link; and as what it joins each count of a run."""
    filters = read_filters(read_fields({"term": "on-demand", **fields}, Filters), NOTHING)
    found: Facts = {}
    for site in sites(filters, additions=NOTHING)[0]:
        for count in (1, 2, 4, 8, 16, 32):
            for rental in rentals(site, counts=(count,), terms=filters.terms, today=TODAY):
                joined = count, rental.place.per_node, rental.place.inter_bytes_per_s, rental.place.intra_link
                for offer in rental.offers:
                    key = (offer.accelerator, offer.provider, offer.instance_type, offer.region)
                    found.setdefault(key, set()).add(joined)
    for site in with_slices(sites(filters, additions=NOTHING)[0]):
        for offer in site.offers:
            key = (offer.accelerator, offer.provider, offer.instance_type, offer.region)
            found.setdefault(key, set()).add((site.per_node, reach_of(site), site.intra_link))
    return found


@pytest.mark.parametrize("kept", FILTERS, ids=str)
def test_an_offer_is_the_same_machine_under_every_filter(kept: dict[str, Any]) -> None:
    term = kept.get("term", "on-demand")
    every, left = facts(term=term, community=True), facts(**kept)
    assert left
    assert {key: joined for key, joined in left.items() if key in every and joined != every[key]} == {}


def site_of(accelerator: str) -> Site:
    return sites(read_filters({"accelerator": (accelerator,)}, NOTHING), additions=NOTHING)[0][0]


def test_a_rack_reaches_over_its_trays_less_the_spare_ones_and_a_board_over_itself() -> None:
    rack = site_of("gb200-nvl72")
    domain = domain_of(rack)
    assert rack.per_node == domain.packages_per_tray == 4
    assert reach_of(rack) == domain.usable_packages == 64
    board = site_of("h200")
    assert domain_of(board) is None and reach_of(board) == board.per_node == 8


def test_a_chip_of_a_torus_is_rented_in_the_slices_of_its_vendor() -> None:
    chips = site_of("tpu-v5p")
    (sliced,) = with_slices([chips])
    assert {offer.count for offer in sliced.offers} == {4.0, 8.0, 32.0, 64.0} and sliced.per_node == 64
    one, four = chips.offers[0], sliced.offers[0]
    term = one.prices[0].term
    assert four.usd_per_hour(term) == pytest.approx(4.0 * (one.usd_per_hour(term) or 0.0))
    assert list(with_slices([site_of("h200")])) == [site_of("h200")]


def test_groups_of_one_part_are_added_and_sizes_reach_up_to_a_machine() -> None:
    filters = Filters(owned=("8 x A100 80GB", "4 x A100 80GB, 2 x L40S"))
    assert owned_counts(filters) == {"a100-sxm4-80gb": 12, "l40s": 2}
    large, small = sites(filters, additions=NOTHING)[0]
    assert [offer.count for offer in large.offers] == [8.0, 4.0, 2.0, 1.0] and large.stock == 12
    assert [offer.count for offer in small.offers] == [2.0, 1.0] and small.stock == 2
    assert [machine_size(count, 8) for count in (1, 3, 6, 9, 100)] == [1, 2, 4, 8, 8]


def test_an_hour_costs_its_power_or_what_the_user_says() -> None:
    (site,) = sites(Filters(owned=("4 x L40S",)), additions=NOTHING)[0]
    whole, one = site.offers[0].usd_per_hour("on-demand"), site.offers[-1].usd_per_hour("on-demand")
    assert whole is not None and math.isclose(whole, 4 * one)
    assert 0.35 * 0.05 < one < 1.5 * 0.35 * 0.3  # a board of 350 W between $0.05 and $0.30 a kWh, with its host
    (stated,) = sites(Filters(owned=("4 x L40S",), own_prices=("l40s=0.5",)), additions=NOTHING)[0]
    assert stated.offers[0].usd_per_hour("on-demand") == 2.0


def test_filters_leave_out_what_is_owned_too() -> None:
    found, lost = sites(Filters(owned=("8 x A100 80GB", "4 x L40S"), accelerators=("l40s",)), additions=NOTHING)
    assert [site.accelerator.id for site in found] == ["l40s"] and [one.what for one in lost] == ["a100-sxm4-80gb"]
