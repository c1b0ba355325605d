"""Options of plans, opened again from what the plan holds: their own numbers, none of it lost."""

from typing import Any

import msgspec
import pytest
from tests.trees import gap, leaves

import tonnage
from tonnage.errors import BadRequest

WITHIN = 1e-9


def train_plan(**fields: Any) -> Any:
    base: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "tokens": "10B tokens",
        "accelerator": "H100",
        "deadline": "20 days",
    }
    return tonnage.plan_train(**(base | fields))


def test_every_option_of_a_training_plan_opens_to_its_own_step() -> None:
    plan = train_plan()
    assert len(plan.options) > 1
    for rank, option in enumerate(plan.options, 1):
        step = tonnage.explain(plan, rank=rank).numbers[0]
        assert step.value == pytest.approx(option.step_s.value, rel=WITHIN)
        assert "as planned, beyond this" not in [part.name for part in step.parts]
        assert gap(step) < WITHIN


def test_adapters_in_four_bits_open_too() -> None:
    # Desktop cards are rented at marketplaces alone.
    plan = tonnage.plan_finetune(
        "meta-llama/Llama-3.1-8B", tokens="50M tokens", method="qlora", accelerator="RTX 4090", community=True
    )
    found = tonnage.explain(plan)
    assert found.numbers[0].value == pytest.approx(plan.options[0].step_s.value, rel=WITHIN)
    assert "widening 4-bit weights" in [leaf.name for leaf in leaves(found.numbers[0])]


def test_the_head_is_not_widened_where_the_layers_are_held_in_four_bits() -> None:
    case = {"kind": "train", "model": "meta-llama/Llama-3.1-8B", "accelerator": "A100-80GB-SXM", "method": "qlora"}
    opened = tonnage.explain({**case, "seq_len": 2048, "micro_batch": 1, "framework": "peft"})
    moved = next(part for part in opened.numbers[0].parts if part.name == "element-wise")
    widened = [part.name for part in moved.parts if any("4-bit" in leaf.name for leaf in leaves(part))]
    assert widened == ["layers"] and [part.name for part in moved.parts] == ["layers", "head"]


def test_what_is_not_at_hand_any_more_is_said_and_nothing_fails() -> None:
    plan = train_plan()
    option = plan.options[0]
    other = msgspec.structs.replace(option.configuration, accelerator="a-part-of-mine")
    moved = msgspec.structs.replace(plan, options=(msgspec.structs.replace(option, configuration=other),))
    found = tonnage.explain(moved)
    assert not found.numbers
    assert "a-part-of-mine" in found.notes[0]


def test_ranks_and_plans_without_times_are_refused() -> None:
    plan = train_plan()
    with pytest.raises(BadRequest, match="choose 1 to"):
        tonnage.explain(plan, rank=99)
    with pytest.raises(BadRequest, match="no times to open"):
        tonnage.explain(msgspec.structs.replace(plan, options=()))
    with pytest.raises(BadRequest, match="infer"):
        tonnage.explain({"kind": "infer", "model": "resnet50", "accelerator": "T4"})


def test_a_tree_survives_the_trip_through_json() -> None:
    case = {
        "kind": "serve",
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "MI300X",
        "traffic": {"rate_per_s": 2.0},
        "isl": 300,
        "osl": 90,
    }
    found = tonnage.explain(case)
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
    assert tonnage.predict(case, why=True).opened == found.numbers  # type: ignore[union-attr]
