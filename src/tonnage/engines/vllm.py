"""vLLM: a pool that is a share of all memory; decodes and pieces of prompts share steps since its V1 engine (0.8)."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.domain.engine_spec import Default, Starting


def defaults(at: Starting) -> Iterator[Default]:
    """What follows from device, context and usage; up to 0.7 the batch limits of prompts that ran whole."""
    source = "vLLM EngineArgs.get_batch_defaults"
    chunked = at.release >= (0, 8)
    length = at.engine.max_model_len or at.model.max_context or 4096
    yield Default(
        field="async_scheduling",
        value=at.release >= (0, 14) and at.accelerator.segment != "cpu",
        source="vLLM: on since 0.14 (release notes), never on a processor (vllm/platforms/cpu.py)",
    )
    if not chunked:
        yield Default(field="max_num_seqs", value=256, source="vLLM SchedulerConfig up to 0.7")
        yield Default(field="max_num_batched_tokens", value=_whole_prompts(at, length), source="vLLM up to 0.7")
        return
    name = f"{at.accelerator.id} {at.accelerator.name}".lower()
    large = at.memory_gib >= 70 and ("a100" not in name or at.release < (0, 9))
    sequences = 1024 if large and at.release >= (0, 8, 3) else 256
    yield Default(field="max_num_seqs", value=sequences, source=source + ": 70 GiB and more, A100 excepted")
    tokens = (16384 if at.offline else 8192) if large else (8192 if at.offline else 2048)
    tokens = max(tokens, at.engine.max_num_seqs or 0)
    yield Default(field="max_num_batched_tokens", value=tokens, source=source + ": by memory and by usage")


def _whole_prompts(at: Starting, length: int) -> int:
    """Up to 0.7 whole prompts ran in one step, unless chunking was on; it was by itself beyond 32k of context."""
    chunked = at.engine.chunked_prefill or (length > 32768 and at.release >= (0, 5, 1))
    if chunked:
        return 2048 if at.release >= (0, 6) else 512
    return max(length, 2048 if at.release < (0, 2, 6) else 2560 if at.release < (0, 3) else 2048)
