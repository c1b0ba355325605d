"""
What the hub says of models today, against what is known: asked anew, read, compared, and kept in the hub's cache.

A model that the catalogue lacks is known offline afterwards. One that it has stays as the catalogue says, for those
facts were checked; where the hub differs, the fields are named. Each model stands alone: one that fails keeps what is
known, and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tonnage.catalog.hub import online
from tonnage.catalog.hub.resolve import read_repository
from tonnage.catalog.models import model
from tonnage.domain.listing import RefreshedModel, RefreshedModels
from tonnage.domain.model import Model
from tonnage.errors import BadFact, BadRequest, TonnageError, UnknownName, echo

__all__ = ["refresh_models"]

NAMED: Final = frozenset(
    ("id", "family", "kind", "licence", "source", "notes", "assumed", "published_parameters",
     "published_active_parameters", "stored_weight_bytes", "mtp_layers"),
)  # fmt: skip
"""What a config.json does not say, or says by another name than the catalogue."""


def refresh_models(names: Iterable[str], *, watch: Callable[[str], None] = lambda _: None) -> RefreshedModels:
    """
    Ask the hub for these models anew.

    Raises
    ------
    BadRequest
        A name is no name of a model on a hub, or the environment forbids asking.
    BadFact
        Nothing could be fetched at all.
    """
    if online.offline_by_choice():
        raise BadRequest("HF_HUB_OFFLINE or TONNAGE_OFFLINE is set: refreshing models asks a hub; unset it")
    told = []
    for name, repo in [(name, _repository(name)) for name in dict.fromkeys(names)]:
        watch(name)
        told.append(_one(name, repo))
    if told and all(one.why for one in told):
        raise BadFact("no model was refreshed, and what is known stays: " + "; ".join(one.why for one in told))
    return RefreshedModels(refreshed=tuple(told), source=online.host())


def _repository(name: str) -> online.Repository:
    repo = online.repository(name)
    if repo is None:
        raise BadRequest(f"model '{echo(name)}' names no model on a hub; expected MAKER/NAME")
    return repo


def _one(name: str, repo: online.Repository) -> RefreshedModel:
    known = _known(name)
    try:
        online.fetch(repo, "config.json", or_cached=False)
        found = read_repository(repo)
    except TonnageError as wrong:
        return RefreshedModel(model=name, why=str(wrong))
    return RefreshedModel(model=name, known=known is not None, differs=() if known is None else _apart(known, found))


def _known(name: str) -> Model | None:
    try:
        return model(name)
    except UnknownName:
        return None


def _apart(known: Model, found: Model) -> tuple[str, ...]:
    """The fields that the two tell differently."""
    return tuple(
        field for field in known.__struct_fields__
        if field not in NAMED and getattr(known, field) != getattr(found, field)
    )  # fmt: skip
