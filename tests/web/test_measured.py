"""
A user's own measurements are named in every answer that they moved: in its JSON, on its first screen and on its page.

Every form of the page is asked with one calibration of each stack, with one of another part, with none, and with
measurements left out (`calibration: none`): what is left out changes nothing, to the byte.
"""

import json
from datetime import date
from functools import cache
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.report.test_screens import LINES, printed

import tonnage
from tonnage.catalog import NOTHING, Additions, gather
from tonnage.catalog.additions import calibration_toml
from tonnage.domain.calibration import Calibration, Stretch
from tonnage.errors import TonnageError
from tonnage.questions.adopt.service import with_plan
from tonnage.questions.answers import document_of
from tonnage.questions.ask import answer
from tonnage.report.document import Document, as_json
from tonnage.web.answering import answer_form
from tonnage.web.measured import CHOICE
from tonnage.web.pages import Shown, question_page
from tonnage.web.questions import QUESTIONS
from tonnage.web.records import Settings
from tonnage.web.tasks import predict
from tonnage.web.tool_results import call

MODEL, H100, RTX = "meta-llama/Llama-3.1-8B-Instruct", "h100-sxm5-80gb", "rtx-4090"
ID = "meta-llama/Meta-Llama-3.1-8B"
SERVE = {"rate": "2/s", "traffic": "chat", "accelerator": "H100", "quick": "true"}
TRAIN = {"method": "full", "framework": "torchtitan", "accelerator": "H100", "count": "8", "tokens": "20M"}
CASE = {"model": MODEL, "accelerator": "H100", "traffic": {"profile": "chat", "rate": "3/s", "requests": "60"}}
COMMAND = f"vllm serve {MODEL} --max-model-len 16384 --max-num-seqs 64"
METRICS = """\
vllm:num_requests_running 31
vllm:num_requests_waiting 42
vllm:request_success_total 5000
vllm:prompt_tokens_total 5120000
vllm:generation_tokens_total 1280000
vllm:kv_cache_usage_perc 0.98
"""
LOADED = {"kind": "serve", "model": MODEL, "accelerator": "H100", "isl": 1024, "osl": 256,
          "traffic": {"concurrency": 16}}  # fmt: skip
BODY: dict[str, Any] = {"cases": [LOADED]}
NONE = {"calibration": "none"}
SOURCES = {f"{H100}.toml", f"{RTX}.toml", "training.toml", "its own latencies"}
"""The files of `own`, and what a service that is looked at says of itself."""
ASKED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "plan/serve": ({"model": MODEL, **SERVE}, ("vllm",)),
    "plan/batch": ({"model": MODEL, "items": "100k", "deadline": "8 h", "prompt_tokens": "400", "output_tokens": "60",
                    "accelerator": "H100"}, ("vllm",)),
    "plan/train": ({"model": MODEL, "tokens": "10B", "framework": "torchtitan", "accelerator": "H100", "count": "8"},
                   ("fsdp",)),
    "plan/finetune": ({"model": MODEL, **TRAIN}, ("fsdp",)),
    "plan/rl": ({"model": MODEL, "steps": "50", "prompts_per_step": "16", "responses_per_prompt": "8",
                 "response_tokens": "1000", "accelerator": "H100", "count": "8"}, ("vllm",)),
    "plan/lifecycle": ({"model": MODEL, "months": "12", "finetune": TRAIN, "serve": SERVE}, ("fsdp", "vllm")),
    "plan/fleet": ({"workloads": [{"name": "chat", "model": MODEL, "rate": "2/s", "traffic": "chat", "ttft": "1 s"}],
                    "provider": "lambda", "accelerator": "H100", "quick": "true"}, ("vllm",)),
    "plan/own": ({"own": "2 x H100", "model": MODEL}, ("vllm",)),
    "plan/budget": ({"amount": "$3000/month", "model": MODEL, "traffic": "chat", "accelerator": "H100"}, ("vllm",)),
    "local": ({"accelerator": "RTX 4090", "memory": "64 GB", "model": "Llama-3.1"}, ("llamacpp",)),
    "simulate": (CASE, ("vllm",)),
    "compare/ways": ({**CASE, "ways": {"as it is": {}}}, ("vllm",)),
    "adopt": ({"file": COMMAND, "accelerator": "H100", "rate": "2/s", "provider": "lambda"}, ("vllm",)),
    "advise": ({**QUESTIONS["advise"].example, "file": COMMAND}, ("vllm",)),
    "explain": ({"file": json.dumps(LOADED)}, ("vllm",)),
    "diagnose": ({"file": METRICS, "accelerator": "H100"}, ()),
}  # fmt: skip
"""By form: what is asked, and the software whose measurements its answer rests on."""


