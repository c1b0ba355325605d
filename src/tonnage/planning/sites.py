"""Where a workload may run: accelerators and offers that pass the request's filters.

A *site* is one accelerator as it is rented: with or without the fast link inside an instance,
with the offers of that kind. Accelerators that no offer leaves are kept with the filter that
removed them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.providers import is_community
from tonnage.domain.accelerator import Accelerator, Link
from tonnage.domain.answer import Verdict
from tonnage.domain.money import Offer, OfferKind, Provider
from tonnage.domain.plan import Rejection
from tonnage.domain.workload import Filters
from tonnage.pricing.terms import billing_rules, stated_step_s

__all__ = ["Site", "none_passes", "sites"]


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """An accelerator, the link between those of one instance, and the offers that rent it so."""

    accelerator: Accelerator
    intra_link: str | None
    """nvlink or pcie where offers of the same accelerator differ; absent = its usual link."""
    per_node: int
    """Accelerators of the largest instance."""
    offers: tuple[Offer, ...]


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
    "certification": lambda f, o, p: _certified(f, p.get(o.provider)),
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

    Accelerators that nobody in the catalogue rents are left out silently unless the user named them. `without` leaves
    out kinds of offers that cannot do the work: a serverless worker trains nothing. Prices of primary sources stand
    before all others: those are asked only where a part has no other.
    """
    providers = catalog.providers()
    rented: dict[str, list[Offer]] = {}
    for offer in catalog.offers(additions=additions):
        if not offer.history:
            rented.setdefault(offer.accelerator, []).append(offer)
    open_sites: list[Site] = []
    excluded: list[Rejection] = []
    for accelerator in catalog.accelerators(additions).values():
        offers = rented.get(accelerator.id, [])
        wanted = accelerator.id in filters.accelerators
        if not offers and not wanted:
            continue
        failed = next((name for name, test in ACCELERATOR_TESTS.items() if not test(filters, accelerator)), None)
        if failed is not None:
            excluded.append(_excluded(accelerator, failed, "does not pass"))
            continue
        passing, last = _passing(filters, [o for o in offers if o.kind not in without], providers)
        if passing:
            open_sites += _by_link(accelerator, _confirmed(passing, filters.terms))
        else:
            why = f"removes the last of {len(offers)} offers" if offers else "has no offer in the catalogue"
            excluded.append(_excluded(accelerator, last, why))
    return tuple(open_sites), tuple(excluded)


def none_passes(excluded: Iterable[Rejection], *, usual: str = "filter") -> Verdict:
    """
    The filter that stands in the way when no offer is left: of the accelerators that came closest, the last one.

    Filters are tried in order; whatever fails at a later one passed all before, so that dropping that one is enough.
    """
    order = [*ACCELERATOR_TESTS, *OFFER_TESTS]
    counts = Counter(loser.verdict.limit or usual for loser in excluded)
    last = max(counts, key=lambda name: (order.index(name) if name in order else -1, counts[name]), default=usual)
    number = counts[last]
    return Verdict(
        ok=False,
        limit=last,
        reason=f"no offer passes the filters; '{last}' removes the last of {number} "
        f"accelerator{'' if number == 1 else 's'}",
        nearest=f"drop or widen '{last}'",
    )


def _passing(filters: Filters, offers: list[Offer], providers: Mapping[str, Provider]) -> tuple[list[Offer], str]:
    """Offers that pass every test, and the test that removed the last ones."""
    last = "offer"
    for name, test in OFFER_TESTS.items():
        left = [offer for offer in offers if test(filters, offer, providers)]
        if offers and not left:
            last = name
        offers = left
    return offers, last


def _by_link(accelerator: Accelerator, offers: list[Offer]) -> list[Site]:
    """One site per kind of link: an instance without the fabric is another machine, joined by PCIe."""
    fast = accelerator.link.domain > 1
    kinds: dict[str | None, list[Offer]] = {}
    for offer in offers:
        slow = fast and offer.nvlink is False and offer.count > 1
        kinds.setdefault("pcie" if slow else None, []).append(offer)
    return [
        Site(
            accelerator=replace(accelerator, link=Link(kind="none")) if link == "pcie" else accelerator,
            intra_link=link,
            per_node=max(int(offer.count) for offer in group),
            offers=tuple(group),
        )
        for link, group in kinds.items()
    ]


def _confirmed(offers: list[Offer], terms: Sequence[str]) -> list[Offer]:
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


def _certified(filters: Filters, provider: Provider | None) -> bool:
    return not filters.certifications or (
        provider is not None and set(filters.certifications) <= set(provider.certifications)
    )


def _excluded(accelerator: Accelerator, limit: str, why: str) -> Rejection:
    return Rejection(what=accelerator.id, verdict=Verdict(ok=False, limit=limit, reason=f"filter '{limit}' {why}"))
