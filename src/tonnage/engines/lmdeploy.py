"""What LMDeploy with its TurboMind engine chooses by itself beyond constants."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.domain.engine_spec import Default, Starting


def defaults(at: Starting) -> Iterator[Default]:
    """What follows from memory."""
    sequences = 256 if at.memory_gib >= 70 else 128
    yield Default(field="max_num_seqs", value=sequences, source="LMDeploy TurbomindEngineConfig.max_batch_size")
