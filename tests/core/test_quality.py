"""A quality floor filters formats by published evaluations of the model alone; what is unknown passes nothing (C12)."""

from functools import cache
from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest

EIGHT = "meta-llama/Llama-3.1-8B-Instruct"


@cache
def plan(**fields: Any) -> Any:
    return tonnage.plan_batch(**{"model": EIGHT, "items": "1M", "accelerator": "H100,H200,L40S", **fields})


def formats(made: Any) -> set[str]:
    return {option.configuration.precision.weights for option in made.options}


def test_without_a_floor_the_loss_is_told() -> None:
    made = plan()
    assert formats(made) == {"bf16", "fp8"}
    change, cache = made.quality
    assert cache.what == "fp8 cache" and cache.passes is None
    assert change.what == "fp8 weights" and change.passes is None and change.kept == pytest.approx(73.44 / 73.79)
    assert "99.5 %" in change.told and change.sources


def test_a_floor_that_fp8_keeps_leaves_it_and_says_so() -> None:
    made = plan(quality="99 %")
    assert formats(made) == {"bf16", "fp8"} and made.quality[0].passes is True


def test_a_floor_that_fp8_misses_leaves_the_weights_as_released() -> None:
    made = plan(quality="99.9 %")
    assert formats(made) == {"bf16"} and made.quality == ()
    refused = next(r for r in made.rejected if r.verdict.limit == "quality")
    assert refused.what == "fp8 weights" and refused.verdict.short_by == pytest.approx(0.999 - 73.44 / 73.79)
    assert "quality 99.5 %" in refused.verdict.nearest
    assert made.options[0].cost.value > plan(quality="99 %").options[0].cost.value


def test_a_floor_that_nothing_asked_for_keeps_is_an_answer() -> None:
    made = plan(precision="int4", quality="99 %")
    assert not made.feasible and made.binding.limit == "quality"
    assert "int4 weights" in made.sentence and "as released" in (made.binding.nearest or "")


def test_a_floor_above_all_is_no_share() -> None:
    with pytest.raises(BadRequest, match="quality"):
        plan(quality="120 %")
