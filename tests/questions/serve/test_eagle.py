"""EAGLE-3 drafts: one more option of a plan, with their own weights, cache and time, which may lose under load."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.command import told

import tonnage

SEVENTY = {
    "model": "meta-llama/Llama-3.3-70B-Instruct",
    "traffic": "chat",
    "rate": "10/s",
    "accelerator": "H100",
    "ttft": "2 s",
    "tpot": "15 ms",
    "quick": True,
}


def plan(**changes: Any) -> Any:
    return tonnage.plan_serve(**SEVENTY | changes)


def drafting_of(found: Any) -> Any:
    return next(one for one in found.options if one.configuration.engine.draft_model)


@pytest.fixture(scope="module")
def drafting() -> Any:
    return plan()


def test_a_published_draft_is_tried_by_default_and_named_as_such(drafting: Any) -> None:
    found = drafting_of(drafting).configuration
    assert found.engine.draft_model == "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3"
    assert found.engine.speculative_tokens == 3 and found.layout.pp == 1
    assert "EAGLE-3 k=3" in found.settings() and "eagle-3-k=3" in found.label()
    assert any("67 % to 75 %" in said and "planned at 67 %" in said for said in drafting.provenance.assumed)


def test_an_option_more_costs_no_more_and_one_that_keeps_nothing_is_not_chosen(drafting: Any) -> None:
    hopeless = plan(draft_acceptance="1 %", draft_tokens=3)
    assert drafting.options[0].bill.usd_per_hour <= hopeless.options[0].bill.usd_per_hour
    assert not any(one.configuration.engine.draft_model for one in hopeless.options)


@pytest.mark.parametrize(
    ("engine", "flags"),
    [
        ("vllm", ('"method": "eagle3"', '"num_speculative_tokens": 3')),
        ("sglang", ("--speculative-algorithm EAGLE3", "--speculative-num-draft-tokens 4")),
    ],
)
def test_exports_name_the_draft_in_the_engine_s_own_flags(engine: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    found = plan(engine=engine)
    option = drafting_of(found)
    (tmp_path / "plan.json").write_text(json.dumps(tonnage.to_dict(found)))
    rank = found.options.index(option) + 1
    done = told("export", tmp_path / "plan.json", "--option", rank, "--to", engine, "-o", tmp_path / "files")
    assert done.exit_code == 0, done.output
    script = (tmp_path / "files" / "serve.sh").read_text().replace("\\\n", "")
    assert all(flag in script for flag in (option.configuration.engine.draft_model, *flags))


BASE = {"model": "llama 3.1 8b", "accelerator": "L4", "rate": "2/s", "ttft": None, "tpot": "40 ms"}


@pytest.mark.parametrize(
    ("model", "drafts"),
    [
        ("llama 3.1 8b", False),
        ("meta-llama/Llama-3.1-8B", False),
        ("llama 3.1 8b instruct", True),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", True),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", True),
        ("Qwen/Qwen3-8B-Base", False),
        ("Qwen3-8B", True),
    ],
)
def test_a_draft_is_planned_for_the_tuning_that_it_was_trained_for_alone(model: str, drafts: bool) -> None:
    told = plan(**BASE | {"model": model}).provenance.assumed
    assert any("speculative decoding of 3 tokens a step by" in line for line in told) == drafts
    assert any("another tuning keeps fewer of its tokens; --draft-acceptance" in line for line in told) != drafts


def test_a_stated_acceptance_drafts_for_any_tuning_and_says_so() -> None:
    made = plan(**BASE, draft_acceptance="50 %").provenance.assumed
    assert any("stated in the request" in line for line in made)
    assert any(line.endswith("another tuning keeps fewer of its tokens") for line in made)


def test_a_base_model_before_a_chat_is_remarked_and_every_file_names_it_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    asked = ("--rate", "2/s", "--tpot", "40 ms", "-a", "L4", "--quick", "-o", path)
    shown = " ".join(told("plan", "serve", "llama 3.1 8b", "--traffic", "chat", *asked).stdout.split())
    assert "meta-llama/Meta-Llama-3.1-8B is the base model, which completes texts" in shown
    assert "meta-llama/Llama-3.1-8B-Instruct answers a chat" in shown
    files = told("export", path, "--to", "all", "-o", str(tmp_path / "files"))
    assert files.exit_code == 0
    texts = [file.read_text("utf-8") for file in (tmp_path / "files").rglob("*") if file.is_file()]
    assert sum("meta-llama/Meta-Llama-3.1-8B" in text for text in texts) > 8 and not any("Instruct" in t for t in texts)
    instruct = told("plan", "serve", "llama 3.1 8b instruct", "--traffic", "chat", *asked).stdout
    completing = told("plan", "serve", "llama 3.1 8b", "--traffic", "summarization", *asked).stdout
    assert "base model" not in instruct + completing
