"""How does each engine schedule? Its rules as `Limits`, one function an engine.

- **vLLM** (V1, since 0.8): decodes and prompts share a step of max_num_batched_tokens; running requests
  first, then waiting ones in order; when blocks run out the last running request is preempted and
  computed again. Until 0.7 whole prompts came first, in steps of their own, and a hundredth of the
  blocks stayed free.
- **SGLang**: prompts come first, in pieces of chunked_prefill_size; admission keeps room for a share of
  what is still to be said (0.7 at the start, less with every step); when room runs out, who has said
  least goes back to the queue.
- **TensorRT-LLM**: GUARANTEED_NO_EVICT takes the blocks of the whole answer at admission, so fewer run
  and none is preempted; MAX_UTILIZATION admits as vLLM does.

Sources: vllm/v1/core/sched/scheduler.py; vllm/core/scheduler.py (0.7) and its block manager's watermark;
sglang/srt/managers/schedule_policy.py, scheduler.py and ServerArgs (new_token_ratio 0.7, floor 0.14 of
it, 600 steps); TensorRT-LLM's CapacitySchedulerPolicy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tonnage.engine.simulated import Limits
from tonnage.errors import BadRequest, UnknownName
from tonnage.nouns.layout import Engine

__all__ = ["POLICIES", "Pool", "limits_of"]

SGLANG_RATIO: Final = 0.7
SGLANG_LEAST: Final = 0.7 * 0.14
SGLANG_DECAY: Final = (SGLANG_RATIO - SGLANG_LEAST) / 600
WATERMARK: Final = 0.01
"""Share of the blocks that vLLM's first engine left free at admission. [-]"""
OPTIONS: Final = ("guaranteed_no_evict", "max_utilization", "priority", "whole_prompt", "long_prefill_token_threshold")
LARGEST: Final = 1 << 40
"""Blocks of a pool that nothing limits. [blocks]"""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine has to give out on one replica."""

    tokens: float
    """Tokens of cache; infinite where a request's state does not grow. [tokens]"""
    ranks: int = 1
    """Attention ranks: each has seats and a budget of its own. [ranks]"""
    block_tokens: int | None = None
    """Other than the engine's own, to match the ids of a trace. [tokens]"""


def limits_of(
    engine: Engine,
    pool: Pool,
    *,
    release: tuple[int, ...] | None = None,
    options: Mapping[str, object] | None = None,
    longest: int = 0,
) -> Limits:
    """
    The scheduler of an engine whose settings are filled in.

    Parameters
    ----------
    options : mapping
        Rules that are no setting of every engine: guaranteed_no_evict or max_utilization (TensorRT-LLM),
        priority, whole_prompt and long_prefill_token_threshold (vLLM).
    longest : number
        Longest request; a budget that cannot be split holds it. [tokens]
    """
    chosen = dict(options or {})
    for name in chosen:
        if name not in OPTIONS:
            raise UnknownName("scheduler option", name, known=OPTIONS)
    size = pool.block_tokens or engine.block_tokens or 1
    chunked = engine.chunked_prefill is not False
    seats = (engine.max_num_seqs or 256) * pool.ranks
    budget = (engine.max_num_batched_tokens or 8192) * pool.ranks
    budget = budget if chunked else max(budget, longest)
    drafts = engine.speculative_tokens or 0
    if drafts and engine.speculative_acceptance is None:
        raise BadRequest("speculative_tokens need speculative_acceptance: the share of draft tokens that are accepted")
    blocks = int(min(pool.tokens // size, LARGEST)) if pool.tokens < LARGEST else LARGEST
    plain = Limits(
        max_num_seqs=seats,
        budget=max(budget, seats * (drafts + 1)),
        block_tokens=size,
        num_blocks=blocks,
        chunked=chunked,
        threshold=_whole(chosen.get("long_prefill_token_threshold", 0)),
        whole_prompt=bool(chosen.get("whole_prompt", False)),
        speculative=drafts,
        acceptance=engine.speculative_acceptance or 0.0,
    )
    if chosen.get("priority"):
        plain = plain._replace(victim=1, ranked=True)
    return POLICIES.get(engine.name, _together)(plain, release or (), chosen)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRequest(f"long_prefill_token_threshold: '{value}' is not a number of tokens; write for example 2048")
    return value


def _together(plain: Limits, release: tuple[int, ...], options: Mapping[str, object]) -> Limits:
    """Prompts and decodes share steps."""
    return plain


def _apart(plain: Limits, release: tuple[int, ...], options: Mapping[str, object]) -> Limits:
    """Prompts come first, in steps of their own."""
    return plain._replace(mixed=False, threshold=0)


def _vllm(plain: Limits, release: tuple[int, ...], options: Mapping[str, object]) -> Limits:
    if plain.chunked:
        return plain
    return _apart(plain, release, options)._replace(watermark=int(WATERMARK * plain.num_blocks))


def _sglang(plain: Limits, release: tuple[int, ...], options: Mapping[str, object]) -> Limits:
    return _apart(plain, release, options)._replace(
        victim=2, ratio=SGLANG_RATIO, ratio_least=SGLANG_LEAST, ratio_decay=SGLANG_DECAY
    )


def _trtllm(plain: Limits, release: tuple[int, ...], options: Mapping[str, object]) -> Limits:
    return plain._replace(reserve_output=not options.get("max_utilization", False))


POLICIES: Final[dict[str, Callable[[Limits, tuple[int, ...], Mapping[str, object]], Limits]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "trtllm": _trtllm,
    "lmdeploy": _apart,
    "tgi": _apart,
}
"""Engines with rules of their own; the others share steps, as continuous batching came to be."""
