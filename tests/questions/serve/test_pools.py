"""Separate pools in a serving plan: units of both kinds of workers, their capacity simulated like a replica's."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.command import told

import tonnage
from tonnage.errors import BadRequest


@cache
def plan(**changes: Any) -> Any:
    given = {
        "model": "meta-llama/Llama-3.1-70B-Instruct", "rate": "6/s", "accelerator": "H200", "traffic": "summarise",
        "ttft": "2 s", "tpot": "40 ms", "pools": True, **changes,
    }  # fmt: skip
    return tonnage.plan_serve(**given)


@pytest.fixture(scope="module")
def found() -> Any:
    return plan()


def test_a_fleet_of_pools_carries_the_load_within_the_objectives(found: Any) -> None:
    pools = found.pools
    assert pools.ttft_s <= 2.0 and pools.tpot_s <= 0.04
    assert pools.units * pools.rate_per_s * (1 - found.request.headroom) >= 6.0
    workers = pools.units * (pools.prefill_workers + pools.decode_workers)
    assert pools.accelerators == workers * pools.configuration.layout.ranks
    assert pools.bill.instances * pools.bill.accelerators_per_instance >= pools.accelerators
    assert pools.saves == pytest.approx(1 - pools.bill.usd_per_hour / found.options[0].bill.usd_per_hour)


def test_long_prompts_and_tight_answers_are_what_pools_are_for(found: Any) -> None:
    assert found.pools.rate_per_s > found.pools.together_per_s > 0
    assert "Disaggregated (" in found.sentence or found.pools.saves < 0.01


def test_caches_move_inside_an_instance_where_the_unit_fits_into_one(found: Any) -> None:
    pools = found.pools
    ranks = (pools.prefill_workers + pools.decode_workers) * pools.configuration.layout.ranks
    assert pools.leaves_node == (ranks > 8)
    assert ("network" in pools.sentence) == pools.leaves_node


def test_what_a_pooled_plan_counts_are_units(found: Any) -> None:
    best = found.options[0]
    flip = next(one for one in found.break_even if one.input == "mean rate above")
    said = "units of pools" if best.configuration.pools else "replicas"
    assert flip.becomes.startswith(f"{best.replicas + 1} {said} are needed")


def test_only_who_asks_gets_them() -> None:
    assert plan(pools=None).pools is None


TIGHT = {"rate": "20/s", "ttft": "1 s", "tpot": "15 ms", "pools": None}


def test_units_are_rows_where_they_cost_less_than_any_replica() -> None:
    quick = plan(**TIGHT, quick=True)
    first, *others = quick.options
    split = first.configuration.pools
    assert first.sure
    assert first.accelerators == first.replicas * (split.prefill + split.decode) * first.configuration.layout.ranks
    assert first.bill.instances * first.bill.accelerators_per_instance >= first.accelerators
    plain = [option for option in others if option.configuration.pools is None and option.sure]
    assert plain and first.bill.usd_per_hour < 0.8 * plain[0].bill.usd_per_hour
    assert f"{split.prefill}P{split.decode}D" in first.configuration.settings()
    assert "prefill worker" in quick.sentence


def test_a_unit_in_the_table_is_simulated_like_a_replica() -> None:
    first = plan(**TIGHT).options[0]
    seen = first.capacity.simulated
    assert first.configuration.pools is not None
    assert seen.tried and first.capacity.ttft_s.value <= 1.0 and first.capacity.tpot_s.value <= 0.015
    assert first.replicas * seen.low_per_s >= 20.0


def test_where_latency_does_not_bind_nothing_is_kept_apart() -> None:
    easy = plan(rate="2/s", ttft="10 s", tpot="200 ms", pools=None, quick=True)
    assert all(option.configuration.pools is None for option in easy.options)


def test_what_is_exported_starts_both_kinds_of_workers(tmp_path: Path) -> None:
    made = plan(**TIGHT, quick=True)
    (tmp_path / "plan.json").write_text(json.dumps(tonnage.to_dict(made)))
    assert told("export", tmp_path / "plan.json", "--to", "llm-d", "-o", tmp_path).exit_code == 0
    values = yaml.safe_load((tmp_path / "values.yaml").read_text())
    units, split = made.options[0].replicas, made.options[0].configuration.pools
    assert values["prefill"]["replicas"] == units * split.prefill
    assert values["decode"]["replicas"] == units * split.decode


def test_a_unit_can_be_opened() -> None:
    opened = tonnage.explain(plan(**TIGHT, quick=True))
    assert {node.name for node in opened.numbers} >= {"TTFT", "TPOT"}, opened.notes


@pytest.mark.parametrize("changes", [{"ttft": None, "tpot": None}, {"rate": None, "concurrency": "64"}])
def test_without_an_objective_or_a_rate_there_is_nothing_to_look_for(changes: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="at a rate and within an objective"):
        plan(**changes)
