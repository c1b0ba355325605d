"""How does an engine schedule? The rules of its record (`Scheduling`) as `Limits`.

Unless a record says otherwise, decodes and pieces of prompts share a step of max_num_batched_tokens: running requests
first, then waiting ones in order; when blocks run out the last running request is preempted and computed again (vLLM
since 0.8). Records may give prompts steps of their own (SGLang, vLLM until 0.7), leave a share of the blocks free, keep
room for a share of what is still to be said and send back who has said least (SGLang), or take the blocks of the whole
answer at admission, so that fewer run and none is preempted (TensorRT-LLM, whose MAX_UTILIZATION admits as vLLM does).

Any engine can be told to batch as was done before (`batching`): **static**, a batch starts with whoever waits, takes
the cache of all its answers, and nobody joins until the last has ended, while those who ended are computed on as
padding; **dynamic**, the same, but the first of a batch waits up to a time for it to fill.

Host memory (`host_cache`) keeps what leaves the accelerator: a preempted request and prefixes that lost their place
are recalled over the link instead of being computed again; transfers run beside the step, which is no shorter than
they are.

Sources: the modules of `tonnage.engines`; Triton's dynamic batcher (max_queue_delay); Orca (OSDI'22) on batches by
request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tonnage.domain.engine_spec import ResolvedEngine, Scheduling
from tonnage.errors import BadRequest, UnknownName
from tonnage.record import Record
from tonnage.simulation.simulated import Limits
from tonnage.units import read

OPTIONS: Final = (
    "guaranteed_no_evict", "max_utilization", "priority", "whole_prompt", "long_prefill_token_threshold", "batching",
    "batch_size", "batch_wait", "host_cache", "host_link",
)  # fmt: skip
LARGEST: Final = 1 << 40
"""Blocks of a pool that nothing limits. [blocks]"""
MOST_HOST: Final = 1 << 24
"""Blocks of host memory that are told apart; 4 TiB of 256 KiB. [blocks]"""


class Pool(Record, kw_only=True):
    """What the engine has to give out on one replica."""

    tokens: float
    """Tokens of cache; infinite where a request's state does not grow. [tokens]"""
    ranks: int = 1
    """Attention ranks: each has seats and a budget of its own. [ranks]"""
    block_tokens: int | None = None
    """Other than the engine's own, to match the ids of a trace. [tokens]"""
    token_bytes: float | None = None
    """Cache of one token on one accelerator; needed to keep it in host memory. [bytes]"""
    accelerators: int = 1


