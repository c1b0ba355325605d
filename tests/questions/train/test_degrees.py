"""Degrees against what they split: heads, layers, experts."""

import pytest

from tonnage import catalog
from tonnage.domain.case import TrainCase, TrainCaseLayout
from tonnage.errors import BadRequest, UnknownName
from tonnage.questions.train.setup import check_degrees

LLAMA = catalog.model("meta-llama/Meta-Llama-3.1-8B")
MIXTRAL = catalog.model("mistralai/Mixtral-8x7B-v0.1")


def case(model: str, **layout: object) -> TrainCase:
    return TrainCase(
        model=model,
        accelerator="h100-sxm5-80gb",
        count=64,
        seq_len=4096,
        layout=TrainCaseLayout(**layout),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        ({"tp": 3}, "3 does not divide the 32 attention heads"),
        ({"tp": 64}, "64 does not divide"),
        ({"pp": 64}, "64 stages are more than the 32 layers"),
        ({"pp": 8, "vpp": 8}, "8 x 8 virtual stages"),
        ({"ep": 8}, "has no experts"),
    ],
)
def test_what_cannot_be_split_is_said(layout: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        check_degrees(case(LLAMA.id, **layout), LLAMA)


def test_experts_go_to_ranks_in_whole_numbers() -> None:
    check_degrees(case(MIXTRAL.id, ep=8), MIXTRAL)
    with pytest.raises(BadRequest, match="3 does not divide the 8 experts"):
        check_degrees(case(MIXTRAL.id, ep=3), MIXTRAL)


def test_embedding_and_head_may_be_stages() -> None:
    large = catalog.model("meta-llama/Meta-Llama-3.1-405B")
    check_degrees(case(large.id, pp=16, vpp=8), large)


def test_a_sharding_that_nobody_knows_names_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="zero3"):
        check_degrees(case(LLAMA.id, sharding="zero9"), LLAMA)
