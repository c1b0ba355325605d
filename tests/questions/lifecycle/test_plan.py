"""A model's life: both halves, one bill, one kind for both, smaller ways."""

from datetime import date
from typing import Any

import msgspec
import pytest

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.errors import BadRequest
from tonnage.questions.answers import show
from tonnage.questions.lifecycle.plan import plan_lifecycle
from tonnage.questions.lifecycle.question import LifecyclePlan, lifecycle_request
from tonnage.questions.lifecycle.savings import _is_student, smaller_sibling

TODAY = date(2026, 11, 21)
LIFE = {
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


def plan(**changes: Any) -> LifecyclePlan:
    return plan_lifecycle(lifecycle_request({**LIFE, **changes}), today=TODAY)


@pytest.fixture(scope="module")
def life() -> LifecyclePlan:
    return plan()


def test_the_bill_is_both_halves(life: LifecyclePlan) -> None:
    assert life.feasible and life.bill is not None
    made, served = life.make.options[0], life.serve.options[0]
    assert life.bill.part("making") == pytest.approx(4 * made.cost.value)
    assert life.bill.part("serving") == pytest.approx(served.cost.value * 12 * 730)
    assert sum(part.value for part in life.bill.parts) == pytest.approx(life.bill.value, rel=1e-12)
    assert life.serve_share == pytest.approx(life.bill.part("serving") / life.bill.value)
    assert life.bill.low is not None and life.bill.high is not None
    assert life.bill.low <= life.bill.value <= life.bill.high


def test_weights_that_move_pay_egress_once_per_making(life: LifecyclePlan) -> None:
    assert life.bill is not None
    made, served = life.make.options[0].bill.provider, life.serve.options[0].bill.provider
    if made == "gcp" and served != "gcp":
        each = {"fp8": 1.0, "bf16": 2.0, "int4": 0.5}[life.serve.options[0].configuration.precision.weights]
        size = 13.0e9 * each
        assert life.bill.part("moving weights") == pytest.approx(4 * size / 1e9 * 0.12, rel=0.1)


def test_one_kind_for_both_costs_no_less_than_the_mix(life: LifecyclePlan) -> None:
    assert life.one_type and life.one_type_text
    totals = [one.total_usd for one in life.one_type]
    assert totals == sorted(totals)
    for one in life.one_type:
        assert one.times_the_mix >= 1 - 1e-9
        assert one.total_usd == pytest.approx(one.make_usd + one.serve_usd)


def test_smaller_ways_say_what_they_save_and_what_is_not_known(life: LifecyclePlan) -> None:
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
            assert lever.saves_usd is not None and lever.saves_usd >= 0


def test_what_a_lever_costs_in_quality_is_published_or_unknown(life: LifecyclePlan) -> None:
    """C8 and C12: every lever that changes the answers says what others measured, or that nobody did."""
    levers = {lever.change: lever for lever in life.savings}
    sibling = next(lever for change, lever in levers.items() if "Llama-2-7b" in change)
    assert sibling.published is not None and sibling.published.on == "this model"
    assert 0.7 < (sibling.published.kept or 0) < 0.95 and "82.7%" in sibling.quality
    assert levers["lora instead of full"].published is not None
    unknown = levers["qlora instead of full"]
    assert unknown.published is not None and unknown.published.kept is None and "nobody published" in unknown.quality
    now = life.serve.options[0].configuration.precision.weights
    for change, lever in levers.items():
        assert lever.published is not None or "bf16 weights" in change or lever.saves_usd is None, change
        assert f"{now} weights instead" not in change


def test_a_lever_below_the_floor_says_so() -> None:
    serve = {**LIFE["serve"], "quality": "90 %", "accelerator": "H100"}  # type: ignore[dict-item]
    low = plan(serve=serve)
    sibling = next(lever for lever in low.savings if "Llama-2-7b" in lever.change)
    assert "below the quality floor" in sibling.what
    assert sibling.published is not None and sibling.published.passes is False


def test_models_distilled_from_it_are_levers_too() -> None:
    teacher = "deepseek-ai/DeepSeek-R1"
    names = [m.id for m in catalog.models().values() if _is_student(m, teacher)]
    assert "deepseek-ai/DeepSeek-R1-Distill-Llama-70B" in names and teacher not in names


def test_a_sibling_is_of_the_family_and_smaller() -> None:
    seventy = smaller_sibling(resolve("meta-llama/Llama-2-70b-hf"))
    assert seventy is not None and "13b" in seventy.id.lower()
    assert smaller_sibling(resolve("meta-llama/Llama-2-7b-hf")) is None


def test_the_timeline_runs_forward(life: LifecyclePlan) -> None:
    after = [stone.after_s for stone in life.timeline]
    assert after == sorted(after) and after[0] == 0
    assert after[-1] - after[-2] == pytest.approx(12 * 730 * 3600)


def test_more_service_costs_more_and_takes_a_larger_share() -> None:
    year, longer = (plan(months=months, quick=True) for months in ("12", "24"))
    assert year.bill is not None and longer.bill is not None
    assert longer.bill.value > year.bill.value
    assert (longer.serve_share or 0) > (year.serve_share or 0)


def test_a_half_that_cannot_be_done_is_an_answer() -> None:
    serve = {**LIFE["serve"], "tpot": "10 us", "accelerator": "H100", "provider": "gcp"}  # type: ignore[dict-item]
    answer = plan(serve=serve, quick=True)
    assert not answer.feasible and answer.binding is not None and "to serve the model" in answer.sentence
    assert answer.make.feasible


def test_texts_and_mappings_give_the_same_request() -> None:
    texts = {name: [f"{key}={value}" for key, value in LIFE[name].items()] for name in ("finetune", "serve")}  # type: ignore[attr-defined]
    assert lifecycle_request({**LIFE, **texts}) == lifecycle_request(LIFE)


def test_the_plan_survives_the_trip_through_json(life: LifecyclePlan) -> None:
    assert msgspec.json.decode(msgspec.json.encode(life), type=LifecyclePlan) == life


@pytest.mark.parametrize(
    ("changes", "told"),
    [
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


def test_electricity_is_that_of_both_halves_for_as_long_as_they_run(capsys: pytest.CaptureFixture[str]) -> None:
    life = plan(
        finetune={**LIFE["finetune"], "accelerator": "H100"},  # type: ignore[dict-item]
        serve={**LIFE["serve"], "accelerator": "H100", "quick": True},  # type: ignore[dict-item]
    )
    made, served = life.make.options[0], life.serve.options[0].energy
    assert served is not None and made.kwh is not None and made.kg_co2 is not None
    assert served.kg_co2_per_month is not None
    assert life.kwh == pytest.approx(4 * made.kwh + 12 * served.kwh_per_month)
    assert life.kg_co2 == pytest.approx(4 * made.kg_co2 + 12 * served.kg_co2_per_month)
    show(life, why=True)
    assert f"{life.kwh:,.0f} kWh with hosts and cooling; {life.kg_co2:,.0f} kg CO2" in capsys.readouterr().out


def test_the_report_says_the_terms_of_its_prices_once_and_no_electricity_that_nobody_knows(
    life: LifecyclePlan, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first half runs on TPUs, whose power is not published."""
    show(msgspec.structs.replace(life, kwh=None, kg_co2=None), why=True)
    printed = capsys.readouterr().out
    assert printed.count("exclude VAT") == 1 and "is not published" in printed and "kWh" not in printed


def test_a_quick_life_has_the_same_halves_and_no_other_ways(life: LifecyclePlan) -> None:
    quick = plan(quick=True)
    assert quick.feasible and quick.bill is not None and quick.request.serve.quick
    assert quick.bill.part("making") == pytest.approx(life.bill.part("making") if life.bill else 0.0)
    assert quick.savings == quick.one_type == () and quick.timeline


@pytest.mark.parametrize("value", [0.1, 3, True, None, [0.1], [["a"]], "rate"])
def test_a_group_that_is_none_is_one_sentence(value: object) -> None:
    with pytest.raises(BadRequest):
        lifecycle_request({"model": "8B", "finetune": value, "serve": {"rate": "1/s", "traffic": "chat"}})
    with pytest.raises(BadRequest, match="'rate' is given twice"):
        lifecycle_request({"model": "8B", "serve": ["rate=1/s", " rate =2/s"]})
