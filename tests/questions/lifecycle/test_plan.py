"""A model's life: both halves, one bill, one kind for both, smaller ways."""

from typing import Any

import pytest
from tests.command import printed

import tonnage
from tonnage.errors import BadRequest

LIFE: dict[str, Any] = {
    "model": "meta-llama/Llama-2-13b-hf",
    "months": "12",
    "retrainings": "3",
    "finetune": {
        "method": "full", "examples": "50k", "tokens_per_example": "800", "epochs": "3", "deadline": "24 h",
        "accelerator": "H100,A100,L40S,tpu-v6e",
    },
    "serve": {
        "rate": "2/s", "prompt_tokens": "800", "output_tokens": "200", "ttft": "1 s", "tpot": "60 ms",
        "accelerator": "H100,A100,L40S",
    },
}  # fmt: skip


def plan(**changes: Any) -> Any:
    return tonnage.plan_lifecycle(**LIFE | changes)


@pytest.fixture(scope="module")
def life() -> Any:
    return plan()


def test_the_bill_is_both_halves(life: Any) -> None:
    assert life.feasible
    made, served = life.make.options[0], life.serve.options[0]
    assert life.bill.part("making") == pytest.approx(4 * made.cost.value)
    assert life.bill.part("serving") == pytest.approx(served.cost.value * 12 * 730)
    assert sum(part.value for part in life.bill.parts) == pytest.approx(life.bill.value, rel=1e-12)
    assert life.serve_share == pytest.approx(life.bill.part("serving") / life.bill.value)
    assert life.bill.low <= life.bill.value <= life.bill.high


def test_weights_that_move_pay_egress_once_per_making(life: Any) -> None:
    assert life.bill is not None
    made, served = life.make.options[0].bill.provider, life.serve.options[0].bill.provider
    if made == "gcp" and served != "gcp":
        each = {"fp8": 1.0, "bf16": 2.0, "int4": 0.5}[life.serve.options[0].configuration.precision.weights]
        size = 13.0e9 * each
        assert life.bill.part("moving weights") == pytest.approx(4 * size / 1e9 * 0.12, rel=0.1)


def test_one_kind_for_both_costs_no_less_than_the_mix(life: Any) -> None:
    assert life.one_type and life.one_type_text
    totals = [one.total_usd for one in life.one_type]
    assert totals == sorted(totals)
    for one in life.one_type:
        assert one.times_the_mix >= 1 - 1e-9
        assert one.total_usd == pytest.approx(one.make_usd + one.serve_usd)


def test_smaller_ways_say_what_they_save_and_what_is_not_known(life: Any) -> None:
    pulled = [lever for lever in life.savings if lever.saves_usd is not None]
    saved = [lever.saves_usd or 0.0 for lever in pulled]
    assert saved == sorted(saved, reverse=True)
    names = " ".join(lever.change for lever in life.savings)
    assert "Llama-2-7b" in names and "int4" in names and "lora instead of full" in names
    for lever in pulled:
        if "instead of meta-llama" in lever.change or "int4" in lever.change:
            assert lever.quality
        # Narrow weights need not be cheaper: their products may be slower than those of FP8.
        assert ("more" in lever.what) == ((lever.saves_usd or 0.0) < 0)
        if "instead of meta-llama" in lever.change:
            assert lever.saves_usd >= 0


def test_what_a_lever_costs_in_quality_is_published_or_unknown(life: Any) -> None:
    """C8 and C12: every lever that changes the answers says what others measured, or that nobody did."""
    levers = {lever.change: lever for lever in life.savings}
    sibling = next(lever for change, lever in levers.items() if "Llama-2-7b" in change)
    assert sibling.published.on == "this model"
    assert 0.7 < (sibling.published.kept or 0) < 0.95 and "82.7 %" in sibling.quality
    assert levers["lora instead of full"].published is not None
    unknown = levers["qlora instead of full"]
    assert unknown.published.kept is None and "nobody published" in unknown.quality
    now = life.serve.options[0].configuration.precision.weights
    for change, lever in levers.items():
        assert lever.published is not None or "bf16 weights" in change or lever.saves_usd is None, change
        assert f"{now} weights instead" not in change


def test_a_lever_below_the_floor_says_so() -> None:
    serve = {**LIFE["serve"], "quality": "90 %", "accelerator": "H100"}
    low = plan(serve=serve)
    sibling = next(lever for lever in low.savings if "Llama-2-7b" in lever.change)
    assert "below the quality floor" in sibling.what
    assert sibling.published.passes is False


