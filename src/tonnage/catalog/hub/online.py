"""How are a model's small files fetched from a Hugging Face hub?

config.json, hf_quant_config.json and the index of the weights: from the local cache that other tools keep, else over
HTTPS from HF_ENDPOINT. Weights are never fetched. The token of HF_TOKEN goes to that host alone, is not followed by a
redirect to another one, and appears in no message.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, urlsplit

from tonnage.catalog.hub.jsonfile import LARGEST_CONFIG, parse_object
from tonnage.errors import BadFact, BadRequest, TonnageError, echo, nearest

__all__ = ["Repository", "cached_folder", "fetch", "offline_by_choice", "repository"]

DEFAULT_ENDPOINT: Final = "https://huggingface.co"
LARGEST_INDEX: Final = 64 << 20
TIMEOUT_S: Final = 10.0
"""For each answer of the server; three times as long for a whole file."""

_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_YES: Final = {"1", "true", "yes", "on"}

Failure = Literal["missing", "gated", "unreachable"]


class Repository(NamedTuple):
    """A model on a hub."""

    id: str
    revision: str = "main"


class HubFailure(BadRequest):
    """The hub gave no file: it has none, wants a token, or cannot be reached."""

    def __init__(self, message: str, kind: Failure) -> None:
        super().__init__(message)
        self.kind = kind


def repository(spec: str) -> Repository | None:
    """The repository that an id, a URL or "hf:ID" names, or None when it names none."""
    text = spec.strip()
    revision = "main"
    if text.startswith(("http://", "https://")):
        parts = [part for part in urlsplit(text).path.split("/") if part]
        parts = parts[1:] if parts[:1] == ["models"] else parts
        if len(parts) >= 4 and parts[2] in {"tree", "blob", "resolve"}:
            revision = parts[3]
        text = "/".join(parts[:2])
    else:
        text = text.removeprefix("hf://").removeprefix("hf:")
        text, _, given = text.partition("@")
        revision = given or revision
    return Repository(text, revision) if _ID.fullmatch(text) and ".." not in text else None


def offline_by_choice() -> bool:
    """Whether the user's environment says that no hub is to be asked."""
    return any(os.environ.get(name, "").lower() in _YES for name in ("HF_HUB_OFFLINE", "TONNAGE_OFFLINE"))


def endpoint() -> str:
    """Address of the hub."""
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def cached_folder(repo: Repository) -> Path | None:
    """The folder in which other tools on this machine keep the repository's files, when it has a config.json."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    root = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub") / f"models--{repo.id.replace('/', '--')}"
    reference = root / "refs" / repo.revision
    try:
        commit = reference.read_text(encoding="utf-8").strip() if reference.is_file() else repo.revision
    except (OSError, UnicodeDecodeError):
        return None
    folder = root / "snapshots" / commit
    return folder if re.fullmatch(r"[\w.-]+", commit) and (folder / "config.json").is_file() else None


def fetch(repo: Repository, name: str, *, limit: int = LARGEST_CONFIG, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """
    One JSON file of a repository.

    Raises
    ------
    HubFailure
        The file is not there, the repository wants a token, or the hub cannot be reached in time.
    BadFact
        The file is too large or no JSON object.
    """
    address = f"{endpoint()}/{quote(repo.id)}/resolve/{quote(repo.revision, safe='')}/{quote(name)}"
    content = _get(address, repo, limit=limit, timeout_s=timeout_s)
    return parse_object(content, file=f"{repo.id}/{name}")


def _get(address: str, repo: Repository, *, limit: int, timeout_s: float) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    if urlsplit(address).scheme not in {"http", "https"}:
        raise BadRequest(f"HF_ENDPOINT: '{echo(endpoint())}' is no address; expected https://…")
    request = Request(address, headers={"User-Agent": "tonnage", "Accept-Encoding": "identity"})
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
    if token and token.isascii() and token.isprintable():
        # Unredirected: urllib keeps such a header off every further address.
        request.add_unredirected_header("Authorization", f"Bearer {token.strip()}")
    try:
        with _opener()(request, timeout_s) as answer:
            return _read(answer, repo, limit=limit, timeout_s=timeout_s)
    except HTTPError as problem:
        raise _refused(problem.code, repo) from None
    except TonnageError:
        raise
    except (URLError, HTTPException, OSError, ValueError) as problem:
        reason = getattr(problem, "reason", problem)
        shown = "no answer in time" if isinstance(reason, TimeoutError) else type(reason).__name__
        raise HubFailure(
            f"model '{repo.id}': the hub at {urlsplit(address).hostname} could not be asked ({shown}); "
            "give a local config.json or a catalogue id",
            "unreachable",
        ) from None


def _opener() -> Callable[[Any, float], Any]:
    """Opens a request; redirects stay with HTTP and HTTPS and are few."""
    from urllib import request as http

    director = http.OpenerDirector()
    for handler in (
        http.ProxyHandler(), http.HTTPHandler(), http.HTTPSHandler(), http.HTTPRedirectHandler(),
        http.HTTPDefaultErrorHandler(), http.HTTPErrorProcessor(),
    ):  # fmt: skip
        director.add_handler(handler)
    return lambda request, timeout_s: director.open(request, timeout=timeout_s)


def _read(answer: Any, repo: Repository, *, limit: int, timeout_s: float) -> bytes:
    """The body, up to the limit and in time, however slowly it drips."""
    deadline, content = time.monotonic() + 3 * timeout_s, bytearray()
    while chunk := answer.read1(1 << 16):
        content += chunk
        if len(content) > limit:
            raise BadFact(f"model '{repo.id}': the hub sent more than {limit} bytes; expected a small JSON file")
        if time.monotonic() > deadline:
            raise HubFailure(f"model '{repo.id}': the hub sends too slowly; give a local config.json", "unreachable")
    if answer.length:  # what the server announced and did not send
        raise HubFailure(f"model '{repo.id}': the hub broke off its answer; try again", "unreachable")
    return bytes(content)


def _refused(status: int, repo: Repository) -> HubFailure:
    if status in {401, 403}:
        return HubFailure(
            f"model '{repo.id}': the hub answers {status}: gated, private or misspelt; accept its licence on its page "
            "and set HF_TOKEN, or give a local config.json",
            "gated",
        )
    if status == 404:
        return HubFailure(f"model '{repo.id}': the hub has no such model or no config.json in it", "missing")
    return HubFailure(
        f"model '{repo.id}': the hub answers {status}; try again or give a local config.json", "unreachable"
    )


def not_found(repo: Repository, *, why: str, known: tuple[str, ...]) -> BadRequest:
    """The sentence about a model that neither the catalogue nor the hub has, with the nearest known names."""
    close = nearest(repo.id, known)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return BadRequest(f"{why}{hint}")
