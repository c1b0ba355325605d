"""Where a workload may run: accelerators and offers that pass the request's filters.

A *site* is one accelerator as it is rented: with or without the fast link inside an instance,
with the offers of that kind. Accelerators that no offer leaves are kept with the filter that
removed them.

What joins more accelerators than one instance holds: a rack such as GB200 NVL72 is one scale-up domain, so that a
replica may reach over its trays as it does inside a node, as far as its spare trays allow. Whoever rents trays must be
given those of one rack; the plan says so. Chips of a torus are sold by the chip and taken in the slices of their
vendor, so that a replica is one slice: v5p has none below four.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, part_name, parts_name
from tonnage.catalog.hardware import scale_up_domains
from tonnage.catalog.providers import is_community
from tonnage.domain.accelerator import Accelerator, Link, ScaleUpDomain
from tonnage.domain.answer import Verdict
from tonnage.domain.money import Offer, OfferKind, Price, Provider
from tonnage.domain.plan import Rejection, ServeOption
from tonnage.domain.refusal import refusal
from tonnage.domain.requests.common import Filters
from tonnage.optimize.layouts import WIDEST
from tonnage.pricing.terms import billing_rules, stated_step_s
from tonnage.record import Record
from tonnage.units import plural


class Site(Record, kw_only=True):
    """An accelerator, the link between those of one instance, and the offers that rent it so."""

    accelerator: Accelerator
    intra_link: str | None
    """nvlink or pcie where offers of the same accelerator differ; absent = its usual link."""
    per_node: int
    """Accelerators of a whole machine: of the largest instance that is listed, whatever the filters leave of them."""
    offers: tuple[Offer, ...]

    @property
    def stock(self) -> int | None:
        """Accelerators that there are, where they are the user's own; None = as many as are asked for."""
        return max((offer.stock for offer in self.offers if offer.stock is not None), default=None)

    @property
    def largest_offer(self) -> int:
        """Accelerators of the largest instance that passes the filters."""
        return max(int(offer.count) for offer in self.offers)

    def takes(self, offer: Offer, ranks: int) -> bool:
        """
        Whether a replica fits inside one instance, or spans whole instances of the largest kind; machines of a single
        accelerator are joined where their seller states a network.
        """
        joined = offer.count > 1 or bool(offer.network_bytes_per_s) or offer.provider == YOURS
        return offer.count >= ranks or (joined and offer.count == self.per_node and ranks % offer.count == 0)

    def largest(self, most: int, *, allowed: int | None) -> int:
        """
        Accelerators that one replica may take here: at most `most`, what the request allows, and what there is; of
        parts of machines, which are never joined, one instance.
        """
        part = self.largest_offer if self.largest_offer < self.per_node else None
        return min(count for count in (most, allowed, self.stock, part) if count is not None)


UNBOUND: Final = frozenset({"on-demand", "spot", "block"})
"""Terms that end before prices move."""
ADD_YOURS: Final = ", or bring an offer made to you: --quotes FILE"
ADD_STRANGERS: Final = "community marketplaces, auctions and brokers as well: --community"
YOURS: Final = "yours"
"""Provider of offers at the user's own price."""
NOBODY: Final = "no price known"
"""Provider of parts that nobody in the book rents."""
NOT_ALWAYS_ON: Final = frozenset({"consumer", "apple"})
"""Segments not meant for a data centre, from which the GeForce driver licence excludes its boards."""
_SECONDS: Final = re.compile(r"\d+")

AcceleratorTest = Callable[[Filters, Accelerator], bool]

ACCELERATOR_TESTS: Final[dict[str, AcceleratorTest]] = {
    "accelerator": lambda f, a: not f.accelerators or a.id in f.accelerators,
    "announced": lambda f, a: a.status == "released" or a.id in f.accelerators,
    "exclude": lambda f, a: a.id not in f.exclude_accelerators,
    "vendor": lambda f, a: not f.vendors or a.vendor in f.vendors,
    "segment": lambda f, a: not f.segments or a.segment in f.segments,
    "ecc": lambda f, a: f.ecc is None or a.ecc is f.ecc,
    "max_power": lambda f, a: f.max_power_w is None or (a.power_w is not None and a.power_w <= f.max_power_w),
    "mig": lambda f, a: f.mig is None or bool(a.mig_slices),
    "always_on": lambda f, a: f.always_on is None or a.segment not in NOT_ALWAYS_ON,
}
"""Filters on the part itself; unknown facts do not pass."""

OfferTest = Callable[[Filters, Offer, Mapping[str, Provider]], bool]

