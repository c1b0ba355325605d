"""Products of an RTX 4090 as published, which borrows its grids from an L40S."""

from __future__ import annotations

import pytest

from tonnage.catalog import accelerator
from tonnage.catalog.efficiency import ladder
from tonnage.physics.operators import operator_s
from tonnage.physics.work import Operator

# LLMServingSim, profiler/perf/RTX4090/meta-llama/Llama-3.1-8B/bf16/tp1/dense.csv (MIT): bf16, vLLM's kernels.
PUBLISHED = [
    ("down", 4096, 14336, 2048, 1459.6e-6),
    ("down", 4096, 14336, 1024, 738.9e-6),
    ("down", 4096, 14336, 512, 376.0e-6),
    ("down", 4096, 14336, 1, 126.8e-6),
    ("gate_up", 28672, 4096, 704, 1058.5e-6),
    ("gate_up", 28672, 4096, 1, 247.3e-6),
]


@pytest.mark.parametrize(("name", "n", "k", "rows", "seconds"), PUBLISHED)
def test_half_rate_tensor_cores_run_at_their_listed_peak(
    name: str, n: float, k: float, rows: float, seconds: float
) -> None:
    part = accelerator("rtx-4090")
    op = Operator(
        kind="gemm",
        name=name,
        n=n,
        k=k,
        m=rows,
        flop=2 * n * k * rows,
        read_bytes=2 * (n * k + rows * k),
        write_bytes=2 * rows * n,
    )
    ours, rung = operator_s(op, accelerator=part, ladder=ladder(part))
    assert rung == "architecture"
    assert ours == pytest.approx(seconds, rel=0.13)
    assert ours >= 0.99 * op.flop / part.peaks["bf16"]
