"""Blocks with identity, compiled: a pool in which freed blocks keep what they hold until they are needed.

vLLM's order: free blocks form one queue; a block that is freed goes to its end (the last block of a
request first, so that prefixes live longest), a block that is needed comes from its front and
forgets what it held. A block found again by its id leaves the queue, whoever else uses it.

Host memory is a pool of the same kind without users: what was written or read last is forgotten last.
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tonnage.simulation.kernel import at, kernel
from tonnage.simulation.simulated import Ints

BLOCK = np.dtype([("after", "i8"), ("before", "i8"), ("users", "i8"), ("holds", "i8")])
"""A block: its neighbours among the free ones, who uses it, and the id it can be found by (-1 = none)."""


class Pool(NamedTuple):
    """The blocks of a replica (or, with one axis more, of several); the free ones form a ring."""

    blocks: Any
    where: Ints
    """The block that holds an id, or -1."""
    root: int
    """One place more than there are blocks: the ring begins and ends there."""


def empty_pools(replicas: int, *, num_blocks: int, num_ids: int) -> Pool:
    """Pools of free blocks that hold nothing, one row for each replica."""
    ring = np.arange(num_blocks + 1)
    blocks = np.zeros((replicas, num_blocks + 1), BLOCK)
    blocks["after"], blocks["before"] = (ring + 1) % (num_blocks + 1), (ring - 1) % (num_blocks + 1)
    blocks["holds"] = -1
    return Pool(blocks=blocks, where=np.full((replicas, num_ids), -1, np.int64), root=num_blocks)


@kernel
def _unlink(pool: Pool, block: int) -> None:
    """Out of the free ones."""
    left, right = at(pool.blocks, block).before, at(pool.blocks, block).after
    at(pool.blocks, left).after, at(pool.blocks, right).before = right, left


@kernel
def _append(pool: Pool, block: int) -> None:
    """To the end of the free ones."""
    last = at(pool.blocks, pool.root).before
    at(pool.blocks, last).after, at(pool.blocks, block).before = block, last
    at(pool.blocks, block).after, at(pool.blocks, pool.root).before = pool.root, block


@kernel
def block_take(pool: Pool) -> int:
    """The block freed longest ago, which forgets what it held."""
    block = at(pool.blocks, pool.root).after
    _unlink(pool, block)
    mine = at(pool.blocks, block)
    if mine.holds >= 0:
        pool.where[mine.holds] = -1
        mine.holds = -1
    mine.users = 1
    return int(block)


@kernel
def blocks_hit(pool: Pool, ids: Ints, most: int) -> tuple[int, int]:
    """Of the first `most` blocks of a request, how many are held without a gap, and how many of these nobody uses."""
    hits, unused = 0, 0
    while hits < most:
        block = pool.where[ids[hits]]
        if block < 0:
            break
        unused += 1 if at(pool.blocks, block).users == 0 else 0
        hits += 1
    return hits, unused


@kernel
def blocks_share(pool: Pool, ids: Ints, row: Ints, hits: int) -> int:
    """Gives a request the blocks it was found to have; how many of them leave the free ones."""
    revived = 0
    for k in range(hits):
        block = pool.where[ids[k]]
        if at(pool.blocks, block).users == 0:
            _unlink(pool, block)
            revived += 1
        at(pool.blocks, block).users += 1
        row[k] = block
    return revived


@kernel
def block_note(pool: Pool, name: int, block: int) -> None:
    """A block of a request is full: from now on it can be found, unless another holds the same."""
    if pool.where[name] < 0 and at(pool.blocks, block).holds < 0:
        pool.where[name] = block
        at(pool.blocks, block).holds = name


@kernel
def blocks_free(pool: Pool, row: Ints, held: int) -> int:
    """A request's blocks lose a user, the last block first; how many are free now."""
    freed = 0
    for k in range(held - 1, -1, -1):
        block = row[k]
        at(pool.blocks, block).users -= 1
        if at(pool.blocks, block).users == 0:
            _append(pool, block)
            freed += 1
    return freed


@kernel
def host_hit(pool: Pool, ids: Ints, first: int, most: int) -> int:
    """How many blocks host memory holds without a gap, from `first` on and before `most`."""
    found = 0
    while first + found < most and pool.where[ids[first + found]] >= 0:
        found += 1
    return found


@kernel
def host_put(pool: Pool, name: int) -> bool:
    """Writes a block to host memory, or marks it as used last; whether it was written."""
    block = pool.where[name]
    written = block < 0
    if written:
        block = block_take(pool)
        pool.where[name] = block
        at(pool.blocks, block).holds = name
    else:
        _unlink(pool, block)
    _append(pool, block)
    return bool(written)
