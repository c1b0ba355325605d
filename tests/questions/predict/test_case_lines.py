"""Batch prediction: one line in, one out, in order; nothing lost, nothing silently repaired."""

import io
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.validation.predictors import crashing, fixed

from tonnage.domain.case import InferCase, ServeCase, TrainCase
from tonnage.domain.precision import Precision
from tonnage.errors import BadFact, BadRequest, TonnageError, UnknownName
from tonnage.questions.predict.case_lines import LONGEST_LINE, answers, case_of_object, raw_cases

SERVE: dict[str, Any] = {
    "kind": "serve",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "accelerator": "h100-sxm5-80gb",
    "traffic": {"concurrency": 64},
    "isl": 1024,
    "osl": 1024,
}

# The objects of the published description, word for word but for the model and accelerator.
PUBLISHED: list[dict[str, Any]] = [
    {
        "kind": "serve", "model": "m", "accelerator": "a", "layout": {"tp": 4, "pp": 1, "dp": 1, "ep": 1},
        "precision": {"weights": "fp8", "kv": "fp8", "activations": "fp8"}, "engine": "vllm",
        "engine_version": "0.19.0", "engine_options": {"max_num_seqs": 4}, "traffic": {"rate_per_s": 4.0},
        "isl": 1024, "osl": 1024, "length_spread": [0.8, 1.0], "links": {"intra": "nvlink"},
    },
    {
        "kind": "train", "method": "lora", "model": "m", "accelerator": "a", "count": 64, "accelerators_per_node": 8,
        "links": {"intra": "nvlink", "inter_bytes_per_s": 5e10},
        "layout": {"tp": 1, "pp": 1, "vpp": 1, "cp": 1, "ep": 1, "dp": 64, "sharding": "zero1"}, "precision": "bf16",
        "micro_batch": 1, "global_batch": 512, "seq_len": 4096, "recompute": "none", "optimizer": "adamw",
        "lora_rank": 16,
    },
    {
        "kind": "infer", "model": "m", "accelerator": "a", "batch": 8, "resolution": 512, "steps": 20,
        "precision": "fp16",
    },
    {"kind": "train", "model": "m", "accelerator": "a", "batch": 8, "resolution": 224, "precision": "fp16"},
]  # fmt: skip


def lines(text: str | bytes, predict: Any = fixed, *, yaml: bool = False) -> list[dict[str, Any]]:
    data = text.encode() if isinstance(text, str) else text
    return [json.loads(answer.text) for answer in answers(raw_cases(io.BytesIO(data), yaml=yaml), predict)]


@pytest.mark.parametrize("raw", PUBLISHED)
def test_every_published_field_is_read(raw: dict[str, Any]) -> None:
    case = case_of_object(raw)
    expected = {"serve": ServeCase, "train": TrainCase, "infer": InferCase}[raw["kind"]]
    assert isinstance(case, expected)
    written = msgspec.to_builtins(case)
    names = {"batch": "micro_batch", "resolution": "image_px"} if raw["kind"] == "train" else {}
    for name, value in raw.items():
        if name not in {"kind", "layout", "precision", "engine", "optimizer", "lora_rank", "recompute"}:
            assert written[names.get(name, name)] == (tuple(value) if isinstance(value, list) else value)


@pytest.mark.parametrize("traffic", [{"concurrency": 64}, {"rate_per_s": 4.0}, {"batch": 16, "static": True}])
def test_every_published_load_is_read(traffic: dict[str, Any]) -> None:
    assert isinstance(case_of_object({**SERVE, "traffic": traffic}), ServeCase)


