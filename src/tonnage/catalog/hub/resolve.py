"""Which model does a text or a mapping mean, wherever it is?

In this order: a model that is one already; a mapping of fields; a path written as a path; a bare size ("13B"); a
catalogue id or variant; a folder of that name; the local cache of a hub; the hub itself, unless `offline`. So a name is
never looked up on a network that the catalogue knows, and a folder never hides a catalogue name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tonnage.catalog.additions import NOTHING, Additions
from tonnage.catalog.hub import online
from tonnage.catalog.hub.config import read_config
from tonnage.catalog.hub.inline import read_inline
from tonnage.catalog.hub.local import read_path
from tonnage.catalog.hub.names import looks_like_path
from tonnage.catalog.hub.sizes import read_size
from tonnage.domain.model import Model
from tonnage.errors import BadRequest, UnknownName, echo

__all__ = ["read_repository", "resolve"]


def resolve(
    spec: str | Mapping[str, Any] | Model | Path | None, *, additions: Additions = NOTHING, offline: bool | None = None
) -> Model:
    """
    The model that `spec` means.

    Parameters
    ----------
    spec : str, mapping, Model or Path
        Catalogue id or any variant of its name; Hugging Face id or URL; path of a config.json, folder, safetensors or
        GGUF file; fields of a model or of a config.json; a bare size.
    additions : Additions
        The user's own models.
    offline : bool, optional
        Never ask a hub. Absent: as HF_HUB_OFFLINE and TONNAGE_OFFLINE say, else ask for ids the catalogue lacks.

    Raises
    ------
    UnknownName
        No such model; suggests the nearest.
    BadFact
        A file says something impossible.
    BadRequest
        The text is no name, or the hub refuses.
    """
    if isinstance(spec, Model):
        return spec
    if isinstance(spec, Path):
        return read_path(spec)
    if isinstance(spec, Mapping):
        return read_inline(spec)
    text = spec.strip() if isinstance(spec, str) else ""
    if not text or "\0" in text:
        raise BadRequest(
            f"model: '{echo(spec)}' is no model; give an id such as 'Qwen/Qwen3-8B', a path or a size ('13B')"
        )
    if looks_like_path(text):
        return read_path(Path(text))
    sized = read_size(text)
    if sized is not None:
        return sized
    return _by_name(text, additions, online.offline_by_choice() if offline is None else offline)


def _by_name(text: str, additions: Additions, offline: bool) -> Model:
    from tonnage.catalog.models import model, model_ids

    repo = online.repository(text)
    address = text.startswith(("http://", "https://", "hf:"))
    if address and repo is None:
        raise BadRequest(f"model: '{echo(text)}' names no model on a hub; expected https://huggingface.co/MAKER/NAME")
    try:
        return model(repo.id if address and repo is not None else text, additions)
    except UnknownName as unknown:
        if _is_folder(text):
            return read_path(Path(text))
        if repo is None:
            raise
        try:
            return read_repository(repo, offline=offline)
        except online.HubFailure as failure:
            if offline:
                raise unknown from None
            raise online.not_found(repo, why=str(failure), known=model_ids(additions)) from unknown


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except OSError:
        return False


def read_repository(repo: online.Repository, *, offline: bool = False) -> Model:
    """The model as the hub describes it, or as the weights on this machine do when they are here."""
    folder = online.cached_folder(repo)
    if folder is not None:
        return msgspec.structs.replace(read_path(folder), id=repo.id)
    data = online.fetch(repo, "config.json", offline=offline)
    if "quantization_config" not in data:
        quantised = _optional(repo, "hf_quant_config.json", offline)
        if quantised is not None:
            data = {**data, "quantization_config": {"quant_method": "modelopt", **quantised}}
    found = read_config(data, file=f"{repo.id}/config.json", name=repo.id)
    size = _total_size(_optional(repo, "model.safetensors.index.json", offline))
    return found if size is None else msgspec.structs.replace(found, stored_weight_bytes=size)


def _optional(repo: online.Repository, name: str, offline: bool) -> dict[str, Any] | None:
    """A file that a repository may lack; what goes wrong with one costs nothing but its facts."""
    try:
        return online.fetch(repo, name, limit=online.LARGEST_INDEX, offline=offline)
    except online.HubFailure:
        return None


def _total_size(index: dict[str, Any] | None) -> float | None:
    metadata = None if index is None else index.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    good = isinstance(size, int | float) and not isinstance(size, bool) and 0 < size < 1e15
    return float(size) if good and size is not None else None
