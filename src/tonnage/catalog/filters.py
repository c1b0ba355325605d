"""
Which of the known things are wanted, and why are the others not shown?

`Wanted` is one definition of every filter for command line, HTTP and Python. A filter becomes a condition with
its reason; each thing left out is counted under the first condition it fails, so that nothing disappears
silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tonnage.catalog.accelerators import accelerator
from tonnage.catalog.additions import Additions
from tonnage.catalog.providers import country_code
from tonnage.catalog.what_if import DTYPES, SEGMENTS
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.listing import Column, Hidden
from tonnage.domain.money import Offer
from tonnage.errors import BadRequest, UnknownName
from tonnage.record import SparseRecord

T = TypeVar("T")


class Wanted(SparseRecord, kw_only=True, forbid_unknown_fields=True):
    """What to keep; an empty field asks for nothing. Prices are per accelerator and hour."""

    accelerators: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    """Dtypes that the part must have a unit for."""
    memory_bytes: float | None = None
    memory_bytes_per_s: float | None = None
    power_w: float | None = None
    """At most."""
    ecc: bool | None = None
    mig: bool | None = None
    nvlink: bool | None = None
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    eu: bool = False
    spot: bool = False
    usd_per_hour: float | None = None
    """At most, per accelerator; of spot when spot is asked for, else on-demand."""
    marketplace: bool = True
    history: bool = False


class Order(SparseRecord, kw_only=True):
    """How rows are sorted and how many are shown; 0 = all."""

    sort: str = ""
    reverse: bool = False
    limit: int = 0


class Condition(NamedTuple):
    """What a thing must satisfy, and the reason that is given where it does not."""

    reason: str
    holds: Callable[[Any], bool]


def filter_things(things: Iterable[T], conditions: Sequence[Condition]) -> tuple[list[T], dict[str, int]]:
    """The things that satisfy every condition, and how many failed each first."""
    kept: list[T] = []
    failed: dict[str, int] = {}
    for thing in things:
        reason = next((condition.reason for condition in conditions if not condition.holds(thing)), None)
        if reason is None:
            kept.append(thing)
        else:
            failed[reason] = failed.get(reason, 0) + 1
    return kept, failed


def accelerator_conditions(
    wanted: Wanted, known: Mapping[str, Accelerator], *, additions: Additions
) -> list[Condition]:
    """The conditions on the part itself."""
    ids = {accelerator(name, additions).id for name in wanted.accelerators}
    vendors = _match_spelling("vendor", wanted.vendors, {part.vendor for part in known.values()})
    segments = _match_spelling("segment", wanted.segments, SEGMENTS)
    dtypes = _match_spelling("precision", wanted.precisions, DTYPES)
    memory, rate, power = wanted.memory_bytes, wanted.memory_bytes_per_s, wanted.power_w
    found: list[Condition] = []
    if ids:
        found.append(Condition("another accelerator", lambda part: part.id in ids))
    if vendors:
        found.append(Condition("another vendor (--vendor)", lambda part: part.vendor in vendors))
    if segments:
        found.append(Condition("another segment (--segment)", lambda part: part.segment in segments))
    if memory is not None:
        found.append(Condition("less memory than asked (--memory)", lambda part: part.memory_bytes >= memory))
    if rate is not None:
        found.append(Condition("less bandwidth than asked (--bandwidth)", lambda part: part.memory_bytes_per_s >= rate))
    if power is not None:
        found.append(Condition("more or unknown power (--power)", lambda part: (part.power_w or power + 1) <= power))
    for dtype in dtypes:
        found.append(Condition(f"no {dtype} unit (--precision)", _has_peak(dtype)))
    if wanted.ecc is not None:
        found.append(Condition("ECC not as asked (--ecc)", lambda part: part.ecc is wanted.ecc))
    if wanted.mig is not None:
        found.append(Condition("MIG not as asked (--mig)", lambda part: (part.mig_slices > 0) is wanted.mig))
    if wanted.nvlink is not None:
        found.append(Condition("NVLink not as asked (--nvlink)", lambda part: _has_nvlink(part) is wanted.nvlink))
    return found


def offer_conditions(wanted: Wanted, known: Sequence[Offer]) -> list[Condition]:
    """The conditions on the offer: who, where, at what price."""
    providers = _match_spelling("provider", wanted.providers, {offer.provider for offer in known})
    regions = _match_spelling("region", wanted.regions, {offer.region for offer in known if offer.region})
    meant = [*map(country_code, wanted.countries)]
    countries = _match_spelling("country", meant, {offer.country for offer in known if offer.country})
    term, most = "spot" if wanted.spot else "on-demand", wanted.usd_per_hour
    found: list[Condition] = []
    if providers:
        found.append(Condition("another provider (--provider)", lambda offer: offer.provider in providers))
    if regions:
        found.append(Condition("another region (--region)", lambda offer: offer.region in regions))
    if countries:
        found.append(Condition("another or no stated country (--country)", lambda offer: offer.country in countries))
    if wanted.eu:
        found.append(Condition("outside the EU or no stated country (--eu)", lambda offer: offer.eu is True))
    if wanted.spot:
        found.append(Condition("no spot price (--spot)", lambda offer: offer.usd_per_hour("spot") is not None))
    if most is not None:
        found.append(Condition(f"no {term} price up to --max-price", lambda offer: _costs_at_most(offer, term, most)))
    if not wanted.history:
        found.append(Condition("superseded or retiring price (--history shows them)", lambda offer: not offer.history))
    return found


def per_accelerator(offer: Offer, term: str) -> float | None:
    """Listed price of one accelerator and hour; absent when the term is not offered. [USD/h]"""
    price = offer.usd_per_hour(term)
    return None if price is None else price / offer.count


def sort_rows(
    rows: list[dict[str, Any]], columns: Sequence[Column], *, order: Order
) -> tuple[tuple[dict[str, Any], ...], tuple[Hidden, ...]]:
    """
    Rows sorted by one column, unknown values last; and what the limit leaves out.

    Sizes, rates and peaks come largest first, everything else smallest first; `reverse` turns that round.
    """
    column = next((column for column in columns if column.name == order.sort), None)
    if column is None:
        raise UnknownName("column", order.sort, known=[column.name for column in columns])
    if order.limit < 0:
        raise BadRequest(f"--limit {order.limit} must be 0 (all) or more")
    falling = (column.unit in {"bytes", "bytes/s", "FLOP/s", "parameters"}) is not order.reverse
    known = [row for row in rows if row[column.name] is not None]
    known.sort(key=lambda row: row[column.name], reverse=falling)
    every = known + [row for row in rows if row[column.name] is None]
    shown = every[: order.limit or None]
    over = len(every) - len(shown)
    return tuple(shown), (Hidden(reason=f"beyond --limit {order.limit}", rows=over),) if over else ()


def _costs_at_most(offer: Offer, term: str, most: float) -> bool:
    price = per_accelerator(offer, term)
    return price is not None and price <= most


def _has_peak(dtype: str) -> Callable[[Accelerator], bool]:
    return lambda part: dtype in part.peaks


def _has_nvlink(part: Accelerator) -> bool:
    return part.link.kind.startswith("nvlink") and part.link.domain > 1


def _match_spelling(what: str, given: Sequence[str], known: Iterable[str]) -> frozenset[str]:
    """Names as the catalogue spells them, whatever case they were typed in."""
    spelling = {name.lower(): name for name in known}
    for name in given:
        if name.strip().lower() not in spelling:
            raise UnknownName(what, name, known=spelling.values())
    return frozenset(spelling[name.strip().lower()] for name in given)
