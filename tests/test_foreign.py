"""Texts and values of others, at every entrance: hidden characters, and more than anybody needs, are one sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import tonnage
from tests.catalog.hub.files import LLAMA_GGUF, gguf_bytes, llama_gguf_tensors
from tests.command import told
from tests.export.plans import plan
from tonnage.catalog import NOTHING
from tonnage.catalog.additions import TEMPLATE
from tonnage.errors import UNSEEN, BadRequest, TonnageError, echo
from tonnage.foreign import plain_text
from tonnage.web.tool_results import call

DATA = Path(__file__).parent / "data"
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
FIT = {"model": MODEL, "accelerator": "H100", "context": "8k"}
LONGEST = 2_000
CONFIG = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16",
}  # fmt: skip
HIDDEN = ("\x1b[2J", "\r", "\x9b2J", "\u202e", "\u200b", "\u2028", "\u3164")
UNSHOWN = (
    *"\0\1\a\b\t\n\v\f\r\x0e\x1b\x1f\x7f\x80\x85\x90\x9b\x9c\x9d\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u180e\u200b\u200c\u200d\u200e",
    *"\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2064\u2066\u2067\u2068\u2069\u206f\u3164\ud800\udfff\ufeff\uffa0\ufff9\ufffb",
    *"\U0001bca0\U0001d173\U000e0001\U000e0041\U000e0fff",
)
"""No name holds them: controls, marks of direction, ends of lines, what has no width or no text."""


def run(*arguments: str, text: str | None = None) -> Result:
    return told(*arguments, given=text)


def assert_refused(done: Result, *, character: str) -> None:
    shown = done.stdout + done.stderr
    assert done.exit_code == 2 and (character == "\n" or f"U+{ord(character[0]):04X}" in done.stderr), shown
    assert not UNSEEN.search(shown) and "Traceback" not in shown and len(shown) < LONGEST
    assert len(done.stderr.splitlines()) == 1


def config(folder: Path, name: str) -> list[str]:
    (folder / "config.json").write_text(json.dumps({**CONFIG, "_name_or_path": name}), encoding="utf-8")
    return ["fit", str(folder / "config.json"), "--accelerator", "H100"]


def model_type(folder: Path, name: str) -> list[str]:
    (folder / "config.json").write_text(json.dumps({**CONFIG, "model_type": name}), encoding="utf-8")
    return ["fit", str(folder / "config.json"), "--accelerator", "H100"]


def gguf(folder: Path, name: str) -> list[str]:
    path = folder / "m.gguf"
    path.write_bytes(gguf_bytes({**LLAMA_GGUF, "general.name": name}, llama_gguf_tensors(2)))
    return ["fit", str(path), "--accelerator", "H100"]


def plan_file(folder: Path, name: str) -> list[str]:
    (folder / "plan.json").write_text(json.dumps(plan(name)), encoding="utf-8")
    return ["export", str(folder / "plan.json"), "--to", "slurm"]


def provider_in_plan(folder: Path, name: str) -> list[str]:
    (folder / "plan.json").write_text(json.dumps(plan(provider=name)), encoding="utf-8")
    return ["explain", str(folder / "plan.json")]


def additions(folder: Path, name: str) -> list[str]:
    said = json.dumps(name, ensure_ascii=True)
    text = TEMPLATE.replace('provider = "my-machine-room"', f"provider = {said}")
    (folder / "cards.toml").write_text(text, encoding="utf-8")
    return ["catalog", "offers", "--additions", str(folder / "cards.toml")]


def request_file(folder: Path, name: str) -> list[str]:
    (folder / "ask.json").write_text(json.dumps({"plan": "serve", "model": name, "rate": "1/s"}), encoding="utf-8")
    return ["plan", str(folder / "ask.json")]


def option(folder: Path, name: str) -> list[str]:
    return ["fit", name, "--accelerator", "H100"]


def metrics(folder: Path, name: str) -> list[str]:
    page = (DATA / "measure" / "vllm_0.32.0_cpu_metrics.prom").read_text(encoding="utf-8")
    (folder / "page.prom").write_text(page.replace('"tiny"', f'"{name}"'), encoding="utf-8", newline="")
    return ["diagnose", str(folder / "page.prom")]


def report(folder: Path, name: str) -> list[str]:
    found = json.loads((DATA / "measure" / "vllm_bench_0.32.0.json").read_text(encoding="utf-8"))
    (folder / "bench.json").write_text(json.dumps({**found, "model_id": name}), encoding="utf-8")
    return ["diagnose", str(folder / "bench.json")]


def deployment(folder: Path, name: str) -> list[str]:
    said = {"services": {"a": {"image": "vllm/vllm-openai:v0.27.0", "command": ["--model", name]}}}
    (folder / "compose.json").write_text(json.dumps(said), encoding="utf-8")
    return ["adopt", str(folder / "compose.json"), "--accelerator", "H100"]


def case(folder: Path, name: str) -> list[str]:
    asked = {"kind": "serve", "model": name, "accelerator": "H100", "isl": 1, "osl": 1, "traffic": {"batch": 1}}
    (folder / "cases.jsonl").write_text(json.dumps(asked), encoding="utf-8")
    return ["explain", str(folder / "cases.jsonl")]


def name_of_a_log(folder: Path, name: str) -> list[str]:
    (folder / name).parent.mkdir()
    (folder / name).write_text("timestamp,prompt_tokens,output_tokens\n1,100,10\n2,100,10\n", encoding="utf-8")
    return ["trace", str(folder / name)]


def name_of_a_page(folder: Path, name: str) -> list[str]:
    (folder / name).parent.mkdir()
    (folder / name).write_bytes((DATA / "measure" / "vllm_0.32.0_cpu_metrics.prom").read_bytes())
    return ["diagnose", str(folder / name)]


DOORS = (
    config, model_type, gguf, plan_file, provider_in_plan, additions, request_file, option, metrics, report, deployment,
    case, name_of_a_log, name_of_a_page,
)  # fmt: skip


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("hidden", ["\x1b[2J", "\u202e", "\u3164", "\n"], ids=ascii)
def test_a_name_with_hidden_characters_reaches_no_screen(
    door: Callable[[Path, str], list[str]], hidden: str, tmp_path: Path
) -> None:
    assert_refused(run(*door(tmp_path, f"acme/a{hidden}b")), character=hidden)


@pytest.mark.parametrize("hidden", HIDDEN, ids=ascii)
def test_each_kind_of_hidden_character_is_named(hidden: str, tmp_path: Path) -> None:
    assert_refused(run(*config(tmp_path, f"acme/a{hidden}b")), character=hidden)
    with pytest.raises(TonnageError, match=f"U\\+{ord(hidden[0]):04X}"):
        call("check_memory_fit", {**FIT, "model": {**CONFIG, "id": f"a{hidden}b"}}, additions=NOTHING)


@pytest.mark.parametrize("hidden", UNSHOWN, ids=ascii)
def test_no_name_and_no_message_holds_what_nobody_sees(hidden: str) -> None:
    with pytest.raises(TonnageError, match=f"U\\+{ord(hidden):04X}") as caught:
        plain_text(f"acme/a{hidden}b", where="a name")
    assert hidden in "\n\t" or hidden not in str(caught.value) + str(TonnageError(f"a{hidden}b")) + echo(f"a{hidden}b")


def test_letters_of_every_script_and_lines_of_prose_stay() -> None:
    found = tonnage.model({**CONFIG, "id": "acme/模型-é", "notes": "first line\nsecond\tline"})
    assert found.id == "acme/模型-é" and "\n" in (found.notes or "")


def test_names_of_fields_and_prose_hide_nothing_either() -> None:
    with pytest.raises(TonnageError, match=r"the field 'a.b' holds the character U\+202E"):
        call("check_memory_fit", {**FIT, "a\u202eb": 1}, additions=NOTHING)
    with pytest.raises(TonnageError, match=r"holds the character U\+202E"):
        tonnage.model({**CONFIG, "id": "acme/a", "notes": "first line\nsecond\u202eline"})


def test_a_refusal_is_short_and_names_the_nearest_of_the_first_few() -> None:
    many = {f"contex{n}": 1 for n in range(15_000)}
    few = {name: many[name] for name in list(many)[:40]}
    for fields in (many, few):
        with pytest.raises(BadRequest) as caught:
            call("check_memory_fit", {**FIT, **fields}, additions=NOTHING)
        assert len(str(caught.value)) <= LONGEST
    assert "did you mean 'context'" in str(caught.value) and "more fields are wrong" in str(caught.value)


def test_many_fields_are_refused_in_a_file_and_from_python(tmp_path: Path) -> None:
    many: dict[str, Any] = {f"x{n}": 1 for n in range(15_000)}
    (tmp_path / "ask.json").write_text(json.dumps({"plan": "serve", "model": MODEL, **many}), encoding="utf-8")
    done = run("plan", str(tmp_path / "ask.json"))
    assert done.exit_code == 2 and "15,001 fields are given" in done.stderr and len(done.stderr) < LONGEST
    with pytest.raises(TonnageError, match="15,002 fields are given"):
        tonnage.fit(MODEL, accelerator="H100", **many)


def test_equal_names_count_once_and_a_list_has_an_end() -> None:
    asked = {"model": MODEL, "rate": "1/s", "traffic": "chat", "quick": True}
    one, many = ({**asked, "accelerator": names} for names in (["H100"], ["H100", "h100-sxm5-80gb"] * 1000))
    found, same = (tonnage.plan_serve(**each) for each in (one, many))
    assert tonnage.to_dict(same)["request"] == tonnage.to_dict(found)["request"]
    with pytest.raises(TonnageError, match="2,000 entries are more than 1,000"):
        tonnage.plan_serve(**{**asked, "accelerator": [f"h{n}" for n in range(2000)]})


@pytest.mark.parametrize(
    ("fields", "says"),
    [({"context": "8" * 100_000}, "100,000 characters"), ({"engine_version": "1." * 50_000}, "100,000 characters"),
     ({"accelerator": "x" * 100_000}, "more than 2,000 characters")],
)  # fmt: skip
def test_long_texts_are_refused(fields: dict[str, str], says: str) -> None:
    with pytest.raises(TonnageError, match=says) as caught:
        call("check_memory_fit", {**FIT, **fields}, additions=NOTHING)
    assert len(str(caught.value)) <= LONGEST


def test_depth_and_values_are_bounded_at_the_tools() -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    for held, says in (
        (deep, "nested more than 40 deep"),
        ([[1] * 1000] * 300, "more than 20,000 values"),
        ({"traffic": {"batch": 10**400}}, "over 308 digits"),
    ):
        with pytest.raises(TonnageError, match=says):
            call("check_memory_fit", {**FIT, "model": {"layers": held}}, additions=NOTHING)
