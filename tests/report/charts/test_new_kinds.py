"""Cameras and fleets as pictures; a fleet's hours sum to what stands."""

from __future__ import annotations

from typing import Any

import pytest

import tonnage
from tonnage.domain.plan import LoadPoint
from tonnage.domain.requests.common import Slo
from tonnage.questions.answers import charts_of
from tonnage.questions.serve.charts import load_chart
from tonnage.report.charts.chart import specification
from tonnage.report.charts.options import Axis, Point, options_chart


def test_cameras_have_their_pictures() -> None:
    plan = tonnage.plan_infer("ultralytics/yolov8m", streams="20", fps="25", latency="200 ms")
    frontier, memory = charts_of(plan)
    assert (frontier.name, memory.name) == ("frontier", "memory")
    assert "past the limit" in frontier.says and len(frontier.rows) > 5
    assert "Plan" not in repr(specification(frontier))


def test_a_fleet_shows_every_hour_and_its_whole_bill() -> None:
    workload = {"name": "chat", "model": "8B", "rate": "2/s", "traffic": "chat", "day": "consumer"}
    plan = tonnage.plan_fleet(workloads=[workload], provider="gcp", accelerator="L4", quick=True)
    hours, bill = charts_of(plan)
    drawn = hours.body["data"]["values"]
    for one in plan.instances:
        stands = sum(value["count"] for value in drawn if one.instance_type in value["instance"])
        alike = [other for other in plan.instances if other.instance_type == one.instance_type]
        spans = [span for other in alike for span in other.hours]
        assert stands == pytest.approx(sum(span.count * (span.stop - span.start) for span in spans))
    assert plan.bill is not None
    assert sum(value["usd"] for value in bill.body["data"]["values"]) == pytest.approx(plan.bill.value)


def test_latency_against_load_rises_and_marks_a_knee_only_below_the_largest_rate_tried() -> None:
    plan = tonnage.plan_serve("8B", rate="3/s", traffic="chat", ttft="1 s", tpot="50 ms", accelerator="L40S")
    (load,) = [chart for chart in charts_of(plan) if chart.name == "load"]
    seen = plan.options[0].capacity.simulated
    assert seen is not None and [point.rate_per_s for point in seen.tried] == sorted(p.rate_per_s for p in seen.tried)
    assert all(p50 <= p95 <= p99 for p50, p95, p99 in (point.ttft_s for point in seen.tried))
    assert any(point.passed for point in seen.tried) and any(not point.passed for point in seen.tried)
    assert "objectives" in load.says and {row[-1] for row in load.rows} == {"hold", "fail"}
    # From near zero to past the knee, the asked load between them.
    assert seen.tried[0].rate_per_s < 0.1 * seen.rate_per_s and seen.tried[-1].rate_per_s > 1.4 * seen.rate_per_s
    assert seen.tried[0].rate_per_s < 3.0 / plan.options[0].replicas < seen.tried[-1].rate_per_s
    assert seen.low_per_s < seen.knee_per_s < seen.tried[-1].rate_per_s
    assert seen.simulations >= len(seen.tried)

    def marked(knee_per_s: float) -> list[dict[str, Any]]:
        chart = load_chart(seen.tried, slo=plan.request.slo, knee_per_s=knee_per_s, most_per_s=seen.low_per_s)
        assert chart is not None
        return [layer for layer in chart.body["layer"] if layer["mark"].get("type") == "text"]

    last = seen.tried[-1].rate_per_s
    assert [layer["data"]["values"][0]["mark"] for layer in marked(last)] == [f"most {seen.low_per_s:.3g}/s"]
    lower, higher = marked(0.99 * last)
    assert higher["data"]["values"][0]["mark"] == f"knee {0.99 * last:.3g}/s"
    assert lower["mark"]["y"] != higher["mark"]["y"]  # each name on a line of its own


