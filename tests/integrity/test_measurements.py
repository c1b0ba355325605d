"""Every measured row that ships: what a pull request with rows is checked by (CONTRIBUTING.md)."""

from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tonnage.catalog import accelerators
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.precision import number_format
from tonnage.physics.parameters import active_parameters, embedding_parameters
from tonnage_accuracy.rows import Row, number, read_rows, text

ROOT = Path(__file__).parents[2]
RATED = 0.95
"""Of the time to read the weights at the bandwidth of the data sheet: sheets are rounded."""
AS_PRINTED = {"NEUR-0006": "its source prints a P99 of 24.22 ms below a P50 of 26.48 ms"}


DIFFUSED = {"inclusionAI/LLaDA2.1-flash", "inclusionAI/LLaDA2.1-mini"}
"""Language models that answer by diffusion, which no predictor knows: their rows are listed as not predicted."""


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [row for path in sorted((ROOT / "measurements").glob("*.csv.gz")) for row in read_rows(path)]


def test_ids_are_unique(rows: list[Row]) -> None:
    assert len(rows) > 14_000
    assert not [name for name, count in Counter(row.id for row in rows).items() if count > 1]


def test_what_is_not_usable_says_why(rows: list[Row]) -> None:
    assert not [row.id for row in rows if not row.usable and not text(row, "unusable_reason")]


def test_accelerators_and_models_are_known(rows: list[Row]) -> None:
    assert {name for row in rows if row.usable and (name := text(row, "accelerator_id"))} <= set(accelerators())
    for name in {name for row in rows if row.usable and (name := text(row, "model_id"))} - DIFFUSED:
        resolve(name)


def test_percentiles_rise(rows: list[Row]) -> None:
    falling = []
    for row in rows:
        for quantity in ("ttft", "tpot", "e2e"):
            seen = [v for p in ("p50", "p90", "p95", "p99") if (v := number(row, f"{quantity}_{p}_ms")) is not None]
            if row.usable and any(low > 1.001 * high for low, high in pairwise(seen)):
                falling.append(row.id)
    assert set(falling) == set(AS_PRINTED)


def test_no_token_comes_before_its_weights_are_read(rows: list[Row]) -> None:
    """Each rank reads its part of what a token passes at least once; drafted tokens need no reading each."""
    parts, checked, broken = accelerators(), 0, []
    for row in rows:
        tpot_ms = number(row, "silicon_tpot_ms") or number(row, "tpot_mean_ms") or number(row, "tpot_p50_ms")
        ranks = number(row, "num_accelerators") or number(row, "num_accel_total") or number(row, "num_accel")
        part, model = parts.get(text(row, "accelerator_id")), text(row, "model_id")
        if model in DIFFUSED:
            continue
        drafted = text(row, "speculative") not in {"", "0", "none"}
        if not row.usable or not tpot_ms or not ranks or part is None or not model or drafted:
            continue
        checked += 1
        least_s = read_bytes(model, text(row, "weight_precision")) / (ranks * part.memory_bytes_per_s)
        if tpot_ms / 1e3 < RATED * least_s:
            broken.append((row.id, tpot_ms, 1e3 * least_s))
    assert checked > 3_000
    assert not broken


@cache
def read_bytes(name: str, weights: str) -> float:
    """What a token passes of a model, embeddings aside, in a format; a narrower one of the checkpoint's own counts."""
    model = resolve(name)
    formats = [weights or "bf16", model.quantization and model.native_dtype, model.experts_dtype]
    width = min(number_format(one).bytes for one in formats if one)
    return (active_parameters(model).value - embedding_parameters(model)) * width
