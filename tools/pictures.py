"""
The pictures of the documents, drawn from what the program says today.

    python -m tools.pictures

`options.svg` is the chart of `examples/chat-70b.yaml` (prices of DAY); `how-sure.svg` holds its intervals against their
limits, and beside them how often such intervals held on measurements whose source no fit had seen (accuracy.csv).
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import vl_convert

from tonnage.domain.plan import ServePlan
from tonnage.questions.answers import charts_of
from tonnage.questions.ask import answer_file
from tonnage.report.charts.chart import Chart, specification
from tonnage.web.listings import accuracy_rows

FOLDER = Path(__file__).parents[1] / "docs" / "images"
EXAMPLE = "examples/chat-70b.yaml"
DAY = date(2026, 11, 21)
WIDTH = 720
LIMIT = "#ad3210"


def draw(chart: Chart, name: str) -> None:
    """Write a chart on white, which reads on either ground."""
    document = {**specification(chart), "background": "white", "width": WIDTH, "padding": 12}
    if "vconcat" in document:
        del document["width"], document["height"]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / name).write_text(vl_convert.vegalite_to_svg(document) + "\n", encoding="utf-8")


def how_sure(plan: ServePlan) -> Chart:
    """Intervals of the first option against their limits; below, the share of measurements inside such intervals."""
    seen, slo = plan.options[0].capacity, plan.request.slo
    held = [
        {"name": name, "value": value.value / limit, "low": value.low / limit, "high": value.high / limit}
        for name, value, limit in (("TTFT p95", seen.ttft_s, slo.ttft_s), ("TPOT p95", seen.tpot_s, slo.tpot_s))
        if limit and value.low is not None and value.high is not None
    ]
    covered = [
        {"name": row["figure"], "left": row["left out"], "share": float(row["covered, mean"].split()[0]) / 100}
        for row in accuracy_rows()
        if row["covered, mean"] != "-" and row["left out"].startswith("its ")
    ]
    y = {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 160}}
    share = {"type": "quantitative", "axis": {"format": "%"}}
    rule = {"mark": {"type": "rule", "strokeDash": [5, 4], "color": LIMIT}}
    bars: list[dict[str, Any]] = [
        {"mark": {"type": "bar", "height": 12, "opacity": 0.5},
         "encoding": {"x": {"field": "value", **share, "title": "share of the limit"}, "y": y}},
        {"mark": {"type": "rule", "strokeWidth": 2},
         "encoding": {"x": {"field": "low", **share}, "x2": {"field": "high"}, "y": y}},
        {**rule, "data": {"values": [{"at": 1.0}]}, "encoding": {"x": {"field": "at", "type": "quantitative"}}},
    ]  # fmt: skip
    dots: list[dict[str, Any]] = [
        {
            "mark": {"type": "point", "filled": True, "size": 70},
            "encoding": {
                "x": {
                    "field": "share",
                    **share,
                    "scale": {"domain": [0.5, 1]},
                    "title": "measured values inside the 90 % interval",
                },
                "y": y,
                "color": {"field": "left", "type": "nominal", "title": "left out of every fit"},
            },
        },
        {**rule, "data": {"values": [{"at": 0.9}]}, "encoding": {"x": {"field": "at", "type": "quantitative"}}},
    ]
    said = "An answer's intervals against its limits (dashed), and how often such intervals held (dashed: 90 %)."
    one = {
        "width": WIDTH - 160,
        "height": 70,
        "title": "What an answer says: value, 90 % interval, limit",
        "data": {"values": held},
        "layer": bars,
    }
    two = {
        "width": WIDTH - 160,
        "height": 190,
        "title": "How often it held: measurements that no fit had seen",
        "data": {"values": covered},
        "layer": dots,
    }
    return Chart(name="how-sure", title="", says=said, columns=(), rows=(), body={"vconcat": [one, two]})


def main() -> None:
    """Draw both."""
    plan = answer_file(EXAMPLE, today=DAY)
    assert isinstance(plan, ServePlan)
    draw(charts_of(plan)[0], "options.svg")
    draw(how_sure(plan), "how-sure.svg")


if __name__ == "__main__":
    main()