OFFER_TESTS: Final[dict[str, OfferTest]] = {
    "shared": lambda f, o, p: o.count >= 1,
    "marketplace": lambda f, o, p: f.marketplace or not o.marketplace,
    "community": lambda f, o, p: f.community or bool(f.providers) or not _of_strangers(p.get(o.provider)),
    "provider": lambda f, o, p: not f.providers or o.provider in f.providers,
    "region": lambda f, o, p: not f.regions or o.region in f.regions,
    "country": lambda f, o, p: not f.countries or o.country in f.countries,
    "eu": lambda f, o, p: f.eu is None or o.eu is f.eu,
    "certification": lambda f, o, p: _has_certificates(f, p.get(o.provider)),
    "provider_kind": lambda f, o, p: not f.provider_kinds or _of_kind(f, p.get(o.provider)),
    "eu_owned": lambda f, o, p: f.eu_owned is None or _fact(p.get(o.provider), "eu_owned_entity").startswith("yes"),
    "billing": lambda f, o, p: f.billing_step_s is None or _billed_by(f.billing_step_s, p.get(o.provider)),
    "free_egress": lambda f, o, p: f.free_egress is None or _egress(p.get(o.provider)) == 0.0,
    "provisioning": lambda f, o, p: f.provisioning_s is None or _starts_within(f.provisioning_s, p.get(o.provider)),
    "nvlink": lambda f, o, p: f.nvlink is None or o.nvlink is True,
    "term": lambda f, o, p: any(o.usd_per_hour(term) is not None for term in f.terms),
    "max_accelerators": lambda f, o, p: f.max_count is None or o.count <= max(f.max_count, 1),
}
"""Filters on an offer, in the order that names the reason."""


def sites(
    filters: Filters, *, additions: Additions, without: Collection[OfferKind] = ()
) -> tuple[tuple[Site, ...], tuple[Rejection, ...]]:
    """
    Sites that pass, and the accelerators that do not with the filter that removed their last offer.

    Accelerators that nobody in the catalogue rents are left out silently unless the user named them; these are planned
    at what they cost their owner, and their bills say that no price is known. `without` leaves out kinds of offers that
    cannot do the work: a serverless worker trains nothing. Prices of primary sources stand before all others: those
    are asked only where a part has no other.
    """
    if filters.owned:
        return _owned(filters, additions)
    providers = catalog.providers()
    rented: dict[str, list[Offer]] = {}
    less = {name: 1.0 - share for name, share in _pairs(filters.discounts)}
    for offer in catalog.offers(additions=additions):
        if not offer.history:
            rented.setdefault(offer.accelerator, []).append(_discount(offer, less.get(offer.provider, 1.0)))
    open_sites: list[Site] = []
    excluded: list[Rejection] = []
    for accelerator in catalog.accelerators(additions).values():
        offers, own = rented.get(accelerator.id, []), _own_offers(filters, accelerator, rented)
        wanted = accelerator.id in filters.accelerators
        if not offers and not wanted and not own:
            continue
        failed = next((name for name, test in ACCELERATOR_TESTS.items() if not test(filters, accelerator)), None)
        if failed is not None:
            excluded.append(_rejection(accelerator, failed, "does not pass"))
            continue
        able = [offer for offer in offers if offer.kind not in without]
        if wanted and not offers and not own:
            able = _unpriced(filters, accelerator)
        passing, last = _passing(filters, able, providers)
        passing = [*own, *passing]
        if passing:
            held = _weighed(passing, filters, known=offers, additions=additions)
            open_sites += _by_link(accelerator, _primary_only(held, filters.terms), listed=(*own, *able))
        else:
            excluded.append(
                _rejection(accelerator, last, f"removes the last of {plural(len(offers), 'offer')}")
                if offers
                else Rejection(what=accelerator.id, verdict=_no_price(accelerator))
            )
    return tuple(open_sites), tuple(excluded)


def _owned(filters: Filters, additions: Additions) -> tuple[tuple[Site, ...], tuple[Rejection, ...]]:
    """What is there already, as far as the filters on accelerators leave it: nothing is rented."""
    from tonnage.core.stock import owned_offers

    kinds = owned_offers(filters, dict(_pairs(filters.own_prices)), provider=YOURS, additions=additions)
    found = [Site(accelerator=part, intra_link=None, per_node=size, offers=offers) for part, size, offers in kinds]
    wanted = replace(filters, accelerators=filters.accelerators or tuple(site.accelerator.id for site in found))
    lost = [
        (site, name)
        for site in found
        for name in [next((n for n, test in ACCELERATOR_TESTS.items() if not test(wanted, site.accelerator)), None)]
    ]
    left_out = tuple(_rejection(site.accelerator, name, "does not pass") for site, name in lost if name is not None)
    return tuple(site for site, name in lost if name is None), left_out


def _unpriced(filters: Filters, accelerator: Accelerator) -> list[Offer]:
    """A named part that nobody rents, in each size of its machines."""
    from tonnage.core.stock import unpriced_offers

    return list(unpriced_offers(filters, accelerator, provider=NOBODY))


