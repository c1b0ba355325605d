"""Recipes of mixed GGUF levels."""

from __future__ import annotations

import pytest

from tonnage.domain.precision import FORMATS, number_format
from tonnage.physics.memory import gguf_bits


def test_the_head_always_gets_six_bits_or_more() -> None:
    mixed = [name for name in FORMATS if name.startswith("gguf-q") and name not in {"gguf-q8_0", "gguf-q6_k"}]
    assert len(mixed) > 8
    for name in mixed:
        assert gguf_bits(number_format(name), "head") == 6.5625, name


def test_a_plain_format_gives_every_matrix_the_same() -> None:
    assert {gguf_bits(number_format("fp8"), role) for role in ("head", "value", "down", "other")} == {8}


@pytest.mark.parametrize("level", ["gguf-q4_k_m", "gguf-q4_k_s", "gguf-q3_k_m"])
def test_a_deep_model_with_shared_key_value_heads_keeps_its_values_finer(level: str) -> None:
    stored = number_format(level)
    assert gguf_bits(stored, "value", depth=80, shared_kv=8) >= 5.5 > gguf_bits(stored, "other", depth=80, shared_kv=8)
