"""
What does the catalogue hold, as a list to look through? Accelerators with prices, offers, providers, models.

Each function returns a Listing: rows in base units, the rows left out counted by reason, and prices with their
provider and date. The price of an accelerator is the cheapest current offer of whole accelerators that the
filters allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from tonnage.catalog.accelerators import accelerator, accelerators, ambiguity
from tonnage.catalog.additions import NOTHING, Additions
from tonnage.catalog.filters import (
    Condition,
    Order,
    Wanted,
    accelerator_conditions,
    filter_things,
    offer_conditions,
    per_accelerator,
    sort_rows,
)
from tonnage.catalog.hardware import published_results, scale_up_domains
from tonnage.catalog.models import explain_name, model
from tonnage.catalog.offers import offers
from tonnage.catalog.providers import CERTIFICATIONS, providers
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.listing import AcceleratorCard, Column, Hidden, Listing
from tonnage.domain.model import Model
from tonnage.domain.money import Offer, Provider, is_stale
from tonnage.errors import UnknownName

if TYPE_CHECKING:
    from tonnage.catalog.traces import PublicTrace


EVERYTHING: Final = Wanted()
FIRST: Final = Order()


def _columns(*described: tuple[str, str] | tuple[str, str, bool]) -> tuple[Column, ...]:
    return tuple(Column(name=c[0], unit=c[1], wide=len(c) > 2) for c in described)


ACCELERATORS: Final = _columns(
    ("id", "text"), ("memory", "bytes"), ("bandwidth", "bytes/s"), ("bf16", "FLOP/s"), ("fp8", "FLOP/s"),
    ("link", "bytes/s"), ("domain", "count"), ("power", "W"), ("price", "USD/h"), ("provider", "text"),
    ("as_of", "date"), ("spot", "USD/h"), ("spot_provider", "text"), ("spot_as_of", "date", True),
    ("name", "text", True), ("vendor", "text", True), ("architecture", "text", True), ("year", "count", True),
    ("segment", "text", True), ("status", "text", True), ("form_factor", "text", True), ("memory_type", "text", True),
    ("usable_memory", "bytes", True), ("fp32", "FLOP/s", True), ("fp16", "FLOP/s", True), ("fp4", "FLOP/s", True),
    ("int8", "FLOP/s", True), ("link_kind", "text", True), ("ecc", "yes/no", True), ("mig_slices", "count", True),
    ("street_price", "USD", True), ("stale", "yes/no", True), ("spot_stale", "yes/no", True),
    ("source", "text", True), ("notes", "text", True),
)  # fmt: skip
OFFERS: Final = _columns(
    ("provider", "text"), ("instance_type", "text"), ("accelerator", "text"), ("count", "count"), ("region", "text"),
    ("country", "text"), ("price", "USD/h"), ("on_demand", "USD/h"), ("spot", "USD/h"), ("reserved_1y", "USD/h"),
    ("reserved_3y", "USD/h"), ("as_of", "date"), ("trust", "text"), ("kind", "text", True),
    ("block", "USD/h", True), ("eu", "yes/no", True),
    ("eea", "yes/no", True), ("vcpus", "count", True), ("ram", "bytes", True), ("local_nvme", "bytes", True),
    ("nvlink", "yes/no", True), ("network", "bytes/s", True), ("stale", "yes/no", True),
    ("marketplace", "yes/no", True), ("history", "yes/no", True), ("as_of_kind", "text", True),
    ("source", "text", True), ("licence", "text", True), ("notes", "text", True),
)  # fmt: skip
PROVIDERS: Final = _columns(
    ("provider", "text"), ("kind", "text"), ("billing", "text"), ("egress", "USD/GB"), ("spot", "yes/no"),
    ("spot_notice", "s"), ("regions_eu", "text"), ("eu_owned", "text"), ("certified", "text"), ("offers", "count"),
    ("accelerators", "count"), ("min_term", "text", True), ("commitments", "text", True),
    ("provisioning", "text", True), ("residency", "text", True), ("fabric", "text", True),
    ("confidence", "text", True), ("source", "text", True), ("checked", "date", True),
)  # fmt: skip
MODELS: Final = _columns(
    ("id", "text"), ("family", "text"), ("kind", "text"), ("parameters", "parameters"), ("active", "parameters"),
    ("layers", "count"), ("hidden_size", "count"), ("context", "tokens"), ("native_dtype", "text"),
    ("licence", "text"), ("vocab_size", "count", True), ("source", "text", True), ("notes", "text", True),
)  # fmt: skip


TRACES: Final = _columns(
    ("name", "text"), ("what", "text"), ("requests", "count"), ("block_tokens", "tokens"), ("licence", "text"),
    ("cite", "text"), ("repository", "text", True), ("path", "text", True),
)  # fmt: skip


def accelerators_listing(
    wanted: Wanted = EVERYTHING, *, order: Order = FIRST, today: date, additions: Additions = NOTHING
) -> Listing:
    """
    Accelerators with memory, bandwidth, peaks, link, power and the cheapest prices of an accelerator-hour.

    Prices are of offers that the filters allow, of whole accelerators; where a filter is of offers, parts without one
    are left out.
    """
    known = accelerators(additions)
    every = offers(additions=additions, marketplace=wanted.marketplace)
    rented, _ = filter_things(every, [*offer_conditions(wanted, every), _whole_accelerators(known)])
    cheapest = {term: _cheapest(rented, term) for term in ("on-demand", "spot")}
    conditions = accelerator_conditions(wanted, known, additions=additions)
    if _asks_to_rent(wanted):
        term = "spot" if wanted.spot else "on-demand"
        conditions.append(Condition("no offer as asked", lambda part: part.id in cheapest[term]))
    parts, failed = filter_things(known.values(), conditions)
    rows = [_accelerator_row(part, cheapest, today) for part in parts]
    taken = [sentence for name in wanted.accelerators if (sentence := ambiguity(name, additions))]
    default = "spot" if wanted.spot else "price"
    return _listing(
        "accelerators", ACCELERATORS, rows=rows, failed=failed, order=order, default=default, today=today, notes=taken
    )


def accelerator_card(
    name: str, *, wanted: Wanted = EVERYTHING, today: date, additions: Additions = NOTHING
) -> AcceleratorCard:
    """One accelerator with every fact, and each provider's cheapest offer of it."""
    part = accelerator(name, additions)
    listed = offers_listing(replace(wanted, accelerators=(part.id,)), today=today, additions=additions)
    cheapest: dict[str, dict[str, Any]] = {}
    for row in listed.rows:
        cheapest.setdefault(row["provider"], row)
    best = tuple(cheapest.values())
    dearer = Hidden(
        reason="more expensive offer of a provider shown (tonnage catalog offers)", rows=len(listed.rows) - len(best)
    )
    other = tuple(hidden for hidden in listed.hidden if hidden.reason != "another accelerator")
    shown = replace(listed, rows=best, hidden=(*other, *((dearer,) if dearer.rows else ())))
    return AcceleratorCard(
        accelerator=part,
        offers=shown,
        ambiguity=ambiguity(name, additions),
        domains=scale_up_domains(part.id),
        results=published_results(part.id),
    )


