"""`tonnage fit`: what people write becomes a `FitRequest`, contradictions become sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage.core.reading import build, need_model, read_fields
from tonnage.domain.precision import FORMATS, number_format
from tonnage.errors import BadRequest
from tonnage.questions.fit.request import FitRequest, Goal

SERVING_ONLY: Final = ("context", "concurrency", "kv", "engine", "engine_version", "shared_prefix", "kv_offload")
TRAINING_ONLY: Final = ("seq_len", "optimizer", "recompute", "sharding", "lora_rank", "count")
INSTEAD: Final = {
    "seq_len": "context",
    "count": "tp",
    "context": "seq-len",
    "concurrency": "batch",
    "kv": "precision",
}
"""What a field of the other kind of job probably meant."""


def fit_request(values: Mapping[str, Any]) -> FitRequest:
    """
    A fit request from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range, or fields that contradict.
    """
    given = read_fields(values, FitRequest)
    goal = _goal(given)
    _belongs(given, goal)
    if given.get("solve") != "model":
        need_model(given)
    _check_solve(given, goal)
    if "precision" in given:
        _storable(given["precision"])
    return build(FitRequest, given, goal=goal)


def _goal(given: Mapping[str, Any]) -> Goal:
    goals = [name for name in ("serve", "train", "finetune") if given.get(name)]
    if len(goals) > 1:
        raise BadRequest(f"--{goals[0]} and --{goals[1]} contradict; one kind of job is answered at a time")
    return "finetune" if "finetune" in goals else "train" if "train" in goals else "serve"


def _belongs(given: Mapping[str, Any], goal: Goal) -> None:
    foreign = SERVING_ONLY if goal != "serve" else TRAINING_ONLY
    job = "serving" if goal != "serve" else "training"
    for name in foreign:
        if name in given:
            flag = name.replace("_", "-")
            instead = INSTEAD.get(name)
            hint = f"; for {'training' if goal != 'serve' else 'serving'} give --{instead}" if instead else ""
            how = "" if goal != "serve" else " (or say --train, or --finetune lora)"
            raise BadRequest(f"{flag} belongs to {job}, and this asks about {_word(goal)}{hint}{how}")
    if goal == "train" and "lora_rank" in given:
        raise BadRequest("lora-rank belongs to adapters; say --finetune lora")


def _word(goal: Goal) -> str:
    return {"serve": "serving", "train": "training", "finetune": "fine-tuning"}[goal]


def _check_solve(given: Mapping[str, Any], goal: Goal) -> None:
    solve = given.get("solve")
    if solve is None:
        return
    if "accelerator" not in given:
        raise BadRequest(f"--solve {solve} needs an --accelerator to fill")
    fitting = ("context", "concurrency", "batch", "model") if goal == "serve" else ("batch", "seq-len", "model")
    if solve not in fitting:
        raise BadRequest(f"--solve {solve} makes no sense for {_word(goal)}; choose {' or '.join(fitting)}")
    if solve.replace("-", "_") in given:
        raise BadRequest(f"--{solve} is given and asked for at once; drop one of --{solve} and --solve {solve}")


def _storable(name: str) -> None:
    found = number_format(name)
    if found.name in {"tf32", "fp64"}:
        raise BadRequest(f"precision: weights are not stored as {found.name}; give one of {', '.join(FORMATS)}")
