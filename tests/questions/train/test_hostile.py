"""Odd and hostile training requests: each gets a sentence that says what is wrong, or an answer that makes sense."""

from typing import Any

import pytest
from tests.questions.train.test_plan import finetune, train

from tonnage.errors import BadRequest


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"count": "0"}, "count"),
        ({"global_batch": "1000000000"}, "global_batch"),
        ({"precision": "fp5"}, "fp8"),
        ({"seq_len": "2000000"}, "131,072"),
        ({"deadline": "-3 days"}, "deadline"),
        ({"deadline": "2020-01-01"}, "how long from now"),
        ({"budget": "0"}, "budget"),
        ({"tokens": "0"}, "tokens"),
        ({"tokens": "1e40"}, "tokens"),
        ({"framework": "nonsense"}, "no framework 'nonsense'"),
        ({"optimizer": "adamw9"}, "adamw"),
        ({"spares": "-1"}, "spares"),
        ({"validation": "200 %"}, "validation"),
        ({"headroom": "-0.1"}, "headroom"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(BadRequest, match=word) as raised:
        train(**changes)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"method": "prefix"}, "qlora"),
        ({"method": "qlora", "framework": "nemo"}, "nemo trains no adapters over weights in 4 bits"),
        ({"lora_rank": "0", "method": "lora"}, "lora_rank"),
        ({"tokens_per_example": "500000"}, "512"),
        ({"examples": "0"}, "examples"),
        ({"model": "timm/resnet50.a1_in1k", "method": "lora"}, "images"),
    ],
)
def test_fine_tuning_that_makes_no_sense_is_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(BadRequest, match=word):
        finetune(**changes)


def binding(plan: Any) -> tuple[str | None, str]:
    assert not plan.feasible
    return plan.binding.limit, plan.binding.reason


def test_a_budget_below_the_least_cost_is_the_limit_and_says_so() -> None:
    limit, reason = binding(train(budget="$1", accelerator="H100", provider="gcp"))
    assert limit == "budget"
    assert "costs " in reason and "$1.00 are allowed" in reason and "0.0 times" not in reason


def test_a_format_that_the_part_does_not_compute_is_the_limit() -> None:
    limit, reason = binding(train(precision="fp8", accelerator="A100", provider="gcp"))
    assert limit == "precision"
    assert "computes no fp8" in reason


def test_utilisation_of_narrow_products_names_its_peak() -> None:
    told = train(tokens="10B", precision="fp8", accelerator="H100", count="8").sentence
    assert "of the 16-bit peak" in told
    assert "of the 16-bit peak" not in train(tokens="10B", accelerator="H100", count="8").sentence


def test_images_come_in_batches_of_images() -> None:
    plan = finetune(
        model="timm/resnet50.a1_in1k", examples="100k", tokens_per_example=None, packed=None, accelerator="A100"
    )
    assert plan.options[0].configuration.global_batch == 256
    assert any("256 images" in said for said in plan.provenance.assumed)


def test_what_is_interrupted_faster_than_it_advances_is_refused_and_not_proposed() -> None:
    made = train(
        tokens="1e13", accelerator="a100-sxm4-80gb", count="524288", global_batch="524288", term="spot", deadline=None
    )
    assert not made.feasible and made.binding.limit == "interruptions"
    ways = [way for way in made.relaxing if not way.startswith("without --deadline")]
    assert ways and not any("e+" in way or len(way) > 120 for way in ways)
