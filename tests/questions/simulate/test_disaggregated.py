"""Prefill and decode on workers of their own: what moves, what it costs, what it cannot be combined with."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.command import told as command

import tonnage
from tonnage.errors import BadRequest

ONE = {"tp": 1}
SPLIT = {"prefill_workers": 1, "prefill": ONE, "decode_workers": 1, "decode": ONE}
CASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "accelerator": "H100",
    "traffic": {"profile": "chat", "rate": "10/s", "requests": "1500"},
    "disaggregation": SPLIT,
}


def told(**changes: Any) -> Any:
    return tonnage.simulate(**CASE | changes)


def test_answers_do_not_wait_for_prompts_of_others() -> None:
    apart, together = told(), told(disaggregation=None, replicas=2)
    assert apart.requests == together.requests == 1500
    assert apart.itl_s.p99 < 0.5 * together.itl_s.p99
    assert apart.fleet is None


def test_moving_the_cache_takes_longer_for_longer_prompts() -> None:
    lengths = {"rate": "0.01/s", "requests": "20", "output_tokens": "2", "process": "even"}
    short, long = (told(traffic={**lengths, "prompt_tokens": prompt}).ttft_s.mean for prompt in ("1k", "8k"))
    kept = 8_000 * 2 * 32 * 8 * 128 * 2  # tokens, keys and values, layers, heads, elements, bytes
    assert long - short > 0.5 * 7 / 8 * kept / 400e9
    assert long < 1.0


CLIENTS = {**CASE, "traffic": {"profile": "chat", "concurrency": "8", "requests": "200", "start": "together"}}


def test_clients_wait_for_their_answers(tmp_path: Path) -> None:
    done = command("simulate", "-", "--json", "--requests", tmp_path / "rows.csv", given=CLIENTS)
    assert done.exit_code == 0, done.output
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        rows = [(float(row["sent_s"]), float(row["e2e_s"])) for row in csv.DictReader(file)]
    assert json.loads(done.stdout)["requests"] == len(rows) == 200
    begins, ends = sorted(sent for sent, _ in rows), sorted(sent + stay for sent, stay in rows)
    assert begins[:8] == [0.0] * 8
    assert begins[8:] == pytest.approx(ends[: 200 - 8])


def test_a_part_of_a_run_of_clients_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_handed: int, _all: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tonnage.cli.simulate.watch_bar", lambda: stop)
    assert json.loads(command("simulate", "-", "--json", given=CLIENTS).stdout)["partial"] is True


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"traffic": {"profile": "chat", "concurrency": "8", "requests": "4000"}}, "500 for each of 8 clients"),
        ({"capacity": True, "slo": {"ttft": "1 s"}}, "capacity is of one pool"),
        ({"scaling": {"in_flight": 3, "cold_start": "1 s"}}, "scaling is of one pool"),
        ({"replicas": 2}, "prefill_workers and decode_workers instead"),
        ({"disaggregation": {**SPLIT, "decode_workers": 0}}, "each pool needs at least 1"),
        ({"disaggregation": {"prefill_workers": 1}}, "missing required field"),
    ],
)
def test_what_contradicts_it_is_said(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        told(**changes)


def test_a_pool_that_cannot_hold_the_model_is_an_answer() -> None:
    found = told(model="meta-llama/Llama-3.1-70B-Instruct", disaggregation={**SPLIT, "decode": {"tp": 4}})
    assert not found.fits and found.sentence.startswith("It does not run")
