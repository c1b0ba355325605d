"""What a request comes to: steps, sequences, defaults that are said."""

import re
from functools import cache
from math import ceil
from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest

LLAMA, BERT, RESNET = "meta-llama/Llama-2-7b-hf", "google-bert/bert-base-uncased", "resnet-50"


@cache
def trained(model: str = LLAMA, count: int = 8, **fields: Any) -> Any:
    return tonnage.plan_train(model, accelerator="H100", count=count, **fields)


@cache
def tuned(model: str = LLAMA, **fields: Any) -> Any:
    return tonnage.plan_finetune(model, accelerator="H100", **{"method": "full", "count": 8, **fields})


def usual_batch(plan: Any) -> tuple[int, int]:
    """Sequences of a step where none are given, and those that many accelerators may take."""
    (said,) = (told for told in plan.provenance.assumed if told.startswith("global batch not given"))
    usual, largest = re.findall(r"([\d,]+) (?:sequences|\()", said)
    return int(usual.replace(",", "")), int(largest.replace(",", ""))


def assert_sequences(plan: Any, sequences: float) -> None:
    """Every option makes as many steps as its batch needs for them."""
    assert plan.options
    for option in plan.options:
        assert option.run.steps == ceil(sequences / option.configuration.global_batch - 1e-9)


def test_tokens_over_batch_are_steps() -> None:
    plan = trained(tokens=1e9, seq_len=4096, global_batch=256)
    assert_sequences(plan, 1e9 / 4096)
    assert {option.configuration.global_batch for option in plan.options} == {256}
    assert not any("not given" in told for told in plan.provenance.assumed)


def test_the_usual_batch_grows_with_the_model_as_published() -> None:
    batch, _ = usual_batch(trained("openai/gpt-3-175b", count=256, tokens=300e9, seq_len=2048))
    assert batch in {1024, 2048}  # 3.2 M tokens in arXiv 2005.14165
    small, _ = usual_batch(trained(BERT, tokens=300e9, seq_len=512))
    assert small * 512 == pytest.approx(0.5e6, rel=0.1)


def test_a_short_context_shortens_the_default_sequence() -> None:
    plan = trained("openai-community/gpt2", tokens=1e9)
    assert "sequence length not given: 1,024 tokens" in plan.provenance.assumed
    assert_sequences(plan, 1e9 / 1024)


def test_an_open_batch_grows_with_the_accelerators_and_a_stated_one_never() -> None:
    few = trained(tokens=15e12, seq_len=8192, extend_context=True)
    usual, largest = usual_batch(few)
    assert {option.configuration.global_batch for option in few.options} == {usual}
    assert largest * 8192 == pytest.approx(16.8e6, rel=0.01)  # Llama 3 405B, arXiv 2407.21783
    stated = trained(count=512, tokens=100e9, seq_len=4096, global_batch=512)
    assert {option.configuration.global_batch for option in stated.options} == {512}


def test_the_batch_of_an_option_is_the_one_its_steps_are_of() -> None:
    found = trained(count=512, tokens=100e9)
    best = found.options[0]
    assert best.configuration.global_batch > usual_batch(found)[0]
    assert best.run.steps * best.configuration.global_batch * 4096 == pytest.approx(100e9, rel=0.001)


@pytest.mark.parametrize(
    ("model", "fields", "sequences", "said"),
    [
        (LLAMA, {"examples": 50000, "tokens_per_example": 800, "epochs": 3}, 50000 * 800 * 3 / 2048,
         "packed into sequences of 2,048 tokens"),
        (BERT, {"examples": 1000, "tokens_per_example": 100, "epochs": 2, "packed": False}, 2000.0,
         "padded to 128 tokens"),
        (BERT, {"examples": 1000, "tokens_per_example": 100}, 1000 * 100 / 512, "sequences of 512 tokens: "),
        (RESNET, {"examples": 1000, "epochs": 2}, 2000.0, "global batch not given: 256 images"),
    ],
)  # fmt: skip
def test_examples_are_packed_padded_or_images(model: str, fields: dict[str, Any], sequences: float, said: str) -> None:
    """Packing never goes beyond the model; images are samples of their own."""
    plan = tuned(model, count=1 if model != LLAMA else 8, **fields)
    assert_sequences(plan, sequences)
    assert any(said in told for told in plan.provenance.assumed), plan.provenance.assumed


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"examples": 10}, "tokens_per_example is missing"),
        ({"tokens_per_example": 10}, "no data is given: give examples"),
        ({"examples": 10, "tokens_per_example": 1e6}, "beyond the"),
        ({"tokens": 1e6, "packed": False}, "packed"),
    ],
)
def test_data_that_is_not_measured_is_asked_for(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        tuned(**fields)


def test_a_network_takes_no_tokens() -> None:
    with pytest.raises(BadRequest, match="takes no tokens"):
        trained(RESNET, tokens=1e9)


def test_longer_sequences_are_refused_or_said_and_never_cut_in_silence() -> None:
    for ask in (trained, tuned):
        with pytest.raises(BadRequest, match="--extend-context"):
            ask(tokens=1e7, seq_len=8192)
    extended = tuned(tokens=1e7, seq_len=8192, extend_context=True)
    assert extended.feasible and any("extended" in said for said in extended.provenance.assumed)
    assert_sequences(extended, 1e7 / 8192)
    assert any("512" in said for said in tuned(BERT, count=1, tokens=1e7).provenance.assumed)
    assert trained(tokens=1e9, seq_len=8192, extend_context=True).feasible