def offers_listing(
    wanted: Wanted = EVERYTHING, *, order: Order = FIRST, today: date, additions: Additions = NOTHING
) -> Listing:
    """Offers, cheapest accelerator-hour first; the prices of terms are of the whole instance."""
    known = accelerators(additions)
    every = offers(additions=additions, marketplace=wanted.marketplace)
    nvlink = wanted.nvlink
    conditions = [
        Condition(condition.reason, _of_part(condition, known))
        for condition in accelerator_conditions(replace(wanted, nvlink=None), known, additions=additions)
    ]
    if nvlink is not None:
        conditions.append(Condition("NVLink not as asked (--nvlink)", lambda offer: offer.nvlink is nvlink))
    kept, failed = filter_things(every, [*conditions, *offer_conditions(wanted, every)])
    rows = [_offer_row(offer, "spot" if wanted.spot else "on-demand", today) for offer in kept]
    taken = [sentence for name in wanted.accelerators if (sentence := ambiguity(name, additions))]
    return _listing("offers", OFFERS, rows=rows, failed=failed, order=order, default="price", today=today, notes=taken)


def providers_listing(
    wanted: Wanted = EVERYTHING, *, order: Order = FIRST, today: date, additions: Additions = NOTHING
) -> Listing:
    """Providers and their terms; `accelerators`, `countries` and the like keep those with such an offer."""
    known = accelerators(additions)
    every = offers(additions=additions, marketplace=wanted.marketplace)
    part_conditions = [
        Condition(condition.reason, _of_part(condition, known))
        for condition in accelerator_conditions(wanted, known, additions=additions)
    ]
    without_names = replace(wanted, providers=())
    rented, _ = filter_things(every, [*part_conditions, *offer_conditions(without_names, every)])
    conditions: list[Condition] = []
    if wanted.providers:
        names = {name.lower() for name in wanted.providers}
        for name in names - set(providers()):
            raise UnknownName("provider", name, known=providers())
        conditions.append(Condition("another provider (--provider)", lambda provider: provider.id in names))
    if part_conditions or _asks_to_rent(without_names):
        renting = {offer.provider for offer in rented}
        conditions.append(Condition("no offer as asked", lambda provider: provider.id in renting))
    kept, failed = filter_things(providers().values(), conditions)
    rows = [_provider_row(provider, [offer for offer in rented if offer.provider == provider.id]) for provider in kept]
    return _listing("providers", PROVIDERS, rows=rows, failed=failed, order=order, default="provider", today=today)


