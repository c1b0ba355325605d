"""Which models do people run on their own machines today, and where are the files?

One row a model in `data/models/downloads.csv`: repositories by what reads them. A model is here when its weights are
open, it writes text, and somebody publishes files that llama.cpp reads.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from tonnage.catalog.models import look_up
from tonnage.catalog.rows import DATA, read_rows
from tonnage.domain.machine import Download

BENCHMARK = "MMLU-Pro"
"""The benchmark that most publishers of current open models state, each as it ran it itself."""

_SAME: Final = frozenset({"instruct", "it", "chat", "base"})
"""Words for the usual tunings of a model, which its files come in."""


@cache
def downloads() -> tuple[Download, ...]:
    """Every downloadable model, in the order of the table."""
    return read_rows(DATA / "models" / "downloads.csv", Download)


def download_of(name: str) -> Download | None:
    """
    Files of the model that a name means, and of no other of its shape: a later version or a distillation has its own.

    Examples
    --------
    >>> download_of("Qwen3-8B").gguf, download_of("Qwen/Qwen3-30B-A3B-Instruct-2507")
    ('Qwen/Qwen3-8B-GGUF', None)
    """
    for one in downloads():
        if name in (one.gguf, one.ollama, one.mlx, one.awq):
            return one
    shape = look_up(name)
    found = next((one for one in downloads() if one.model == shape), None)
    return found if found is not None and _words(name) <= _words(found.model) | _SAME else None


def _words(name: str) -> set[str]:
    return set(re.split(r"[-_:\s]+", name.rpartition("/")[2].lower()))


def published_score(model: str) -> float | None:
    """Its score in BENCHMARK as released; absent where the catalogue has none."""
    return _scores().get(_plain(model))


@cache
def _scores() -> dict[str, float]:
    """By plain name; the best of several tunings of the same weights, for files come in the tuned one."""
    from tonnage.catalog.published import quality_scores  # `fit` loads this module, and seldom asks for a score

    found: dict[str, float] = {}
    for score in quality_scores():
        if score.benchmark == BENCHMARK and score.variant == "bf16":
            key = _plain(score.model)
            found[key] = max(score.score, found.get(key, 0.0))
    return found


def _plain(model: str) -> str:
    """A model's name without its publisher and without words for how it was tuned."""
    name = model.rpartition("/")[2].lower().removeprefix("meta-")
    for word in ("-instruct", "-it", "-base"):
        name = name.removesuffix(word)
    return name
