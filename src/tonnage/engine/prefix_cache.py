"""Blocks with identity, compiled: a pool in which freed blocks keep what they hold until they are needed.

vLLM's order: free blocks form one queue; a block that is freed goes to its end (the last block of a
request first, so that prefixes live longest), a block that is needed comes from its front and
forgets what it held. A block found again by its id leaves the queue, whoever else uses it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tonnage.engine.kernel import kernel
from tonnage.engine.simulated import Ints, Requests

__all__ = ["Pool", "block_note", "block_take", "blocks_free", "blocks_hit", "blocks_share", "empty_pool"]


class Pool(NamedTuple):
    """Free blocks as a ring that begins and ends at one place more than there are blocks."""

    after: Ints
    before: Ints
    users: Ints
    id_of: Ints
    """What a block holds; -1 = nothing that could be found again."""
    where: Ints
    """The block that holds an id, or -1."""


def empty_pool(replicas: int, *, num_blocks: int, num_ids: int) -> Pool:
    """Pools of free blocks that hold nothing, one row for each replica."""
    ring = np.arange(num_blocks + 1)
    return Pool(
        after=np.tile((ring + 1) % (num_blocks + 1), (replicas, 1)).astype(np.int64),
        before=np.tile((ring - 1) % (num_blocks + 1), (replicas, 1)).astype(np.int64),
        users=np.zeros((replicas, num_blocks + 1), np.int64),
        id_of=np.full((replicas, num_blocks + 1), -1, np.int64),
        where=np.full((replicas, max(1, num_ids)), -1, np.int64),
    )


@kernel
def _unlink(pool: Pool, block: int) -> None:
    left, right = pool.before[block], pool.after[block]
    pool.after[left], pool.before[right] = right, left


@kernel
def block_take(pool: Pool) -> int:
    """The block freed longest ago, which forgets what it held."""
    block = pool.after[len(pool.users) - 1]
    _unlink(pool, block)
    if pool.id_of[block] >= 0:
        pool.where[pool.id_of[block]] = -1
        pool.id_of[block] = -1
    pool.users[block] = 1
    return int(block)


@kernel
def blocks_hit(requests: Requests, pool: Pool, r: int, most: int) -> tuple[int, int]:
    """Leading blocks of a request that are held, at most `most`, and how many of them nobody uses."""
    first = requests.offsets[r]
    most = min(most, requests.offsets[r + 1] - first)
    hits, unused = 0, 0
    while hits < most:
        block = pool.where[requests.blocks[first + hits]]
        if block < 0:
            break
        unused += 1 if pool.users[block] == 0 else 0
        hits += 1
    return hits, unused


@kernel
def blocks_share(requests: Requests, table: Ints, pool: Pool, r: int, row: int, hits: int) -> int:
    """Gives a request the blocks it was found to have; how many of them leave the free ones."""
    revived = 0
    for k in range(hits):
        block = pool.where[requests.blocks[requests.offsets[r] + k]]
        if pool.users[block] == 0:
            _unlink(pool, block)
            revived += 1
        pool.users[block] += 1
        table[row, k] = block
    return revived


@kernel
def block_note(requests: Requests, table: Ints, pool: Pool, r: int, row: int, place: int) -> None:
    """A block of a request is full: from now on it can be found, unless another holds the same."""
    first = requests.offsets[r]
    if place >= requests.offsets[r + 1] - first:
        return
    name, block = requests.blocks[first + place], table[row, place]
    if pool.where[name] < 0 and pool.id_of[block] < 0:
        pool.where[name] = block
        pool.id_of[block] = name


@kernel
def blocks_free(table: Ints, pool: Pool, row: int, held: int) -> int:
    """A request's blocks lose a user, the last block first; how many are free now."""
    freed, root = 0, len(pool.users) - 1
    for k in range(held - 1, -1, -1):
        block = table[row, k]
        pool.users[block] -= 1
        if pool.users[block] == 0:
            last = pool.before[root]
            pool.after[last], pool.before[block] = block, last
            pool.after[block], pool.before[root] = root, block
            freed += 1
    return freed
