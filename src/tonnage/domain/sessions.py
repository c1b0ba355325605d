"""Traffic as sessions: turns that come back with a longer prompt, and what a cache finds of it again."""

from __future__ import annotations

from tonnage.record import SparseRecord

Spread = tuple[tuple[float, float], ...]
"""A distribution by its quantiles: (share of draws that are no larger, value), both rising."""


class SessionClass(SparseRecord, kw_only=True):
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


class SessionProfile(SparseRecord, kw_only=True):
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


class CacheTier(SparseRecord, kw_only=True):
    """A place where the cache of prefixes is kept, the fastest first."""

    name: str
    blocks: int
    """Room, in blocks of the engine; of one replica, or of all where shared. [blocks]"""
    load_s_per_block: float = 0.0
    """Bringing one block to the accelerators: bytes over the bandwidth that one replica gets, and its copies. [s]"""
    shared: bool = False
    """One for all replicas."""


class TierUse(SparseRecord, kw_only=True):
    """What one tier gave."""

    name: str
    held_tokens: float
    """Prompt tokens found here and in no faster tier. [tokens]"""
    loaded_tokens: float
    """Of them, those that were loaded, because computing them again takes longer. [tokens]"""
    load_s: float
    """[s]"""


class Reuse(SparseRecord, kw_only=True):
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


class TierShare(SparseRecord, kw_only=True):
    """One tier of a replica in the steady state."""

    name: str
    tokens: float
    """Room for one replica's sessions. [tokens]"""
    share: float
    """Prompt tokens that it gives. [-]"""
    load_s: float = 0.0
    """Of a token. [s]"""


class PrefixReuse(SparseRecord, kw_only=True):
    """What one replica at its capacity finds again of the prompts, behind a router that follows prefixes."""

    rate_per_s: float
    """Turns of the replica. [1/s]"""
    hit_rate: float
    """Share of the prompt tokens that are found in some tier and used. [-]"""
    unbounded: float
    """The same with room for everything: what the sessions themselves allow. [-]"""
    computed_tokens: float
    """Of a prompt on average; what is loaded counts by the time that it takes. [tokens]"""
    computed_p95: float
    kept_s: float
    """How long the accelerators' own memory keeps what nobody asks for. [s]"""
    tiers: tuple[TierShare, ...]
    turns: float
    """Of a session. [turns]"""
    answers: bool = True
    """Answers are found again as well; not on workers that compute prompts and hand their caches over."""


class CacheSize(SparseRecord, kw_only=True):
    """What the first option is with more or less room for cache."""

    name: str
    tokens: float
    """Of one replica, all tiers together. [tokens]"""
    hit_rate: float
    rate_per_s: float
    """Of one replica. [1/s]"""
    replicas: int
    usd_per_hour: float
    now: bool = False
    """The plan's own."""


class RouteHits(SparseRecord, kw_only=True):
    """How much is found behind a router, by the played caches of all replicas."""

    route: str
    hit_rate: float


class SessionCosts(SparseRecord, kw_only=True):
    """What the first option's sessions find again and cost, and what more cache would buy."""

    profile: str
    source: str
    turns: float
    """Of a session. [turns]"""
    usd_per_session: float
    usd_per_solved: float | None = None
    """Absent where no success rate is given."""
    without_reuse_usd_per_hour: float | None = None
    """The same configuration where every prompt is computed in full; absent = it cannot serve then."""
    sizes: tuple[CacheSize, ...] = ()
    routes: tuple[RouteHits, ...] = ()


class HitsAt(SparseRecord, kw_only=True):
    """Prompt tokens of a log's second half that a cache of some size has."""

    tokens: float
    """Room of the cache, which the first half has filled. [tokens]"""
    hit_rate: float
    """By the log's own blocks. [-]"""
    predicted: float | None = None
    """By sessions fitted to the first half, drawn anew. [-]"""


class TraceSessions(SparseRecord, kw_only=True):
    """What the sessions of a request log are."""

    schema: str
    sentence: str = ""
    source: str
    requests: int
    span_s: float
    prompt_tokens: float
    """Mean. [tokens]"""
    output_tokens: float
    """Mean. [tokens]"""
    sessions: int = 0
    gap_s: float | None = None
    """Median between two turns of a session. [s]"""
    shared: float = 0.0
    """Share of the prompt tokens that are beginnings which many sessions share. [-]"""
    unbounded: float = 0.0
    """Share of all prompt tokens that a cache with room for everything has. [-]"""
    block_tokens: int | None = None
    """Of the log's block ids; absent = it has none, and nothing says which prompts begin alike. [tokens]"""
    curve: tuple[HitsAt, ...] = ()
    profile: SessionProfile | None = None
    """Fitted to the whole log."""
    licence: str = ""
    notes: tuple[str, ...] = ()
    """How the log was read, where that may not be what was meant."""
