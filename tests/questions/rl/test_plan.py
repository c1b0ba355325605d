"""The plan of reinforcement learning: splits, ranking, reasons, and published splits beside ours."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.command import answered, told
from tools.rl.scoring import best_split, rl_rows

import tonnage
from tonnage.errors import BadRequest

FIELDS: dict[str, Any] = {
    "model": "Qwen/Qwen3-8B",
    "steps": "100",
    "prompts_per_step": "32",
    "responses_per_prompt": "8",
    "response_tokens": "2000",
    "accelerator": "H100",
    "count": "16",
}


def planned(**changes: Any) -> Any:
    return tonnage.plan_rl(**FIELDS | changes)


@pytest.fixture(scope="module")
def shared() -> Any:
    return planned()


@pytest.fixture(scope="module")
def apart() -> Any:
    return planned(staleness="1")


def test_on_policy_accelerators_are_shared(shared: Any) -> None:
    best = shared.options[0]
    assert best.shared and best.rollout_accelerators == best.train_accelerators == best.accelerators == 16
    assert best.replicas * best.rollout.layout.ranks == 16
    assert best.configuration.layout.ranks == 16
    assert best.run.steps == 100 and best.run.wall_s.value > 100 * best.step_s.value
    assert best.cost.value == pytest.approx(sum(part.value for part in best.cost.parts))
    assert "off policy" in shared.off_policy


def test_off_policy_accelerators_are_split(apart: Any) -> None:
    best = apart.options[0]
    assert not best.shared and best.rollout_accelerators + best.train_accelerators == 16
    assert best.step_s.value == min(split.step_s for split in apart.splits)
    assert {split.rollout + split.training for split in apart.splits} == {16}


def test_a_larger_count_costs_more_and_ends_sooner() -> None:
    few, many = planned(count="8").options[0], planned(count="32").options[0]
    assert many.run.wall_s.value < few.run.wall_s.value and many.bill.usd_per_hour > few.bill.usd_per_hour


def test_what_no_count_can_do_is_an_answer() -> None:
    plan = planned(model="deepseek-v3", count="8")
    assert not plan.feasible and plan.binding.limit == "memory"
    late = planned(deadline="1 min")
    assert not late.feasible and late.binding.limit == "deadline"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rollout_count": "8"}, "need staleness 1 or more"),
        ({"rollout_count": "16", "staleness": "1"}, "leave none to train"),
        ({"partial_rollouts": "true"}, "every response ends before the update"),
        ({"responses_per_prompt": "1"}, "a group needs 2 or more"),
        ({"max_response_tokens": "1000"}, "not above the mean"),
        ({"train_batch": "9999"}, "more than the 256 responses"),
        ({"max_accelerators": "8"}, "beyond max_accelerators 8"),
        ({"model": "resnet50"}, "decodes no text"),
        ({"model": "bert-base-uncased"}, "decodes no text"),
        ({"max_response_tokens": "1M"}, "beyond the"),
    ],
)
def test_what_contradicts_is_one_sentence(changes: dict[str, str], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        planned(**changes)


def test_a_split_of_no_more_than_all_leaves_none_to_train() -> None:
    with pytest.raises(BadRequest, match=r"8 of at most 8 .* leave none to train"):
        planned(count=None, rollout_count="8", staleness="1", max_accelerators="8")


def test_the_plan_is_kept_shown_and_drawn(apart: Any, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(tonnage.to_dict(apart)))
    opened = told("explain", tmp_path / "plan.json", "--why")
    assert opened.exit_code == 0 and "One step" in opened.stdout
    assert "Another split" in apart._repr_html_()
    assert tonnage.charts(apart)[0].name == "phases"


def test_a_step_on_policy_is_drawn_as_one_phase_after_the_other(shared: Any) -> None:
    spans = tonnage.charts(shared)[0].body["data"]["values"]
    assert [row["phase"] for row in spans] == ["rollout", "training", "weights"] and spans[0]["begins"] == 0.0
    assert all(before["ends"] == after["begins"] for before, after in pairwise(spans))
    assert spans[-1]["ends"] == pytest.approx(shared.options[0].step.value)


def test_the_first_split_is_within_a_factor_of_two_of_the_published_one() -> None:
    rows = [row for row in rl_rows(Path(__file__).parents[3] / "measurements") if row.recipe["rollout_gpus"]]
    small = [row for row in rows if row.model == "Qwen3-30B3A"]
    assert len(small) == 2
    for row in small:
        first, rollout, count = best_split(row), int(row.recipe["rollout_gpus"]), int(row.cells["gpus"])
        assert 0.5 <= first.rollout / first.training / (rollout / (count - rollout)) <= 2.0


FEW = {"model": "llama-3.1-8b", "steps": 10, "response_tokens": 500}


def test_on_policy_may_be_said() -> None:
    asked = {**FEW, "count": 8, "accelerator": "H100"}
    assert tonnage.plan_rl(**asked, staleness="0").request == tonnage.plan_rl(**asked).request


@pytest.mark.parametrize("field", [{"environment": "5 s"}, {"observation_tokens": 200}])
def test_a_response_of_one_turn_has_no_environment(field: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match=f"{next(iter(field))}: a response of one turn has no environment"):
        tonnage.plan_rl(**FEW, **field)
    assert tonnage.plan_rl(**FEW, **field, turns=3, count=2, accelerator="H100").request.turns == 3.0


def test_no_processor_is_planned_for_training_unless_it_is_named() -> None:
    plan = tonnage.plan_rl(**FEW, count=2)
    assert plan.feasible and not any(option.case.accelerator.startswith("cpu-") for option in plan.options)


def test_the_confidence_chooses_among_the_same_options() -> None:
    bold, sure = (planned(count=None, deadline="16 h", confidence=confidence) for confidence in ("50 %", "95 %"))
    assert bold.options[0].chance >= 0.5 and sure.options[0].chance >= 0.95
    assert bold.options[0].cost.value < sure.options[0].cost.value
    assert bold.options[0].chance < 0.95 and "less sure" not in bold.cheaper_at_risk and sure.cheaper_at_risk
    # Where memory is too doubtful for the confidence, the same accelerators compute every layer again.
    rented = {(o.accelerators, o.bill.provider, o.bill.term): o for o in bold.options}
    pairs = [
        (rented[key], o) for o in sure.options if (key := (o.accelerators, o.bill.provider, o.bill.term)) in rented
    ]
    assert any(o.configuration.recompute == "full" for _, o in pairs)
    for usual, surer in pairs:
        assert surer.chance >= usual.chance
        assert (surer.chance > usual.chance) is (surer.memory.value < usual.memory.value)
    assert all(o.sure is (o.chance >= 0.95) for o in sure.options)


def test_workers_that_start_with_requests_train_nothing() -> None:
    asked = ("catalog", "offers", "--provider", "runpod-serverless", "--accelerator", "H100", "--wide", "--limit", 0)
    assert {row["kind"] for row in answered(*asked)["rows"]} == {"serverless worker"}
    assert not planned(count="1", provider="runpod-serverless", model="Qwen/Qwen3-0.6B").feasible


def test_electricity_is_that_of_both_sides_and_of_waiting(shared: Any, apart: Any) -> None:
    """Accelerators work in their own phases and are idle in the others; the run pays for all of its time."""
    idle = 0.15  # of the limit, as measured
    for plan in (shared, apart):
        for option in plan.options:
            use, limit = option.energy, tonnage.accelerator(option.case.accelerator).power_w
            assert idle * limit < use.board_w / option.accelerators < limit
            assert option.kwh == pytest.approx(use.power_w * option.run.billed_s / 3.6e6)
            assert use.grams_per_kwh is None or option.kg_co2 == pytest.approx(option.kwh * use.grams_per_kwh / 1e3)
            assert "generation" in " ".join(use.sources) and "training" in " ".join(use.sources)
