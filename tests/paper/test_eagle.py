"""Speed-ups by EAGLE-3 that were published at several batches, against the predicted ones."""

from statistics import mean, median

import pytest

from tonnage.catalog.eagle import acceptance_for
from tonnage.core.deployment import resolve
from tonnage.core.replica import steady_grid
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.requests.common import Lengths
from tonnage.simulation.steps import StepTable, step_table

LLAMA = "meta-llama/Meta-Llama-3.1-8B"
DRAFT = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
MT_BENCH = (100.0, 300.0)
"""Tokens of a prompt and an answer; the paper does not state them, and they hardly matter. [tokens]"""
SGLANG = {2: 1.81, 4: 1.82, 8: 1.62, 16: 1.48, 24: 1.39, 32: 1.32, 48: 1.38, 56: 1.34, 64: 1.38}
"""arXiv 2503.01840, table 3: one H100, SGLang 0.4.4, a chain of 3."""
VLLM = {2: 1.75, 4: 1.68, 8: 1.58, 16: 1.49, 24: 1.42, 32: 1.36, 48: 1.21, 56: 1.01}
"""The same, table 5: vLLM, a chain of 2; the caption says A100, the text RTX 3090."""
GPT_OSS = {1: 285 / 212, 8: 1044 / 795, 64: 2339 / 1620}
"""Card of Dogacel/specdrift-gpt-oss-120b-eagle3 (2026-05): one H100, SGLang, a chain of 3 that keeps 2.41 tokens."""
KEPT = {2: 1.0 + 0.7296 + 0.5208, 3: 2.60}
"""Tokens a step on MT-Bench at temperature 0 by depth (vLLM's test of acceptance lengths); the tables give none."""


def priced(model: str, accelerator: str, engine: str, version: str | None, options: dict[str, object]) -> StepTable:
    prompt, answer = MT_BENCH
    case = ServeCase(
        model=model,
        accelerator=accelerator,
        traffic=Traffic(concurrency=1.0),
        isl=prompt,
        osl=answer,
        engine=engine,
        engine_version=version,
        engine_options=options,
    )
    at = resolve(case)
    lengths = Lengths(prompt_tokens=prompt, output_tokens=answer)
    return step_table(steady_grid(at, lengths), at.overheads)


def options(draft: str, tokens: int, length: float) -> dict[str, object]:
    kept = acceptance_for(length, tokens)
    return {"draft_model": draft, "speculative_tokens": tokens, "speculative_acceptance": kept}


def errors(plain: StepTable, drafting: StepTable, measured: dict[int, float]) -> dict[int, float]:
    """Predicted over measured speed-up, less one, by batch."""
    context = MT_BENCH[0] + MT_BENCH[1] / 2.0
    return {
        batch: plain.decode_s(batch, context) / drafting.decode_s(batch, context) / speedup - 1.0
        for batch, speedup in measured.items()
    }


@pytest.mark.parametrize(
    ("accelerator", "version", "at_most"),
    [("A100-SXM-80GB", "0.7.3", 0.05), ("A100-SXM-80GB", "0.8.5", 0.11), ("RTX-3090", "0.7.3", 0.07)],
)
def test_vllm_s_speed_ups_fall_with_the_batch_as_the_paper_measured(
    accelerator: str, version: str, at_most: float
) -> None:
    plain = priced(LLAMA, accelerator, "vllm", version, {})
    found = errors(plain, priced(LLAMA, accelerator, "vllm", version, options(DRAFT, 2, KEPT[2])), VLLM)
    assert median(map(abs, found.values())) <= at_most
    assert max(map(abs, found.values())) <= 0.25  # the paper's last batch, 56, drops from 1.21 to 1.01


def test_sglang_of_2025_gains_less_than_its_kernels_allow() -> None:
    """
    A known miss: SGLang 0.4.4 does not schedule ahead of drafts, and the host's work per request is in no fitted row.

    Predicted 2.11 falling to 1.97, measured 1.81 to 1.38; with the host's work of today's release 1.81 to 1.49.
    """
    old, new = (
        errors(
            priced(LLAMA, "H100-SXM", "sglang", version, {}),
            priced(LLAMA, "H100-SXM", "sglang", version, options(DRAFT, 3, KEPT[3])),
            SGLANG,
        )
        for version in ("0.4.4", None)
    )
    assert all(miss > 0.1 for miss in old.values()) and max(old.values()) < 0.55
    assert median(map(abs, new.values())) < 0.27 and max(map(abs, new.values())) < 0.4


def test_verified_tokens_widen_the_experts_hit() -> None:
    """Since a step of SGLang has host work of its own: 1 % less than measured for one request, 13 % for eight."""
    model, draft = "openai/gpt-oss-120b", "Dogacel/specdrift-gpt-oss-120b-eagle3"
    plain = priced(model, "H100-SXM", "sglang", None, {})
    drafting = priced(model, "H100-SXM", "sglang", None, options(draft, 3, 2.41))
    found = errors(plain, drafting, GPT_OSS)
    assert max(map(abs, found.values())) < 0.14 and mean(map(abs, found.values())) < 0.06
    context = MT_BENCH[0] + MT_BENCH[1] / 2.0
    dense = priced(LLAMA, "H100-SXM", "sglang", None, {})
    chain = priced(LLAMA, "H100-SXM", "sglang", None, options(DRAFT, 3, 2.41))
    grown = [
        (one.decode_s(8, context) * one.speculation.gained - one.drafts_s(8)) / base.decode_s(8, context)
        for base, one in ((dense, chain), (plain, drafting))
        if one.speculation is not None
    ]
    assert grown[0] < 1.1
    assert grown[1] > 1.5