def models_listing(
    known: Mapping[str, Model],
    *,
    names: tuple[str, ...] = (),
    kinds: tuple[str, ...] = (),
    order: Order = FIRST,
    today: date,
) -> Listing:
    """
    Models by id; counts are the published ones, absent where no source gives any.

    `names` are as people write them (nvidia/Llama-3.1-70B-Instruct-FP8): those rows alone, and how each was read.
    """
    every = {model.kind for model in known.values()}
    for kind in kinds:
        if kind not in every:
            raise UnknownName("kind of model", kind, known=every)
    conditions: list[Condition] = []
    if kinds:
        conditions.append(Condition("another kind (--kind)", lambda model: model.kind in kinds))
    if names:
        wanted = {model(name).id for name in names}
        conditions.append(Condition("another model", lambda one: one.id in wanted))
    kept, failed = filter_things(known.values(), conditions)
    rows = [_model_row(model) for model in kept]
    taken = [explain_name(name) for name in names if name not in known]
    return _listing("models", MODELS, rows=rows, failed=failed, order=order, default="id", today=today, notes=taken)


def traces_listing(known: Mapping[str, PublicTrace], *, order: Order, today: date) -> Listing:
    """Public request logs by name; none of them is shipped."""
    rows = [
        {
            "name": trace.name,
            "what": trace.what,
            "requests": trace.requests,
            "block_tokens": trace.hash_tokens,
            "licence": trace.licence,
            "cite": trace.cite,
            "repository": trace.repository,
            "path": trace.path,
        }
        for trace in known.values()
    ]
    note = "fetch one with --fetch NAME, then play it: traffic: {trace: NAME}; keep licence and citation with results"
    return _listing("traces", TRACES, rows=rows, failed={}, order=order, default="name", today=today, notes=(note,))


def _listing(
    kind: str,
    columns: tuple[Column, ...],
    *,
    rows: list[dict[str, Any]],
    failed: Mapping[str, int],
    order: Order,
    default: str,
    today: date,
    notes: Iterable[str] = (),
) -> Listing:
    """The rows sorted, by the column `default` where no other is asked for, with what was left out and why."""
    sorting = replace(order, sort=order.sort or default)
    shown, beyond = sort_rows(rows, columns, order=sorting)
    hidden = (*(Hidden(reason=reason, rows=count) for reason, count in failed.items()), *beyond)
    return Listing(kind=kind, columns=columns, rows=shown, hidden=hidden, notes=tuple(notes), today=today.isoformat())


def _cheapest(rented: Iterable[Offer], term: str) -> dict[str, tuple[float, Offer]]:
    """Price of an accelerator-hour and its offer, the cheapest on a term, by accelerator. [USD/h]"""
    found: dict[str, tuple[float, Offer]] = {}
    for offer in rented:
        price = per_accelerator(offer, term)
        if price is not None and (offer.accelerator not in found or price < found[offer.accelerator][0]):
            found[offer.accelerator] = (price, offer)
    return found


def _whole_accelerators(known: Mapping[str, Accelerator]) -> Condition:
    # A slice of a shared GPU is no accelerator; of a CPU every offer is a share of sockets.
    return Condition("a share", lambda offer: offer.count >= 1 or known[offer.accelerator].segment == "cpu")


def _of_part(condition: Condition, known: Mapping[str, Accelerator]) -> Any:
    return lambda offer: condition.holds(known[offer.accelerator])


def _asks_to_rent(wanted: Wanted) -> bool:
    return bool(
        wanted.providers or wanted.regions or wanted.countries or wanted.eu or wanted.spot or wanted.usd_per_hour
    )


