"""Fields that say how requests come back as sessions, and where their cache is kept."""

from __future__ import annotations

from typing import Annotated

from tonnage.domain.requests.field import MAY_BE_NOTHING, Field, engine_field
from tonnage.record import SparseRecord

_ABOVE: float = 0.999


class SessionFields(SparseRecord, kw_only=True):
    """Sessions: what is not given is that of the traffic profile."""

    profile: str | None = None
    """Of the traffic whose sessions these are, where the lengths are not its own."""
    reuse: Annotated[bool, Field("prompts find the cache of their session again; no = every prompt in full")] = True
    prefix_hits: Annotated[
        float | None,
        Field("share of prompt tokens found in the cache, as measured", "fraction", low=MAY_BE_NOTHING, high=0.999),
    ] = None
    """Stated instead of computed from sessions: the same for every option, however much cache it has. [-]"""
    turns: Annotated[float | None, Field("mean turns of a session", low=_ABOVE, high=1e4)] = None
    turn_gap_s: Annotated[
        float | None,
        Field("from one turn to the next: answer, tools, thinking", "s", name="turn_gap", high=86400.0 * 7),
    ] = None
    """Mean. [s]"""
    system_prompt: Annotated[
        float | None, Field("tokens that every session begins with", "tokens", low=MAY_BE_NOTHING, high=1e7)
    ] = None
    branching: Annotated[
        float | None,
        Field("share of turns that keep only part of their context", "fraction", low=MAY_BE_NOTHING, high=1.0),
    ] = None
    success_rate: Annotated[
        float | None, Field("share of sessions that solve their task, for its cost", "fraction", high=1.0)
    ] = None
    kv_host_bytes: Annotated[
        float | None, engine_field("host memory of a node for cache: 1 TiB", "bytes", name="kv_host")
    ] = None
    kv_host_bytes_per_s: Annotated[
        float | None,
        engine_field(
            "between host memory and all accelerators of a node; absent = each one's own link",
            "bytes/s",
            name="kv_host_link",
        ),
    ] = None
    kv_nvme_bytes: Annotated[
        float | None, engine_field("local disks of a node for cache: 8 TB", "bytes", name="kv_nvme")
    ] = None
    kv_nvme_bytes_per_s: Annotated[
        float | None, engine_field("reading from them, of a node", "bytes/s", name="kv_nvme_link")
    ] = None
    kv_store_bytes: Annotated[
        float | None, engine_field("cache store that all replicas share", "bytes", name="kv_store")
    ] = None
    kv_store_bytes_per_s: Annotated[
        float | None, engine_field("reading from it, of a node", "bytes/s", name="kv_store_link")
    ] = None
