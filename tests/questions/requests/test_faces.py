"""Requests are read as people write them, or refused in a sentence; every face lists, types and reads them alike."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.shell_completion import ShellComplete
from hypothesis import given
from hypothesis import strategies as st
from tests.command import told as answer_of

import tonnage
from tonnage.cli import root
from tonnage.core.reading import in_base_units, request_fields
from tonnage.domain.requests import typed as types
from tonnage.domain.requests.field import attributes_of
from tonnage.domain.requests.serve import Serve
from tonnage.errors import BadRequest, TonnageError
from tonnage.questions.budget.question import budget_request
from tonnage.questions.calibrate.question import calibrate_request, stacks_of
from tonnage.questions.lifecycle.question import lifecycle_request
from tonnage.questions.predict.case_lines import case_of_object
from tonnage.questions.registry import CASES, REQUESTS
from tonnage.questions.request_schema import case_schemas, describe_fields
from tonnage.questions.serve.question import serve_request
from tonnage.questions.simulate.simulate import simulation_of
from tonnage.questions.train.question import finetune_request, train_request
from tonnage.questions.typed_requests import typed_module

COMMANDS = {
    **{
        kind: ["plan", kind]
        for kind in ("serve", "batch", "train", "finetune", "rl", "infer", "lifecycle", "fleet", "own", "budget")
    },
    "fit": ["fit"],
    "calibrate": ["calibrate"],
    "rent-or-buy": ["cost", "rent-or-buy"],
    "adopt": ["adopt"],
    "accuracy": ["accuracy"],
}
FUNCTIONS = {
    **{
        kind: f"plan_{kind}"
        for kind in ("serve", "batch", "train", "finetune", "rl", "infer", "lifecycle", "fleet", "own", "budget")
    },
    "fit": "fit",
    "calibrate": "calibrate",
    "rent-or-buy": "rent_or_buy",
    "simulate": "simulate",
    "adopt": "plan_from_file",
}


def _command(path: list[str]) -> click.Command:
    command: click.Command = root
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


@pytest.mark.parametrize("question", COMMANDS)
def test_every_field_is_an_option_with_its_help(question: str) -> None:
    options = {param.name: param for param in _command(COMMANDS[question]).params}
    for field in request_fields(REQUESTS[question]):
        option = options[field.name]
        if isinstance(option, click.Option):
            unit = field.usual.unit if field.usual is not None and not field.usual.unit.startswith("/") else ""
            assert option.help == field.help + (f"; a plain number is in {unit}" if unit else "")
            assert "--" + field.name.replace("_", "-") in option.opts


def test_help_lists_no_argument_among_options() -> None:
    shown = answer_of("calibrate", "--help").output
    assert shown.count("MEASUREMENTS...") == 1 and "Model and engine:" in shown


def test_a_calibration_names_its_settings_as_a_list() -> None:
    with pytest.raises(BadRequest, match="write NAME=VALUE with a name of"):
        stacks_of([], calibrate_request({"model": "8B", "accelerator": "H100", "option": ["seats=3"]}))
    asked = calibrate_request(
        {"accelerator": "H100", "weights": "fp8", "option": "max_num_seqs=16,prefix_caching=true"}
    )
    assert (asked.settings, asked.weights) == (("max_num_seqs=16", "prefix_caching=true"), "fp8")
    with pytest.raises(TonnageError, match="'gpu_name'"):
        calibrate_request({"gpu_name": "H100"})


def test_the_published_types_are_current() -> None:
    assert typed_module() == Path(types.__file__).read_text(encoding="utf-8"), (
        "run: python -m tonnage.questions.typed_requests > src/tonnage/domain/requests/typed.py"
    )


@pytest.mark.parametrize("question", FUNCTIONS)
def test_every_function_takes_the_fields_of_its_question(question: str) -> None:
    name = f"{question.title().replace('-', '')}Fields"
    parameters = inspect.signature(getattr(tonnage, FUNCTIONS[question])).parameters
    assert parameters["fields"].annotation == f"Unpack[{name}]"
    declared = {field.name for field in request_fields(REQUESTS[question])}
    taken = {*getattr(types, name).__annotations__, *parameters}
    assert declared <= taken


def test_a_sweep_takes_what_is_no_grid_as_options_too() -> None:
    options = {param.name: param for param in _command(["sweep"]).params}
    for field in request_fields(REQUESTS["sweep"]):
        if field.reads != "mapping" and field.name != "sweep":
            option = options[field.name]
            assert isinstance(option, click.Option) and option.help == field.help


@pytest.mark.parametrize("kind", CASES)
def test_every_field_of_a_case_is_in_its_schema_and_its_type(kind: str) -> None:
    schema = next(one for one in case_schemas() if one["properties"]["kind"]["const"] == kind)
    attributes = {attribute.name: attribute for attribute in attributes_of(CASES[kind])}
    aliases = {field.name for one in attributes.values() for field in one.fields[1:]}
    assert all(attribute.fields or attribute.groups for attribute in attributes.values())
    assert set(schema["properties"]) == {"kind", *attributes, *aliases}
    typed = f"Predict{kind.title()}Fields"
    assert set(schema["properties"]) == set(getattr(types, typed).__annotations__)
    assert typed in inspect.signature(tonnage.predict).parameters["case"].annotation


def test_a_case_by_its_schema_is_a_case() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    case = {"kind": "serve", "model": "8B", "accelerator": "H100", "traffic": {"concurrency": 8}, "isl": 0, "osl": 128}
    for change, sound in (
        ({}, True),
        ({"isl": -1}, False),
        ({"layout": {"tp": 0}}, False),
        ({"osl": "1k"}, False),
        ({"accelerator_fraction": 2}, False),
        ({"engine_options": {"max_num_seqs": 8}}, True),
        ({"phase": "sleep"}, False),
    ):
        changed = {**case, **change}
        assert jsonschema.Draft202012Validator({"anyOf": case_schemas()}).is_valid(changed) == sound
        with contextlib.nullcontext() if sound else pytest.raises(BadRequest):
            case_of_object(changed)


def test_plain_numbers_in_python_are_in_base_units() -> None:
    texts = {"model": "8B", "rate": "4/s", "ttft": "500 ms", "budget": "$20/h", "headroom": "30 %", "context": "8k",
             "idle_timeout": "15 min", "max_power": "700 W"}  # fmt: skip
    plain = {"model": "8B", "rate": 4, "ttft": 0.5, "budget": 20, "headroom": 0.3, "context": 8000,
             "idle_timeout": 900, "max_power": 700.0}  # fmt: skip
    assert serve_request(in_base_units(plain, Serve)) == serve_request(texts)


def test_plain_numbers_of_groups_are_in_base_units_too() -> None:
    plain: dict[str, Any] = {
        "model": "8B",
        "months": 12,
        "finetune": {"tokens": 4e7, "deadline": 86400},
        "serve": {"rate": 4, "ttft": 1},
    }
    texts: dict[str, Any] = {
        "model": "8B",
        "months": "12",
        "finetune": {"tokens": "40M", "deadline": "24 h"},
        "serve": {"rate": "4/s", "ttft": "1 s"},
    }
    read = lifecycle_request(in_base_units(plain, REQUESTS["lifecycle"]))
    assert read == lifecycle_request(texts)
    case = {"model": "8B", "accelerator": "H100", "traffic": {"rate": 6, "profile": "chat"}, "slo": {"ttft": 1}}
    assert simulation_of(in_base_units(case, REQUESTS["simulate"])).traffic.rate_per_s == 6.0


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"rate": 4}, {"rate": "4/s"}),
        ({"rate": "4", "ttft": "1", "tpot": "50"}, {"rate": "4/s", "ttft": "1 s", "tpot": "50 ms"}),
        ({"qps": "20", "isl": "1000", "osl": 200}, {"rate": "20/s", "prompt_tokens": 1000, "output_tokens": "200"}),
        ({"rate": "4", "budget": "$50", "confidence": "90"}, {"rate": "4/s", "budget": "50/h", "confidence": 0.9}),
        ({"rate": "4", "max_power": 10200}, {"rate": "4/s", "max_power": "10.2 kW"}),
    ],
)
def test_plain_numbers_are_in_the_usual_unit_of_their_field(plain: dict[str, Any], said: dict[str, Any]) -> None:
    assert serve_request({"model": "8B", **plain}) == serve_request({"model": "8B", **said})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ttft": "500"}, "'500' may be 500 s or 500 ms"),
        ({"tpot": "0.05"}, "'0.05' may be 0.05 ms or 0.05 s"),
        ({"tpot": 0.05}, "'0.05' may be 0.05 ms or 0.05 s"),
        ({"qps": "4"}, "qps: rate is given already"),
        ({"idle_timeout": "5"}, "'5' has no unit"),
        ({"confidence": "1.5"}, "out of range"),
        ({"confidence": 95}, "out of range"),
        ({"ttft": "1,5"}, "decimal comma"),
    ],
)
def test_plain_numbers_that_two_readers_take_for_two_values_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(TonnageError, match=told):
        serve_request({"model": "8B", "rate": "4/s", **given})


def test_several_wrong_fields_are_told_at_once() -> None:
    with pytest.raises(BadRequest) as caught:
        serve_request({"model": "8B", "rate": "4 GB", "ttfft": "1 s", "percentile": "101"})
    assert all(part in str(caught.value) for part in ("rate: '4 GB' is", "'ttfft'", "percentile: '101'"))


def test_a_plan_states_the_numbers_it_was_made_with() -> None:
    written = json.loads(msgspec.json.encode(serve_request({"model": "8B", "rate": "4/s"})))
    assert written["headroom"] == 0.25 and written["engines"] == ["vllm"] and written["slo"] == {"percentile": 95.0}


@pytest.mark.parametrize("question", REQUESTS)
def test_fields_are_listed_as_text_and_json(question: str) -> None:
    run = answer_of("fields", question, "--json")
    listed = json.loads(run.output)
    assert [field["name"] for field in listed["fields"]] == [field.name for field in describe_fields(question)]
    shown = answer_of("fields", question).output
    assert all(field["name"] in shown for field in listed["fields"])
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize(
    ("typed_so_far", "option", "offered"),
    [("h100-s", "--accelerator", "h100-sxm5-80gb"), ("fp8", "--precision", "fp8"), ("ne", "--start-from", "network")],
)
def test_a_shell_completes_values(typed_so_far: str, option: str, offered: str) -> None:
    shell = ShellComplete(root, {}, "tonnage", "_TONNAGE_COMPLETE")
    found = shell.get_completions(["plan", "serve", "8B", option], typed_so_far)
    assert offered in {item.value for item in found}


MODEL = "meta-llama/Llama-3.1-8B"
GOOD = {"model": MODEL, "rate": "4/s", "traffic": "chat"}


def test_reads_units_names_and_lists() -> None:
    request = serve_request(
        {
            **GOOD,
            "ttft": "500 ms",
            "tpot": "0.05 s",
            "accelerator": "H100, A100",
            "precision": ["fp8", "bf16"],
            "eu": True,
            "budget": "$20/h",
            "headroom": "30 %",
            "max_accelerators": "16",
        }
    )
    assert request.rate_per_s == 4.0
    assert request.slo.ttft_s == 0.5 and request.slo.tpot_s == 0.05
    assert request.filters.accelerators == ("h100-sxm5-80gb", "a100-sxm4-80gb")
    assert request.precisions == ("fp8", "bf16")
    assert request.filters.eu is True and request.filters.max_count == 16
    assert request.budget_usd_per_h == 20.0 and request.headroom == pytest.approx(0.3)
    assert request.lengths.prompt_tokens == 1155 and request.shape.dispersion == 1.4


def test_users_become_a_rate() -> None:
    request = serve_request({"model": MODEL, "users": "600", "think_time": "2 min", "traffic": "chat"})
    assert request.rate_per_s == pytest.approx(5.0)


def test_lengths_replace_those_of_the_profile() -> None:
    request = serve_request({**GOOD, "prompt_tokens": "8k"})
    assert request.lengths.prompt_tokens == 8000 and request.lengths.output_tokens == 211
    assert request.lengths.prompt_p95 is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rate": "-4/s"}, "rate: '-4/s' is out of range"),
        ({"rate": "0/s"}, "rate: '0/s' is out of range"),
        ({"rate": "1e12/s"}, "rate: '1e12/s' is out of range"),
        ({"rate": "4 GB"}, "rate: '4 GB' is"),
        ({"ttft": "500"}, "ttft: '500' may be 500 s or 500 ms"),
        ({"ttft": ["1 s"]}, "ttft: one value is expected"),
        ({"concurrency": "64"}, "rate and concurrency contradict"),
        ({"rate": None}, "no load is given"),
        ({"traffic": "chatt"}, "no traffic profile 'chatt'; did you mean 'chat'"),
        ({"traffic": None, "prompt_tokens": "100"}, "output_tokens is missing"),
        ({"precision": "fp9"}, "no precision 'fp9'"),
        ({"accelerator": "h100-smx"}, "no accelerator 'h100-smx'; did you mean"),
        ({"accelerator": "H100", "exclude": "H100"}, "both wanted and excluded"),
        ({"region": "eu-central-99"}, "no region 'eu-central-99'.*did you mean"),
        ({"provider": "amazonia"}, "no provider 'amazonia'"),
        ({"vendor": "Nvidea"}, "no vendor 'Nvidea'.*NVIDIA"),
        ({"engine": "vlm"}, "no planned engine 'vlm'; did you mean 'vllm'"),
        ({"percentile": "101"}, "percentile: '101' is out of range"),
        ({"headroom": "100 %"}, "headroom: '100 %' is out of range"),
        ({"eu": "maybe"}, "eu: 'maybe' must be true or false"),
        ({"max_accelerators": "2.5"}, "max_accelerators: '2.5' must be a whole number"),
        ({"ttfft": "1 s"}, "no field 'ttfft'; did you mean 'ttft'"),
        ({"model": ""}, "model is empty"),
        ({"model": None}, "model is missing"),
        ({"think_time": "1 s"}, "think_time only makes sense with users"),
        ({"budget": "€5/h"}, "euro"),
        ({"term": "weekly"}, "no term 'weekly'"),
    ],
)
def test_one_sentence_for_each_mistake(change: dict[str, object], told: str) -> None:
    with pytest.raises(TonnageError) as caught:
        serve_request({**GOOD, **change})
    sentence = str(caught.value)
    assert re.search(told, sentence), sentence
    assert "\n" not in sentence and len(sentence) < 400


ANYTHING = st.one_of(
    st.text(max_size=30), st.integers(), st.floats(), st.lists(st.text(max_size=5), max_size=3), st.none()
)


@given(st.sampled_from([field.name for field in request_fields(Serve)]), ANYTHING)
def test_any_value_is_read_or_refused(field: str, value: object) -> None:
    try:
        serve_request({**GOOD, field: value})
    except TonnageError as error:
        assert "\n" not in str(error)


def test_every_field_has_help_and_reads_something_known() -> None:
    from tonnage.units import DIMENSIONS

    for field in request_fields(Serve):
        assert field.help and field.reads in {*DIMENSIONS, "text", "list", "flag", "integer", "entries"}


@pytest.mark.parametrize("written", ["50", "$50", "50 USD", "50$", "$50/h", "36500 USD/month"])
def test_a_budget_without_a_time_is_of_the_hour_that_the_option_names(written: str) -> None:
    made = serve_request({"model": "13B", "rate": "2/s", "traffic": "chat", "budget": written})
    assert made.budget_usd_per_h == pytest.approx(50.0)


@pytest.mark.parametrize("written", ["50 EUR", "fifty", "50/s"])
def test_a_budget_of_another_unit_is_refused(written: str) -> None:
    with pytest.raises(TonnageError, match="budget"):
        serve_request({"model": "13B", "rate": "2/s", "traffic": "chat", "budget": written})


@pytest.mark.parametrize(("read", "days"), [(train_request, 30.0), (finetune_request, 1.25), (budget_request, 30.0)])
def test_a_plain_deadline_is_what_its_job_is_counted_in(read: Any, days: float) -> None:
    """Training anew takes days, an adaptation hours; the option's help says which."""
    asked = {"amount": "$20,000"} if read is budget_request else {"model": "8B", "tokens": "1B"}
    assert read({**asked, "deadline": 30}).deadline_s == days * 86400.0
