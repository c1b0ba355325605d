"""Request logs played again: read, measured, predicted, kept as percentiles, shown."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.traces import ROOT, trace_file
from tools.calibration.logs import PHYSICS, refresh_facts
from tools.calibration.replay import Stretch, from_physics, read_log, read_logs, replay_setup, stretch_model

from tonnage.errors import BadFact
from tonnage_accuracy.logs import COLUMNS, FILE, MEASURED, log_errors, read_facts
from tonnage_accuracy.sheets import LOGS
from tonnage_accuracy.tables import write_table

NAME = "RTX4090_Llama-3.1-8B"
KWARGS: dict[str, Any] = {
    "tensor_parallel_size": 1,
    "data_parallel_size": 1,
    "enable_expert_parallel": False,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 2048,
    "max_model_len": None,
}


def log_folder(folder: Path, *, requests: int = 40, blocks: int | None = 2588) -> Path:
    """A log of requests half a second apart that each take one second to begin and three to end, latest first."""
    meta: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "vllm_version": "0.19.0",
        "engine_kwargs": KWARGS,
    }
    if blocks:
        meta["kv_cache"] = {"num_gpu_blocks": blocks}
    rows = [
        {
            "queued_ts": 100 + i / 2,
            "first_token_ts": 101 + i / 2,
            "last_token_ts": 104 + i / 2,
            "input_toks": 500,
            "output_toks": 101,
        }
        for i in reversed(range(requests))
    ]
    (folder / f"{NAME}__vllm_meta.json.gz").write_bytes(gzip.compress(json.dumps(meta).encode()))
    (folder / f"{NAME}__vllm_requests.jsonl.gz").write_bytes(
        gzip.compress("\n".join(json.dumps(row) for row in rows).encode())
    )
    return folder


def test_a_log_is_read_in_the_order_of_the_queue(tmp_path: Path) -> None:
    (log,) = read_logs(log_folder(tmp_path))
    assert log.requests.sent_s.tolist() == [i / 2 for i in range(40)]
    assert log.measured["ttft_s"] == pytest.approx((1.0,) * 4)
    assert log.measured["tpot_s"] == pytest.approx((0.03,) * 4)
    assert log.measured["e2e_s"] == pytest.approx((4.0,) * 4)
    assert log.num_blocks == 2588
    assert log.options == {"max_num_seqs": 16, "max_num_batched_tokens": 2048}


def test_a_folder_without_logs_and_a_damaged_log_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadFact, match="holds no NAME__vllm_requests"):
        read_logs(tmp_path)
    path = log_folder(tmp_path) / f"{NAME}__vllm_requests.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadFact, match=f"log '{NAME}' cannot be read"):
        read_log(tmp_path, NAME)


def test_physics_takes_nothing_from_what_was_measured(tmp_path: Path) -> None:
    log = read_log(log_folder(tmp_path), NAME)
    other = log._replace(measured={}, num_blocks=17)
    assert from_physics(replay_setup(log)) == from_physics(replay_setup(other))


def test_factors_slow_what_they_stand_for_and_the_printed_cache_holds(tmp_path: Path) -> None:
    play = stretch_model(replay_setup(read_log(log_folder(tmp_path), NAME)))
    plain, preempted = play(Stretch())
    assert preempted == 0
    assert play(Stretch(memory=2.0))[0]["tpot_s"][0] > 1.5 * plain["tpot_s"][0]
    assert play(Stretch(step_s=0.01))[0]["tpot_s"][0] == pytest.approx(plain["tpot_s"][0] + 0.01, rel=0.1)
    scarce = stretch_model(replay_setup(read_log(log_folder(tmp_path, blocks=70), NAME)))
    assert scarce(Stretch(memory=2.0))[1] > 0


def test_facts_are_kept_and_scored(tmp_path: Path) -> None:
    rows = refresh_facts(log_folder(tmp_path), date="2026-01-02")
    write_table(tmp_path / "logs.csv", [COLUMNS, *rows])
    kept = read_facts(tmp_path / "logs.csv")
    assert [row["by"] for row in kept] == [MEASURED] * 3 + [PHYSICS] * 3
    (found,) = log_errors(kept)
    told = {(row["by"], row["quantity"]): float(row["p95"]) for row in kept}
    assert found.tpot[2] == pytest.approx(told[PHYSICS, "tpot_s"] / told[MEASURED, "tpot_s"] - 1)
    assert found.date == "2026-01-02"
    assert LOGS.rows([found])[1][:4] == ("RTX4090", "Llama-3.1-8B-Instruct", "tp1xdp1xep1", "physics")
    assert len(LOGS.rows([found])) == 2
    assert LOGS.rows([]) == []


def test_a_table_of_facts_without_a_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("log,by\na,b\n")
    with pytest.raises(BadFact, match="must have the columns"):
        read_facts(tmp_path / "logs.csv")
    assert read_facts(tmp_path / "none.csv") == []


def test_three_numbers_from_one_log_predict_the_other_gpu() -> None:
    kept = log_errors(read_facts(ROOT / FILE))
    logs = {line.log for line in kept if line.by == f"fitted on {line.log}"}
    assert len(logs) == 2
    for line in kept:
        if line.log in logs and line.by.startswith("fitted on"):
            assert max(map(abs, (*line.ttft, *line.tpot, *line.e2e))) <= 0.15, (line.log, line.by)


def test_what_is_kept_as_measured_is_what_the_logs_say() -> None:
    folder = trace_file("llmservingsim_vllm")
    kept = [row for row in read_facts(ROOT / FILE) if row["by"] == MEASURED]
    again = [dict(zip(COLUMNS, row, strict=True)) for row in refresh_facts(folder, date=kept[0]["date"])]
    assert kept == [row for row in again if row["by"] == MEASURED]
