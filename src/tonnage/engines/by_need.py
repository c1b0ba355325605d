"""What libraries without a server of their own do: they take memory for the batch they are given, and run it whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.engine_spec import Default, Scheduling, Starting

BATCHES: Final = Scheduling(whole_batches=True)
FURTHER_LAUNCHES: Final = {
    # bitsandbytes' LLM.int8: statistics of rows, codes, search for outliers, their columns taken out, layout, integer
    # product, scales, product of the outliers (arXiv 2208.07339 and `MatMul8bitLt`): nine launches in place of one.
    "int8_weight": 8.0,
    # bitsandbytes' NF4: scales are stored in 8 bits and widened by two kernels before the product (arXiv 2305.14314).
    "nf4": 2.0,
    "int4": 2.0,
    # Fine-grained FP8: a Triton kernel quantises the input, another multiplies, and Triton's launcher is Python.
    # GPTQ in 8 bits, which the 4-bit kernel does not take: codes unpacked, scaled, then the product.
    "gptq_int8": 2.0,
    "fp8_block": 2.0,
    "fp8": 2.0,
}
"""Kernels that a product takes beyond its own where a model's Python runs line by line, by weight format."""


def defaults_by_need(at: Starting) -> Iterator[Default]:
    """Libraries that allocate for the batch at hand: Transformers, FasterTransformer, CTranslate2 and their like."""
    source = f"{at.engine.name}: allocates for the batch it is given"
    yield Default(field="block_tokens", value=1, source=source)
    yield Default(field="chunked_prefill", value=False, source=source)
    yield Default(field="cuda_graphs", value=False, source=source)
