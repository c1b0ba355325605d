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
    assert any("67% to 75%" in said and "planned at 67%" in said for said in drafting.provenance.assumed)


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
