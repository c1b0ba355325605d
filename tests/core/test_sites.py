"""Filters on parts and providers: what passes has the fact, what is not published does not pass (D8, C9)."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage import catalog
from tonnage.catalog import NOTHING
from tonnage.core.load_fields import read_filters
from tonnage.core.reading import read_fields
from tonnage.core.sites import none_passes, sites
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.money import Offer
from tonnage.domain.requests.common import Filters
from tonnage.errors import TonnageError

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
