"""Published rates of models partly in host memory: sourced, dated, and met within the error that the page states."""

import csv
import math
from statistics import median

import pytest
from tools.local_points import POINTS, errors


@pytest.mark.measured
def test_decode_is_within_a_fifth_on_median_and_prompts_within_a_quarter() -> None:
    for prompt, most in ((False, 0.20), (True, 0.25)):
        misses = [abs(math.expm1(error)) for _, _, error in errors(prompt=prompt)]
        assert median(misses) < most


@pytest.mark.measured
def test_a_sweep_of_layers_follows_the_formula() -> None:
    """Held against its own rate on the processor, whatever its memory is."""
    sweep = [
        error
        for row, _, error in errors()
        if row["host_basis"].startswith("own run") and row["placement"] != "layers:0"
    ]
    assert len(sweep) == 5
    assert max(map(abs, sweep)) < 0.10


def test_every_point_has_a_source_and_a_date() -> None:
    with POINTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["id"] for row in rows}) == len(rows) >= 20
    for row in rows:
        assert row["source"].startswith("https://")
        assert row["published"][:2] == "20"
        assert row["host_basis"] in {"stated", "not stated"} or row["host_basis"].startswith("own run")
        assert bool(row["host_gb_per_s"]) == (row["host_basis"] == "stated")
