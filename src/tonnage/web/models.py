"""Which model a request from the network may name: never a file of this machine, and a hub only when allowed.

An uploaded configuration is kept in a folder of its own under the name of its content, so that no text of the user
becomes a path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tonnage.catalog.hub.config import read_inline
from tonnage.catalog.hub.names import looks_like_path
from tonnage.errors import BadRequest, echo

UPLOAD: Final = "upload:"
MOST_UPLOADS: Final = 64
DIGITS: Final = 16


def store_model(config: Mapping[str, Any], text: bytes, *, folder: Path) -> str:
    """
    Store a configuration; the name under which requests can use it.

    Raises
    ------
    TonnageError
        It is no model's configuration.
    BadRequest
        Too many are kept already.
    """
    read_inline(config)
    digest = hashlib.sha256(text).hexdigest()[:DIGITS]
    place = folder / digest
    if not place.is_dir():
        if sum(1 for _ in folder.iterdir()) >= MOST_UPLOADS:
            raise BadRequest(f"{MOST_UPLOADS} configurations are kept already; start the page again to drop them")
        place.mkdir()
        (place / "config.json").write_bytes(text)
    return UPLOAD + digest


def store_text(text: str, *, folder: Path) -> str:
    """
    Store a text that is too long for an address; the name under which requests can use it.

    Raises
    ------
    BadRequest
        Too many are kept already.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
    place = folder / f"{digest}.txt"
    if not place.is_file():
        if sum(1 for _ in folder.iterdir()) >= MOST_UPLOADS:
            raise BadRequest(f"{MOST_UPLOADS} files are kept already; start the page again to drop them")
        place.write_text(text, encoding="utf-8")
    return UPLOAD + digest


def with_uploaded_models(request: Any, *, folder: Path) -> Any:
    """
    The request with the path of each uploaded model, and the text of each uploaded file, in place of its name; at any
    depth.

    Raises
    ------
    BadRequest
        A model or request log is named by a path, or an upload is not there.
    """
    if isinstance(request, Mapping):
        if "trace" in request:
            raise BadRequest("trace: a request log is a file of this machine; play it with `tonnage simulate`")
        return {name: _value(name, value, folder) for name, value in request.items()}
    if isinstance(request, list):
        return [with_uploaded_models(item, folder=folder) for item in request]
    return request


def _value(name: str, value: Any, folder: Path) -> Any:
    """A field's value as the question takes it: the text of an uploaded file, a model that may be named, or itself."""
    if name == "file" and isinstance(value, str) and value.strip().startswith(UPLOAD):
        digest = value.strip().removeprefix(UPLOAD)
        if not (digest.isalnum() and (folder / f"{digest}.txt").is_file()):
            raise BadRequest(f"file: '{echo(value)}' is not kept here; choose the file again")
        return (folder / f"{digest}.txt").read_text(encoding="utf-8")
    return (
        _model(value, folder)
        if name == "model" and isinstance(value, str)
        else with_uploaded_models(value, folder=folder)
    )


def _model(spec: str, folder: Path) -> str:
    text = spec.strip()
    if text.startswith(UPLOAD):
        digest = text.removeprefix(UPLOAD)
        if not (digest.isalnum() and (folder / digest / "config.json").is_file()):
            raise BadRequest(f"model: '{echo(text)}' is not kept here; upload its config.json again")
        return str(folder / digest / "config.json")
    refuse_paths(text)
    return text


def refuse_paths(text: str) -> None:
    """
    Refuse a name of a model that a request from the network may not hold, whichever field it stands in.

    Raises
    ------
    BadRequest
        It is, or would be read as, a file or folder of this machine.
    """
    if looks_like_path(text) or "\\" in text or ".." in text or _is_here(text):
        raise BadRequest(
            f"model: '{echo(text)}' is a path; upload its config.json, or name a catalogue model or a size"
        )


def refuse_named_paths(value: Any) -> None:
    """
    Refuse models that a pasted text names by a path, at any depth.

    Raises
    ------
    BadRequest
        A model or a request log is a file of this machine.
    """
    if isinstance(value, Mapping):
        if value.get("trace"):
            raise BadRequest("trace: a request log is a file of this machine; play it with `tonnage simulate`")
        if isinstance(value.get("model"), str):
            refuse_paths(value["model"])
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        refuse_named_paths(inner)


def _is_here(text: str) -> bool:
    """Whether the text would be read as a folder of this machine."""
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return True
