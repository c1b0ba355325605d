"""Which names may stand in a field? One table: which there are, and how they are spelled here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions, traffic
from tonnage.catalog.hardware import CODECS
from tonnage.catalog.models import model_ids
from tonnage.domain.precision import FORMATS, number_format
from tonnage.domain.requests.field import Field
from tonnage.engines.registry import engine_name, engines, planned_engines
from tonnage.errors import UnknownName
from tonnage.physics.optimizers import OPTIMIZERS, optimizer

__all__ = ["NAMES", "Names", "canonical_spelling", "with_choices"]


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of name."""

    listed: Callable[[Additions], Iterable[str]]
    """Those there are, for forms and shells to complete."""
    spelled: Callable[[str, Additions], str] | None = None
    """Our spelling of a name, or an error; absent = the question looks it up itself."""
    closed: bool = False
    """There are no others: the list is the field's choices."""


def _looked_up(what: str, listed: Callable[[Additions], Iterable[str]]) -> Names:
    """Names that the catalogue's rows have, whatever their case."""

    def find(name: str, additions: Additions) -> str:
        folded = {item.lower(): item for item in listed(additions) if item}
        if name.lower() not in folded:
            raise UnknownName(what, name, known=set(folded.values()))
        return folded[name.lower()]

    return Names(listed=listed, spelled=find)


NAMES: Final[dict[str, Names]] = {
    "models": Names(listed=model_ids),
    "profiles": Names(listed=lambda additions: traffic.profiles()),
    "machines": Names(listed=lambda additions: (*catalog.servers(), *catalog.accelerators(additions))),
    "names of accelerators": Names(listed=catalog.accelerators),
    "accelerators": Names(
        listed=catalog.accelerators, spelled=lambda name, additions: catalog.accelerator(name, additions).id
    ),
    "planned accelerators": Names(
        listed=catalog.accelerators, spelled=lambda name, additions: catalog.predictable(name, additions).id
    ),
    "formats": Names(listed=lambda additions: FORMATS, spelled=lambda name, additions: number_format(name).name),
    "optimizers": Names(listed=lambda additions: OPTIMIZERS, spelled=lambda name, additions: optimizer(name).name),
    "engines": Names(listed=lambda additions: engines(), spelled=lambda name, additions: engine_name(name)),
    "planned engines": Names(listed=lambda additions: planned_engines(), closed=True),
    "codecs": Names(listed=lambda additions: CODECS, closed=True),
    "vendors": _looked_up("vendor", lambda additions: {a.vendor for a in catalog.accelerators(additions).values()}),
    "providers": _looked_up("provider", lambda additions: {o.provider for o in catalog.offers(additions=additions)}),
    "regions": _looked_up("region", lambda additions: {o.region or "" for o in catalog.offers(additions=additions)}),
    "countries": _looked_up(
        "country", lambda additions: {o.country or "" for o in catalog.offers(additions=additions)}
    ),
    "all countries": _looked_up("country", lambda additions: catalog.countries()),
}


def with_choices(field: Field) -> Field:
    """The field with the names of its table as choices, where there are no others."""
    names = NAMES.get(field.known)
    if names is None or not names.closed:
        return field
    return msgspec.structs.replace(field, choices=tuple(names.listed(catalog.NOTHING)))


def canonical_spelling(field: Field, text: str, *, additions: Additions) -> str:
    """
    A name in our spelling.

    Raises
    ------
    TonnageError
        There is none like it; the message names the nearest.
    """
    names = NAMES.get(field.known)
    return text if names is None or names.spelled is None else names.spelled(text, additions)
