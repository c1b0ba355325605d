"""The share of one rank: which format each group of products runs in, and the bytes of one product."""

from __future__ import annotations

import pytest

from tonnage.domain.layout import Layout
from tonnage.domain.precision import Precision
from tonnage.physics.shares import gemm, share

ROWS, WIDTH, DEPTH = 3, 5, 7


@pytest.mark.parametrize(
    ("precision", "head", "compute"),
    [
        (Precision(weights="bf16", activations="bf16", kv="bf16"), "bf16", "bf16"),
        (Precision(weights="fp16", activations="fp16", kv="fp16"), "fp16", "fp16"),
        (Precision(weights="fp8", activations="fp8", kv="fp8"), "bf16", "fp8"),
        (Precision(weights="awq", activations="fp16", kv="fp16"), "fp16", "fp16"),
        (Precision(weights="gguf-q4_k_m", activations="fp16", kv="fp16"), "gguf-q4_k_m", "fp16"),
        (Precision(weights="fp32", activations="fp32", kv="fp32"), "fp32", "fp32"),
    ],
)
def test_quantised_weights_leave_the_head_in_its_format_unless_whole_files_are(
    precision: Precision, head: str, compute: str
) -> None:
    at = share(hidden=64, layout=Layout(), precision=precision)
    assert (at.head, at.compute) == (head, compute)


@pytest.mark.parametrize(
    ("activations", "weights", "compute", "read", "written"),
    [
        ("bf16", "bf16", "bf16", 2 * WIDTH * DEPTH + 2 * ROWS * DEPTH, 2 * ROWS * WIDTH),
        ("fp32", "fp32", "fp32", 4 * WIDTH * DEPTH + 4 * ROWS * DEPTH, 4 * ROWS * WIDTH),
        ("bf16", "fp8", "fp8", 1 * WIDTH * DEPTH + 1 * ROWS * DEPTH, 2 * ROWS * WIDTH),
    ],
)
def test_a_product_reads_its_weights_once_and_its_rows_in_the_format_it_multiplies(
    activations: str, weights: str, compute: str, read: float, written: float
) -> None:
    at = share(hidden=64, layout=Layout(), precision=Precision(weights=weights, activations=activations, kv="bf16"))
    op = gemm("x", at, m=ROWS, n=WIDTH, k=DEPTH, count=1, weights=weights, compute=compute)
    assert op.flop == 2 * ROWS * WIDTH * DEPTH
    assert (op.read_bytes, op.write_bytes) == (read, written)


def test_four_bit_activations_are_read_at_four_bits() -> None:
    precision = Precision(weights="nvfp4", activations="nvfp4", kv="fp8")
    at = share(hidden=64, layout=Layout(), precision=precision)
    op = gemm("x", at, m=ROWS, n=WIDTH, k=DEPTH, count=1, weights="nvfp4", compute=at.compute)
    four_bits = 0.5 + 1 / 16  # a scale of 8 bits for 16 values
    assert op.read_bytes == pytest.approx(four_bits * (WIDTH * DEPTH + ROWS * DEPTH))


def test_a_cache_in_fp8_is_multiplied_so_by_the_kinds_of_attention_that_do_it_and_by_no_encoder() -> None:
    def attended(kv: str, *, encoder: bool = False) -> list[str]:
        narrow = ("attention_prefill",)
        at = share(hidden=64, layout=Layout(), precision=Precision(kv=kv), encoder=encoder, attends=narrow)
        return [at.attended_in(kind) for kind in ("attention_prefill", "attention_decode")]

    assert attended("fp8") == ["fp8", "bf16"]
    assert attended("bf16") == attended("int8") == attended("fp8", encoder=True) == ["bf16", "bf16"]
