"""By which score models stand: their own, one that bounds it from below, or none; never one that nobody published."""

from __future__ import annotations

from typing import get_args

import pytest

from tonnage.catalog.published import downloads, quality_scores
from tonnage.catalog.standings import TASKS, Task, best_first, order_of, standing, task_of


def of(benchmark: str) -> dict[str, float]:
    """The best published score of every model as it is named, in one benchmark."""
    found: dict[str, float] = {}
    for one in quality_scores():
        if (one.benchmark, one.variant) == (benchmark, "bf16"):
            found[one.model] = max(one.score, found.get(one.model, 0.0))
    return found


def published_score(model: str, task: Task) -> float | None:
    """A model's own score in the benchmark of a task."""
    found = standing(model, task)
    return found.published if found else None


def test_every_task_has_a_benchmark_and_other_profiles_are_chat() -> None:
    assert set(get_args(Task)) == set(TASKS) and all(of(names[0]) for names in TASKS.values())
    assert task_of("agent") == "agent" and task_of("rag") == task_of(None) == "chat"


@pytest.mark.parametrize("task", TASKS)
def test_a_score_is_published_or_bounded_by_two_that_are(task: Task) -> None:
    benchmark, *others = TASKS[task]
    own = placed = 0
    for model in (one.model for one in downloads()):
        stands = standing(model, task)
        if stands is None:
            continue
        if not stands.beside:
            own += stands.score in of(benchmark).values() and stands.score == stands.published
        else:
            placed += 1
            assert stands.benchmark in others and of(stands.benchmark)[stands.beside] == stands.theirs <= stands.own
            assert stands.score in of(benchmark).values() and stands.published is None
            beaten = [score for name, score in of(stands.benchmark).items() if published_score(name, task) is not None]
            assert stands.theirs == max(score for score in beaten if score <= stands.own)
    assert own >= 12 and own + placed == sum(standing(one.model, task) is not None for one in downloads())


def test_a_model_placed_by_another_benchmark_stands_just_above_the_one_that_it_beats() -> None:
    newer, older = standing("Qwen/Qwen3.8-27B"), standing("Qwen/Qwen3.6-27B")
    assert newer is not None and older is not None and newer.beside == "Qwen/Qwen3.6-27B"
    assert newer.score == older.score and order_of(newer) < order_of(older) < order_of(None)
    assert newer.published is None and older.published == older.score


@pytest.mark.parametrize("task", TASKS)
def test_people_see_the_best_first_in_every_answer(task: Task) -> None:
    ordered = best_first(task)
    assert sorted(ordered) == sorted(one.model for one in downloads())
    scores = [found.score if (found := standing(model, task)) else 0.0 for model in ordered]
    assert scores == sorted(scores, reverse=True) and ordered != best_first("code" if task != "code" else "chat")
