"""
How are a model's small files fetched from a Hugging Face hub?

config.json, hf_quant_config.json and the index of the weights, through the `huggingface_hub` library (extra `hub`) and
the cache it shares with other tools, from HF_ENDPOINT and with the token the library finds. Weights are never fetched.
The library is imported when a hub or its cache is asked and not before: catalogued models need none of it. It limits
neither a file's size nor the time for all of it, so both are limited here; its own messages are replaced by sentences
that hold no address beyond the host and no token.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tonnage.catalog.hub.fields import MAX_CONFIG_BYTES, parse_object
from tonnage.errors import BadFact, BadRequest, TonnageError, did_you_mean, echo, nearest

DEFAULT_ENDPOINT: Final = "https://huggingface.co"
MAX_INDEX_BYTES: Final = 64 << 20
TIMEOUT_S: Final = 10.0
"""For the first answer of the server; three times as long for a whole file."""

_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_YES: Final = {"1", "true", "yes", "on"}


class Repository(NamedTuple):
    """A model on a hub."""

    id: str
    revision: str = "main"


class HubFailure(BadRequest):
    """The hub gave no file: it has none, wants a token, cannot be reached, or the library to ask it is absent."""


def repository(spec: str) -> Repository | None:
    """The repository that an id, a URL or "hf:ID" names, or None when it names none."""
    text = spec.strip()
    revision = "main"
    if text.startswith(("http://", "https://")):
        from urllib.parse import urlsplit

        parts = [*filter(None, urlsplit(text).path.split("/"))]
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


def folder_in_cache(repo: Repository) -> Path | None:
    """The folder in which this machine keeps the repository with its weights; None without them."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    config = try_to_load_from_cache(repo.id, "config.json", revision=repo.revision)
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    return folder if any(folder.glob("*.safetensors")) or any(folder.glob("*.gguf")) else None


def fetch(
    repo: Repository,
    name: str,
    *,
    limit: int = MAX_CONFIG_BYTES,
    timeout_s: float = TIMEOUT_S,
    offline: bool = False,
    or_cached: bool = True,
) -> dict[str, Any]:
    """
    One JSON file of a repository; offline, only from the cache, which stands in for a hub that fails (`or_cached`).

    Raises
    ------
    HubFailure
        The file is not there, the repository wants a token, the hub cannot be reached in time, or the extra `hub` is
        not installed.
    BadFact
        The file is too large or no JSON object.
    """
    at = host()
    try:
        import huggingface_hub
    except ImportError:
        raise HubFailure(
            f"model '{repo.id}': not in the catalogue, and asking {at} for it needs an extra: "
            "pip install 'tonnage[hub]'; or give a local config.json"
        ) from None
    found = huggingface_hub.try_to_load_from_cache(repo.id, name, revision=repo.revision)
    path = Path(found) if isinstance(found, str) else None
    if not offline:
        try:
            from tonnage.fetch import in_time  # loads what no catalogued model needs

            path = in_time(lambda: _download(repo, name, limit, timeout_s), 3 * timeout_s)
        except TonnageError:
            raise
        except Exception as problem:  # the library's own, its HTTP client's, and the system's
            if path is None or not or_cached:
                raise _explain_failure(problem, repo, at) from None
    elif path is None:
        raise HubFailure(f"model '{repo.id}': not in this machine's cache, and offline no hub is asked")
    if path.stat().st_size > limit:
        raise _too_large(repo, limit)
    return parse_object(path.read_bytes(), file=f"{repo.id}/{name}")


def _download(repo: Repository, name: str, limit: int, timeout_s: float) -> Path:
    """Where the library put the file."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

    # Asked once: when nobody answers, the download below would ask again for half a minute.
    address = hf_hub_url(repo.id, name, revision=repo.revision, endpoint=_endpoint())
    get_hf_file_metadata(address, timeout=timeout_s, library_name="tonnage")
    found = hf_hub_download(
        repo.id,
        name,
        revision=repo.revision,
        endpoint=_endpoint(),
        etag_timeout=timeout_s,
        library_name="tonnage",
        tqdm_class=_meter(repo, limit),
    )
    return Path(found)


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def host() -> str:
    """The host of the hub: all that messages say of its address, which may hold a password."""
    from urllib.parse import urlsplit

    parts = urlsplit(_endpoint())
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadRequest(f"HF_ENDPOINT: '{echo(_endpoint())}' is no address; expected https://…")
    return parts.hostname


def _meter(repo: Repository, limit: int) -> Any:
    """The progress bar the library reports bytes to: it shows nothing and stops what is too much."""

    class Meter:
        def __init__(self, *, total: float | None = None, initial: float = 0, **_: Any) -> None:
            self.seen = initial
            self.update(max((total or 0) - initial, 0))
            self.seen = initial

        def update(self, received: float = 0) -> None:
            self.seen += received
            if self.seen > limit:
                raise _too_large(repo, limit)

        def __enter__(self) -> Meter:
            return self

        def __exit__(self, *_: object) -> None: ...

    return Meter


def _too_large(repo: Repository, limit: int) -> BadFact:
    return BadFact(f"model '{repo.id}': the hub sends more than {limit} bytes; expected a small JSON file")


def _chain(problem: BaseException | None) -> Iterator[BaseException]:
    """An exception and what it came from."""
    while problem is not None:
        yield problem
        problem = problem.__cause__


def _explain_failure(problem: Exception, repo: Repository, host: str) -> HubFailure:
    """One sentence for what the library raised; its own text may hold addresses and headers."""
    chain = tuple(_chain(problem))
    status = next((s for each in chain if (s := getattr(getattr(each, "response", None), "status_code", None))), None)
    if status in {401, 403}:
        return HubFailure(
            f"model '{repo.id}': the hub answers {status}: gated, private or misspelt; accept its licence on its page "
            "and set HF_TOKEN, or give a local config.json"
        )
    if status == 404:
        return HubFailure(f"model '{repo.id}': the hub has no such model or no config.json in it")
    if isinstance(status, int) and status >= 300:
        return HubFailure(f"model '{repo.id}': the hub answers {status}; try again or give a local config.json")
    late = any(isinstance(each, TimeoutError) or "Timeout" in type(each).__name__ for each in chain)
    shown = "no answer in time" if late else type(chain[-1]).__name__
    return HubFailure(
        f"model '{repo.id}': the hub at {host} could not be asked ({shown}); give a local config.json or a catalogue id"
    )


def not_found(repo: Repository, *, why: str, known: tuple[str, ...]) -> BadRequest:
    """The sentence about a model that neither the catalogue nor the hub has, with the nearest known names."""
    hint = did_you_mean(nearest(repo.id, known)[:1])
    return BadRequest(f"{why}; {hint}".rstrip("; "))
