"""Open degrees are closed with what fits, and every choice is said."""

from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest


def predicted(**changes: Any) -> Any:
    case = {"model": "meta-llama/Meta-Llama-3-8B", "accelerator": "h100-sxm5-80gb", "seq_len": 8192}
    return tonnage.predict({"kind": "train", **case, **changes})


def test_stated_degrees_are_kept() -> None:
    stated = {"tp": 2, "pp": 4, "cp": 2, "sharding": "zero1"}
    found = predicted(count=64, global_batch=512, micro_batch=1, recompute="full", layout=stated).layout
    assert found.items() >= {**stated, "dp": 4, "micro_batch": 1, "recompute": "full"}.items()


def test_what_does_not_divide_is_refused_with_the_rule() -> None:
    with pytest.raises(BadRequest, match="tp x pp x cp x dp must equal the count"):
        predicted(count=12, layout={"tp": 8})
    with pytest.raises(BadRequest, match="dp 5"):
        predicted(count=64, layout={"dp": 5})


def test_the_chosen_setup_fits_and_says_so() -> None:
    found = predicted(count=64, global_batch=512)
    assert found.fits
    assert found.memory_peak_bytes.value <= tonnage.accelerator("h100-sxm5-80gb").driver_memory_bytes
    assert any("chosen, not stated" in note for note in found.notes)


def test_big_models_get_tensor_and_pipeline_ranks() -> None:
    found = predicted(model="meta-llama/Meta-Llama-3.1-405B", count=1024, global_batch=512)
    assert found.fits
    assert found.layout["tp"] * found.layout["pp"] >= 64


def test_short_memory_recomputes_only_as_many_layers_as_needed() -> None:
    found = predicted(accelerator="a100-sxm4-80gb", count=8, framework="fsdp", micro_batch=4, year=2024)
    assert found.fits
    assert found.layout["recompute"] == "full"
    (told,) = (note for note in found.notes if "% of the layers" in note)
    share = int(told.split("%")[0].split()[-1])
    assert 0 < share < 100


def test_what_cannot_fit_is_answered_with_the_smallest() -> None:
    found = predicted(model="meta-llama/Meta-Llama-3-70B", method="full", count=1)
    assert not found.fits
    assert found.layout["recompute"] == "full"
