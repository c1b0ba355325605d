"""Every answer's pictures draw, and say in their tables what they draw."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import tonnage
from tonnage.domain.answer import Quantity
from tonnage.questions.answers import charts_of
from tonnage.questions.cost.page import _owned_line
from tonnage.report.charts.chart import Chart, memory_chart, specification
from tonnage.units import read

GIB = 1024.0**3


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    model = "meta-llama/Llama-3.1-8B-Instruct"
    return {
        "serve": tonnage.plan_serve(model, rate="4/s", traffic="chat", ttft="1 s", tpot="50 ms"),
        "fit": tonnage.fit(model, accelerator="H100", context="8k"),
        "finetune": tonnage.plan_finetune(model, examples="50k", tokens_per_example="800", deadline="24 h"),
        "batch": tonnage.plan_batch(model, items="1M", prompt_tokens="500", output_tokens="100", deadline="12 h"),
        "cost": tonnage.rent_or_buy("H100", utilisation="60 %"),
    }


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("serve", ("frontier", "load", "cost", "memory", "roofline")),
        ("fit", ("memory",)),
        ("finetune", ("frontier", "scaling", "memory", "timeline")),
        ("batch", ("frontier", "memory")),
        ("cost", ("break-even", "tornado")),
    ],
)
def test_each_kind_has_its_pictures(answers: dict[str, Any], kind: str, names: tuple[str, ...]) -> None:
    assert tuple(chart.name for chart in charts_of(answers[kind])) == names


@pytest.mark.parametrize("kind", ["serve", "fit", "finetune", "batch", "cost"])
def test_pictures_draw_and_carry_their_numbers(answers: dict[str, Any], kind: str) -> None:
    vl_convert = pytest.importorskip("vl_convert")
    for chart in charts_of(answers[kind]):
        assert chart.rows and all(len(row) == len(chart.columns) for row in chart.rows)
        document = specification(chart, theme="dark")
        json.dumps(document, allow_nan=False)
        assert vl_convert.vegalite_to_svg(document).startswith("<svg")


def test_an_answer_without_options_has_no_pictures() -> None:
    plan = tonnage.plan_serve("405B", rate="4/s", traffic="chat", accelerator="T4", max_accelerators=1)
    assert not plan.feasible and charts_of(plan) == ()


def test_memory_bands_sum_to_the_whole() -> None:
    parts = (
        Quantity(name="weights: attention", value=2 * GIB),
        Quantity(name="KV cache", value=3 * GIB),
        Quantity(name="CUDA graphs", value=1 * GIB),
    )
    option = SimpleNamespace(memory=Quantity.of_parts("bytes", parts), limit_bytes=8 * GIB)
    chart = memory_chart((option, option), lambda _: "a")
    assert chart is not None
    drawn = chart.body["data"]["values"]
    assert {value["accelerator"] for value in drawn} == {"a", "a (2)"}
    assert sum(value["gib"] for value in drawn) == pytest.approx(12)
    assert sum(read(row[2], "bytes", field="size") for row in chart.rows if row[1] != "may use") / GIB == pytest.approx(
        12
    )


def test_the_owned_line_passes_through_the_answer_and_every_break_even(answers: dict[str, Any]) -> None:
    answer = answers["cost"]
    line = _owned_line(answer)
    assert line is not None
    fixed, running = line
    assert fixed / answer.request.utilisation + running == pytest.approx(answer.owned_usd_per_used_hour.value)
    crossed = [rent for rent in answer.rents if rent.paid == "used" and rent.break_even_utilisation]
    assert crossed
    for rent in crossed:
        price = rent.usd_per_accelerator_hour / rent.useful
        assert fixed / rent.break_even_utilisation + running == pytest.approx(price, rel=0.02)


def test_a_chart_names_its_text_for_those_who_do_not_see_it(answers: dict[str, Any]) -> None:
    chart: Chart = charts_of(answers["serve"])[0]
    assert specification(chart)["description"] == chart.says