def limits_of(
    engine: ResolvedEngine,
    pool: Pool,
    *,
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
        with batch_size and, for dynamic, batch_wait ("50 ms"); host_cache ("64 GiB" of the replica) with host_link
        ("25 GB/s" of each accelerator).
    longest : number
        Longest request; a budget that cannot be split holds it. [tokens]
    """
    chosen = dict(options or {})
    for name in chosen:
        if name not in OPTIONS:
            raise UnknownName("scheduler option", name, known=OPTIONS)
    settings, scheduling = engine.settings, engine.spec.scheduling
    size = pool.block_tokens or settings.block_tokens or 1
    chunked = settings.chunked_prefill is not False
    seats = (settings.max_num_seqs or 256) * pool.ranks
    rank_budget = settings.max_num_batched_tokens or 8192
    budget = rank_budget * pool.ranks
    budget = budget if chunked else max(budget, longest)
    drafts = settings.speculative_tokens or 0
    if drafts and settings.speculative_acceptance is None:
        raise BadRequest("speculative_tokens need speculative_acceptance: the share of draft tokens that are accepted")
    blocks = int(min(pool.tokens // size, LARGEST)) if pool.tokens < LARGEST else LARGEST
    plain = Limits(
        max_num_seqs=seats,
        budget=max(budget, seats * (drafts + 1)),
        block_tokens=size,
        num_blocks=blocks,
        chunked=chunked,
        threshold=_whole_number(chosen, "long_prefill_token_threshold", 0),
        whole_prompt=bool(chosen.get("whole_prompt", False)),
        speculative=drafts,
        acceptance=settings.speculative_acceptance or 0.0,
    )
    if chosen.get("priority"):
        plain = plain._replace(victim=1, ranked=True)
    ruled = _with_scheduling(plain, scheduling, options=chosen)
    if settings.mixed_chunk:
        ruled = ruled._replace(mixed=True)
    if pool.ranks > 1 and ruled.mixed and ruled.chunked and not ruled.threshold:
        ruled = ruled._replace(threshold=rank_budget)  # a prompt lies on one rank, and takes no more of a step
    batching = str(chosen.get("batching", "static" if scheduling.whole_batches else "continuous"))
    if batching not in BATCHING:
        raise UnknownName("batching", batching, known=BATCHING)
    return _with_host(BATCHING[batching](ruled, chosen), pool, chosen)


def _with_host(ruled: Limits, pool: Pool, options: Mapping[str, Any]) -> Limits:
    """
    The limits with host memory behind the cache; as they are where no option asks for it.

    Raises
    ------
    BadRequest
        Room or link are missing or not above 0, or the model's state does not grow with its tokens.
    """
    if "host_cache" not in options:
        if "host_link" in options:
            raise BadRequest("host_link is for a cache in host memory; add host_cache, as in '64 GiB'")
        return ruled
    if "host_link" not in options:
        raise BadRequest("host_link is missing: how fast the cache moves between host and accelerator, as in '25 GB/s'")
    room = read(options["host_cache"], "bytes", field="host_cache")
    speed = read(options["host_link"], "bytes/s", field="host_link")
    if room <= 0 or speed <= 0:
        raise BadRequest(f"host_cache {options['host_cache']} and host_link {options['host_link']} must be above 0")
    if not pool.token_bytes:
        raise BadRequest("host_cache: the state of this model does not grow with its tokens; there is nothing to keep")
    blocks = room / (pool.token_bytes * pool.accelerators * ruled.block_tokens)
    return ruled._replace(host_blocks=int(min(blocks, MOST_HOST)), recall_token_s=pool.token_bytes / speed)


def _whole_number(options: Mapping[str, Any], name: str, absent: int) -> int:
    """An option that must be a whole number of at least 0; `absent` where it is not given."""
    value = options.get(name, absent)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRequest(f"{name}: '{value}' is no whole number of at least 0; write for example 2048")
    return value


def _with_scheduling(plain: Limits, scheduling: Scheduling, *, options: Mapping[str, Any]) -> Limits:
    """The rules of an engine's record; without any, prompts and decodes share steps and who came last goes back."""
    ruled = plain
    whole_apart = scheduling.separate_whole_prompts and not plain.chunked
    if scheduling.separate_prompts or whole_apart:
        ruled = ruled._replace(mixed=False, threshold=0)
    if whole_apart:
        ruled = ruled._replace(watermark=int(scheduling.watermark * plain.num_blocks))
    if scheduling.returns == "least":
        ruled = ruled._replace(victim=2)
    if scheduling.answer_share is not None:
        first, least, decay = scheduling.answer_share
        ruled = ruled._replace(ratio=first, ratio_least=least, ratio_decay=decay)
    if scheduling.reserves_output:
        ruled = ruled._replace(reserve_output=not options.get("max_utilization", False))
    return ruled


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
    """
    Batches of at most `batch_size` requests that end together, of as many as may run where it is not given.

    Prompts have steps of their own, all blocks of an answer are taken at admission, and nobody is preempted.
    """
    most = _whole_number(options, "batch_size", ruled.max_num_seqs)
    if most < 1:
        raise BadRequest("batch_size: 0 is no batch; write how many requests start together at most, as in 16")
    return ruled._replace(
        gather=min(most, ruled.max_num_seqs),
        mixed=False,
        threshold=0,
        reserve_output=True,
        victim=0,
        ratio=0.0,
        watermark=0,
    )


BATCHING: Final[dict[str, Callable[[Limits, Mapping[str, Any]], Limits]]] = {
    "continuous": _continuous,
    "static": _static,
    "dynamic": _dynamic,
}
"""How requests come together, whatever the engine."""
