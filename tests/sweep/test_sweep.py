"""Sweeps: every point once, nothing asked twice, the same table wherever and however often it was begun."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.command import told
from tests.report.test_explain_kinds import ASKED as PLANS

from tonnage.catalog.additions import save_calibration
from tonnage.domain.answer import Quantity
from tonnage.domain.calibration import Calibration, Stretch
from tonnage.domain.plan import Bill
from tonnage.errors import TonnageError, UnknownName
from tonnage.sweep import runners
from tonnage.sweep import sweep as sweeps
from tonnage.sweep.runners import Chunk, answer_chunk, pick_numbers
from tonnage.sweep.sweep import Sweep, points_of, sweep_of

GRID = {
    "sweep": "fit",
    "base": {"model": "meta-llama/Llama-3.1-8B"},
    "grid": {"accelerator": ["H100", "L40S", "T4"], "context": ["4k", "32k"], "concurrency": [1, 64]},
}


def table(sweep: Sweep, file: Path) -> list[dict[str, Any]]:
    return list(sweeps.table(sweep, file))


@given(st.lists(st.lists(st.integers(), min_size=1, max_size=4, unique=True), min_size=1, max_size=4))
def test_points_are_every_combination_once(values: list[list[int]]) -> None:
    grid = {f"group.f{n}": column for n, column in enumerate(values)}
    sweep = sweep_of({"sweep": "fit", "base": {"group": {"kept": 1}}, "grid": grid})
    points = list(points_of(sweep))
    assert len(points) == sweep.size == len({point.key for point in points})
    assert all(point.request["group"]["kept"] == 1 for point in points)
    assert [point.index for point in points] == list(range(sweep.size))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"sweep": "fits"},
        {"sweep": "fit"},
        {"sweep": "fit", "grid": {"a": 3}},
        {"sweep": "fit", "grid": {"a": []}},
        {"sweep": "fit", "grid": [1]},
        {"sweep": "fit", "grid": {"a": [1]}, "more": 1},
        {"sweep": "fit", "grid": {"a": [1]}, "workers": 0},
        {"sweep": "fit", "grid": {"a": [1]}, "take": "usd"},
        {"sweep": "fit", "grid": {name: list(range(100)) for name in "abcd"}},
    ],
)
def test_a_wrong_sweep_is_one_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises(TonnageError) as caught:
        sweep_of(wrong)
    assert "\n" not in str(caught.value)


def test_an_interrupted_sweep_goes_on_and_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = sweep_of(GRID)
    assert sweeps.run(sweep, tmp_path / "whole.sqlite") == sweep.size
    seen: list[str] = []

    def stops(ask: str, chunk: Chunk, **options: Any) -> Any:
        if len(seen) >= 5:
            raise KeyboardInterrupt
        seen.extend(key for key, _ in chunk)
        return answer_chunk(ask, chunk, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(runners, "answer_chunk", stops)
        sweeps.run(sweep, tmp_path / "broken.sqlite")
    assert sweeps.run(sweep, tmp_path / "broken.sqlite") == sweep.size - len(seen)
    assert sweeps.run(sweep, tmp_path / "broken.sqlite") == 0
    assert table(sweep, tmp_path / "broken.sqlite") == table(sweep, tmp_path / "whole.sqlite")


def test_processes_give_the_same_table(tmp_path: Path) -> None:
    sweep = sweep_of(GRID)
    sweeps.run(sweep, tmp_path / "one.sqlite")
    sweeps.run(sweep, tmp_path / "two.sqlite", workers=2)
    assert table(sweep, tmp_path / "one.sqlite") == table(sweep, tmp_path / "two.sqlite")


def killed_once(ask: str, chunk: Chunk, *, take: dict[str, str], folders: tuple[str, ...]) -> Any:
    """Dies the first time it meets the chunk; the file that says so outlives it."""
    mark = Path(folders[0]) / "died"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return answer_chunk(ask, chunk, take=take, folders=())


def always_killed(ask: str, chunk: Chunk, *, take: dict[str, str], folders: tuple[str, ...]) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_costs_only_its_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "answer_chunk", killed_once)
    asked = tuple((point.key, point.request) for point in points_of(sweep_of(GRID)))[:6]
    found = list(runners.on_processes("fit", asked, take={}, folders=(str(tmp_path),), workers=2))
    assert sorted(key for rows in found for key, _ in rows) == sorted(key for key, _ in asked)
    monkeypatch.setattr(runners, "answer_chunk", always_killed)
    with pytest.raises(TonnageError, match="died 3 times"):
        list(runners.on_processes("fit", asked, take={}, folders=(), workers=2))


def test_a_wrong_point_is_a_row_and_the_rest_goes_on(tmp_path: Path) -> None:
    sweep = sweep_of({**GRID, "grid": {"accelerator": ["H100", "H1000"]}})
    sweeps.run(sweep, tmp_path / "a.sqlite")
    good, bad = table(sweep, tmp_path / "a.sqlite")
    assert good["fits"] and good["accelerator_found"] == "h100-sxm5-80gb" and "H1000" in bad["error"]


def test_what_is_taken_comes_from_the_answer() -> None:
    answer = {"options": ({"cost": {"value": 3.0}},), "sentence": "so"}
    assert pick_numbers(answer, {"usd": "options.0.cost.value", "none": "options.1.cost", "deep": "sentence.x"}) == {
        "usd": 3.0,
        "none": None,
        "deep": None,
    }


def test_derived_figures_can_be_taken_and_a_wrong_name_is_told_with_the_nearest() -> None:
    bill = Bill(
        provider="p",
        instance_type="i",
        region="r",
        term="on-demand",
        instances=1,
        as_of="2026-05",
        accelerators_per_instance=1.0,
        usd_per_instance_hour=3.0,
        lines=(Quantity(name="1 x i", value=3.0),),
    )
    assert pick_numbers((bill,), {"usd": "0.usd_per_hour"}) == {"usd": 3.0}
    with pytest.raises(UnknownName, match="usd_per_hour"):
        pick_numbers((bill,), {"usd": "0.usd_per_hours"})


SERVE = {"kind": "serve", "model": "8B", "accelerator": "H100", "isl": 500, "osl": 100}
STEP = {"kind": "train", "model": "8B", "accelerator": "H100", "count": 8, "seq_len": 2048}
SAMPLES = {"kind": "infer", "model": "ultralytics/yolov8m", "accelerator": "L4"}
ROLLOUT = {"kind": "rl", "model": "8B", "accelerator": "H100", "count": 8, "prompts_per_step": 8,
           "responses_per_prompt": 4, "prompt_tokens": 100, "response_tokens": 500,
           "max_response_tokens": 1000}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "grid", "numbers"),
    [
        (SERVE, {"traffic.concurrency": [4, 8]}, ("ttft_s", "tpot_s", "output_tokens_per_s")),
        (STEP, {"global_batch": [16, 32]}, ("step_s", "tokens_per_s_per_accelerator", "mfu", "memory_peak_bytes")),
        (SAMPLES, {"batch": [8, 16]}, ("samples_per_s", "latency_s")),
        (ROLLOUT, {"prompts_per_step": [8, 16]}, ("step_s", "tokens_per_s_per_accelerator")),
    ],
)
def test_predictions_of_every_kind_have_columns_of_their_own(
    case: dict[str, Any], grid: dict[str, Any], numbers: tuple[str, ...], tmp_path: Path
) -> None:
    sweep = sweep_of({"sweep": "predict", "base": case, "grid": grid})
    sweeps.run(sweep, tmp_path / "a.sqlite")
    rows = table(sweep, tmp_path / "a.sqlite")
    assert len(rows) == 2 and not any("error" in row for row in rows)
    assert all(row["fits"] and all(row[name] > 0 for name in numbers) for row in rows)


@pytest.mark.parametrize("kind", ["infer", "fleet", "own", "budget", "lifecycle"])
def test_plans_without_ranked_configurations_have_columns_of_their_own(kind: str) -> None:
    ((_, row),) = answer_chunk("plan", (("key", {"plan": kind, **PLANS[kind][0]}),), take={}, folders=())
    found = msgspec.json.decode(row)
    assert found["feasible"] and found["sentence"]


def test_another_column_asks_anew(tmp_path: Path) -> None:
    first, other = sweep_of(GRID), sweep_of({**GRID, "take": {"why": "sentence"}})
    asked = sweeps.run(first, tmp_path / "a.sqlite")
    assert sweeps.run(first, tmp_path / "a.sqlite") == 0
    assert sweeps.run(other, tmp_path / "a.sqlite") == asked
    assert all(row["why"] for row in table(other, tmp_path / "a.sqlite"))


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "foreign.sqlite"
    path.write_bytes(b"this is no database, but it is long enough to look like one" * 20)
    yield path


def test_a_foreign_file_is_left_alone(foreign: Path) -> None:
    before = foreign.read_bytes()
    with pytest.raises(TonnageError, match="is no SQLite file"), sweeps.open_store(foreign):
        pass
    assert foreign.read_bytes() == before


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_the_command_writes_the_table(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("duckdb")
    (tmp_path / "s.yaml").write_text("sweep: fit\nbase: {model: 8B}\ngrid: {accelerator: [H100, T4]}\n")
    out = tmp_path / f"t{suffix}"
    done = told("sweep", str(tmp_path / "s.yaml"), "--workers", "1", "-o", str(out))
    assert done.exit_code == 0, done.output
    assert out.stat().st_size > 100 and (tmp_path / "s.sqlite").exists()
    again = told("sweep", str(tmp_path / "s.yaml"), "--workers", "1")
    assert "0 asked now" in again.output


def test_ray_gives_the_same_table(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    sweep = sweep_of(GRID)
    sweeps.run(sweep, tmp_path / "one.sqlite")
    sweeps.run(sweep, tmp_path / "ray.sqlite", ray="local")
    assert table(sweep, tmp_path / "one.sqlite") == table(sweep, tmp_path / "ray.sqlite")


@pytest.mark.parametrize("damage", [b"{", b"\xff", b"[1]", b"", None])
def test_a_damaged_answer_is_asked_again_and_named_until_then(tmp_path: Path, damage: bytes | None) -> None:
    import sqlite3
    from contextlib import closing

    with sweeps.open_store(tmp_path / "s") as store:
        sweeps.keep_answers(store, [("a", b'{"x": 1}'), ("b", b'{"x": 2}')])
    with closing(sqlite3.connect(tmp_path / "s")) as raw:
        raw.execute("UPDATE answers SET row = ? WHERE key = 'a'", ("{}}" if damage is None else damage,))
        raw.commit()
    with sweeps.open_store(tmp_path / "s") as store:
        assert sweeps.answered_keys(store) == {"b"}
        wrong, sound = sweeps.rows(store, ["a", "b"])
        assert isinstance(wrong, str) and "damaged" in wrong and sound == {"x": 2}


def test_points_with_and_without_measurements_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    case = {"kind": "serve", "model": "8B", "accelerator": "H100", "isl": 512, "traffic": {"concurrency": 8}}
    sweep = sweep_of({"sweep": "predict", "base": case, "grid": {"osl": [64, 128]},
                      "take": {"tpot_s": "tpot_s.mean"}})  # fmt: skip
    file = tmp_path / "kept.sqlite"
    assert sweeps.run(sweep, file) == 2
    plain = table(sweep, file)
    save_calibration(Calibration(accelerator="h100-sxm5-80gb", engine="vllm", stretch=Stretch(memory=1.5), points=2))
    assert sweeps.run(sweep, file) == 2 and sweeps.run(sweep, file) == 0
    moved = table(sweep, file)
    assert all("tpot_s x1." in row["calibrations"] for row in moved) and "calibrations" not in plain[0]
    assert [row["tpot_s"] for row in moved] > [row["tpot_s"] for row in plain]
    none = ("none",)
    sweeps.run(sweep, file, folders=none)
    assert list(sweeps.table(sweep, file, folders=none)) == plain
