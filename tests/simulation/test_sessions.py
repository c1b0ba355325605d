"""Sessions: drawn, replayed from a log, and in a steady state; what caches find again of them."""

from collections import OrderedDict
from typing import Any

import msgspec
import numpy as np
import pytest

from tonnage.domain.sessions import CacheTier, SessionClass, SessionProfile
from tonnage.errors import BadRequest
from tonnage.simulation.session_steady import SteadyTier, found_in, steady_turns
from tonnage.simulation.sessions import PrefillCost, Replicas, Turns, draw_turns, replay_hits, simulate_sessions
from tonnage.simulation.simulated import Requests, requests_of

BRANCHING = SessionProfile(
    name="branching",
    what="",
    source="test",
    shared=((100.0, 0.5), (37.0, 0.3)),
    max_context=4000.0,
    classes=(
        SessionClass(
            share=3.0,
            go_on=(0.5, 0.8),
            gap_s=((0.0, 1.0), (0.5, 20.0), (1.0, 900.0)),
            first_tokens=((0.0, 3.0), (1.0, 900.0)),
            growth_tokens=((0.0, 2.0), (1.0, 400.0)),
            output_tokens=((0.0, 1.0), (1.0, 200.0)),
            branch_share=0.3,
            branch_kept=((0.0, 0.0), (1.0, 1.0)),
        ),
        SessionClass(
            share=1.0,
            go_on=(0.0,),
            gap_s=((0.0, 1.0),),
            first_tokens=((0.0, 2000.0),),
            growth_tokens=((0.0, 1.0),),
            output_tokens=((0.0, 7.0),),
        ),
    ),
)
SIZE = 16


