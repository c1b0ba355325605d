"""Answers with rows become flat dictionaries, all with the same keys; others say so."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest, UnknownName

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.fixture(autouse=True)
def pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of frames that hands back the rows it is given."""
    library: Any = ModuleType("pandas")
    library.__spec__, library.DataFrame = ModuleSpec("pandas", None), list
    monkeypatch.setitem(sys.modules, "pandas", library)


def test_a_fleets_rows_are_its_instances() -> None:
    workload = {"name": "chat", "model": "8B", "rate": "2/s", "traffic": "chat"}
    plan = tonnage.plan_fleet(workloads=[workload], provider="gcp", accelerator="L4", quick=True)
    rows = tonnage.to_frame(plan)
    assert [row["accelerator"] for row in rows] == [one.accelerator for one in plan.instances]
    assert sum(row["usd_per_month"] for row in rows) > 0 and len({tuple(row) for row in rows}) == 1


def test_a_comparisons_rows_are_its_sides() -> None:
    found = tonnage.compare(
        model=MODEL,
        accelerator="H100",
        traffic={"profile": "chat", "rate": "2/s", "requests": 400},
        ways={"small steps": {"engine_options": {"max_num_batched_tokens": 512}}, "as it is": {}},
    )
    rows = tonnage.to_frame(found)
    assert [row["side"] for row in rows] == ["small steps", "as it is"]
    assert {figure.what for figure in found.figures} < set(rows[0])


def test_an_answer_without_rows_says_so() -> None:
    found = tonnage.simulate(
        model=MODEL, accelerator="H100", traffic={"profile": "chat", "rate": "2/s", "requests": 400}
    )
    with pytest.raises(BadRequest, match="no rows"):
        tonnage.to_frame(found)


def test_break_even_points_and_opened_numbers_are_rows() -> None:
    plan = tonnage.plan_serve(model=MODEL, rate="4/s", traffic="chat", ttft="1 s", accelerator="L40S", quick=True)
    points = tonnage.to_frame(plan, "break_even")
    assert len(points) == len(plan.break_even) and {"input", "value", "becomes", "now"} <= set(points[0])
    opened = tonnage.explain(plan)
    rows = tonnage.to_frame(opened, "tree")
    roots = [row for row in rows if row["depth"] == 0]
    assert [row["number"] for row in roots] == [number.name for number in opened.numbers]
    assert all(row["share"] == 1.0 for row in roots if row["unit"] == "s")
    assert any(row["tier"] for row in rows if row["leaf"]) and max(row["depth"] for row in rows) > 2
    with pytest.raises(BadRequest, match="is not opened"):
        tonnage.to_frame(plan, "tree")
    with pytest.raises(UnknownName, match="break_even"):
        tonnage.to_frame(plan, "breakeven")


def test_charts_hold_their_numbers_and_stand_alone() -> None:
    answer = tonnage.fit(MODEL, accelerator="H100", context="8k")
    (chart,) = tonnage.charts(answer)
    assert chart.rows and chart.vega("dark")["$schema"].endswith("v6.json")
    for shown in (chart._repr_html_(), answer._repr_html_()):  # type: ignore[attr-defined]
        assert shown.startswith('<div class="tonnage"><style>@scope (.tonnage){')
        assert "http://" not in shown.replace("http://www.w3.org", "") and "body{" not in shown
