"""Cameras and fleets as pictures; a fleet's hours sum to what stands."""

from typing import Any

import msgspec
import pytest

import tonnage


def test_cameras_have_their_pictures() -> None:
    plan = tonnage.plan_infer("ultralytics/yolov8m", streams="20", fps="25", latency="200 ms")
    frontier, memory = tonnage.charts(plan)
    assert (frontier.name, memory.name) == ("frontier", "memory")
    assert "past the limit" in frontier.says and len(frontier.rows) > 5
    assert "Plan" not in repr(frontier.vega("light"))


def test_a_fleet_shows_every_hour_and_its_whole_bill() -> None:
    workload = {"name": "chat", "model": "8B", "rate": "2/s", "traffic": "chat", "day": "consumer"}
    plan = tonnage.plan_fleet(workloads=[workload], provider="gcp", accelerator="L4", quick=True)
    hours, bill = tonnage.charts(plan)
    drawn = hours.body["data"]["values"]
    for one in plan.instances:
        stands = sum(value["count"] for value in drawn if one.instance_type in value["instance"])
        alike = [other for other in plan.instances if other.instance_type == one.instance_type]
        spans = [span for other in alike for span in other.hours]
        assert stands == pytest.approx(sum(span.count * (span.stop - span.start) for span in spans))
    assert sum(value["usd"] for value in bill.body["data"]["values"]) == pytest.approx(plan.bill.value)


def test_latency_against_load_rises_and_marks_a_knee_only_below_the_largest_rate_tried() -> None:
    plan = tonnage.plan_serve("8B", rate="3/s", traffic="chat", ttft="1 s", tpot="50 ms", accelerator="L40S")
    (load,) = [chart for chart in tonnage.charts(plan) if chart.name == "load"]
    seen = plan.options[0].capacity.simulated
    assert [point.rate_per_s for point in seen.tried] == sorted(p.rate_per_s for p in seen.tried)
    assert all(p50 <= p95 <= p99 for p50, p95, p99 in (point.ttft_s for point in seen.tried))
    assert any(point.passed for point in seen.tried) and any(not point.passed for point in seen.tried)
    assert "objectives" in load.says and {row[-1] for row in load.rows} == {"hold", "fail"}
    # From near zero to past the knee, the asked load between them.
    assert seen.tried[0].rate_per_s < 0.1 * seen.rate_per_s and seen.tried[-1].rate_per_s > 1.4 * seen.rate_per_s
    assert seen.tried[0].rate_per_s < 3.0 / plan.options[0].replicas < seen.tried[-1].rate_per_s
    assert seen.low_per_s < seen.knee_per_s < seen.tried[-1].rate_per_s
    assert seen.simulations >= len(seen.tried)

    def marked(knee_per_s: float) -> list[dict[str, Any]]:
        replace = msgspec.structs.replace
        first = plan.options[0]
        moved = replace(first, capacity=replace(first.capacity, simulated=replace(seen, knee_per_s=knee_per_s)))
        charts = tonnage.charts(replace(plan, options=(moved, *plan.options[1:])))
        (chart,) = (chart for chart in charts if chart.name == "load")
        return [layer for layer in chart.body["layer"] if layer["mark"].get("type") == "text"]

    last = seen.tried[-1].rate_per_s
    own, most = (layer["data"]["values"][0]["mark"] for layer in marked(last))
    assert own.startswith("your load 3") and most == f"capacity {seen.low_per_s:.3g}/s"
    *_, higher = layers = marked(0.99 * last)
    assert higher["data"]["values"][0]["mark"] == f"knee {0.99 * last:.3g}/s"
    assert len({layer["mark"]["y"] for layer in layers}) == 3  # each name on a line of its own
    # The asked load is ringed on the curve that it leads to.
    assert "rings" in load.says
    dashed, ringed = (layer for layer in load.body["layer"] if layer.get("data", {}).get("values", [{}])[0].get("p95"))
    asked = 3.0 / plan.options[0].replicas
    assert {(row["latency"], row["rate"]) for row in ringed["data"]["values"]} == {("TTFT", asked), ("TPOT", asked)}
    assert asked in {row["rate"] for row in dashed["data"]["values"]}


def test_requests_in_flight_become_a_rate_on_the_curve() -> None:
    plan = tonnage.plan_serve("8B", concurrency="32", traffic="chat", ttft="1 s", tpot="50 ms", accelerator="L40S")
    (load,) = [chart for chart in tonnage.charts(plan) if chart.name == "load"]
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


@pytest.mark.parametrize(("deadline", "scale"), [("8 h", "linear"), ("400 days", "log")])
def test_times_far_apart_stand_on_a_logarithmic_axis_that_holds_them(deadline: str, scale: str) -> None:
    asked = {"items": "20M", "prompt_tokens": "800", "output_tokens": "150", "deadline": deadline}
    plan = tonnage.plan_batch("8B", **asked, accelerator="L4,L40S,A100,H100,B200")
    chart = tonnage.charts(plan)[0]
    time = next(layer["encoding"]["x"] for layer in chart.body["layer"] if "x" in layer.get("encoding", {}))
    assert time["scale"].get("type", "linear") == scale
    if scale == "log":
        low, high = time["scale"]["domain"]
        assert low < min(row["value"] for row in chart.body["data"]["values"]) and high > 400
        assert all(low <= tick <= high for tick in time["axis"]["values"]) and len(time["axis"]["values"]) >= 3


def test_no_operator_lies_above_the_roof() -> None:
    plan = tonnage.plan_serve("8B", rate="3/s", traffic="chat", accelerator="H100", quick=True)
    roof = plan.roofline
    assert roof.accelerator == plan.options[0].configuration.accelerator
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
    (chart,) = [chart for chart in tonnage.charts(plan) if chart.name == "roofline"]
    assert len(chart.rows) == len(roof.points)


def test_models_of_a_machine_are_named_where_none_is_better_and_faster() -> None:
    for answer in (
        tonnage.local(accelerator="RTX 3090", memory="64 GB"),
        tonnage.plan_own("RTX 3090, 2 x RTX 5090", host_memory="64 GB"),
    ):
        (chart,) = tonnage.charts(answer)
        points = chart.body["data"]["values"]
        assert len(points) == len(chart.rows) > 5
        for one in points:
            others = [other for other in points if other["group"] == one["group"]]
            beaten = any(
                (other["score"], other["rate"]) != (one["score"], one["rate"])
                and other["score"] >= one["score"]
                and other["rate"] >= one["rate"]
                for other in others
            )
            assert not (beaten and one["align"])
            assert one["low"] < one["rate"] < one["high"]
        named = [one for one in points if one["align"]]
        assert named and max(points, key=lambda one: (one["score"], one["rate"])) in named
        assert chart.vega("dark")["layer"]
