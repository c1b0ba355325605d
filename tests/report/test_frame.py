"""Answers with rows become flat dictionaries, all with the same keys; others say so."""

from __future__ import annotations

import pytest

import tonnage
from tonnage.errors import BadRequest
from tonnage.report.rows import rows_of

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def test_a_fleets_rows_are_its_instances() -> None:
    workload = {"name": "chat", "model": "8B", "rate": "2/s", "traffic": "chat"}
    plan = tonnage.plan_fleet(workloads=[workload], provider="gcp", accelerator="L4", quick=True)
    rows = rows_of(plan)
    assert [row["accelerator"] for row in rows] == [one.accelerator for one in plan.instances]
    assert sum(row["usd_per_month"] for row in rows) > 0 and len({tuple(row) for row in rows}) == 1


def test_a_comparisons_rows_are_its_sides() -> None:
    found = tonnage.compare(
        model=MODEL, accelerator="H100", traffic={"profile": "chat", "rate": "2/s", "requests": 400},
        ways={"small steps": {"engine_options": {"max_num_batched_tokens": 512}}, "as it is": {}},
    )  # fmt: skip
    rows = rows_of(found)
    assert [row["side"] for row in rows] == ["small steps", "as it is"]
    assert {figure.what for figure in found.figures} < set(rows[0])


def test_an_answer_without_rows_says_so() -> None:
    found = tonnage.simulate(
        model=MODEL, accelerator="H100", traffic={"profile": "chat", "rate": "2/s", "requests": 400}
    )
    with pytest.raises(BadRequest, match="no rows"):
        rows_of(found)
