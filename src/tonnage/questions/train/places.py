"""Where a training job may run: accelerators x counts x offers, each with the least it can take and cost.

Counts double from one. Inside an instance any count will do; beyond it whole instances are joined by the network that
the offer lists, by a fabric that spans instances (NVL72, TPU slices), or by the fabric that the provider states.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import cache
from typing import Final

from tonnage import catalog
from tonnage.catalog import part_name, parts_name
from tonnage.catalog.rows import DATA, table
from tonnage.core.sites import YOURS, Site
from tonnage.domain.answer import Verdict
from tonnage.domain.money import Offer, OfferKind
from tonnage.domain.plan import Bill, Rejection
from tonnage.domain.precision import number_format
from tonnage.domain.refusal import refusal
from tonnage.domain.requests.common import Filters
from tonnage.domain.train_plan import RunOption, TrainConfiguration
from tonnage.engines.registry import usual_software
from tonnage.pricing.bills import bill, by_trust_and_cost
from tonnage.questions.train.search import Place, runs_on
from tonnage.record import Record

MAX_ACCELERATORS: Final = 16384
"""Of one job when neither count nor limit is given. [accelerators]"""
WORKERS: Final[tuple[OfferKind, ...]] = ("serverless worker",)
"""Offers that a platform starts and stops as requests come: they train nothing."""
BOARD: Final = 8
"""Accelerators of a whole machine of the usual kind: larger ones (A100 x 16) hide none of these. [accelerators]"""
_FABRICS: Final = ("infiniband", "roce", "efa", "gpudirect", "rdma")
"""What providers call a network that joins instances for training."""


class Rental(Record, kw_only=True):
    """A count of one accelerator on the offers that join them alike, cheapest first."""

    place: Place
    offers: tuple[Offer, ...]
    bills: tuple[Bill, ...]
    """Without spares, one per offer and term, cheapest first."""
    notes: tuple[str, ...] = ()

    @property
    def usd_per_hour(self) -> float:
        """The cheapest bill. [USD/h]"""
        return self.bills[0].usd_per_hour

    @property
    def what(self) -> str:
        """How many of which accelerator."""
        return parts_name(self.place.count, self.place.accelerator.id)

    def misses(
        self,
        verdict: Verdict,
        option: RunOption | None = None,
        *,
        leanest: TrainConfiguration | None = None,
    ) -> InfeasibleRun:
        """The rental as one that cannot do the job, with what it would be where that is known."""
        what = option.configuration.label(part_name) if option is not None else self.what
        name = self.place.accelerator.id
        return InfeasibleRun(what=what, accelerator=name, verdict=verdict, option=option, leanest=leanest)


class InfeasibleRun(Record, kw_only=True):
    """A rental that cannot do a job, and why."""

    what: str
    accelerator: str
    verdict: Verdict
    option: RunOption | None = None
    """What it would be, where only deadline or budget is missed."""
    leanest: TrainConfiguration | None = None
    """What comes nearest to the memory, where that is missed."""


def trainable_sites(
    sites: tuple[Site, ...], *, filters: Filters, precision: str, framework: str | None = None
) -> tuple[tuple[Site, ...], tuple[Rejection, ...]]:
    """
    Sites whose accelerator trains in that format and runs the framework, and why the others do not: processors only
    when asked for, those for inference never, nor those that compute a narrow format only wider.
    """
    narrow = number_format(precision).compute if number_format(precision).bits < 16 else ""
    kept, lost = [], []
    for site in sites:
        name = site.accelerator.id
        why = _inference_only().get(name)
        named = name in filters.accelerators or "cpu" in filters.segments
        if why is None and name.startswith("cpu-") and not named:  # a cloud's own, too
            why = "a processor; name it with --accelerator to see how slow"
        if why is not None:
            verdict = refusal("training", f"not for training ({why})")
        elif narrow and narrow not in site.accelerator.peaks:
            verdict = refusal("precision", f"computes no {narrow}; bf16 runs there")
        elif not runs_on(framework, site.accelerator):
            nearest = f"--framework {usual_software('tpu')[0][0].example}"
            verdict = refusal("training", f"{framework} does not run there", nearest=nearest)
        else:
            kept.append(site)
            continue
        lost.append(Rejection(what=name, verdict=verdict))
    return tuple(kept), tuple(lost)


def rentals(site: Site, *, counts: tuple[int, ...], terms: tuple[str, ...], today: date) -> Iterator[Rental]:
    """
    Every way to rent each of the counts at this site: one per instance size and network rate, none where no offer holds
    the count at one of the terms.
    """
    for count in counts:
        kinds: dict[tuple[int, float | None, bool], list[Offer]] = {}
        for offer in site.offers:
            joined = _join_instances(site, offer, count)
            if joined is not None:
                kinds.setdefault(joined, []).append(offer)
        for (per_node, inter, assumed), offers in kinds.items():
            bills = _bills(offers, count=count, terms=terms, today=today)
            if bills:
                place = Place(
                    accelerator=site.accelerator,
                    count=count,
                    per_node=per_node,
                    intra_link=site.intra_link,
                    inter_bytes_per_s=inter,
                )
                note = (
                    "network between instances not listed: one adapter per accelerator assumed, as its provider offers"
                )
                yield Rental(place=place, offers=tuple(offers), bills=bills, notes=(note,) if assumed else ())


def _join_instances(site: Site, offer: Offer, count: int) -> tuple[int, float | None, bool] | None:
    """
    Instance size, network per accelerator [bytes/s; None inside one instance or fabric, or assumed], and whether that
    is assumed; None = the offer cannot hold the job.
    """
    size = int(offer.count)
    if count <= size:
        return min(size, max(count, 1)), None, False
    if count % size:
        return None
    part = site.accelerator
    fabric = part.link.domain if site.intra_link != "pcie" else 1
    chips = part.vendor.lower() == "google"  # sold one by one out of the fabric
    whole = chips or size >= min(site.per_node, BOARD)
    if whole and count <= fabric and fabric > (part.max_per_node or BOARD):
        return size, None, False
    if not whole or (size == 1 and not chips):
        return None  # joining parts of machines gains nothing over whole ones
    if offer.network_bytes_per_s:
        return size, offer.network_bytes_per_s / size, False
    provider = catalog.providers().get(offer.provider)
    stated = provider.facts.get("infiniband_or_equiv", "").lower() if provider else ""
    fast = part.link.domain > 1 and (
        offer.provider in {YOURS, "own"} or offer.contract is not None or any(name in stated for name in _FABRICS)
    )
    return (size, None, True) if fast else None


def _bills(offers: list[Offer], *, count: int, terms: tuple[str, ...], today: date) -> tuple[Bill, ...]:
    """Of one job's instances on each offer and term that has a price, prices that sellers state first, then by cost."""
    made = [
        bill(offer, replicas=1, ranks=count, term=term, today=today)
        for offer in offers
        for term in terms
        if offer.usd_per_hour(term) is not None
    ]
    return tuple(sorted((b for b in made if isinstance(b, Bill)), key=by_trust_and_cost))


@cache
def _inference_only() -> dict[str, str]:
    return {row["accelerator"]: row["source"] for row in table(DATA / "failures" / "inference_only.csv")}