def _accelerator_row(
    part: Accelerator, cheapest: Mapping[str, Mapping[str, tuple[float, Offer]]], today: date
) -> dict[str, Any]:
    """The columns of an accelerator; prices are of an accelerator-hour, on demand and spot. [USD/h]"""
    price, offer = cheapest["on-demand"].get(part.id, (None, None))
    spot, spot_offer = cheapest["spot"].get(part.id, (None, None))
    return {
        "id": part.id,
        "memory": part.memory_bytes,
        "bandwidth": part.memory_bytes_per_s,
        **{dtype: part.peaks.get(dtype) for dtype in ("bf16", "fp8", "fp32", "fp16", "fp4", "int8")},
        "link": part.link.bytes_per_s,
        "domain": part.link.domain if part.link.domain > 1 else None,
        "power": part.power_w,
        "price": price,
        "provider": offer.provider if offer else None,
        "as_of": offer.as_of if offer else None,
        "stale": is_stale(offer.as_of, today=today) if offer else None,
        "spot": spot,
        "spot_provider": spot_offer.provider if spot_offer else None,
        "spot_as_of": spot_offer.as_of if spot_offer else None,
        "spot_stale": is_stale(spot_offer.as_of, today=today) if spot_offer else None,
        "name": part.name,
        "vendor": part.vendor,
        "architecture": part.architecture or None,
        "year": part.year,
        "segment": part.segment,
        "status": part.status,
        "form_factor": part.form_factor or None,
        "memory_type": part.memory_type or None,
        "usable_memory": part.usable_memory_bytes,
        "link_kind": part.link.kind,
        "ecc": part.ecc,
        "mig_slices": part.mig_slices,
        "street_price": part.street_price_usd,
        "source": part.fact.source,
        "notes": part.fact.notes or None,
    }


def _offer_row(offer: Offer, term: str, today: date) -> dict[str, Any]:
    """The columns of an offer; `price` is of an accelerator-hour on a term, the others of the instance. [USD/h]"""
    return {
        "provider": offer.provider,
        "instance_type": offer.instance_type,
        "accelerator": offer.accelerator,
        "count": offer.count,
        "region": offer.region or None,
        "country": offer.country or None,
        "price": per_accelerator(offer, term),
        "on_demand": offer.usd_per_hour("on-demand"),
        "spot": offer.usd_per_hour("spot"),
        "reserved_1y": offer.usd_per_hour("reserved-1y"),
        "reserved_3y": offer.usd_per_hour("reserved-3y"),
        "block": offer.usd_per_hour("block"),
        "as_of": offer.as_of or None,
        "trust": offer.trust,
        "kind": offer.kind,
        "stale": is_stale(offer.as_of, today=today),
        "eu": offer.eu,
        "eea": offer.eea,
        "vcpus": offer.vcpus,
        "ram": offer.ram_bytes,
        "local_nvme": offer.local_nvme_bytes,
        "nvlink": offer.nvlink,
        "network": offer.network_bytes_per_s,
        "marketplace": offer.marketplace,
        "history": offer.history,
        "as_of_kind": offer.as_of_kind or None,
        "source": offer.source,
        "licence": offer.licence or None,
        "notes": offer.notes or None,
    }


def _provider_row(provider: Provider, rented: list[Offer]) -> dict[str, Any]:
    """The columns of a provider; offers and accelerators are counted among those that the filters allow."""
    facts = provider.facts
    return {
        "provider": provider.id,
        "kind": provider.kind,
        "billing": facts.get("billing_granularity"),
        "egress": provider.egress_usd_per_gb,
        "spot": provider.spot_offered,
        "spot_notice": provider.spot_notice_s,
        "regions_eu": provider.regions_eu or None,
        "eu_owned": facts.get("eu_owned_entity"),
        "certified": " ".join(name for name in CERTIFICATIONS if name in provider.certifications) or None,
        "offers": len(rented) or None,
        "accelerators": len({offer.accelerator for offer in rented}) or None,
        "min_term": facts.get("min_term"),
        "commitments": facts.get("commitments"),
        "provisioning": facts.get("provisioning_time_s"),
        "residency": facts.get("data_residency_note"),
        "fabric": facts.get("infiniband_or_equiv"),
        "confidence": facts.get("confidence"),
        "source": provider.source,
        "checked": facts.get("checked"),
    }


def _model_row(model: Model) -> dict[str, Any]:
    """The columns of a model; counts are the published ones."""
    return {
        "id": model.id,
        "family": model.family,
        "kind": model.kind,
        "parameters": model.published_parameters,
        "active": model.published_active_parameters,
        "layers": model.num_layers or None,
        "hidden_size": model.hidden_size or None,
        "context": model.max_context,
        "native_dtype": model.native_dtype,
        "licence": model.licence or None,
        "vocab_size": model.vocab_size or None,
        "source": model.source,
        "notes": model.notes or None,
    }
