"""SGLang: a static reserve for activations and graphs; prompts come first, in pieces and steps of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.engine_spec import Default, Starting
from tonnage.units import GiB

_RANKS_RULED: Final = 8
"""Ranks up to which the engine's own rule for its reserve is taken as it stands. [ranks]"""


def defaults(at: Starting) -> Iterator[Default]:
    """What follows from memory, ranks and release."""
    chunk = at.engine.max_num_batched_tokens or _chunk(at)
    yield Default(
        field="max_num_batched_tokens", value=chunk, source="SGLang ServerArgs: chunked_prefill_size by memory"
    )
    yield Default(
        field="memory_fraction",
        # Who asks for larger chunks is taken to set the share beside it: with the reserve by chunk, 8 x H200 with
        # chunks of 32768 would queue where published runs did not.
        value=round(_share(at, min(chunk, _chunk(at))), 3),
        source="SGLang ServerArgs: mem_fraction_static = 1 - reserve for activations and graphs",
    )


def _chunk(at: Starting) -> int:
    """Tokens of a prompt's piece, by the driver's memory (SGLang 0.4.9 and 0.5.4 changed the steps)."""
    gib = at.accelerator.driver_memory_bytes / GiB
    if at.release < (0, 4, 9):
        return 2048 if gib < 25_000 / 1024 else 8192
    if gib >= 160:
        return 16384
    if gib < 35:
        return 2048
    return 4096 if gib < 60 and at.release >= (0, 5, 4) else 8192


def _share(at: Starting, chunk: int) -> float:
    """
    Share of the driver's memory that weights and cache may take (mem_fraction_static); the rest is a reserve. [-]

    The reserve is for activations of a piece and captured graphs: by ranks alone before 0.4.9, by memory and ranks
    before 0.5.4.
    """
    # SGLang's own tensor degree holds the ranks of data-parallel attention.
    tp, ranks = at.layout.tp * at.layout.dp, at.layout.ranks
    if at.release < (0, 4, 9):
        return 0.79 if tp >= 16 else 0.81 if tp >= 8 else 0.85 if tp >= 4 else 0.87 if tp >= 2 else 0.88
    listed = at.accelerator.driver_memory_bytes / 2**20
    gib = listed / 1024
    if at.release < (0, 5, 4):
        reserve = 2.8 + ranks / 10 if gib < 35 else 9.5 + ranks / 2 if gib < 90 else 12 + ranks / 2 if gib < 160 else 32
        return (listed - (reserve + (4 if at.layout.dp > 1 else 0)) * 1024) / listed
    graphs = _graphs(gib, tp)
    # The rule grows with ranks without end (193 GB over 72 of them). Beyond one node's ranks no deployment runs on it:
    # recipes state captured batches and the share (SGLang's large-scale EP guide), about as for one node.
    within = min(tp * at.layout.pp, _RANKS_RULED)
    reserved = 512 + max(chunk, 2048) * 1.5 + graphs * 2 + within / 8 * 1024
    if at.layout.dp > 1:
        reserved += graphs * min(at.layout.dp, _RANKS_RULED) * (4.5 if graphs > 300 else 3)
    if gib > 60:
        reserved = max(reserved, 10 * 1024)
    return (listed - reserved) / listed


def _graphs(gib: float, tp: int) -> int:
    """cuda_graph_max_bs: the largest batch captured, by memory and ranks (SGLang 0.5.4 and later)."""
    few = tp < 4
    if gib < 20:
        return 8
    if gib < 35:
        return 24 if few else 80
    if gib < 60:
        return 32 if few else 160
    return 256 if few and gib < 160 else 512
