"""Charts on a narrow screen and a dark ground: intervals that leave the axis, names beside the axes, contrast."""

import math
import re
from itertools import combinations
from typing import Any

import pytest
from tests.command import told

import tonnage

THEMES = ("light", "dark")
WIDTHS = (280.0, 560.0, 1000.0)
"""Of a plot on a phone, in a column and over a page. [px]"""
LETTER = 6.4
"""Width of a letter. [px]"""


def layers(spec: Any) -> list[Any]:
    """Every layer, those inside others too."""
    return [one for layer in spec.get("layer", ()) for one in (layer, *layers(layer))]


def drawn(plan: Any, name: str, theme: str = "light") -> Any:
    return next(chart for chart in tonnage.charts(plan) if chart.name == name).vega(theme)


def linear(colour: str) -> list[float]:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]


def weigh(matrix: Any, values: list[float]) -> list[float]:
    return [sum(weight * value for weight, value in zip(row, values, strict=True)) for row in matrix]


def brightness(colour: str) -> float:
    return weigh([(0.2126, 0.7152, 0.0722)], linear(colour))[0]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((brightness(one), brightness(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def card(theme: str, style: str) -> str:
    """The ground of a theme's charts."""
    found = re.search(r"--card:light-dark\((#\w+),(#\w+)\)", style)
    assert found is not None
    return {"#fff": "#ffffff"}.get(found[1 + THEMES.index(theme)], found[1 + THEMES.index(theme)])


SIGHT = {
    "trichromat": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanope": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranope": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanope": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""Linear sRGB as each sees it (Machado, Oliveira and Fernandes 2009, severity 1)."""
CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)  # fmt: skip
OKLAB = (
    (0.2104542553, 0.7936177850, -0.0040720468), (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)  # fmt: skip


def seen_by(colour: str, sight: Any) -> list[float]:
    """Oklab coordinates (Ottosson 2020) of a colour as somebody sees it, in percent."""
    seen = [min(1.0, max(0.0, share)) for share in weigh(sight, linear(colour))]
    return [100 * value for value in weigh(OKLAB, [math.cbrt(cone) for cone in weigh(CONES, seen)])]


@pytest.fixture(scope="module")
def plan() -> Any:
    asked = {"rate": "4/s", "traffic": "chat", "ttft": "1 s", "tpot": "30 ms", "quick": True}
    return tonnage.plan_serve("meta-llama/Llama-3.1-70B-Instruct", accelerator="B200,H100", **asked)


@pytest.fixture(scope="module")
def page(tmp_path_factory: Any) -> str:
    """A report as HTML."""
    path = tmp_path_factory.mktemp("report") / "plan.html"
    asked = ("meta-llama/Llama-3.1-8B-Instruct", "--rate", "1/s", "--traffic", "chat", "-a", "L40S", "--quick")
    assert told("plan", "serve", *asked, "--plot", str(path)).exit_code == 0
    return path.read_text("utf-8")


def colours(plan: Any) -> list[str]:
    found: list[str] = drawn(plan, "frontier")["config"]["range"]["category"]
    return found


@pytest.mark.parametrize("theme", THEMES)
def test_every_colour_stands_out_on_its_ground(plan: Any, page: str, theme: str) -> None:
    assert min(contrast(colour, card(theme, page)) for colour in colours(plan)) >= 3.0


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_are_told_apart_with_any_sight(plan: Any, sight: str) -> None:
    seen = [seen_by(colour, SIGHT[sight]) for colour in colours(plan)]
    for first, least in ((2, 25.0), (4, 12.0), (8, 8.0)):  # the fewer a chart has, the farther apart they are
        assert min(math.dist(one, other) for one, other in combinations(seen[:first], 2)) >= least


def test_an_interval_that_leaves_the_axis_ends_in_an_arrow(plan: Any) -> None:
    spec = drawn(plan, "frontier")
    (arrow,) = [one for one in layers(spec) if one.get("mark", {}).get("shape") == "triangle-right"]
    end = arrow["encoding"]["x"]["datum"]
    assert end == arrow["encoding"]["x"]["scale"]["domain"][1]
    assert arrow["transform"] == [{"filter": f"datum.high > {end}"}]
    beyond = [row["label"] for row in spec["data"]["values"] if row["high"] > end]
    assert beyond and "an arrow is an interval that goes on" in spec["description"]


@pytest.mark.parametrize("theme", THEMES)
def test_limits_and_intervals_stand_out_on_their_ground(plan: Any, page: str, theme: str) -> None:
    spec = drawn(plan, "frontier", theme)
    ground, style = card(theme, page), spec["config"]["style"]
    assert contrast(style["interval"]["color"], ground) >= 3.0 and contrast(style["limit"]["color"], ground) >= 4.5
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
    assert all(row["align"] for row in points if row["first"])
    for width in WIDTHS:
        for row in points:
            if row["align"] and width >= row["from"]:
                size = LETTER * len(row["name"])
                left = row["x"] / last * width - {"left": 0.0, "center": 0.5, "right": 1.0}[row["align"]] * size
                assert left >= -LETTER and left + size <= width + LETTER
    (limit,) = [
        one for one in layers(spec) if one.get("mark", {}).get("style") == "limit" and one["mark"]["type"] == "text"
    ]
    assert limit["mark"]["align"] == ("left" if model else "right")


def test_no_name_lies_on_another_or_outside_at_any_width() -> None:
    """Drawn, so that the placing is held to what a reader sees; letters are as wide as the drawing has them."""
    vl_convert = pytest.importorskip("vl_convert")
    answer = tonnage.local(accelerator="RTX 4090", memory="64 GB", every_format=True)
    (chart,) = tonnage.charts(answer)
    for width in WIDTHS:
        place = r'text-anchor="(\w+)" transform="translate\(([-\d.]+),([-\d.]+)\)"[^>]*>([^<]+ Q\d\w*)<'
        found = re.findall(place, vl_convert.vegalite_to_svg({**chart.vega(), "width": width}))
        boxes = {}
        for anchor, x, y, name in found:
            size = 6.0 * len(name)
            left = float(x) - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * size
            boxes[name] = (left, left + size, float(y))
        assert boxes, "some have room on a phone, too"
        for one, other in combinations(boxes.values(), 2):
            assert not (one[0] < other[1] and other[0] < one[1] and abs(one[2] - other[2]) < 9), (width, one, other)
        assert all(left > -8 and right < width + 8 for left, right, _ in boxes.values())
