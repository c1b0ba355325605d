"""
By which published score do models stand, and where stands one that has none?

Each task has a benchmark. A model without a score in it stands just above the best model that it equals or beats in
another benchmark of the task: a lower bound of one published score by two others, never a number of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, Literal

from tonnage.catalog import model_name
from tonnage.catalog.published import AS_RELEASED, downloads, quality_scores
from tonnage.domain.published import Standing

Task = Literal["chat", "code", "agent", "reasoning"]
CHAT: Final = "chat"
"""The task of whoever states none."""
TASKS: Final[Mapping[Task, tuple[str, ...]]] = {
    CHAT: ("MMLU-Pro", "GPQA Diamond", "MMLU"),
    "code": ("LiveCodeBench v6", "LiveCodeBench"),
    "agent": ("SWE-bench Verified", "SWE-bench Pro"),
    "reasoning": ("GPQA Diamond", "MMLU-Pro"),
}
"""Task -> the benchmark that models stand by, then those that place a model without it, the first that can."""


def task_of(profile: str | None) -> Task:
    """The task that a length profile is of; chat where it has no benchmark of its own."""
    return next((task for task in TASKS if task == profile), CHAT)


@cache
def standing(model: str, task: Task = CHAT) -> Standing | None:
    """Where a model stands in a task; None where no score of its own places it among those that have one."""
    benchmark, *others = TASKS[task]
    ranked, name = _scores()[benchmark], _untuned(model)
    if name in ranked:
        return Standing(score=ranked[name][0])
    for other in others:
        scores = _scores()[other]
        if name in scores:
            own, _ = scores[name]
            beaten = [(*found, key) for key, found in scores.items() if key in ranked and found[0] <= own]
            if beaten:
                theirs, beside, key = max(beaten)
                return Standing(score=ranked[key][0], beside=beside, benchmark=other, own=own, theirs=theirs)
    return None


def order_of(stands: Standing | None) -> tuple[float, float]:
    """What models are sorted by: the score, then by how much a model beside is beaten; without a score last."""
    return (-stands.score, stands.theirs - stands.own) if stands else (0.0, 0.0)


def best_first(task: Task) -> list[str]:
    """Models that people run, in the order of where they stand in a task."""
    return sorted((one.model for one in downloads()), key=lambda name: order_of(standing(name, task)))


def score_text(stands: Standing | None, *, kept: float = 1.0) -> str:
    """The score that ranks a model, > where it is a lower bound, times a share that is kept; empty where none does."""
    return f"{'> ' if stands.beside else ''}{stands.score * kept:.1f}" if stands else ""


def told_standings(models: Mapping[str, Standing | None], benchmark: str) -> Iterator[str]:
    """Which models a score in another benchmark places, and which none does."""
    for model, stands in models.items():
        if stands and stands.beside:
            yield (
                f"> {stands.score:.1f}: {model_name(model)} has no published {benchmark}; it stands above "
                f"{model_name(stands.beside)} by {stands.benchmark} ({stands.own:g} against {stands.theirs:g})"
            )
    if without := [model_name(model) for model, stands in models.items() if not stands]:
        yield f"no published score places {', '.join(without)}: below the others, by size"


@cache
def _scores() -> dict[str, dict[str, tuple[float, str]]]:
    """
    Benchmark -> plain name of a model -> its score and the name that its publisher gives it; the best of several
    tunings of the same weights, for files come in the tuned one.
    """
    found: dict[str, dict[str, tuple[float, str]]] = {name: {} for names in TASKS.values() for name in names}
    for score in quality_scores():
        if score.benchmark in found and score.variant == AS_RELEASED:
            of = found[score.benchmark]
            key = _untuned(score.model)
            of[key] = max((score.score, score.model), of.get(key, (0.0, "")))
    return found


def _untuned(model: str) -> str:
    """A model's name without its publisher and without words for how it was tuned."""
    name = model.rpartition("/")[2].lower().removeprefix("meta-")
    for word in ("-instruct", "-it", "-base"):
        name = name.removesuffix(word)
    return name