def none_passes(excluded: Iterable[Rejection]) -> Verdict:
    """
    The filter that stands in the way when no offer is left: of the accelerators that came closest, the last one.

    Filters are tried in order; whatever fails at a later one passed all before, so that dropping that one is enough.
    """
    excluded = tuple(excluded)
    unpriced = [loser.verdict for loser in excluded if loser.verdict.nearest and loser.verdict.limit == "offer"]
    if unpriced:
        return unpriced[0]
    order = [*ACCELERATOR_TESTS, *OFFER_TESTS]
    counts = Counter(loser.verdict.limit or "filter" for loser in excluded)
    last = max(counts, key=lambda name: (order.index(name) if name in order else -1, counts[name]), default="filter")
    number = counts[last]
    nearest = f"drop or widen '{last}'" + (ADD_YOURS if last == "term" else "")
    return refusal(
        last,
        f"no offer passes the filters; '{last}' removes the last of {number} accelerator{'' if number == 1 else 's'}",
        nearest=ADD_STRANGERS if last == "community" else nearest,
    )


def _passing(filters: Filters, offers: list[Offer], providers: Mapping[str, Provider]) -> tuple[list[Offer], str]:
    """Offers that pass every test, and the test that removed the last ones: "offer" where there were none."""
    last = "offer"
    for name, test in OFFER_TESTS.items():
        left = [offer for offer in offers if test(filters, offer, providers)]
        if offers and not left:
            last = name
        offers = left
    return offers, last


def _weighed(
    offers: Sequence[Offer], filters: Filters, *, known: Iterable[Offer], additions: Additions
) -> Sequence[Offer]:
    """Offers with what committed prices mean, where any may be used."""
    if UNBOUND.issuperset(filters.terms):
        return offers
    from tonnage.core.quotes import weigh_terms

    return weigh_terms(offers, filters=filters, known=known, additions=additions)


def _by_link(accelerator: Accelerator, offers: Iterable[Offer], *, listed: Iterable[Offer]) -> list[Site]:
    """
    One site per kind of link: an instance without the fabric is another machine, joined by PCIe.

    `listed` are all its offers before filters, of which the largest instance says what a whole machine holds.
    """
    kinds: dict[str | None, list[Offer]] = {}
    for offer in offers:
        kinds.setdefault(_link_of(accelerator, offer), []).append(offer)
    sizes: dict[str | None, int] = {}
    for offer in listed:
        link = _link_of(accelerator, offer)
        sizes[link] = max(sizes.get(link, 1), min(int(offer.count), accelerator.max_per_node or int(offer.count)))
    return [
        Site(
            accelerator=replace(accelerator, link=Link(kind="none")) if link == "pcie" else accelerator,
            intra_link=link,
            per_node=sizes[link],
            offers=tuple(group),
        )
        for link, group in kinds.items()
    ]


def _link_of(accelerator: Accelerator, offer: Offer) -> str | None:
    """pcie where the accelerator has a fabric and the instance lacks it."""
    return "pcie" if accelerator.link.domain > 1 and offer.nvlink is False and offer.count > 1 else None


def _pairs(texts: Iterable[str]) -> Iterator[tuple[str, float]]:
    for text in texts:
        name, _, value = text.rpartition("=")
        yield name, float(value)


def _discount(offer: Offer, factor: float) -> Offer:
    """The offer at what its provider takes from this user."""
    if factor == 1.0:
        return offer
    prices = tuple(price.times(factor) for price in offer.prices)
    said = f"with your discount of {(1.0 - factor) * 100:.3g} %"
    return replace(offer, prices=prices, notes="; ".join(filter(None, (offer.notes, said))))


def _own_offers(filters: Filters, accelerator: Accelerator, rented: Mapping[str, list[Offer]]) -> list[Offer]:
    """What the user brings: a price of an accelerator-hour, and offers that sellers made."""
    own = _own_offer(filters, accelerator)
    found = [] if own is None else [own]
    if filters.quotes:
        from tonnage.core.quotes import quote_offers

        found += quote_offers(filters, accelerator, known=rented.get(accelerator.id, ()))
    return found


def _own_offer(filters: Filters, accelerator: Accelerator) -> Offer | None:
    """A machine of the usual size at the user's own price; none where the user names none."""
    price = dict(_pairs(filters.own_prices)).get(accelerator.id)
    if price is None:
        return None
    count = accelerator.max_per_node or 1
    return Offer(
        provider=YOURS,
        instance_type=parts_name(count, accelerator.id),
        accelerator=accelerator.id,
        count=float(count),
        prices=tuple(Price(term=term, usd_per_hour=price * count) for term in filters.terms[:1]),
        as_of="today",
        as_of_kind="exact",
        source="your price",
        licence="own",
    )


