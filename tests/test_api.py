"""`import tonnage` answers as the command line does, and imports nothing before it is asked."""

import subprocess
import sys
from typing import Any

import msgspec
import pytest

import tonnage
from tonnage.domain.case import ServeCase, Traffic
from tonnage.errors import BadRequest, TonnageError, UnknownName


def test_fit_and_plan_take_the_same_texts() -> None:
    assert tonnage.fit("meta-llama/Llama-3.1-8B", accelerator="H100", context="8k").fits
    plan = tonnage.plan_serve("meta-llama/Llama-3.1-8B", rate="4/s", traffic="chat", accelerator="H100,L4")
    assert plan.feasible and plan.sentence.startswith("Rent ")


def test_training_plans_take_the_same_texts() -> None:
    tuned = tonnage.plan_finetune("meta-llama/Llama-3.1-8B", method="lora", tokens="2M", accelerator="A100,H100")
    trained = tonnage.plan_train("meta-llama/Llama-3.2-1B", tokens="1B", accelerator="H100")
    assert tuned.feasible and trained.feasible


def test_predict_reads_the_mapping_of_a_case_line() -> None:
    case = {
        "kind": "serve",
        "model": "13B",
        "accelerator": "H200",
        "traffic": {"concurrency": 8},
        "isl": 1024,
        "osl": 256,
    }
    result = tonnage.predict(case)
    assert result.fits and msgspec.to_builtins(result)["tpot_s"]["mean"] > 0


def test_names() -> None:
    assert tonnage.accelerator("H100").id == "h100-sxm5-80gb"
    assert tonnage.model("13B").family
    with pytest.raises(UnknownName, match="did you mean"):
        tonnage.accelerator("h100-smx")


@pytest.mark.parametrize(
    "case", [[], None, {}, {"kind": "serve"}, {"kind": "nonsense"}, {"kind": "serve", "isl": "many"}]
)
def test_a_case_that_is_none_is_one_sentence(case: Any) -> None:
    with pytest.raises(TonnageError) as caught:
        tonnage.predict(case)
    assert "\n" not in str(caught.value)


def test_importing_costs_nothing() -> None:
    code = (
        "import sys, tonnage; print([m for m in ('msgspec', 'numpy', 'click', 'tonnage.catalog') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_batch_lifecycle_and_cost_answer_with_nouns() -> None:
    batch = tonnage.plan_batch("meta-llama/Llama-3.1-8B", items="1M", deadline="8 h", accelerator="H100")
    assert batch.feasible and batch.options[0].cost.value > 0
    life = tonnage.plan_lifecycle(
        "meta-llama/Llama-3.1-8B", months=6, finetune={"tokens": "10M"}, serve={"rate": "1/s", "accelerator": "H100"}
    )
    assert life.feasible and life.bill is not None
    assert tonnage.rent_or_buy("H100", utilisation="90 %").owning.value > 300_000


def test_answers_draw_themselves_and_become_dictionaries() -> None:
    answer = tonnage.fit("meta-llama/Llama-3.1-8B", accelerator="H100", context="8k")
    drawn = answer._repr_html_()  # type: ignore[attr-defined]
    assert answer.sentence in drawn and "<script" not in drawn and "<figure" in drawn
    assert tonnage.to_dict(answer)["rows"][0]["accelerator"] == "h100-sxm5-80gb"


def test_a_frame_has_one_row_for_each_of_the_answer() -> None:
    from tonnage.questions.rows import rows_of

    answer = tonnage.rent_or_buy("H100", utilisation="60 %")
    rows = rows_of(answer)
    assert len(rows) == len(answer.rents) and {len(row) for row in rows} == {len(rows[0])}
    plan = tonnage.plan_finetune("meta-llama/Llama-3.1-8B", method="lora", tokens="2M", accelerator="A100,H100")
    assert rows_of(plan)[0]["bill.provider"] == plan.options[0].bill.provider
    pandas = pytest.importorskip("pandas", reason="neither pandas nor polars is among the tests' needs")
    assert isinstance(tonnage.to_frame(plan), pandas.DataFrame)


def test_simulate_takes_the_fields_of_a_case_file() -> None:
    found = tonnage.simulate(
        model="meta-llama/Llama-3.1-8B", accelerator="H100", traffic={"profile": "chat", "rate": "2/s", "requests": 500}
    )
    assert found.fits and found.requests == 500


@pytest.mark.parametrize(
    ("traffic", "said"),
    [
        ({"concurrency": 0}, "traffic.concurrency: 0 is out of range"),
        ({"rate_per_s": -1}, "traffic.rate_per_s: -1 is out of range"),
        ({}, "no load is given"),
        ({"concurrency": 4, "rate_per_s": 1}, "concurrency and rate_per_s contradict"),
    ],
)
def test_a_prediction_checks_what_every_other_face_checks(traffic: dict[str, float], said: str) -> None:
    case = {"kind": "serve", "model": "llama-3.1-8b", "accelerator": "h100", "isl": 100, "osl": 10}
    with pytest.raises(BadRequest, match=said):
        tonnage.predict({**case, "traffic": traffic})
    noun = ServeCase(model="llama-3.1-8b", accelerator="h100", isl=100, osl=10, traffic=Traffic(**traffic))
    with pytest.raises(BadRequest, match=said.replace("0 is", "0.* is").replace("-1 is", "-1.* is")):
        tonnage.predict(noun)


def test_a_machine_that_is_named() -> None:
    answer = tonnage.local("RTX 3060", memory="32 GB", context="4096")
    assert answer.feasible and answer.device == "rtx-3060-12gb"
    assert tonnage.to_dict(answer)["rows"][0]["context"] == 4096
    with pytest.raises(TonnageError, match="no field 'contxt'"):
        tonnage.local("RTX 3060", contxt="4096")
