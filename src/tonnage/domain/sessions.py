"""Traffic as sessions: turns that come back with a longer prompt, and what a cache finds of it again."""

from __future__ import annotations

import msgspec

__all__ = ["CacheTier", "Reuse", "SessionClass", "SessionProfile", "Spread", "TierUse"]

Spread = tuple[tuple[float, float], ...]
"""A distribution by its quantiles: (share of draws that are no larger, value), both rising."""


class SessionClass(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sessions that behave alike: how many turns, how far apart, and how the context grows."""

    go_on: tuple[float, ...]
    """Chance that the first, second, … turn is followed by another; the last value holds for all later ones. [-]"""
    gap_s: Spread
    """From sending a turn to sending the next: answering, tools and thinking together. [s]"""
    first_tokens: Spread
    """Prompt of the first turn beyond what is shared. [tokens]"""
    growth_tokens: Spread
    """Added to the kept context by each later turn: message, tool results, answers not found again. [tokens]"""
    output_tokens: Spread
    share: float = 1.0
    """Of the sessions. [-]"""
    branch_share: float = 0.0
    """Turns that keep only part of the context: an edit, a second try, another question on one document. [-]"""
    branch_kept: Spread = ()
    """Share of the context that such a turn keeps. [-]"""


class SessionProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    The sessions of a service.

    A session begins with what others share (a system prompt, tools, a document) and tokens of its own. Each turn sends
    what is kept of the context and new tokens after it; the cache of what is kept may be found again.
    """

    name: str
    what: str
    source: str
    classes: tuple[SessionClass, ...]
    shared: tuple[tuple[float, float], ...] = ()
    """Beginnings that sessions share: (tokens, share of the sessions that begin so); the rest share nothing."""
    answers_kept: bool = True
    """An answer stays in the context, and its cache is found again; else it is among the growth."""
    max_context: float = 1e9
    """A session ends where its context grows beyond. [tokens]"""


class CacheTier(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place where the cache of prefixes is kept, the fastest first."""

    name: str
    blocks: int
    """Room, in blocks of the engine; of one replica, or of all where shared. [blocks]"""
    load_s_per_block: float = 0.0
    """Bringing one block to the accelerators: bytes over the bandwidth that one replica gets, and its copies. [s]"""
    shared: bool = False
    """One for all replicas."""


class TierUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one tier gave."""

    name: str
    held_tokens: float
    """Prompt tokens found here and in no faster tier. [tokens]"""
    loaded_tokens: float
    """Of them, those that were loaded, because computing them again takes longer. [tokens]"""
    load_s: float
    """[s]"""


class Reuse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sums over the turns of a run."""

    turns: int
    sessions: int
    prompt_tokens: float
    """[tokens]"""
    tiers: tuple[TierUse, ...]
    """In the order of the tiers; the first is the accelerators' own memory."""

    @property
    def hit_rate(self) -> float:
        """Share of the prompt tokens that need not be computed. [-]"""
        return sum(tier.loaded_tokens for tier in self.tiers) / self.prompt_tokens if self.prompt_tokens else 0.0
