"""Fields that say how requests come back as sessions, and where their cache is kept."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tonnage.domain.requests.field import Field

__all__ = ["SessionFields"]

_ABOVE: float = 0.999


class SessionFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sessions: what is not given is that of the traffic profile."""

    profile: str | None = None
    """Of the traffic whose sessions these are, where the lengths are not its own."""
    reuse: Annotated[
        bool, Field(reads="flag", help="prompts find the cache of their session again; no = every prompt in full")
    ] = True
    prefix_hits: Annotated[
        float | None,
        Field(reads="fraction", low=-1e-9, high=0.999, help="share of prompt tokens found in the cache, as measured"),
    ] = None
    """Stated instead of computed from sessions: the same for every option, however much cache it has. [-]"""
    turns: Annotated[float | None, Field(reads="count", low=_ABOVE, high=1e4, help="mean turns of a session")] = None
    turn_gap_s: Annotated[
        float | None,
        Field(name="turn_gap", reads="s", high=86400.0 * 7, help="from one turn to the next: answer, tools, thinking"),
    ] = None
    """Mean. [s]"""
    system_prompt: Annotated[
        float | None, Field(reads="tokens", low=-1e-9, high=1e7, help="tokens that every session begins with")
    ] = None
    branching: Annotated[
        float | None,
        Field(reads="fraction", low=-1e-9, high=1.0, help="share of turns that keep only part of their context"),
    ] = None
    success_rate: Annotated[
        float | None, Field(reads="fraction", high=1.0, help="share of sessions that solve their task, for its cost")
    ] = None
    kv_host_bytes: Annotated[
        float | None,
        Field(name="kv_host", reads="bytes", group="Model and engine", help="host memory of a node for cache: 1 TiB"),
    ] = None
    kv_host_bytes_per_s: Annotated[
        float | None,
        Field(
            name="kv_host_link",
            reads="bytes/s",
            group="Model and engine",
            help="between host memory and all accelerators of a node; absent = each one's own link",
        ),
    ] = None
    kv_nvme_bytes: Annotated[
        float | None,
        Field(name="kv_nvme", reads="bytes", group="Model and engine", help="local disks of a node for cache: 8 TB"),
    ] = None
    kv_nvme_bytes_per_s: Annotated[
        float | None,
        Field(name="kv_nvme_link", reads="bytes/s", group="Model and engine", help="reading from them, of a node"),
    ] = None
    kv_store_bytes: Annotated[
        float | None,
        Field(name="kv_store", reads="bytes", group="Model and engine", help="cache store that all replicas share"),
    ] = None
    kv_store_bytes_per_s: Annotated[
        float | None,
        Field(name="kv_store_link", reads="bytes/s", group="Model and engine", help="reading from it, of a node"),
    ] = None
