"""How many bits does llama.cpp give each matrix of a mixed GGUF file?

A level such as Q4_K_M is a recipe, not a format: the vocabulary projection, the value projection and the
second feed-forward matrix get more bits than the rest, some of them only in half of the layers. Following the
recipe gives file sizes within a percent on any architecture, where one mean of bits per weight drifts with the
vocabulary and the heads.

Levels without a recipe here, and every format that is not GGUF, store all matrices alike.
"""

from __future__ import annotations

from typing import Final

from tonnage.domain.precision import Format

Q2_K: Final = 2.625
Q3_K: Final = 3.4375
Q4_K: Final = 4.5
Q5_K: Final = 5.5
Q6_K: Final = 6.5625
"""Bits per weight of the block formats, scales included (llama.cpp ggml-common.h)."""

MORE_BITS: Final = 0.5
"""Share of layers in which `use_more_bits` holds: the first and last eighth, and every third in between."""

_RECIPES: Final[dict[str, dict[str, float]]] = {
    "gguf-q2_k": {"other": Q2_K, "embedding": Q2_K, "head": Q6_K, "value": Q4_K, "output": Q3_K, "down": Q3_K},
    "gguf-q3_k_s": {"other": Q3_K, "embedding": Q3_K, "head": Q6_K},
    "gguf-q3_k_m": {"other": Q3_K, "embedding": Q3_K, "head": Q6_K, "value": Q4_K, "output": Q4_K, "down": Q4_K},
    "gguf-q4_k_s": {"other": Q4_K, "embedding": Q4_K, "head": Q6_K, "down": Q4_K + (Q5_K - Q4_K) / 8},
    "gguf-q4_k_m": {
        "other": Q4_K, "embedding": Q4_K, "head": Q6_K,
        "value": Q4_K + MORE_BITS * (Q6_K - Q4_K), "down": Q4_K + MORE_BITS * (Q6_K - Q4_K),
    },
    "gguf-q5_k_s": {"other": Q5_K, "embedding": Q5_K, "head": Q6_K},
    "gguf-q5_k_m": {
        "other": Q5_K, "embedding": Q5_K, "head": Q6_K,
        "value": Q5_K + MORE_BITS * (Q6_K - Q5_K), "down": Q5_K + MORE_BITS * (Q6_K - Q5_K),
    },
    "gguf-q4_0": {"other": 4.5, "embedding": 4.5, "head": Q6_K},
    "gguf-q4_1": {"other": 5.0, "embedding": 5.0, "head": Q6_K},
    "gguf-q5_0": {"other": 5.5, "embedding": 5.5, "head": Q6_K},
    "gguf-iq4_xs": {"other": 4.25, "embedding": 4.25, "head": Q6_K},
}  # fmt: skip


def gguf_bits(stored: Format, role: str, *, depth: float = 0.0, shared_kv: int = 1) -> float:
    """
    Bits per value of a matrix with that role: embedding, head, value, output, down, other.

    Source: llama.cpp `llama_tensor_get_type` (llama-quant.cpp). Where eight query heads share a key/value head in
    a deep model (80 layers: Llama 70B), the small value projection gets at least Q5_K.
    """
    recipe = _RECIPES.get(stored.name)
    if recipe is None:
        return stored.bits
    if role == "value" and shared_kv >= 8 and depth >= 80 and recipe["other"] in {Q3_K, Q4_K}:
        return Q5_K + MORE_BITS * (Q6_K - Q5_K) if stored.name == "gguf-q4_k_m" else Q5_K
    return recipe.get(role, recipe["other"])
