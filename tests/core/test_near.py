"""What others published near a question: the same run first, near things before far ones, every difference said."""

import csv
import gzip
from pathlib import Path

import pytest
from msgspec.structs import replace

import tonnage
from tonnage.catalog.published import published_results
from tonnage.core.near import near
from tonnage.domain.case import InferCase, ServeCase, Traffic, TrainCase
from tonnage.domain.layout import Layout
from tonnage.domain.precision import Precision
from tonnage.errors import UnknownName
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.rows import read_rows

ROOT = Path(__file__).parents[2]

CHAT = ServeCase(
    model="Qwen/Qwen3-32B",
    accelerator="h100-sxm5-80gb",
    traffic=Traffic(concurrency=32),
    isl=1024,
    osl=1024,
    layout=Layout(tp=2),
    precision=Precision(weights="bf16"),
)


def test_the_table_is_small_and_its_rows_are_those_of_the_measurements() -> None:
    path = ROOT / "src" / "tonnage" / "catalog" / "data" / "published" / "results.csv.gz"
    assert path.stat().st_size < 300_000
    known = {row.id: row for table in (ROOT / "measurements").glob("*.csv.gz") for row in read_rows(table)}
    for result in published_results():
        assert known[result.id].usable, result.id
        assert result.measured and result.count > 0 and result.source
    assert len(published_results()) > 10_000


def test_the_run_that_is_asked_for_comes_first_without_a_difference() -> None:
    row = next(row for row in read_rows(ROOT / "measurements" / "inference_2.csv.gz") if row.id == "MLE-0118")
    found = near(case_of(row), limit=3)
    assert (found[0].result.id, found[0].distance, found[0].differs) == ("MLE-0118", 0.0, ())
    assert found[0].result.measured["energy_per_token_j"] > 0, "what was measured of the same run stands with it"


def test_distances_grow_and_every_difference_is_said_the_largest_first() -> None:
    found = near(CHAT, limit=20)
    distances = [item.distance for item in found]
    assert distances == sorted(distances) and len(found) == 20
    for item in found:
        assert bool(item.differs) == (item.distance > 0)
        assert ("engine" in " ".join(item.differs)) == (item.result.engine != CHAT.engine)
    assert all(item.result.kind == "serve" for item in found)


def test_at_most_two_near_duplicates_of_one_source_are_shown() -> None:
    runs = [(r.source, r.model, r.accelerator, r.engine) for r in (item.result for item in near(CHAT, limit=40))]
    assert max(runs.count(run) for run in runs) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"accelerator": "h200-sxm-141gb"}, "accelerator h100-sxm5-80gb instead of h200-sxm-141gb"),
        ({"engine": "lmdeploy"}, "engine vllm instead of lmdeploy"),
        ({"traffic": Traffic(concurrency=5000)}, "instead of 5000"),
        ({"traffic": Traffic(rate_per_s=2)}, "load clients instead of requests/s"),
        ({"precision": Precision(weights="nvfp4")}, "instead of nvfp4"),
        ({"layout": Layout(tp=16)}, "accelerators instead of 16"),
        ({"model": "Qwen/Qwen3-14B"}, "instead of Qwen/Qwen3-14B"),
    ],
)
def test_what_differs_is_named(change: dict[str, object], said: str) -> None:
    found = near(replace(CHAT, **change), limit=10)
    assert any(said in part for item in found for part in item.differs), [item.differs for item in found]


def test_training_and_networks_are_asked_too() -> None:
    step = TrainCase(model="meta-llama/Llama-3.1-8B", accelerator="h100-sxm5-80gb", count=8, seq_len=8192)
    assert "step_time_s" in near(step, limit=1)[0].result.measured
    image = InferCase(model="timm/resnet50.a1_in1k", accelerator="rtx-4090", batch=512, resolution=224)
    assert near(image, limit=1)[0].result.kind == "infer"


def test_python_takes_a_mapping_and_refuses_names_that_nobody_knows() -> None:
    asked = {
        "kind": "serve",
        "model": "Qwen/Qwen3-32B",
        "accelerator": "H100",
        "traffic": {"concurrency": 32},
        "isl": 1024,
        "osl": 1024,
        "layout": {"tp": 2},
    }
    assert tonnage.near(asked, limit=1)[0].distance == 0.0
    with pytest.raises(UnknownName, match="H1000"):
        tonnage.near({**asked, "accelerator": "H1000"})


def test_the_table_holds_what_calibration_would_write() -> None:
    path = ROOT / "src" / "tonnage" / "catalog" / "data" / "published" / "results.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        kept = {line["id"]: line for line in csv.DictReader(file)}
    rows = [row for row in read_rows(ROOT / "measurements" / "serving_silicon_2.csv.gz") if row.usable]
    assert sum(row.id in kept for row in rows) >= 0.99 * len(rows)
    for row in rows[::50]:
        assert float(kept[row.id]["tpot_ms"]) == pytest.approx(float(row.cells["silicon_tpot_ms"]), rel=1e-3)