def _no_price(accelerator: Accelerator) -> Verdict:
    """Nobody in the book sells it."""
    return refusal(
        "offer",
        f"no price of {part_name(accelerator.id)} is known",
        nearest=f"add yours: --price '{accelerator.id}=$2.50/h'",
    )


def _primary_only(offers: Sequence[Offer], terms: Sequence[str]) -> Sequence[Offer]:
    """
    Those of primary sources under a term asked for, where there are any; else all, whose bills then say so.

    A secondary price cheaper than every primary one is the usual mark of an error, so that it wins nothing; but a part
    that only a secondary source prices keeps its technical plan.
    """
    sure = [
        offer
        for offer in offers
        if any(offer.usd_per_hour(term) is not None and offer.trust_of(term) == "primary" for term in terms)
    ]
    return sure or offers


def _of_strangers(provider: Provider | None) -> bool:
    return provider is not None and is_community(provider)


def _fact(provider: Provider | None, name: str) -> str:
    """What the provider table says; empty = unknown."""
    return provider.facts.get(name, "") if provider is not None else ""


def _of_kind(filters: Filters, provider: Provider | None) -> bool:
    kind = provider.kind.lower() if provider is not None else ""
    return any(wanted.replace("-", " ") in kind for wanted in filters.provider_kinds)


def _billed_by(step_s: float, provider: Provider | None) -> bool:
    """Published steps only: what is assumed for a provider that publishes none does not pass."""
    return stated_step_s(provider) is not None and billing_rules(provider).step_s <= step_s


def _egress(provider: Provider | None) -> float | None:
    return provider.egress_usd_per_gb if provider is not None else None


def _starts_within(limit_s: float, provider: Provider | None) -> bool:
    """By the slow end of what is published ("60-300" s)."""
    ends = [float(end) for end in _SECONDS.findall(_fact(provider, "provisioning_time_s"))]
    return bool(ends) and max(ends) <= limit_s


def _has_certificates(filters: Filters, provider: Provider | None) -> bool:
    return not filters.certifications or (
        provider is not None and set(filters.certifications) <= set(provider.certifications)
    )


def _rejection(accelerator: Accelerator, limit: str, why: str) -> Rejection:
    return Rejection(what=accelerator.id, verdict=refusal(limit, f"filter '{limit}' {why}"))


def domain_of(site: Site) -> ScaleUpDomain | None:
    """The rack that the site's trays are parts of; None where an instance is all that the fabric joins."""
    if site.intra_link is not None:
        return None
    racks = (one for one in scale_up_domains(site.accelerator.id) if one.shape == "switched" and one.trays > 1)
    return next((one for one in racks if one.packages_per_tray <= site.per_node), None)


def reach_of(site: Site) -> int:
    """Accelerators that one fast fabric joins for a replica on this site: an instance, or a rack less its spares."""
    rack = domain_of(site)
    return site.per_node if rack is None else max(site.per_node, rack.usable_packages)


def rack_notes(options: Iterable[ServeOption], sites: Iterable[Site]) -> tuple[str, ...]:
    """What must be true of the instances where a replica reaches over the trays of a rack."""
    wide = {
        option.configuration.accelerator
        for option in options
        if option.configuration.layout.pp == 1
        and option.configuration.layout.ranks > option.bill.accelerators_per_instance
    }
    racks = {site.accelerator.id: rack for site in sites if (rack := domain_of(site)) is not None}
    return tuple(
        f"a replica over several trays of {racks[name].name} needs trays of one rack: ask the provider to place them so"
        f" (up to {racks[name].usable_packages} of {racks[name].packages} are planned with, the spare trays left out)"
        for name in sorted(wide & racks.keys())
    )


def with_slices(sites: Iterable[Site]) -> Iterator[Site]:
    """Sites whose chips are sold one by one out of a torus, as the slices that can be taken of it."""
    for site in sites:
        slices = _slices(site)
        if not slices or all(offer.count != 1 for offer in site.offers):
            yield site
            continue
        sold = ([offer] if offer.count != 1 else [_slice(offer, sides) for sides in slices] for offer in site.offers)
        offers = tuple(offer for each in sold for offer in each)
        yield replace(site, offers=offers, per_node=max(site.per_node, prod(slices[-1])))


def _slices(site: Site) -> list[tuple[int, ...]]:
    """Those that a replica may have."""
    tori = (one for one in scale_up_domains(site.accelerator.id) if one.shape == "torus")
    return sorted({sides for one in tori for sides in one.slices if prod(sides) <= WIDEST}, key=prod)


def _slice(offer: Offer, sides: tuple[int, ...]) -> Offer:
    chips = prod(sides)
    prices = tuple(price.times(chips) for price in offer.prices)
    name = f"{offer.instance_type} {'x'.join(map(str, sides))}"
    return replace(offer, instance_type=name, count=float(chips), prices=prices)
