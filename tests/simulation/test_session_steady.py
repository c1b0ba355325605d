"""The steady state of caches agrees with sessions played turn by turn."""

import numpy as np
import pytest
from tests.simulation.test_sessions import BRANCHING

from tonnage.domain.sessions import CacheTier
from tonnage.simulation.session_steady import SteadyTier, found_in, steady_turns
from tonnage.simulation.sessions import Replicas, Turns, draw_turns, simulate_sessions


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
