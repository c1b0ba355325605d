"""
Sessions through caches: drawn turn by turn with several tiers, or a log's own blocks with one; what is found again.

Turns are drawn (`session_turns`) and served (`session_caches`) in pieces of fixed size and forgotten: the memory of a
run depends on open sessions and on the cache alone.

Left out: a turn takes no time here, so running requests pin nothing; `simulation.serving` plays their steps.

A log is played one request after the other, each as long as it takes to look: what an engine finds that is never short
of room for those who run. The blocks are those of the engine's simulation (`prefix_cache`), in its order of
forgetting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from tonnage.domain.sessions import CacheTier, Reuse, SessionProfile, TierUse
from tonnage.errors import BadRequest
from tonnage.simulation import kernel as kernel_module
from tonnage.simulation import prefix_cache, session_caches, session_turns
from tonnage.simulation.kernel import announce, entry, kernel, offset, pointer, stamp_of
from tonnage.simulation.prefix_cache import (
    Pool,
    block_note,
    block_take,
    blocks_free,
    blocks_hit,
    blocks_share,
    empty_pools,
)
from tonnage.simulation.session_caches import (
    ROUTES,
    SPARE,
    PrefillCost,
    Replicas,
    TierCaches,
    caches_of,
    serve,
    with_more_runs,
)
from tonnage.simulation.session_turns import Drawing, Turns, draw, drawing_of, empty_turns, grown, with_more_places
from tonnage.simulation.simulated import Floats, Ints, Requests

__all__ = ["PrefillCost", "Replicas", "Turns"]

PIECE: Final = 1 << 15
"""Turns that are drawn at a time."""
PLACES: Final = 1024
"""Open sessions that there is room for at the start."""


def _entry(stamp: int) -> Callable[[Drawing, TierCaches, Turns, Ints, Ints], None]:
    def play(drawn: Drawing, cache: TierCaches, turns: Turns, hits: Ints, into: Ints) -> None:
        """`into`: turns drawn and served of this piece."""
        announce()
        if stamp == 0:  # never: that it is enclosed makes it part of what a kept result is found by
            return
        into[0] = draw(drawn, turns, into[0])
        into[1] = serve(cache, turns, into[1], into[0], hits)

    return entry(play)


_play = _entry(stamp_of(__file__, kernel_module.__file__, session_caches.__file__, session_turns.__file__))


ALONE: Final = Replicas()


def draw_turns(profile: SessionProfile, *, turns_per_s: float, turns: int, seed: int = 0) -> Turns:
    """So many turns of sessions that begin at random times, from an empty start."""
    pieces = [piece for piece, _, _ in _play_pieces(profile, (), turns_per_s=turns_per_s, turns=turns, seed=seed)]
    return Turns(*(np.concatenate([piece[k] for piece in pieces]) for k in range(len(Turns._fields))))


def simulate_sessions(
    profile: SessionProfile,
    tiers: tuple[CacheTier, ...],
    *,
    turns_per_s: float,
    turns: int,
    served: Replicas = ALONE,
    warm_share: float = 0.25,
    seed: int = 0,
) -> Reuse:
    """
    What caches find again of the prompts of so many turns, once they are warm.

    Parameters
    ----------
    turns_per_s : number
        Of all replicas together. [turns/s]
    warm_share : number
        Share of the run's time, from its start, that is not counted. [-]

    Raises
    ------
    BadRequest
        No tier, a rate or a chance out of range, an unknown route.
    """
    if not tiers or served.number < 1 or served.block_tokens < 1:
        raise BadRequest("sessions need at least one tier of cache, one replica, and blocks of at least one token")
    if served.route not in ROUTES:
        raise BadRequest(f"route '{served.route}' is unknown; use one of {', '.join(ROUTES)}")
    facts, size = _facts(served), served.block_tokens
    facts[7] = warm_share * turns / turns_per_s
    sums = np.zeros((len(tiers), 5))
    for _, _, played in _play_pieces(
        profile, tiers, turns_per_s=turns_per_s, turns=turns, seed=seed, facts=facts, replicas=served.number
    ):
        sums = played.tiers
    used = [
        TierUse(
            name=tier.name, held_tokens=float(row[2]) * size, loaded_tokens=float(row[3]) * size, load_s=float(row[4])
        )
        for tier, row in zip(tiers, sums, strict=True)
    ]
    return Reuse(turns=int(facts[5]), sessions=int(facts[8]), prompt_tokens=float(facts[6]), tiers=tuple(used))


def _facts(served: Replicas) -> Floats:
    cost = served.prefill or PrefillCost()
    route = ROUTES.index(served.route)
    return np.array([served.block_tokens, cost.token_s, cost.depth_s, cost.output_token_s, route, 0, 0, 0, 0], float)


def _play_pieces(
    profile: SessionProfile,
    tiers: tuple[CacheTier, ...],
    *,
    turns_per_s: float,
    turns: int,
    seed: int,
    facts: Floats | None = None,
    replicas: int = 1,
) -> Iterator[tuple[Turns, Ints, TierCaches]]:
    """The run in pieces: turns, tokens of each that were found, the cache as it is then."""
    drawn = drawing_of(profile, turns_per_s=turns_per_s, seed=seed, places=PLACES)
    plain = _facts(ALONE) if facts is None else facts
    cache = caches_of(tiers, replicas=replicas, groups=len(profile.shared), places=PLACES, facts=plain)
    done = 0
    while done < turns:
        n = min(PIECE, turns - done)
        piece, hits, into = empty_turns(n), np.zeros(n, np.int64), np.zeros(2, np.int64)
        while into[1] < n:
            _play(drawn, cache, piece, hits, into)
            if drawn.counts[1] == 0:
                drawn = with_more_places(drawn)
                cache = cache._replace(of_session=grown(cache.of_session, len(drawn.turn), fill=-1))
            if cache.counts[0] < SPARE * len(cache.used):
                cache = with_more_runs(cache)
        yield piece, hits, cache
        done += n


# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.


@kernel
def _replay(pool: Pool, ids: Ints, requests: Ints, row: Ints, n: int) -> None:
    """
    Plays a log through one cache, each request after the one before has given its blocks back.

    A request is four numbers: first id, whole blocks, blocks that may be found, and a place for those that were.
    """
    for k in range(n):
        mine, whole, most = offset(ids, requests[4 * k]), requests[4 * k + 1], requests[4 * k + 2]
        hits, _ = blocks_hit(pool, mine, most)
        blocks_share(pool, mine, row, hits)
        for j in range(hits, whole):
            row[j] = block_take(pool)
            block_note(pool, mine[j], row[j])
        blocks_free(pool, row, whole)
        requests[4 * k + 3] = hits


def _log_entry(stamp: int) -> Callable[[Pool, Ints, Ints, Ints, int], None]:
    def play(pool: Pool, ids: Ints, requests: Ints, row: Ints, n: int) -> None:
        announce()
        if stamp == 0:  # never: that it is enclosed makes it part of what a kept result is found by
            return
        _replay(
            Pool(pointer(pool.blocks), pointer(pool.where), pool.root), pointer(ids), pointer(requests), pointer(row), n
        )

    return entry(play)


_play_log = _log_entry(stamp_of(__file__, kernel_module.__file__, prefix_cache.__file__))


def replay_hits(requests: Requests, *, block_tokens: int, blocks: int) -> Ints:
    """For each request, tokens of its prompt that a cache of so many blocks would have held. [tokens]"""
    whole = np.minimum(np.diff(requests.offsets), requests.prompt // block_tokens)
    fits = np.minimum(whole, blocks)
    rows = np.stack(
        (requests.offsets[:-1], fits, np.minimum(fits, (requests.prompt - 1) // block_tokens), fits), axis=1
    )
    rows = np.ascontiguousarray(rows, np.int64)
    pool = empty_pools(1, num_blocks=blocks, num_ids=max(1, requests.num_ids))
    row = np.zeros(int(fits.max(initial=0)) + 1, np.int64)
    _play_log(pool, requests.blocks, rows, row, len(rows))
    return np.asarray(rows[:, 3] * block_tokens)
