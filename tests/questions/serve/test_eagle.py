"""EAGLE-3 drafts: one more option of a plan, with their own weights, cache and time, which may lose under load."""

from datetime import date
from itertools import pairwise
from typing import Any

import pytest

from tonnage.core.deployment import Deployment, resolve
from tonnage.core.replica import drafting_grid
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.domain.requests.common import Lengths
from tonnage.errors import BadRequest, UnknownName
from tonnage.export import export
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.question import serve_request
from tonnage.simulation.simulated import step_arrays
from tonnage.simulation.steps import StepTable, step_table

TODAY = date(2026, 11, 22)
LLAMA = "meta-llama/Meta-Llama-3.1-8B"
DRAFT = "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3"
SEVENTY = {
    "model": "meta-llama/Llama-3.3-70B-Instruct",
    "traffic": "chat",
    "rate": "10/s",
    "accelerator": "H100",
    "ttft": "2 s",
    "tpot": "15 ms",
    "quick": True,
}


def plan(**changes: Any) -> ServePlan:
    return plan_serve(serve_request({**SEVENTY, **changes}), today=TODAY)


def drafting_of(found: ServePlan) -> ServeOption:
    return next(one for one in found.options if one.configuration.engine.draft_model)


def settled(accelerator: str = "H100-SXM", **options: Any) -> Deployment:
    engine_options = options
    return resolve(
        ServeCase(
            model=LLAMA,
            accelerator=accelerator,
            traffic=Traffic(concurrency=1.0),
            isl=1000.0,
            osl=300.0,
            engine="vllm",
            engine_options=engine_options,
        )
    )


def table_of(at: Deployment, batch: float) -> StepTable:
    return step_table(drafting_grid(at, Lengths(prompt_tokens=1000.0, output_tokens=300.0), batch=batch), at.overheads)


@pytest.fixture(scope="module")
def drafting() -> ServePlan:
    return plan()


def test_a_published_draft_is_tried_by_default_and_named_as_such(drafting: ServePlan) -> None:
    found = drafting_of(drafting).configuration
    assert found.engine.draft_model == "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3"
    assert found.engine.speculative_tokens == 3 and found.layout.pp == 1
    assert "EAGLE-3 k=3" in found.settings() and "eagle-3-k=3" in found.label()
    assert any("67% to 75%" in said and "planned at 67%" in said for said in drafting.provenance.assumed)


def test_an_option_more_costs_no_more_and_one_that_keeps_nothing_is_not_chosen(drafting: ServePlan) -> None:
    hopeless = plan(draft_acceptance="1 %", draft_tokens=3)
    assert drafting.options[0].bill.usd_per_hour <= hopeless.options[0].bill.usd_per_hour
    assert not any(one.configuration.engine.draft_model for one in hopeless.options)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_exports_name_the_draft_in_the_engine_s_own_flags(engine: str) -> None:
    found = plan(engine=engine)
    option = drafting_of(found)
    script = export(found, option, to=engine)["serve.sh"]
    assert str(option.configuration.engine.draft_model) in script
    assert ('"method": "eagle3"' if engine == "vllm" else "--speculative-algorithm EAGLE3") in script.replace(
        "\\\n", ""
    )
    assert ('"num_speculative_tokens": 3' if engine == "vllm" else "--speculative-num-draft-tokens 4") in script


def test_a_draft_takes_memory_for_its_weights_and_for_every_token() -> None:
    plain, drafting = settled(), settled(draft_model=DRAFT, speculative_tokens=3)
    parts = {part.name: part.value for part in drafting.pool.memory.parts}
    assert parts["weights: draft"] == pytest.approx(2 * 0.425e9, rel=0.01)
    assert plain.pool.bytes - drafting.pool.bytes == pytest.approx(parts["weights: draft"], rel=0.01)
    # One layer keeps what each of the target's 32 does.
    each = [at.pool.bytes / at.pool.tokens for at in (plain, drafting)]
    assert each[1] / each[0] == pytest.approx(33 / 32, rel=1e-3)


def test_published_acceptance_fills_what_a_case_leaves_out() -> None:
    kept = settled(draft_model=DRAFT, speculative_tokens=3).engine.speculative_acceptance
    assert kept == pytest.approx(0.648, abs=0.01)
    stated = settled(draft_model=DRAFT, speculative_tokens=3, speculative_acceptance=0.5)
    assert stated.engine.speculative_acceptance == 0.5
    with pytest.raises(BadRequest, match="needs speculative_acceptance"):
        settled(draft_model="yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", speculative_tokens=9)
    with pytest.raises(UnknownName):
        settled(draft_model="yuhuili/EAGLE3", speculative_tokens=3)
    with pytest.raises(BadRequest, match="width 8,192"):
        settled(draft_model="RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3", speculative_tokens=3)


def test_drafts_gain_alone_and_lose_where_verified_tokens_are_computed() -> None:
    plain, drafting = settled("RTX-3090"), settled("RTX-3090", draft_model=DRAFT, speculative_tokens=3)
    without, with_drafts = table_of(plain, 256.0), table_of(drafting, 256.0)
    gains = [without.decode_s(n, 1150.0) / with_drafts.decode_s(n, 1150.0) for n in (1, 8, 64, 256)]
    assert gains == sorted(gains, reverse=True) and gains[0] > 1.3 and gains[-1] < 1.0


def test_each_token_more_is_a_pass_more_and_the_simulation_counts_the_same() -> None:
    tables = [
        table_of(settled(draft_model=DRAFT, speculative_tokens=k, speculative_acceptance=0.6), 64.0)
        for k in (1, 2, 3, 4)
    ]
    spent = [one.drafts_s(8) for one in tables]
    further = [later - before for before, later in pairwise(spent[1:])]
    assert all(one > 0.0 for one in further) and further[1] == pytest.approx(further[0], rel=0.1)
    table = tables[2]
    arrays = step_arrays(table, max_num_seqs=64, budget=2048)
    assert table.speculation is not None
    cycle = table.decode_s(16, 500.0) * table.speculation.gained
    o = table.overheads
    host = o.step_s + o.sequence_s * 16
    assert arrays.decode_s[16] + arrays.context_s[16] * 16 * 500.0 + host == pytest.approx(cycle, rel=1e-3)
