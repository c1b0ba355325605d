"""Every answer's pictures draw, and say in their tables what they draw."""

import json
from typing import Any

import pytest

import tonnage

GIB = 1024.0**3


SOME = "L4,L40S,A100,H100,B200"


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    model = "meta-llama/Llama-3.1-8B-Instruct"
    return {
        "serve": tonnage.plan_serve(model, rate="4/s", traffic="chat", ttft="1 s", tpot="50 ms", accelerator=SOME),
        "fit": tonnage.fit(model, accelerator="H100", context="8k"),
        "finetune": tonnage.plan_finetune(model, examples="2M", tokens_per_example="800", deadline="24 h"),
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
    assert tuple(chart.name for chart in tonnage.charts(answers[kind])) == names


@pytest.mark.parametrize("kind", ["serve", "fit", "finetune", "batch", "cost"])
def test_pictures_draw_and_carry_their_numbers(answers: dict[str, Any], kind: str) -> None:
    vl_convert = pytest.importorskip("vl_convert")
    for chart in tonnage.charts(answers[kind]):
        assert chart.rows and all(len(row) == len(chart.columns) for row in chart.rows)
        document = chart.vega("dark")
        json.dumps(document, allow_nan=False)
        assert vl_convert.vegalite_to_svg(document).startswith("<svg")


def test_an_answer_without_options_has_no_pictures() -> None:
    plan = tonnage.plan_serve("405B", rate="4/s", traffic="chat", accelerator="T4", max_accelerators=1)
    assert not plan.feasible and tonnage.charts(plan) == ()


def test_memory_bands_sum_to_the_whole(answers: dict[str, Any]) -> None:
    plan = answers["serve"]
    (chart,) = (chart for chart in tonnage.charts(plan) if chart.name == "memory")
    drawn = chart.body["data"]["values"]
    bars = list(dict.fromkeys(value["accelerator"] for value in drawn))
    assert 1 < len(bars) <= len(plan.options), "like ones are told apart"
    for bar, option in zip(bars, plan.options, strict=False):
        bands = sum(value["gib"] for value in drawn if value["accelerator"] == bar)
        assert bands == pytest.approx(option.memory.value / GIB)
        said = [float(row[2].split()[0]) / (1024.0 if row[2].endswith("MiB") else 1.0)
                for row in chart.rows if row[0] == bar and row[1] != "may use"]  # fmt: skip
        assert sum(said) == pytest.approx(bands, rel=0.02)


def test_the_owned_line_passes_through_the_answer_and_every_break_even(answers: dict[str, Any]) -> None:
    answer = answers["cost"]
    (chart,) = (chart for chart in tonnage.charts(answer) if chart.name == "break-even")
    drawn = {row["use"]: row["usd"] for row in chart.body["data"]["values"] if row["way"] == "owned"}
    fixed = (drawn[0.1] - drawn[1.0]) / (1 / 0.1 - 1 / 1.0)
    running = drawn[1.0] - fixed
    assert all(fixed / use + running == pytest.approx(usd) for use, usd in drawn.items())
    assert fixed / answer.request.utilisation + running == pytest.approx(answer.owned_usd_per_used_hour.value)
    crossed = [rent for rent in answer.rents if rent.paid == "used" and rent.break_even_utilisation]
    assert crossed
    for rent in crossed:
        price = rent.usd_per_accelerator_hour / rent.useful
        assert fixed / rent.break_even_utilisation + running == pytest.approx(price, rel=0.02)


def test_a_chart_names_its_text_for_those_who_do_not_see_it(answers: dict[str, Any]) -> None:
    chart = tonnage.charts(answers["serve"])[0]
    assert chart.vega("light")["description"] == chart.says
