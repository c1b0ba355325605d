"""
What does a step of reinforcement learning draw? Generation as any served load, training as any step, the rest waits.

Each pool of accelerators is at work in its own phases and idle in the others: shared ones in both, on policy also while
new weights and training states are on their way.
"""

from __future__ import annotations

from tonnage.planning.board_power import SUM, serving_load, spread
from tonnage.planning.host import LoadShare
from tonnage.planning.rl.candidates import Arranged
from tonnage.planning.rl.rollout import Generation
from tonnage.planning.train.power import training_load
from tonnage.pricing.energy import IDLE_DRAW

__all__ = ["rl_load"]


def rl_load(arranged: Arranged) -> LoadShare | None:
    """Mean draw of all accelerators over their limit, step after step; absent where a side does not fit."""
    case, made, trained, step = arranged.case, arranged.made, arranged.trained, arranged.result.step_s
    if made.found is None or step is None:
        return None
    generating = made.decode_s + made.loop_s + made.prefill_s
    writes, learns = _generation_load(arranged.made, arranged), training_load(trained.setup, trained.step)
    pools = {
        "generation": (case.rollout_accelerators, generating, writes.value),
        "training": (case.train_accelerators, trained.total_s, learns.value),
    }
    # Above idle, of all accelerators over all of the step.
    above = sum(count * min(1.0, spent / step.value) * (share - IDLE_DRAW) for count, spent, share in pools.values())
    told = ", ".join(f"{name} {spent / step.value:.0%} at {share:.0%}" for name, (_, spent, share) in pools.items())
    return spread(IDLE_DRAW + above / case.count, f"by phases of the step ({told}): {SUM}")


def _generation_load(made: Generation, arranged: Arranged) -> LoadShare:
    """Of one replica while it generates: tokens and decode steps are those of the drained batch."""
    found, case = made.found, arranged.case
    assert found is not None
    seconds = made.decode_s + made.loop_s + made.prefill_s
    steps = max(1.0, found.steps / made.steps)
    responses = made.responses / made.replicas
    return serving_load(
        made.deployment,
        running=responses * case.response_tokens / steps,
        tpot_s=seconds / steps,
        requests_per_s=responses / case.responses_per_prompt / seconds,
    )
