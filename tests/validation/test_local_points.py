"""Published rates on people's own machines: sourced, dated, and met within the error that the page states."""

import csv
import math
from statistics import fmean, linear_regression, median

import pytest
from tools.local_points import POINTS, alone, errors


@pytest.mark.measured
def test_each_kind_of_point_is_met_within_what_the_page_states() -> None:
    found = {prompt: errors(prompt=prompt) for prompt in (False, True)}
    for prompt, most in ((False, 0.12), (True, 0.17)):
        assert median(abs(math.expm1(error)) for _, _, error in found[prompt]) < most
    kinds = {
        "partly in host memory": (0.15, lambda row: row["device"] and row["placement"] != "layers:0"),
        "llama.cpp on one device": (0.12, lambda row: not row["engine"] and row["placement"] == "layers:0"),
        "MLX": (0.10, lambda row: row["engine"] == "mlx"),
    }
    for kind, (most, chosen) in kinds.items():
        misses = [abs(math.expm1(error)) for row, _, error in found[False] if chosen(row)]
        assert len(misses) >= 20, kind
        assert median(misses) < most, kind


@pytest.mark.measured
def test_pages_count_the_points_that_the_tool_counts() -> None:
    points = alone()
    parts = {what.split()[0] for _, what, _ in points}
    middle = median(abs(math.expm1(error)) for _, _, error in points)
    folder = POINTS.parents[1] / "docs" / "how-to"
    pages = {name: (folder / name).read_text("utf-8") for name in ("my-machine.md", "own-and-budget.md")}
    assert (
        f"{len(points)} points of {len(parts)} parts: median {middle:.0%}".replace("%", " %") in pages["my-machine.md"]
    )
    told = f"{len(points)} published points"
    assert told in pages["own-and-budget.md"] and f"of {len(parts)} parts below" in pages["own-and-budget.md"]


@pytest.mark.measured
def test_a_sweep_of_layers_follows_the_formula() -> None:
    """
    Held against its own rate on the processor, whatever its memory is: what each moved layer costs, and all on average.

    Eight layers more cost 40.5 to 57.7 ms as published, so that one point says less than the line through all.
    """
    sweep = [
        (int(row["placement"].partition(":")[2]), 1.0 / float(row["decode_per_s"]), 1.0 / rate)
        for row, rate, _ in errors()
        if row["host_basis"].startswith("own run") and row["placement"] != "layers:0"
    ]
    assert len(sweep) == 5
    layers, measured, predicted = zip(*sweep, strict=True)
    slopes = [linear_regression(layers, times).slope for times in (measured, predicted)]
    assert slopes[1] == pytest.approx(slopes[0], rel=0.02)
    assert fmean(abs(b / a - 1.0) for a, b in zip(measured, predicted, strict=True)) < 0.06


def test_every_point_has_a_source_and_a_date() -> None:
    with POINTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["id"] for row in rows}) == len(rows) >= 90
    for row in rows:
        assert row["source"].startswith("https://")
        assert row["published"][:2] == "20"
        assert row["host_basis"] in {"stated", "not stated"} or row["host_basis"].startswith("own run")
        assert bool(row["host_gb_per_s"]) == (row["host_basis"] == "stated")
