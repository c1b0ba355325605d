"""
Turns per CPU second of a run of sessions, and its peak memory as the run grows.

python -m tools.sessions.speed
"""

from __future__ import annotations

import resource
import time

from tonnage.catalog.traffic import session_profiles
from tonnage.domain.sessions import CacheTier
from tonnage.simulation.sessions import PrefillCost, Replicas, simulate_sessions

TIERS = (
    CacheTier(name="accelerator", blocks=100_000),
    CacheTier(name="host", blocks=500_000, load_s_per_block=1e-4),
    CacheTier(name="store", blocks=5_000_000, load_s_per_block=4e-4, shared=True),
)


def main() -> None:
    """Two replicas of coding agents, three tiers, ten times as many turns each time."""
    profile = session_profiles()["coding-agent"]
    served = Replicas(number=2, prefill=PrefillCost(token_s=1e-5, depth_s=1e-10))
    simulate_sessions(profile, TIERS, turns_per_s=20.0, turns=1000, served=served)
    for turns in (100_000, 1_000_000, 10_000_000):
        began = time.process_time()
        found = simulate_sessions(profile, TIERS, turns_per_s=20.0, turns=turns, served=served)
        taken = time.process_time() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{turns:>12,} turns  {turns / taken:>10,.0f} a CPU second  {peak:,.0f} MiB  {found.hit_rate:.1%} found")


if __name__ == "__main__":
    main()