def replayed(
    turns: Turns, tiers: tuple[CacheTier, ...], replicas: int, cost: PrefillCost
) -> tuple[list[int], list[int]]:
    """
    The plain twin: every block by its own name, in an ordered dictionary for each tier and replica, turn by turn.

    Returns the blocks that each tier held first, and those of them that were loaded.
    """
    queues = [[OrderedDict[object, None]() for _ in range(replicas)] for _ in tiers]
    chains: dict[int, list[object]] = {}
    name, turn = 0, 0
    block: object
    held_all, loaded_all = [0] * len(tiers), [0] * len(tiers)
    for k in range(len(turns.sent_s)):
        session, shared = int(turns.session[k]), int(turns.shared[k]) // SIZE
        if turns.gap_s[k] == np.inf:
            chains[session] = [("shared", int(turns.group[k]), i) for i in range(shared)]
        chain: list[object] = chains[session][: max(shared, int(turns.kept[k]) // SIZE)]
        while len(chain) < int(turns.context[k]) // SIZE:
            name += 1
            chain.append(name)
        chains[session] = chain
        most = min(int(turns.kept[k]), int(turns.prompt[k]) - 1) // SIZE
        turn = (turn + 1) % replicas if replicas > 1 else 0
        found = 0
        for place, tier in enumerate(tiers):
            queue = queues[place][0 if tier.shared else turn]
            held = 0
            while held < most and chain[held] in queue:
                held += 1
            for at in range(found, held):
                held_all[place] += 1
                computing = SIZE * (cost.token_s + cost.depth_s * at * SIZE)
                loaded_all[place] += tier.load_s_per_block == 0.0 or computing > tier.load_s_per_block
            found = max(found, held)
            for block in chain:
                queue.pop(block, None)
            for block in reversed(chain[: tier.blocks]):
                queue[block] = None
            while len(queue) > tier.blocks:
                queue.popitem(last=False)
    return held_all, loaded_all


@pytest.mark.parametrize(("blocks", "replicas"), [((300,), 1), ((150, 900), 1), ((200, 500, 3000), 3), ((100_000,), 2)])
def test_runs_of_blocks_equal_their_blocks_one_by_one(blocks: tuple[int, ...], replicas: int) -> None:
    tiers = tuple(
        CacheTier(name=str(k), blocks=n, load_s_per_block=k * 2e-3, shared=k == 2) for k, n in enumerate(blocks)
    )
    cost = PrefillCost(token_s=1e-4, depth_s=7.1e-8)
    found = simulate_sessions(
        BRANCHING,
        tiers,
        turns_per_s=2.0,
        turns=6000,
        warm_share=0.0,
        seed=3,
        served=Replicas(number=replicas, route="round-robin", block_tokens=SIZE, prefill=cost),
    )
    turns = draw_turns(BRANCHING, turns_per_s=2.0, turns=6000, seed=3)
    held, loaded = replayed(turns, tiers, replicas, cost)
    assert [tier.held_tokens for tier in found.tiers] == [n * SIZE for n in held]
    assert [tier.loaded_tokens for tier in found.tiers] == [n * SIZE for n in loaded]
    assert found.prompt_tokens == turns.prompt.sum() and found.turns == 6000


def test_turns_are_those_of_the_profile() -> None:
    turns = draw_turns(BRANCHING, turns_per_s=0.5, turns=60_000)
    first, single = np.isinf(turns.gap_s), turns.prompt - turns.shared == 2000
    assert (np.diff(turns.sent_s) >= 0).all()
    assert 60_000 / turns.sent_s[-1] == pytest.approx(0.5, rel=0.02)
    assert single.sum() / first.sum() == pytest.approx(0.25, abs=0.01) and turns.last[single].all()
    # 1 + 1/2 / (1 - 0.8) turns, but for those that grow too long
    assert (~single).sum() / (first & ~single).sum() == pytest.approx(3.5, rel=0.05)
    assert (turns.group[first] == 0).mean() == pytest.approx(0.5, abs=0.02)
    assert (turns.kept[first] == turns.shared[first]).all() and (turns.prompt > turns.kept).all()
    assert np.median(turns.gap_s[~first]) == pytest.approx(20.0, rel=0.1)
    assert (turns.context == turns.prompt + turns.output).all()


def test_prefixes_are_found_where_the_router_looks_for_them() -> None:
    hits = {
        route: simulate_sessions(
            BRANCHING,
            (CacheTier(name="gpu", blocks=1500),),
            turns_per_s=8.0,
            turns=20_000,
            served=Replicas(number=4, route=route, prefill=PrefillCost(token_s=3e-4)),
        ).hit_rate
        for route in ("round-robin", "least-loaded", "prefix-aware")
    }
    assert hits["prefix-aware"] > 1.2 * max(hits["round-robin"], hits["least-loaded"])


def test_many_open_sessions_and_runs_find_room() -> None:
    long = ((0.0, 500.0), (1.0, 2_000.0))
    one = SessionClass(
        go_on=(0.9,),
        gap_s=long,
        first_tokens=((0.0, 100.0), (1.0, 400.0)),
        growth_tokens=((0.0, 100.0), (1.0, 400.0)),
        output_tokens=((0.0, 1.0),),
        branch_share=0.5,
        branch_kept=((0.0, 0.2), (1.0, 0.9)),
    )
    profile = SessionProfile(name="many", what="", source="test", classes=(one,))
    found = simulate_sessions(profile, (CacheTier(name="gpu", blocks=1 << 20),), turns_per_s=10.0, turns=60_000)
    assert 0.1 < found.hit_rate < 0.9


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"served": Replicas(route="sticky")}, "route 'sticky' is unknown"),
        ({"served": Replicas(number=0)}, "at least one tier"),
        ({"turns_per_s": -1.0}, "must be above 0"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(change: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        simulate_sessions(BRANCHING, (CacheTier(name="gpu", blocks=10),), **{"turns_per_s": 1.0, "turns": 10, **change})


def test_a_profile_that_cannot_be_is_said_in_a_sentence() -> None:
    (good, _), replace = BRANCHING.classes, msgspec.structs.replace
    for change, says in (
        (replace(good, gap_s=((0.0, 2.0), (1.0, 1.0))), "falls"),
        (replace(good, go_on=(1.0,)), "go_on must be chances"),
    ):
        with pytest.raises(BadRequest, match=says):
            draw_turns(replace(BRANCHING, classes=(change,)), turns_per_s=1.0, turns=1)
    with pytest.raises(BadRequest, match="150 % of the sessions"):
        draw_turns(replace(BRANCHING, shared=((10.0, 1.5),)), turns_per_s=1.0, turns=1)


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


def test_the_same_turns_are_drawn() -> None:
    steady, drawn = steady_turns(BRANCHING), draw_turns(BRANCHING, turns_per_s=10.0, turns=120_000)
    # A run begins without open sessions: its first part has too many first turns.
    played = Turns(*(column[40_000:] for column in drawn))
    for name in ("prompt", "output", "kept"):
        assert getattr(steady, name).mean() == pytest.approx(getattr(played, name).mean(), rel=0.04), name
    assert len(steady.prompt) / steady.sessions == pytest.approx(80_000 / np.isinf(played.gap_s).sum(), rel=0.03)


@pytest.mark.parametrize("tokens", [5_000, 20_000, 80_000, 300_000, 1_000_000, 100_000_000])
def test_hits_are_those_of_the_played_caches_within_two_points(tokens: int) -> None:
    steady, rate = steady_turns(BRANCHING), 2.0
    saved = found_in(steady, (SteadyTier(tokens=tokens),), turns_per_s=rate).saved
    played = simulate_sessions(
        BRANCHING,
        (CacheTier(name="gpu", blocks=tokens),),
        turns_per_s=rate,
        turns=40_000,
        served=Replicas(block_tokens=1),
    )
    assert saved.sum() / steady.prompt.sum() == pytest.approx(played.hit_rate, abs=0.02)


def test_a_second_tier_gives_what_the_first_has_lost_less_its_loading() -> None:
    steady = steady_turns(BRANCHING)
    small, large = SteadyTier(tokens=20_000), SteadyTier(tokens=1e9, load_s=2e-5)
    saved, (first, second), _ = found_in(steady, (small, large), turns_per_s=2.0, token_s=8e-5)
    alone = found_in(steady, (small,), turns_per_s=2.0).saved
    assert first == pytest.approx(alone)
    assert saved == pytest.approx(first + 0.75 * second)
    slow, (_, none), _ = found_in(steady, (small, SteadyTier(tokens=1e9, load_s=1e-4)), turns_per_s=2.0, token_s=8e-5)
    assert none.sum() == 0 and slow == pytest.approx(alone)


def test_a_larger_cache_keeps_longer_and_a_busier_one_less_long() -> None:
    steady = steady_turns(BRANCHING)
    _, _, kept = found_in(steady, tuple(SteadyTier(tokens=tokens) for tokens in (1e4, 1e5, 3e5)), turns_per_s=2.0)
    assert list(kept) == sorted(kept) and kept[-1] > 10 * kept[0]
    (busier,) = found_in(steady, (SteadyTier(tokens=1e5),), turns_per_s=4.0)[2]
    assert busier == pytest.approx(kept[1] / 2.0, rel=0.5)
    assert found_in(steady, (SteadyTier(tokens=1e12),), turns_per_s=2.0)[2] == (1e9,)
