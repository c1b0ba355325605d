"""The files of batch inference that several targets hand over: the loop, its engine's settings, the size of a part."""

from __future__ import annotations

import json
from typing import Any, Final

from tonnage.domain.batch_plan import BatchOption
from tonnage.errors import BadRequest
from tonnage.export.deployment import Deployment
from tonnage.export.text import data_text

ENGINE: Final = "vllm"
"""Whose offline class the loop calls."""
PART_S: Final = 600.0
"""Work of one part: what an interruption loses at most, and is lost on average by half. [s]"""
MAX_PART: Final = 50_000
"""Requests of a part are held in memory together. [requests]"""


def check_batch(d: Deployment, *, title: str) -> None:
    """
    Refuse an option that the offline class of an engine cannot run.

    Raises
    ------
    BadRequest
        Another engine, several nodes, or data-parallel attention inside a replica.
    """
    if d.engine.name != ENGINE:
        raise BadRequest(
            f"{title} runs vLLM's offline class, and the plan is for {d.engine.name}; plan with --engine vllm"
        )
    if d.nodes > 1 or d.layout.dp > 1:
        raise BadRequest(f"{title} runs a replica on one node without data-parallel attention; choose another option")


def requests_per_part(option: BatchOption) -> int:
    """Requests that one replica answers in about ten minutes, at least as many as it holds at once."""
    return max(1, min(MAX_PART, max(round(option.items_per_s.value * PART_S), round(option.concurrency))))


def batch_files(d: Deployment, *, settings: dict[str, Any]) -> dict[str, str]:
    """`batch.py` and the settings it reads."""
    assert isinstance(d.option, BatchOption)
    written = {"engine": {"model": d.model, **settings}, "requests_per_part": requests_per_part(d.option)}
    return {
        "batch.py": data_text("batch.py.txt"),
        "engine.json": json.dumps(written, indent=2) + "\n",
    }