def test_requests_in_flight_become_a_rate_on_the_curve() -> None:
    plan = tonnage.plan_serve("8B", concurrency="32", traffic="chat", ttft="1 s", tpot="50 ms", accelerator="L40S")
    (load,) = [chart for chart in charts_of(plan) if chart.name == "load"]
    best = plan.options[0]
    (own,) = {
        row["rate"]
        for layer in load.body["layer"]
        if layer["mark"].get("type") == "point"
        for row in layer["data"]["values"]
    }
    assert 0 < own <= best.capacity.max_rate_per_s.value * 1.05
    stay_s = best.capacity.ttft_mean_s + best.capacity.tpot_mean_s * (plan.request.lengths.output_tokens - 1)
    assert own * stay_s == pytest.approx(best.capacity.concurrency)


def test_times_far_apart_stand_on_a_logarithmic_axis_that_holds_them() -> None:
    def drawn(times: tuple[float, ...]) -> dict[str, Any]:
        points = [
            Point(f"{n} x A", time, 0.9 * time, 1.1 * time, 10.0 + n, "derived", n) for n, time in enumerate(times, 1)
        ]
        chart = options_chart(points, time=Axis("time", "h"), money=Axis("Cost", "USD of the job"))
        assert chart is not None
        return next(layer["encoding"]["x"] for layer in chart.body["layer"] if "x" in layer.get("encoding", {}))

    assert "type" not in drawn((1.0, 2.0))["scale"]
    wide = drawn((0.5, 2.0, 20.0))
    low, high = wide["scale"]["domain"]
    assert wide["scale"]["type"] == "log" and low < 0.45 and high > 20.0
    assert all(low <= tick <= high for tick in wide["axis"]["values"]) and len(wide["axis"]["values"]) >= 3


def test_no_operator_lies_above_the_roof() -> None:
    plan = tonnage.plan_serve("8B", rate="3/s", traffic="chat", accelerator="H100", quick=True)
    roof = plan.roofline
    assert roof is not None and roof.accelerator == plan.options[0].configuration.accelerator
    for phase in ("decode", "prefill"):
        points = [point for point in roof.points if point.phase == phase]
        assert points and 0.5 < sum(point.share for point in points) <= 1.0
        for point in points:
            ceiling = min(roof.peaks[point.compute], point.flop_per_byte * roof.memory_bytes_per_s)
            assert 0 < point.flop_per_s <= ceiling * 1.05, point  # caches lend a little beyond memory's speed
    decode, prefill = (
        max(point.flop_per_byte for point in roof.points if point.phase == phase) for phase in ("decode", "prefill")
    )
    assert decode < prefill
    (chart,) = [chart for chart in charts_of(plan) if chart.name == "roofline"]
    assert len(chart.rows) == len(roof.points)


def test_the_asked_load_is_ringed_on_the_curve_that_it_leads_to() -> None:
    slo = Slo(ttft_s=1.0, tpot_s=0.05)
    tried = tuple(
        LoadPoint(rate_per_s=rate, ttft_s=(0.1, 0.2 * rate, 1.0), tpot_s=(0.01, 0.01 * rate, 0.1), passed=rate < 4)
        for rate in (3.0, 4.0)
    )
    chart = load_chart(tried, slo=slo, knee_per_s=9.0, most_per_s=3.0, peak_per_s=1.0, own={"TTFT": 0.15, "TPOT": 0.02})
    assert chart is not None and "rings" in chart.says
    dashed, ringed = (layer for layer in chart.body["layer"] if layer.get("data", {}).get("values", [{}])[0].get("p95"))
    assert {(row["latency"], row["rate"]) for row in ringed["data"]["values"]} == {("TTFT", 1.0), ("TPOT", 1.0)}
    assert {row["rate"] for row in dashed["data"]["values"]} == {1.0, 3.0}
    bare = load_chart(tried, slo=slo, knee_per_s=9.0, most_per_s=3.0)
    assert bare is not None and "rings" not in bare.says
