"""Layers with folded caches against published module times: nothing in them was fitted to these.

Times: module tables of aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0), DeepSeek-V4-Flash in FP8 on one H200,
vLLM 0.24, milliseconds of one layer's attention with its projections.
"""

import pytest

from tonnage.catalog import accelerator, model
from tonnage.catalog.efficiency import ladder
from tonnage.domain.layout import Layout
from tonnage.domain.model import LatentAttention
from tonnage.domain.precision import Precision
from tonnage.physics.mixers import mixer_work
from tonnage.physics.operators import operator_s
from tonnage.physics.shares import Tokens, share

FP8 = Precision(weights="fp8_block", kv="fp8", activations="fp8")


def milliseconds(fold: int, tokens: Tokens) -> float:
    """One DeepSeek-V4-Flash layer that folds so many tokens."""
    there, flash = accelerator("h200-sxm-141gb"), model("deepseek-ai/DeepSeek-V4-Flash")
    mixers = (group.mixer for group in flash.layers)
    mixer = next(m for m in mixers if isinstance(m, LatentAttention) and m.compress_ratio == fold)
    at = share(hidden=flash.hidden_size, layout=Layout(), precision=FP8)
    work = mixer_work(mixer, at, tokens=tokens, count=1)
    return 1e3 * sum(operator_s(op, accelerator=there, ladder=ladder(there))[0] * op.count for op in work)


@pytest.mark.parametrize(
    ("fold", "prompts", "length", "measured"),
    [
        (4, 8, 1024, 3.797), (4, 2, 4096, 4.940), (4, 1, 8192, 7.529), (4, 4, 8192, 24.74), (4, 1, 32768, 23.39),
        (128, 8, 1024, 3.361), (128, 2, 4096, 3.373), (128, 1, 8192, 3.383), (128, 4, 8192, 13.82),
        (128, 1, 32768, 14.19),
    ],
)  # fmt: skip
def test_prompts_through_folded_layers_within_a_quarter(fold: int, prompts: int, length: int, measured: float) -> None:
    found = milliseconds(fold, Tokens(prompts=prompts, chunk=float(length)))
    assert found == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize(
    ("fold", "sequences", "context", "measured"),
    [
        (4, 8, 2048, 0.1051), (4, 8, 32768, 0.1141), (4, 64, 8192, 0.1571),
        (128, 8, 2048, 0.0840), (128, 8, 32768, 0.0845), (128, 64, 8192, 0.0982),
    ],
)  # fmt: skip
def test_decodes_through_folded_layers_within_a_half(fold: int, sequences: int, context: int, measured: float) -> None:
    """Ten small kernels, each with its launch: high by 7 to 41 %."""
    found = milliseconds(fold, Tokens(decodes=sequences, context=context + 1.0))
    assert found == pytest.approx(measured, rel=0.45)
