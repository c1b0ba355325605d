"""Preference tuning: pairs, further passes, and a reference's weights."""

import math
from datetime import date

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.case import TrainCase, TrainCaseLayout
from tonnage.domain.train_plan import TrainPlan
from tonnage.domain.training import OBJECTIVES, TrainSetup
from tonnage.errors import BadRequest
from tonnage.export import export
from tonnage.physics.activations import logit_bytes
from tonnage.physics.parameters import parameters
from tonnage.physics.training_memory import training_memory
from tonnage.questions.ask import answer
from tonnage.questions.train.setup import resolve_setup
from tonnage.simulation.training import forward_time, step_time
from tonnage.simulation.training_tree import step_tree

MODEL, CARD = resolve("llama-3.1-8b"), catalog.accelerator("h100-sxm5-80gb")


SHARDING = {"pytorch": "fsdp", "megatron": "zero1", "colossalai": "zero2"}


def setup(objective: str, *, method: str = "full", count: int = 8, framework: str = "pytorch") -> TrainSetup:
    layout = TrainCaseLayout(sharding=SHARDING[framework], tp=1, pp=1)
    case = TrainCase(
        model=MODEL,
        accelerator=CARD.id,
        method=method,
        count=count,
        layout=layout,  # type: ignore[arg-type]
        micro_batch=1,
        global_batch=count,
        seq_len=1024,
        recompute="full",
        framework=framework,
        objective=objective,  # type: ignore[arg-type]
    )
    return resolve_setup(case, model=MODEL, accelerator=CARD).setup


def memory(made: TrainSetup) -> dict[str, float]:
    found = training_memory(made)
    return {part.name: part.value for part in found.parts}


def step_s(made: TrainSetup) -> float:
    return step_time(made).value


def test_a_reference_is_sixteen_bit_weights_sharded_as_the_policy() -> None:
    found = memory(setup("dpo"))
    assert found["reference model"] == pytest.approx(2.0 * parameters(MODEL).value / 8, rel=1e-3)
    # TRL's own sum for full DPO in 32 bits: 4 bytes each for policy, reference and gradients, 8 for AdamW.
    wide = memory(replace(setup("dpo"), precision="fp32"))
    states = sum(wide[name] for name in ("weights", "reference model", "gradients", "optimizer"))
    assert states == pytest.approx(20.0 * parameters(MODEL).value / 8, rel=0.01)
    cached = memory(replace(setup("dpo"), reference="cached"))
    assert "reference model" not in cached and cached["weights"] == found["weights"]


@pytest.mark.parametrize("objective", ["orpo", "simpo", "reward", "sft"])
def test_objectives_without_a_reference_hold_none(objective: str) -> None:
    assert "reference model" not in memory(setup(objective))


def test_adapters_are_their_own_reference() -> None:
    assert "reference model" not in memory(setup("dpo", method="lora"))


def test_a_pair_keeps_twice_the_activations_of_one_sequence() -> None:
    one, pair = memory(setup("sft")), memory(setup("orpo"))
    assert pair["logits"] == pytest.approx(2 * one["logits"])
    two = replace(setup("sft"), micro_batch=2)
    assert memory(two)["activations"] == pytest.approx(pair["activations"])
    assert step_s(two) == pytest.approx(step_s(setup("orpo")))


def test_a_reward_model_has_no_vocabulary() -> None:
    assert step_s(setup("reward")) < step_s(setup("orpo"))
    assert memory(setup("reward")).get("logits", 0.0) == 0.0 < memory(setup("orpo"))["logits"]


def test_pairs_hold_their_logits_whole_where_next_tokens_do_not() -> None:
    chunked, whole = (
        memory(setup(objective, framework="megatron", method="full"))["logits"] for objective in ("sft", "orpo")
    )
    assert whole > 2.5 * 2 * chunked


def test_passes_of_a_reference_leave_logits_where_the_loop_keeps_them() -> None:
    made = setup("dpo", framework="colossalai")
    assert logit_bytes(32000, setup=made) == 26.0 * 32000
    assert logit_bytes(32000, setup=replace(made, reference="cached")) == 16.0 * 32000


def test_gradients_are_widened_when_the_optimizer_steps() -> None:
    small = replace(setup("orpo", framework="colossalai", count=2), seq_len=64)
    found, count = memory(small), parameters(MODEL).value
    assert found["gradients in 32 bits"] == pytest.approx(4.0 * count / 2, rel=1e-3) and "logits" not in found
    assert found["master weights"] == pytest.approx(4.0 * count / 2, rel=1e-3)


def test_a_reference_costs_a_forward_pass() -> None:
    apart = setup("dpo", count=1)
    whole, cached = step_s(apart), step_s(replace(apart, reference="cached"))
    ahead = forward_time(apart).value
    fixed = apart.coefficients.step_s[apart.software.fitted]  # once a step, whatever its passes
    assert whole - cached == pytest.approx(ahead - fixed, rel=0.01)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_step_opens_without_a_gap(objective: str) -> None:
    made = setup(objective)
    tree = step_tree(made)
    assert math.isclose(tree.value, step_s(made), rel_tol=1e-9)
    inner = sum(part.value for part in tree.parts)
    assert math.isclose(tree.value, inner * tree.times, rel_tol=1e-6)


FIELDS = {
    "model": "llama-3.1-8b",
    "method": "lora",
    "examples": "20k",
    "tokens_per_example": "800",
    "accelerator": "H100",
    "count": "8",
}


def planned(**changes: str) -> TrainPlan:
    plan = answer("finetune", FIELDS | changes, today=date(2026, 11, 22))
    assert isinstance(plan, TrainPlan)
    return plan


def test_a_plan_prices_pairs_and_its_files_say_so() -> None:
    plain, dpo = planned(packed="false"), planned(objective="dpo")
    assert dpo.options[0].cost.value > plain.options[0].cost.value
    files = export(dpo, dpo.options[0], to="axolotl")
    assert "rl: dpo" in files["axolotl.yaml"]
    with pytest.raises(BadRequest, match="say nothing of dpo"):
        export(dpo, dpo.options[0], to="torchrun")


def test_preferences_need_whole_answers() -> None:
    with pytest.raises(BadRequest, match="compares whole answers"):
        answer("finetune", {"model": "llama-3.1-8b", "tokens": "40M", "objective": "dpo"})
