"""A metric is spelt in one place: what tables, axes and sentences call it is taken from its declaration."""

from __future__ import annotations

import ast
from pathlib import Path

from tonnage.domain.metrics import LATENCIES, METRICS

ROOT = Path(__file__).parents[2]
TITLES = {metric.title for metric in LATENCIES}


def test_no_other_module_spells_a_latency() -> None:
    spelt = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("src/tonnage/**/*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in TITLES
    }
    assert spelt == {"src/tonnage/domain/metrics.py"}


def test_a_name_ends_with_its_unit_and_every_metric_says_which_end_is_better() -> None:
    for metric in METRICS.values():
        assert metric.name.endswith({"s": "_s", "W": "_w", "bytes": "_bytes", "": ""}[metric.unit])
        assert metric.less_is_better is not ("_per_s" in metric.name), metric.name
