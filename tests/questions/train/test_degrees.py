"""Degrees against what they split: heads, layers, experts."""

from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest, UnknownName

LLAMA, LARGE, MIXTRAL = "meta-llama/Meta-Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-405B", "mistralai/Mixtral-8x7B-v0.1"


def predicted(model: str, count: int = 64, **layout: object) -> Any:
    case = {"model": model, "accelerator": "h100-sxm5-80gb", "count": count, "seq_len": 4096, "layout": layout}
    return tonnage.predict({"kind": "train", **case})


@pytest.mark.parametrize(
    ("model", "layout", "sentence"),
    [
        (LLAMA, {"tp": 3}, "3 does not divide the 32 attention heads"),
        (LLAMA, {"tp": 64}, "64 does not divide"),
        (LLAMA, {"pp": 64}, "64 stages are more than the 32 layers"),
        (LLAMA, {"pp": 8, "vpp": 8}, "8 x 8 virtual stages"),
        (LLAMA, {"ep": 8}, "has no experts"),
        (MIXTRAL, {"ep": 3}, "3 does not divide the 8 experts"),
        (LLAMA, {"sharding": "zero9"}, "zero3"),
    ],
)
def test_what_cannot_be_split_is_said(model: str, layout: dict[str, object], sentence: str) -> None:
    with pytest.raises(UnknownName if "sharding" in layout else BadRequest, match=sentence):
        predicted(model, **layout)


def test_experts_go_to_ranks_in_whole_numbers() -> None:
    assert predicted(MIXTRAL, ep=8).layout["ep"] == 8


def test_embedding_and_head_may_be_stages() -> None:
    stages = predicted(LARGE, count=128, pp=16, vpp=8).layout
    assert (stages["pp"], stages["vpp"]) == (16, 8)