def _serving(part: str, engine: str) -> Calibration:
    return Calibration(
        accelerator=part,
        engine=engine,
        stretch=Stretch(memory=1.3, compute=1.2, step_s=0.001),
        factors={"tpot_s": 1.1, "ttft_s": 1.3},
        models=(ID,),
        carried=0.5,
        points=3,
        date="2026-11-20",
        machine="a rack",
    )


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Additions:
    """Measurements of the stacks that are asked about."""
    folder = tmp_path_factory.mktemp("own")
    for one in (_serving(H100, "vllm"), _serving(RTX, "llamacpp")):
        (folder / f"{one.accelerator}.toml").write_text(calibration_toml(one))
    row = "step 4.2 s at batch 16 seq 8192 on 8 H100"
    tonnage.calibrate(points=(row,), model=MODEL, engine="torchtitan", save=str(folder / "training.toml"))
    return Additions(paths=(str(folder),))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Additions:
    """Measurements of parts and engines that no answer here is about: nobody rents an M4 Max to serve."""
    folder = tmp_path_factory.mktemp("other")
    for one in (_serving("m4-max", "vllm"), _serving(H100, "sglang"), _serving(RTX, "sglang")):
        (folder / f"{one.accelerator}-{one.engine}.toml").write_text(calibration_toml(one))
    return Additions(paths=(str(folder),))


def answered(path: str, additions: Additions, said: str = "") -> Any:
    return _answered_on(date.today(), path, additions, said)


@cache
def _answered_on(day: date, path: str, additions: Additions, said: str) -> Any:
    """Once a day: the day stands in the answer."""
    fields = ASKED[path][0] | ({"calibration": said} if said else {})
    return answer_form(QUESTIONS[path], fields, additions=additions)


def first_screen(document: Document) -> str:
    return msgspec.json.encode(document.first).decode()


def page(path: str, answer: Any) -> str:
    fields = {name: str(value) for name, value in ASKED[path][0].items()}
    return question_page(QUESTIONS[path], given=fields, shown=Shown(key="k", answer=answer))


def test_every_form_that_may_rest_on_measurements_is_asked() -> None:
    assert {path for path, question in QUESTIONS.items() if CHOICE in question.fields} == set(ASKED)


@pytest.mark.parametrize("path", ASKED)
def test_they_are_named_in_json_on_the_first_screen_and_on_the_page(path: str, own: Additions) -> None:
    answer, software = answered(path, own), ASKED[path][1]
    assert tuple(use.engine for use in answer.calibrations) == software
    if not software:
        return
    assert own.paths[0] not in as_json(answer), "a folder of the server's"
    written = json.loads(as_json(answer))["calibrations"]
    assert all(use["points"] and use["moved"] and use["source"] in SOURCES for use in written)
    document = document_of(answer)
    assert "Your measurements: " in first_screen(document) and "--calibration none" in first_screen(document)
    assert document.why[0].title == "Your measurements"
    shown = page(path, answer)
    assert "Your measurements: " in shown and "--calibration" not in shown.partition("Your measurements: ")[2][:400]
    assert "calibration=none" in shown


@pytest.mark.parametrize("path", ASKED)
def test_left_out_or_of_another_stack_they_change_nothing(path: str, own: Additions, other: Additions) -> None:
    plain, bare = answered(path, NOTHING), answered(path, Additions(calibrated=False))
    # A service that is looked at calibrates the model of itself, unless measurements are left out.
    assert (as_json(bare) == as_json(plain)) is (path != "advise")
    assert as_json(answered(path, own, "none")) == as_json(bare) and as_json(answered(path, other)) == as_json(plain)
    plain = bare
    assert not plain.calibrations and "measurements:" not in first_screen(document_of(plain))
    assert "Your measurements" not in page(path, plain)
    assert (as_json(answered(path, own)) != as_json(plain)) is bool(ASKED[path][1])


@pytest.mark.parametrize("path", ["plan/serve", "explain"])
def test_a_folder_named_none_leaves_them_out_as_well(path: str, own: Additions) -> None:
    left_out = answered(path, gather(paths=(*own.paths, "none")))
    assert as_json(answered(path, own, "none")) == as_json(left_out)


def test_a_plan_that_a_diagnosis_calls_for_names_them_as_well(own: Additions) -> None:
    seen = answered("diagnose", own)
    evidence = replace(seen.evidence, kinds=("serving",), requests_per_s=30.0, prompt_tokens=1024, output_tokens=256)
    found = with_plan(replace(seen, evidence=evidence), model=MODEL, additions=own)
    assert found.plan is not None and found.calibrations
    assert "Your measurements: " in first_screen(document_of(found))


