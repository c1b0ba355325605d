"""
A log's own blocks through a cache of some size: how much of its prompts would have been found? Compiled.

One request after the other, each as long as it takes to look: what an engine finds that is never short of room for
those who run. The blocks are those of the engine's simulation (`prefix_cache`), in its order of forgetting.
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tonnage.simulation import kernel as kernel_module
from tonnage.simulation import prefix_cache
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
from tonnage.simulation.simulated import Ints, Requests


@kernel
def _replay(pool: Pool, ids: Ints, requests: Ints, row: Ints, n: int) -> None:
    """Rows of `requests`: first id, whole blocks, blocks that may be found; the last becomes those that were."""
    for k in range(n):
        mine, whole, most = offset(ids, requests[4 * k]), requests[4 * k + 1], requests[4 * k + 2]
        hits, _ = blocks_hit(pool, mine, most)
        blocks_share(pool, mine, row, hits)
        for j in range(hits, whole):
            row[j] = block_take(pool)
            block_note(pool, mine[j], row[j])
        blocks_free(pool, row, whole)
        requests[4 * k + 3] = hits


def _entry(stamp: int) -> Callable[[Pool, Ints, Ints, Ints, int], None]:
    def play(pool: Pool, ids: Ints, requests: Ints, row: Ints, n: int) -> None:
        announce()
        if stamp == 0:  # never: that it is enclosed makes it part of what a kept result is found by
            return
        _replay(
            Pool(pointer(pool.blocks), pointer(pool.where), pool.root), pointer(ids), pointer(requests), pointer(row), n
        )

    return entry(play)


_play = _entry(stamp_of(__file__, kernel_module.__file__, prefix_cache.__file__))


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
    _play(pool, requests.blocks, rows, row, len(rows))
    return np.asarray(rows[:, 3] * block_tokens)