def test_one_format_is_that_of_the_weights() -> None:
    case = case_of_object({**SERVE, "precision": "fp8"})
    assert isinstance(case, ServeCase) and case.precision == Precision(weights="fp8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": None}, "kind is missing"),
        ({"kind": "Serve"}, "no kind of case 'Serve'; did you mean 'serve'"),
        ({"acelerator": "x"}, "no field 'acelerator'; did you mean 'accelerator'"),
        ({"layout": {"tpp": 2}}, "no field 'layout.tpp'; did you mean 'layout.tp'"),
        ({"traffic": {"concurency": 2}}, "did you mean 'traffic.concurrency'"),
        ({"tp": 2}, "'tp' belongs to the layout of a case: write layout: {tp: 2}"),
        ({"traffic": {}}, "traffic: no load is given"),
        ({"traffic": {"concurrency": 1, "rate_per_s": 1}}, "concurrency and rate_per_s contradict"),
        ({"traffic": {"concurrency": 4, "static": True}}, "traffic.static needs traffic.batch"),
        ({"traffic": 4}, "traffic: expected `object`"),
        ({"isl": "long"}, "isl: expected `float`, got `str`"),
        ({"isl": -1}, "isl: -1 is out of range"),
        ({"osl": 0}, "osl: 0 is out of range"),
        ({"layout": {"tp": 0}}, "layout.tp: 0 is out of range"),
        ({"layout": {"tp": 1e30}}, "layout.tp: 1e"),
        ({"length_spread": [1.0, 0.8]}, "length_spread: .* must rise"),
        ({"length_spread": [0.8]}, "length_spread"),
        ({"accelerator_fraction": 2}, "accelerator_fraction: 2 is more than the whole"),
        ({"accelerator": None}, "accelerator: expected `str`"),
        ({"precision": 8}, "precision: expected `object | null`"),
        ({"phase": "sleep"}, "phase: invalid enum value 'sleep'"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_expected(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said) as error:
        case_of_object({**SERVE, **change})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("field", ["engine_version", "engine", "accelerator", "model"])
def test_a_long_text_is_refused_before_it_is_read(field: str) -> None:
    with pytest.raises(BadRequest, match=f"{field}: .*characters") as error:
        case_of_object({**SERVE, field: "H100," * 200_000})
    assert len(str(error.value)) < 2048


def test_a_missing_field_is_named() -> None:
    with pytest.raises(BadRequest, match="missing required field `accelerator`"):
        case_of_object({name: value for name, value in SERVE.items() if name != "accelerator"})


def test_an_alias_beside_its_field_contradicts() -> None:
    with pytest.raises(BadRequest, match="batch and micro_batch are the same field"):
        case_of_object({"kind": "train", "model": "m", "accelerator": "a", "batch": 8, "micro_batch": 8})


@pytest.mark.parametrize("raw", [None, 4, "text", [SERVE]])
def test_what_is_no_object_is_no_case(raw: Any) -> None:
    with pytest.raises(BadRequest, match="a case is an object"):
        case_of_object(raw)


def test_an_own_model_may_be_written_out() -> None:
    inline = {"id": "own", "hidden_size": 64, "layers": [], "num_hidden_layers": 2}
    case = case_of_object({**SERVE, "model": inline})
    assert isinstance(case, ServeCase)
    assert case.model == inline


def test_each_line_is_answered_in_its_place() -> None:
    long_one = {**SERVE, "id": "b", "isl": 2000}
    text = "\n".join(["", json.dumps({**SERVE, "id": "a"}), "{broken", json.dumps(long_one), "   ", json.dumps(SERVE)])
    found = lines(text, crashing)
    assert [("error" in answer, answer.get("line")) for answer in found] == [
        (False, None),
        (True, 3),
        (True, 4),
        (False, None),
    ]
    assert found[0]["ttft_s"] == {"mean": 0.1, "low": 0.05, "high": 0.2}
    assert found[1]["error"].startswith("the line is not valid JSON")
    assert found[2] == {
        "error": "internal error: ZeroDivisionError: float division by zero",
        "line": 4,
        "id": "b",
    }


def test_lines_are_answered_as_they_come() -> None:
    file = io.BytesIO((json.dumps(SERVE) + "\n").encode() * 3)
    running = answers(raw_cases(file), fixed)
    next(running)
    assert file.tell() < len(file.getvalue())


def test_a_line_too_long_is_refused_and_the_next_one_answered() -> None:
    found = lines(b'{"x": "' + b"y" * (3 * LONGEST_LINE) + b'"}\n' + json.dumps(SERVE).encode())
    assert "longer than 1024 KiB" in found[0]["error"]
    assert found[0]["line"] == 1
    assert found[1]["fits"] is True


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\x00", b"[" * 100_000, b'{"a":' * 5000, b"NaN", b'{"kind": "serve"} {"kind": "serve"}', b'"\\ud800"',
        b'{"kind": "serve", "isl": NaN}', b"null", b"\x00",
    ],
)  # fmt: skip
def test_hostile_lines_end_in_a_sentence(line: bytes) -> None:
    try:
        found = lines(line + b"\n")
    except TonnageError as error:
        assert "\n" not in str(error)
    else:
        assert all("error" in answer for answer in found)


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    try:
        found = lines(data)
    except TonnageError:
        return
    assert all("internal error" not in answer.get("error", "") for answer in found)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([*PUBLISHED, SERVE]), st.data())
def test_any_value_in_any_field_is_read_or_refused_in_a_sentence(raw: dict[str, Any], data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(sorted(raw)))
    changed = {**raw, field: data.draw(json_values)}
    try:
        case_of_object(changed)
    except (BadFact, BadRequest, UnknownName) as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("yaml", [False, True])
def test_a_list_is_the_same_cases(yaml: bool) -> None:
    text = f"- {json.dumps(SERVE)}\n- {{kind: serve}}\n" if yaml else json.dumps([SERVE, {"kind": "serve"}], indent=1)
    found = lines(text, yaml=yaml)
    assert found[0]["fits"] is True
    assert found[1]["line"] == 2


@pytest.mark.parametrize(
    ("text", "yaml", "said"),
    [
        ("[1, 2", False, "not valid JSON"),
        ("a: 1", True, "a list of cases is expected"),
        ("- &a [1]\n- *a", True, "aliases"),
        ("- {", True, "not valid YAML"),
    ],
)
def test_a_list_that_is_none_ends_in_one_sentence(text: str, yaml: bool, said: str) -> None:
    with pytest.raises(BadFact, match=said):
        lines(text, yaml=yaml)


@pytest.mark.parametrize(("text", "yaml"), [("", False), ("\n\n  \n", False), ("[]", False), ("[]", True)])
def test_no_case_at_all_is_refused(text: str, yaml: bool) -> None:
    with pytest.raises(BadFact, match=r"^no case is given; write one object a line"):
        lines(text, yaml=yaml)


def test_a_name_given_twice_in_a_case_is_refused() -> None:
    text = json.dumps(SERVE)[:-1] + ', "accelerator": "A100"}'
    assert lines(text, crashing)[0]["error"] == "the line gives 'accelerator' twice; keep one"
    with pytest.raises(TonnageError, match="the list gives 'osl' twice"):
        list(raw_cases(io.BytesIO(b"- {isl: 1, osl: 2, osl: 3}"), yaml=True))


def test_more_clients_than_can_be_simulated_are_refused() -> None:
    with pytest.raises(BadRequest, match=r"traffic.concurrency: 1e\+09 clients at once are more than 100,000"):
        case_of_object({**SERVE, "traffic": {"concurrency": 1e9}})