def test_predictions_over_http_say_it_and_can_leave_them_out(own: Additions) -> None:
    settings = Settings(additions=own)
    said = [json.loads(predict(settings, body=body)) for body in (BODY, BODY | NONE)]
    (measured,), (plain,) = (one["results"] for one in said)
    assert measured["calibrations"][0]["engine"] == "vllm" and "calibrations" not in plain
    factor = measured["calibrations"][0]["moved"][0]
    assert factor["quantity"] == "tpot_s"
    assert measured["tpot_s"]["mean"] / plain["tpot_s"]["mean"] == pytest.approx(factor["factor"])


def test_assistants_read_it_and_can_leave_it_out(own: Additions) -> None:
    told = call("predict_performance", BODY, additions=own).data["results"][0]
    assert told["calibrations"] and told != call("predict_performance", BODY | NONE, additions=own).data["results"][0]
    asked = {"model": MODEL, **SERVE}
    text = call("plan_serving", asked, additions=own).text
    assert (
        "Your measurements: " in text and "measurements:" not in call("plan_serving", asked | NONE, additions=own).text
    )


def test_a_nonsense_choice_is_refused() -> None:
    with pytest.raises(TonnageError, match="calibration"):
        answered("explain", NOTHING, "nun")


@pytest.mark.parametrize(("model", "carried"), [(ID, 1.0), ("Qwen/Qwen3-8B", 0.5)])
def test_the_factor_is_that_between_the_answers(model: str, carried: float, own: Additions) -> None:
    """Of a model that was measured, and of another one on the same stack, which takes its share."""
    request = {"model": model, "traffic": "chat", "concurrency": "16", "accelerator": "H100", "precision": "bf16",
               "quick": "true"}  # fmt: skip
    plans = [answer("serve", request, additions=additions) for additions in (own, NOTHING)]
    (use,) = plans[0].calibrations
    tpot = [plan.options[0].capacity.tpot_mean_s for plan in plans]
    assert (use.model, use.models, use.carried) == (model, (ID,), carried) and use.moved[0].quantity == "tpot_s"
    assert use.moved[0].factor == pytest.approx(tpot[0] / tpot[1], rel=0.02)


def test_an_infeasible_answer_names_what_made_it_so(own: Additions) -> None:
    asked = {"model": MODEL, **SERVE, "precision": "bf16", "tpot": "1 ms"}
    plan = answer("serve", asked, additions=own)
    assert not plan.feasible and plan.calibrations
    assert "Your measurements: " in first_screen(document_of(plan))


def test_a_first_screen_stays_a_screen(own: Additions) -> None:
    asked = {"model": MODEL, "rate": "4/s", "traffic": "chat", "ttft": "1 s", "tpot": "50 ms", "accelerator": "H100"}
    document = document_of(answer("serve", asked, additions=own))
    lines = printed(document)
    assert len(lines) <= LINES and any("Your measurements" in line for line in lines)
    assert any("Measure first" in line for line in lines)


SLOW = {**ASKED["plan/fleet"][0]["workloads"][0], "ttft": "1 ms"}
IMPOSSIBLE: list[tuple[str, dict[str, Any], str]] = [
    ("plan/serve", {"ttft": "1 ms"}, "ttft"),
    ("plan/batch", {"deadline": "1 min"}, "deadline"),
    ("plan/train", {"deadline": "1 h"}, "deadline"),
    ("plan/finetune", {"budget": "$0.01"}, "budget"),
    ("plan/rl", {"deadline": "1 min"}, "deadline"),
    ("plan/fleet", {"workloads": [SLOW]}, "ttft"),
    ("plan/fleet", {"quotas": [{"accelerator": "H100", "most": 0}]}, "quota"),
]
"""By form: what makes its question one that nothing meets, and the limit that says so."""


@pytest.mark.parametrize(("path", "changed", "limit"), IMPOSSIBLE)
def test_they_are_named_where_nothing_does_it(
    path: str,
    changed: dict[str, Any],
    limit: str,
    own: Additions,
    other: Additions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What relaxing buys is many plans more, and none of this.
    monkeypatch.setattr("tonnage.core.driver.what_relaxing_buys", lambda *_: ())
    fields = {**ASKED[path][0], **changed}
    answer, plain = (answer_form(QUESTIONS[path], fields, additions=one) for one in (own, other))
    assert not answer.feasible and answer.binding.limit == limit
    assert answer.binding.reason != plain.binding.reason or limit == "quota"
    assert {use.engine for use in answer.calibrations} == set(ASKED[path][1]) and not plain.calibrations
    assert "Your measurements: " in first_screen(document_of(answer))
