"""Open degrees are closed with what fits, and every choice is said."""

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.case import TrainCase, TrainCaseLayout
from tonnage.errors import BadRequest
from tonnage.questions.train.setup import Chosen, resolve_setup

LLAMA_8B = TrainCase(model="meta-llama/Meta-Llama-3-8B", accelerator="h100-sxm5-80gb", seq_len=8192)


def resolved(case: TrainCase) -> Chosen:
    return resolve_setup(case, model=catalog.model(case.model), accelerator=catalog.accelerator(case.accelerator))


def test_stated_degrees_are_kept() -> None:
    case = replace(
        LLAMA_8B,
        count=64,
        global_batch=512,
        micro_batch=1,
        recompute="full",
        layout=TrainCaseLayout(tp=2, pp=4, cp=2, sharding="zero1"),
    )
    found = resolved(case)
    layout = found.setup.layout
    assert (layout.tp, layout.pp, layout.cp, layout.dp) == (2, 4, 2, 4)
    assert found.setup.num_micro_batches == 128
    assert found.setup.recompute == "full"


def test_what_does_not_divide_is_refused_with_the_rule() -> None:
    with pytest.raises(BadRequest, match="tp x pp x cp x dp must equal the count"):
        resolved(replace(LLAMA_8B, count=12, layout=TrainCaseLayout(tp=8)))
    with pytest.raises(BadRequest, match="dp 5"):
        resolved(replace(LLAMA_8B, count=64, layout=TrainCaseLayout(dp=5)))


def test_the_chosen_setup_fits_and_says_so() -> None:
    found = resolved(replace(LLAMA_8B, count=64, global_batch=512))
    assert found.fits
    assert found.memory.value <= catalog.accelerator("h100-sxm5-80gb").driver_memory_bytes
    assert any("chosen, not stated" in note for note in found.notes)


def test_big_models_get_tensor_and_pipeline_ranks() -> None:
    found = resolved(replace(LLAMA_8B, model="meta-llama/Meta-Llama-3.1-405B", count=1024, global_batch=512))
    assert found.fits
    assert found.setup.layout.tp * found.setup.layout.pp >= 64


def test_short_memory_recomputes_only_as_many_layers_as_needed() -> None:
    case = replace(LLAMA_8B, accelerator="a100-sxm4-80gb", count=8, framework="fsdp", micro_batch=4, year=2024)
    found = resolved(case)
    assert found.fits
    assert found.setup.recompute == "full"
    assert 0 < found.setup.recompute_share < 1
    assert any("% of the layers" in note for note in found.notes)


def test_what_cannot_fit_is_answered_with_the_smallest() -> None:
    found = resolved(replace(LLAMA_8B, model="meta-llama/Meta-Llama-3-70B", method="full", count=1))
    assert not found.fits
    assert found.setup.recompute == "full"
