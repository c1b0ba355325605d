"""A log's blocks through a cache are what a plain list of blocks makes of them."""

import numpy as np
import pytest

from tonnage.simulation.sessions import replay_hits
from tonnage.simulation.simulated import Requests, requests_of

SIZE = 16


def log(seed: int, n: int) -> Requests:
    """Prompts that begin as one before them did, and end as nobody's."""
    pick = np.random.default_rng(seed)
    chains: list[list[int]] = []
    name = 0
    for _ in range(n):
        chain: list[int] = []
        if chains and pick.random() < 0.7:
            old = chains[int(pick.integers(max(0, len(chains) - 40), len(chains)))]
            chain = old[: int(pick.integers(0, len(old) + 1))]
        for _ in range(int(pick.integers(0, 12))):
            chain = [*chain, name]
            name += 1
        chains.append(chain)
    lengths = np.array([len(chain) for chain in chains])
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    prompt = np.maximum(1, lengths * SIZE - pick.integers(0, 3, n) * 8)
    ids = np.array([block for chain in chains for block in chain])
    return requests_of(np.arange(n, dtype=np.float64), prompt, output=np.ones(n, np.int64), blocks=(offsets, ids))


def plain(requests: Requests, blocks: int) -> list[int]:
    """The plain twin: a list of (place, name), oldest first; the last block of a prompt ages first."""
    queue: list[tuple[int, int]] = [(place, -1) for place in range(blocks)]
    hits = []
    for k in range(len(requests.prompt)):
        ids = [int(x) for x in requests.blocks[requests.offsets[k] : requests.offsets[k + 1]]]
        ids = ids[: min(int(requests.prompt[k]) // SIZE, blocks)]
        held = {name: entry for entry in queue if (name := entry[1]) >= 0}
        found = 0
        while found < min(len(ids), (int(requests.prompt[k]) - 1) // SIZE) and ids[found] in held:
            found += 1
        mine = [held[name] for name in ids[:found]]
        queue = [entry for entry in queue if entry not in mine]
        for name in ids[found:]:
            place, _ = queue.pop(0)
            known = {entry[1] for entry in (*queue, *mine)}
            mine.append((place, -1 if name in known else name))
        queue += reversed(mine)
        hits.append(found * SIZE)
    return hits


@pytest.mark.parametrize("blocks", [1, 7, 60, 400])
def test_hits_are_those_of_a_plain_list(blocks: int) -> None:
    requests = log(blocks, 300)
    assert replay_hits(requests, block_tokens=SIZE, blocks=blocks).tolist() == plain(requests, blocks)
