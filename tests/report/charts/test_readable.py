"""Charts on a narrow screen and a dark ground: intervals that leave the axis, names beside the axes, contrast."""

import re
from typing import Any

import pytest
from tests.command import told

import tonnage

THEMES = ("light", "dark")


def layers(spec: Any) -> list[Any]:
    """Every layer, those inside others too."""
    return [one for layer in spec.get("layer", ()) for one in (layer, *layers(layer))]


def drawn(plan: Any, name: str, theme: str = "light") -> Any:
    return next(chart for chart in tonnage.charts(plan) if chart.name == name).vega(theme)


def brightness(colour: str) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((brightness(one), brightness(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture(scope="module")
def plan() -> Any:
    asked = {"rate": "4/s", "traffic": "chat", "ttft": "1 s", "tpot": "30 ms", "quick": True}
    return tonnage.plan_serve("meta-llama/Llama-3.1-70B-Instruct", accelerator="B200,H100", **asked)


def test_an_interval_that_leaves_the_axis_ends_in_an_arrow(plan: Any) -> None:
    spec = drawn(plan, "frontier")
    (arrow,) = [one for one in layers(spec) if one.get("mark", {}).get("shape") == "triangle-right"]
    end = arrow["encoding"]["x"]["datum"]
    assert end == arrow["encoding"]["x"]["scale"]["domain"][1]
    assert arrow["transform"] == [{"filter": f"datum.high > {end}"}]
    beyond = [row["label"] for row in spec["data"]["values"] if row["high"] > end]
    assert beyond and "an arrow is an interval that goes on" in spec["description"]


@pytest.mark.parametrize("theme", THEMES)
def test_limits_and_intervals_stand_out_on_their_ground(plan: Any, theme: str, tmp_path: Any) -> None:
    spec, page = drawn(plan, "frontier", theme), tmp_path / "plan.html"
    asked = ("meta-llama/Llama-3.1-8B-Instruct", "--rate", "1/s", "--traffic", "chat", "-a", "L40S", "--quick")
    assert told("plan", "serve", *asked, "--plot", str(page)).exit_code == 0
    ground = re.search(r"--card:light-dark\((#\w+),(#\w+)\)", page.read_text("utf-8"))
    assert ground is not None
    card = {"#fff": "#ffffff"}.get(ground[1 + THEMES.index(theme)], ground[1 + THEMES.index(theme)])
    style = spec["config"]["style"]
    assert contrast(style["interval"]["color"], card) >= 3.0 and contrast(style["limit"]["color"], card) >= 4.5
    marked = [one["mark"] for one in layers(spec) if isinstance(one.get("mark"), dict) and "style" in one["mark"]]
    lines = [mark for mark in marked if mark["type"] in ("rule", "text", "point")]
    assert len(lines) >= 4 and all(mark.get("opacity", 1) == 1 and "color" not in mark for mark in lines)


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B-Instruct", None])
def test_names_of_a_budget_keep_inside_the_plot(model: str | None) -> None:
    asked = {"model": model} if model else {"rate": "1/s"}
    asked |= {"traffic": "chat", "ttft": "1 s", "tpot": "50 ms", "accelerator": "L40S,H100"}
    spec = drawn(tonnage.plan_budget("$3000/month", **asked), "buys")
    points = [row for row in spec["data"]["values"] if row["name"]]
    last = max([row["x"] for row in spec["data"]["values"]] + ([] if model else [3000.0]))
    for row in points:
        place = row["x"] / last
        assert row["side"] == ("left" if place < 0.3 else "right" if place > 0.7 else "middle")
    texts = [one for one in layers(spec) if one.get("mark", {}).get("type") == "text" and "transform" in one]
    aligned = {one["transform"][0]["filter"].split("'")[1]: one["mark"]["align"] for one in texts}
    assert aligned.items() <= {"left": "left", "middle": "center", "right": "right"}.items()
    assert {row["side"] for row in points} <= aligned.keys()
    (limit,) = [
        one for one in layers(spec) if one.get("mark", {}).get("style") == "limit" and one["mark"]["type"] == "text"
    ]
    assert limit["mark"]["align"] == ("left" if model else "right")
