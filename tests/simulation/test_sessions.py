"""Sessions: runs of blocks behave as their blocks do one by one, and what is drawn is what the profile says."""

from collections import OrderedDict
from typing import Any

import msgspec
import numpy as np
import pytest

from tonnage.domain.sessions import CacheTier, SessionClass, SessionProfile
from tonnage.errors import BadRequest
from tonnage.simulation.sessions import PrefillCost, Replicas, Turns, draw_turns, simulate_sessions

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
    with pytest.raises(BadRequest, match="150% of the sessions"):
        draw_turns(replace(BRANCHING, shared=((10.0, 1.5),)), turns_per_s=1.0, turns=1)
