"""One forward pass beside the optimizer step it belongs to."""

from __future__ import annotations

import pytest
from tests.training_setups import train_setup

from tonnage import catalog
from tonnage.catalog import hub
from tonnage.domain.case import TrainCase, TrainCaseLayout
from tonnage.errors import BadRequest
from tonnage.questions.train.setup import resolve_setup
from tonnage.simulation.training import forward_time, step_time


@pytest.mark.parametrize("layout", [{"tp": 1, "pp": 1}, {"tp": 2, "pp": 4}, {"tp": 1, "pp": 1, "sharding": "fsdp"}])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_a_forward_pass_is_between_a_fifth_and_a_half_of_its_step(layout: dict[str, object], recompute: str) -> None:
    model, card = hub.resolve("llama-3.1-8b"), catalog.accelerator("h100-sxm5-80gb")
    case = TrainCase(
        model=model,
        accelerator=card.id,
        method="full",
        count=16,
        layout=TrainCaseLayout(**layout),  # type: ignore[arg-type]
        global_batch=256,
        seq_len=4096,
        micro_batch=1,
        recompute=recompute,  # type: ignore[arg-type]
        framework="pytorch" if "sharding" in layout else "megatron",
    )
    setup = resolve_setup(case, model=model, accelerator=card).setup
    step = step_time(setup).value
    ahead = forward_time(setup)
    assert 0.2 * step < ahead.value < 0.5 * step
    assert ahead.value == pytest.approx(sum(part.value for part in ahead.parts))


def test_networks_without_layers_have_none() -> None:
    with pytest.raises(BadRequest, match="has no layers"):
        forward_time(train_setup(seq_len=128, model=hub.resolve("resnet50")))
