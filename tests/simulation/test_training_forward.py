"""A training step opened: its forward half, and parts of the same names whose operators add up to it."""

from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace
from tests.training_setups import train_setup
from tests.trees import gap, leaves

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.case import TrainCase, TrainCaseLayout
from tonnage.errors import BadRequest
from tonnage.questions.predict.training import predict_train
from tonnage.questions.train.setup import resolve_setup
from tonnage.simulation.training import forward_time, step_time


@pytest.mark.parametrize("layout", [{"tp": 1, "pp": 1}, {"tp": 2, "pp": 4}, {"tp": 1, "pp": 1, "sharding": "fsdp"}])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_a_forward_pass_is_between_a_fifth_and_a_half_of_its_step(layout: dict[str, object], recompute: str) -> None:
    model, card = resolve("llama-3.1-8b"), catalog.accelerator("h100-sxm5-80gb")
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
        forward_time(train_setup(seq_len=128, model=resolve("resnet50")))


WITHIN = 1e-9


def case(**changes: Any) -> TrainCase:
    base: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "h100-sxm5-80gb",
        "count": 16,
        "seq_len": 4096,
        "global_batch": 64,
        "micro_batch": 1,
        "framework": "megatron",
    }
    return TrainCase(**(base | changes))


def opened(asked: TrainCase) -> dict[str, Any]:
    result = predict_train(asked, why=True)
    step, rate = result.opened
    assert step.value == result.step_s.value
    assert max(gap(step), gap(rate)) < WITHIN
    assert {part.name: part.value for part in step.parts} == pytest.approx(
        {part.name: part.value for part in result.step_s.parts}, rel=WITHIN
    )
    known = result.tokens_per_s_per_accelerator or result.samples_per_s_per_accelerator
    assert rate.value == pytest.approx(known.value, rel=WITHIN)
    return {part.name: part for part in step.parts}


@pytest.mark.parametrize(
    ("model", "accelerator", "layout", "recompute"),
    list(
        product(
            ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3", "bert-large-uncased"),
            ("h100-sxm5-80gb", "a100-sxm4-80gb", "mi300x"),
            (
                {"tp": 2, "pp": 2},
                {"tp": 1, "sharding": "fsdp"},
                {"pp": 4, "vpp": 2},
                {"cp": 2, "tp": 4, "async_tp": True},
                {"ep": 4},
                {"pp": 4, "schedule": "zb-h1"},
            ),
            ("none", "selective", "full"),
        )
    )[::5],
)
def test_parts_add_up(model: str, accelerator: str, layout: dict[str, Any], recompute: str) -> None:
    if layout.get("ep") and not model.startswith(("Qwen", "deepseek")):
        layout = {"tp": 8}
    seq_len = 512 if model.startswith("bert") else 4096
    asked = case(model=model, accelerator=accelerator, layout=TrainCaseLayout(**layout), recompute=recompute)
    parts = opened(replace(asked, seq_len=seq_len))
    assert parts and max(map(gap, parts.values())) < WITHIN


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "qlora", "count": 1, "framework": "hf", "recompute": "full"},
        {"method": "lora", "count": 2, "framework": "torchtune"},
        {"method": "full", "offload": "all", "framework": "deepspeed", "layout": TrainCaseLayout(sharding="zero3")},
        {"optimizer": "muon"},
        {"precision": "fp8"},
        {"recompute": "selective", "framework": "torchtitan"},
        {"recompute": "full", "recompute_share": 0.5},
        {"model": "torchvision/resnet50", "image_px": 224, "seq_len": None, "framework": "pytorch", "micro_batch": 64,
         "global_batch": 1024},
    ],
    ids=str,
)  # fmt: skip
def test_parts_add_up_for_every_method(changes: dict[str, Any]) -> None:
    parts = opened(case(**changes))
    assert parts and max(map(gap, parts.values())) < WITHIN


def test_operators_do_the_work_of_the_model() -> None:
    """Six FLOP a parameter and token, and attention's own: what the leaves multiply is what a step needs."""
    parts = opened(case(layout=TrainCaseLayout(tp=2, pp=1), recompute="none"))
    layers = next(part for part in parts["compute"].parts if part.name == "layers")
    flop = sum(
        leaf.execution.count * leaf.execution.shape["flop"] for leaf in leaves(layers) if leaf.execution is not None
    )
    tokens = 64 * 4096 / 8
    in_layers = 8.03e9 - 2 * 128256 * 4096
    products = 6.0 * in_layers * tokens / 2
    attention = 3.5 * 32 * 2.0 * 4096 * 4096 * tokens / 2
    assert layers.times * flop == pytest.approx(products + attention, rel=0.02)


def test_what_hides_is_said() -> None:
    data = opened(case(layout=TrainCaseLayout(tp=1, pp=1)))["DP communication"]
    assert any("hidden" in part.how for part in data.parts)
