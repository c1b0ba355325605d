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

Any engine can be told to batch as was done before (`batching`): **static**, a batch starts with whoever waits, takes
the cache of all its answers, and nobody joins until the last has ended, while those who ended are computed on as
padding; **dynamic**, the same, but the first of a batch waits up to a time for it to fill.

Sources: vllm/v1/core/sched/scheduler.py; vllm/core/scheduler.py (0.7) and its block manager's watermark;
sglang/srt/managers/schedule_policy.py, scheduler.py and ServerArgs (new_token_ratio 0.7, floor 0.14 of
it, 600 steps); TensorRT-LLM's CapacitySchedulerPolicy; Triton's dynamic batcher (max_queue_delay);
Orca (OSDI'22) on batches by request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tonnage.engine.simulated import Limits
from tonnage.errors import BadRequest, UnknownName
from tonnage.nouns.layout import Engine
from tonnage.units import read

__all__ = ["POLICIES", "Pool", "limits_of"]

SGLANG_RATIO: Final = 0.7
SGLANG_LEAST: Final = 0.7 * 0.14
SGLANG_DECAY: Final = (SGLANG_RATIO - SGLANG_LEAST) / 600
WATERMARK: Final = 0.01
"""Share of the blocks that vLLM's first engine left free at admission. [-]"""
OPTIONS: Final = (
    "guaranteed_no_evict", "max_utilization", "priority", "whole_prompt", "long_prefill_token_threshold", "batching",
    "batch_size", "batch_wait",
)  # fmt: skip
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
    options: Mapping[str, Any] | None = None,
    longest: int = 0,
) -> Limits:
    """
    The scheduler of an engine whose settings are filled in.

    Parameters
    ----------
    options : mapping
        Rules that are no setting of every engine: guaranteed_no_evict or max_utilization (TensorRT-LLM),
        priority, whole_prompt and long_prefill_token_threshold (vLLM); batching (continuous, static, dynamic)
        with batch_size and, for dynamic, batch_wait ("50 ms").
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
        threshold=_whole(chosen, "long_prefill_token_threshold", 0),
        whole_prompt=bool(chosen.get("whole_prompt", False)),
        speculative=drafts,
        acceptance=engine.speculative_acceptance or 0.0,
    )
    if chosen.get("priority"):
        plain = plain._replace(victim=1, ranked=True)
    ruled = POLICIES.get(engine.name, _together)(plain, release or (), chosen)
    batching = str(chosen.get("batching", "static" if engine.name in BY_BATCH else "continuous"))
    if batching not in BATCHING:
        raise UnknownName("batching", batching, known=BATCHING)
    return BATCHING[batching](ruled, chosen)


def _whole(options: Mapping[str, Any], name: str, absent: int) -> int:
    value = options.get(name, absent)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRequest(f"{name}: '{value}' is no whole number of at least 0; write for example 2048")
    return value


def _together(plain: Limits, release: tuple[int, ...], options: Mapping[str, Any]) -> Limits:
    """Prompts and decodes share steps."""
    return plain


def _apart(plain: Limits, release: tuple[int, ...], options: Mapping[str, Any]) -> Limits:
    """Prompts come first, in steps of their own."""
    return plain._replace(mixed=False, threshold=0)


def _vllm(plain: Limits, release: tuple[int, ...], options: Mapping[str, Any]) -> Limits:
    if plain.chunked:
        return plain
    return _apart(plain, release, options)._replace(watermark=int(WATERMARK * plain.num_blocks))


def _sglang(plain: Limits, release: tuple[int, ...], options: Mapping[str, Any]) -> Limits:
    return _apart(plain, release, options)._replace(
        victim=2, ratio=SGLANG_RATIO, ratio_least=SGLANG_LEAST, ratio_decay=SGLANG_DECAY
    )


def _trtllm(plain: Limits, release: tuple[int, ...], options: Mapping[str, Any]) -> Limits:
    return plain._replace(reserve_output=not options.get("max_utilization", False))


POLICIES: Final[dict[str, Callable[[Limits, tuple[int, ...], Mapping[str, Any]], Limits]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "trtllm": _trtllm,
    "lmdeploy": _apart,
    "tgi": _apart,
}
"""Engines with rules of their own; the others share steps, as continuous batching came to be."""


def _continuous(ruled: Limits, options: Mapping[str, Any]) -> Limits:
    """Anybody joins at any step."""
    for name in ("batch_size", "batch_wait"):
        if name in options:
            raise BadRequest(f"{name} is for batches that start together; add batching: static or dynamic")
    return ruled


def _static(ruled: Limits, options: Mapping[str, Any]) -> Limits:
    """Batches that start with whoever waits and end together."""
    if "batch_wait" in options:
        raise BadRequest("batch_wait: a static batch starts with whoever is there; batching: dynamic waits")
    return _in_batches(ruled, options)


def _dynamic(ruled: Limits, options: Mapping[str, Any]) -> Limits:
    """Batches that wait a while to be filled, and end together."""
    if "batch_wait" not in options:
        raise BadRequest("batch_wait is missing: how long the first of a batch waits for the others, as in '50 ms'")
    wait = read(options["batch_wait"], "s", field="batch_wait")
    if not 0.0 <= wait < 1e6:
        raise BadRequest(f"batch_wait: '{options['batch_wait']}' is no time of at least 0")
    return _in_batches(ruled, options)._replace(gather_s=wait)


def _in_batches(ruled: Limits, options: Mapping[str, Any]) -> Limits:
    most = _whole(options, "batch_size", ruled.max_num_seqs)
    if most < 1:
        raise BadRequest("batch_size: 0 is no batch; write how many requests start together at most, as in 16")
    return ruled._replace(
        gather=min(most, ruled.max_num_seqs), mixed=False, threshold=0, reserve_output=True, victim=0, ratio=0.0,
        watermark=0,
    )  # fmt: skip


BATCHING: Final[dict[str, Callable[[Limits, Mapping[str, Any]], Limits]]] = {
    "continuous": _continuous,
    "static": _static,
    "dynamic": _dynamic,
}
"""How requests come together, whatever the engine."""

BY_BATCH: Final = frozenset(
    {"hf", "fastertransformer", "autoawq", "ctransformers", "ctranslate2", "tensorrt", "pytorch", "gpt-fast"}
)
"""Engines that run a batch to its end; the others batch step by step."""
