"""What libraries without a server of their own do: they take memory for the batch they are given, and run it whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.engine_spec import Default, Scheduling, Starting

__all__ = ["BATCHES", "defaults_by_need"]

BATCHES: Final = Scheduling(whole_batches=True)


def defaults_by_need(at: Starting) -> Iterator[Default]:
    """Libraries that allocate for the batch at hand: Transformers, FasterTransformer, CTranslate2 and their like."""
    source = f"{at.engine.name}: allocates for the batch it is given"
    yield Default(field="block_tokens", value=1, source=source)
    yield Default(field="chunked_prefill", value=False, source=source)
    yield Default(field="cuda_graphs", value=False, source=source)