def models_instead(model: str, **where: str) -> list[str]:
    """Other models that a life by adapters on one seller's accelerators looks at."""
    halves = {"finetune": {"method": "qlora", "tokens": "1M", **where}, "serve": {"rate": "1/s", "traffic": "chat"}}
    halves["serve"] |= {"quick": True, **where}
    found: Any = tonnage.plan_lifecycle(model, months="12", **halves)
    return [lever.change for lever in found.savings if lever.change.endswith(f"instead of {model}")]


def test_models_distilled_from_it_are_levers_too_and_the_smallest_of_a_family_has_no_sibling() -> None:
    other = models_instead("deepseek-ai/DeepSeek-R1", accelerator="H200", provider="nebius")
    assert any(change.startswith("deepseek-ai/DeepSeek-R1-Distill-Llama-70B") for change in other)
    assert not any(change.startswith("deepseek-ai/DeepSeek-R1 ") for change in other)
    assert models_instead("meta-llama/Llama-2-7b-hf", accelerator="L40S", provider="runpod") == []


def test_the_timeline_runs_forward(life: Any) -> None:
    after = [stone.after_s for stone in life.timeline]
    assert after == sorted(after) and after[0] == 0
    assert after[-1] - after[-2] == pytest.approx(12 * 730 * 3600)


def test_more_service_costs_more_and_takes_a_larger_share() -> None:
    year, longer = (plan(months=months, quick=True) for months in ("12", "24"))
    assert longer.bill.value > year.bill.value
    assert (longer.serve_share or 0) > (year.serve_share or 0)


def test_a_half_that_cannot_be_done_is_an_answer() -> None:
    serve = {**LIFE["serve"], "tpot": "10 us", "accelerator": "H100", "provider": "gcp"}
    answer = plan(serve=serve, quick=True)
    assert not answer.feasible and answer.binding is not None and "to serve the model" in answer.sentence
    assert answer.make.feasible


def test_texts_and_mappings_give_the_same_request() -> None:
    texts = {name: [f"{key}={value}" for key, value in LIFE[name].items()] for name in ("finetune", "serve")}
    assert plan(**texts, quick=True).request == plan(quick=True).request


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"serve": {"rate": "4/s", "quick": [1]}, "quick": True}, "quick: '\\[1\\]' must be true or false"),
        ({"finetune": None}, "nothing says how the model is made"),
        ({"train": {"tokens": "1B"}}, "contradict"),
        ({"serve": None}, "served"),
        ({"months": None}, "months"),
        ({"serve": ["rate"]}, "name=value"),
        ({"serve": ["rate=4/s", "rate=5/s"]}, "twice"),
        ({"serve": {"rat": "4/s"}}, "rate"),
    ],
)
def test_a_mistake_names_the_group(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        plan(**changes)


def test_electricity_is_that_of_both_halves_for_as_long_as_they_run() -> None:
    halves = {
        "finetune": {**LIFE["finetune"], "accelerator": "H100"},
        "serve": {**LIFE["serve"], "accelerator": "H100", "quick": True},
    }
    life = plan(**halves)
    made, served = life.make.options[0], life.serve.options[0].energy
    assert life.kwh == pytest.approx(4 * made.kwh + 12 * served.kwh_per_month)
    assert life.kg_co2 == pytest.approx(4 * made.kg_co2 + 12 * served.kg_co2_per_month)
    said = printed("lifecycle", "--why", **LIFE | halves)
    assert f"{life.kwh:,.0f} kWh with hosts and cooling; {life.kg_co2:,.0f} kg CO2" in said


def test_the_report_says_the_terms_of_its_prices_once_and_no_electricity_that_nobody_knows() -> None:
    """The first half runs on TPUs, whose power is not published."""
    tpus = {"finetune": {**LIFE["finetune"], "accelerator": "tpu-v6e"}, "quick": True}
    assert plan(**tpus).kwh is None
    said = printed("lifecycle", "--why", **LIFE | tpus)
    assert said.count("exclude VAT") == 1 and "is not published" in said


def test_a_quick_life_has_the_same_halves_and_no_other_ways(life: Any) -> None:
    quick = plan(quick=True)
    assert quick.feasible and quick.request.serve.quick
    assert quick.bill.part("making") == pytest.approx(life.bill.part("making") if life.bill else 0.0)
    assert quick.savings == quick.one_type == () and quick.timeline


@pytest.mark.parametrize("value", [0.1, 3, True, None, [0.1], [["a"]], "rate"])
def test_a_group_that_is_none_is_one_sentence(value: object) -> None:
    with pytest.raises(BadRequest):
        tonnage.plan_lifecycle("8B", finetune=value, serve={"rate": "1/s", "traffic": "chat"})
    with pytest.raises(BadRequest, match="'rate' is given twice"):
        tonnage.plan_lifecycle("8B", serve=["rate=1/s", " rate =2/s"])
