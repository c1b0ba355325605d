"""What owned accelerators serve best, share, lack and draw: laws of the answer, and the sentences for bad input."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.command import answered, printed
from tests.sweeps import FULL

import tonnage
from tonnage.errors import TonnageError

RECORDED = Path(__file__).parents[2] / "data" / "machine"
CHAT = {"name": "chat", "model": "meta-llama/Llama-3.1-8B-Instruct", "traffic": "chat", "ttft": "1 s", "tpot": "60 ms"}


BITS = {"gguf-q2_k": 2, "gguf-q3_k_m": 3, "gguf-q4_k_m": 4, "gguf-q5_k_m": 5, "gguf-q6_k": 6, "gguf-q8_0": 8}


def planned(**fields: Any) -> Any:
    return tonnage.plan_own(**{"own": None, **fields})


@cache
def of(own: str) -> Any:
    return planned(own=own)


def test_models_stand_by_published_score_at_the_wanted_speed() -> None:
    plan = of("8 x A100 80GB, 4 x L40S")
    assert [group.accelerator for group in plan.groups] == ["a100-sxm4-80gb", "l40s"] and plan.benchmark
    for group in plan.groups:
        scores = [row.stands.score for row in group.rows]
        assert len(group.rows) == 5 and scores == sorted(scores, reverse=True)
        assert all(row.per_request >= 20.0 for row in group.rows)
        for row in group.rows:
            # Little's law: what all make is what each makes, times those in flight, less the time of prompts.
            assert row.output_tokens_per_s.value <= row.concurrency * row.per_request * 1.01
            low, high = row.output_tokens_per_s.low, row.output_tokens_per_s.high
            assert low < row.output_tokens_per_s.value < high
    assert plan.electricity.value == pytest.approx(sum(group.usd_per_month or 0.0 for group in plan.groups))
    assert "Every group" in plan._repr_html_()


@pytest.mark.parametrize(
    ("part", "model"),
    [("A100 80GB", "Qwen/Qwen3-32B"), ("RTX 4090", "Qwen/Qwen3.5-9B"), ("L40S", "Qwen/Qwen3-32B")],
)
def test_more_cards_never_make_fewer_tokens(part: str, model: str) -> None:
    made = []
    for count in (1, 2, 3, 4, 7, 8, 12, 16) if FULL else (1, 2, 3, 8, 12):
        rows = planned(own=f"{count} x {part}", model=model).groups[0].rows
        made.append(rows[0].output_tokens_per_s.value if rows else 0.0)
    assert all(after >= before * 0.999 for before, after in pairwise(made)) and made[-1] > 2 * made[2]


def test_two_cards_hold_a_finer_format_than_one_where_it_is_as_fast() -> None:
    """A copy on one card of two, the rest of its experts in host memory, was shown where both cards hold more of it."""
    model = "Qwen/Qwen3.5-122B-A10B"
    one, two = (planned(own=f"{count} x RTX 3090", model=model).groups[0].rows[0] for count in (1, 2))
    assert BITS[two.weights] > BITS[one.weights]
    assert two.output_tokens_per_s.value >= one.output_tokens_per_s.value and two.per_request >= 20.0


def test_a_persons_own_card_has_the_rows_of_local() -> None:
    row = of("RTX 3060").groups[0].rows[0]
    there = tonnage.local("RTX 3060", min_speed="20").rows[0]
    assert (row.model, row.per_request) == (there.model, there.decode_per_s.value) and row.command


def test_a_stated_engine_answers_on_a_persons_own_card() -> None:
    (group,) = planned(own="RTX 4090", engine="vllm", model="Qwen/Qwen3-8B").groups
    assert group.rows and {row.engine for row in group.rows} == {"vllm"} and group.rows[0].concurrency > 1
    (none,) = planned(own="RTX 4090", engine="vllm", model="meta-llama/Llama-3.1-405B-Instruct").groups
    assert not none.rows and none.none_because.startswith("vllm does not serve Llama 3.1 405B Instruct")


@pytest.mark.parametrize("own", ["2 x RTX 3090", "RTX PRO 6000"])
def test_short_answers_to_long_prompts_are_clients_who_wait(own: str) -> None:
    """
    One client alone never meets another's prompt, so that nothing makes less than that: arrivals in bursts, whose short
    answers others' prompts hold up, once let two RTX 3090 make a token a second.
    """
    group = planned(own=own, engine="vllm", traffic="code").groups[0]
    for row in group.rows:
        case = {"kind": "serve", "model": row.model, "accelerator": group.accelerator, "isl": 2048, "osl": 28}
        case |= {"engine": "vllm", "precision": {"weights": row.weights}, "traffic": {"concurrency": 1}}
        alone = tonnage.predict({**case, "layout": {"tp": group.count}})
        assert row.concurrency >= 1 and row.concurrency == int(row.concurrency) and row.per_request >= 20.0
        assert row.output_tokens_per_s.value >= 0.95 * alone.output_tokens_per_s.value


def test_what_lies_in_host_memory_is_said_and_assumed() -> None:
    plan = of("2 x RTX 4090")
    first = plan.groups[0].rows[0]
    assert first.moved_bytes > 0
    screen = printed("own", own="2 x RTX 4090")
    assert f"{first.moved_bytes / 1e9:.0f} GB of" in screen and "in host memory" in screen
    assert any("host memory of 64 GB; --host-memory" in text for text in plan.provenance.assumed)


def test_a_workstation_card_has_what_its_serving_engine_does_not_run_too() -> None:
    served, alone = of("R9700").groups[0].rows, planned(own="R9700", model="Qwen/Qwen3.5-35B-A3B").groups[0].rows
    by_model = {row.model: row for row in served}
    assert alone[0].model in by_model and not by_model[alone[0].model].moved_bytes
    scores = [row.stands.score for row in served]
    assert scores == sorted(scores, reverse=True) and "llama.cpp" in {row.engine for row in served}


def test_rent_is_that_of_companies_unless_strangers_are_asked_for() -> None:
    usual, strangers = of("8 x H100").groups[0], planned(own="8 x H100", community="yes").groups[0]
    assert strangers.rented_usd_per_month < usual.rented_usd_per_month


def test_what_is_owned_comes_first_and_the_rest_is_rented() -> None:
    small = planned(own="1 x L4", workloads=[{**CHAT, "rate": "0.2/s", "confidence": "70%"}])
    assert small.feasible and not small.rented and "carries every workload" in small.sentence
    large = planned(own="1 x L4", workloads=[{**CHAT, "rate": "20/s"}], provider="gcp")
    assert large.feasible and large.rented and "rent" in large.sentence
    assert all(one.usd_per_month > 0 for one in large.rented)


def test_a_site_feeds_more_held_accelerators() -> None:
    plan = planned(own="8 x A100 80GB", site_power="100 kW", rack_power="30 kW", electricity="$0.20/kWh")
    site, group = plan.site, plan.groups[0]
    assert site.owned_power_w == group.power_w
    counts = [cap.accelerators for cap in site.caps]
    assert counts == sorted(counts) and counts[0] > 50
    assert all(cap.tokens_per_s_per_mw > 0 for cap in site.caps)
    assert group.nodes_per_rack == 4 and group.usd_per_month == pytest.approx(
        (group.power_w or 0.0) / 1e3 * 730.0 * 0.20
    )


def test_unlike_cards_share_a_model_that_none_holds() -> None:
    model = "meta-llama/Llama-3.3-70B-Instruct"
    cards = "RTX 4090, RTX 3090"
    row = planned(own=cards, one_box=True, model=model, min_speed="10").mixed[0]
    alone = planned(own="RTX 4090", model=model, min_speed="10").groups[0].rows[0]
    assert sum(row.layers) + row.host_layers == 80 and min(row.layers) > 0 and not row.alone
    assert row.decode_per_s.value > 2 * alone.per_request
    assert row.pipeline_per_s >= row.decode_per_s.value and "-ts" in row.command
    apart = planned(own=cards, network="1 Gbit/s", model=model, min_speed="10").mixed[0]
    assert apart.decode_per_s.value < row.decode_per_s.value and "--rpc" in apart.command
    assert (
        planned(own=cards, model=model, min_speed="10").mixed
        == planned(own=cards, one_box=True, model=model, min_speed="10").mixed
    )
    assert not planned(own=cards, one_box=False, model=model).mixed


@pytest.mark.parametrize("cards", ["RTX 3090, RTX 4090", "2 RTX 3090 + 1 4090", "RTX 5090"])
def test_cards_of_a_box_have_one_answer(cards: str) -> None:
    """`local` and `plan own`: the same rates, formats and commands for the same cards at the same speed."""
    local = tonnage.local(cards, min_speed="20 t/s")
    plan = planned(own=cards, min_speed="20 t/s")
    shown = {row.model: row for row in local.rows}
    for row in plan.mixed or plan.groups[0].rows:
        one = shown[row.model]
        rate = row.decode_per_s.value if plan.mixed else row.per_request
        assert (row.weights, rate, row.command) == (one.precision.stored, one.decode_per_s.value, one.commands[0][1])
    assert len(plan.mixed or plan.groups[0].rows) > 3


def test_a_processor_without_a_name_is_said_to_be_assumed() -> None:
    assert planned(own="CPU", model="Qwen/Qwen3-8B").groups[0].name == "A desktop processor (assumed: Core i9-13900K)"


@pytest.mark.parametrize(
    ("file", "groups", "box"),
    [
        ("nvidia-smi.xml", ["2 x GeForce RTX 3090", "RTX A4000"], True),
        ("rocm-smi.json", ["2 x Instinct MI300X"], False),
        ("system_profiler.json", ["M4 Max (40-core GPU), 64 GB"], False),
        ("sinfo.txt", ["16 x A100 SXM4 80GB", "4 x L40S"], False),
        ("nodes.json", ["8 x A100 SXM4 80GB", "4 x L40S"], False),
    ],
)
def test_recorded_output_is_an_inventory(file: str, groups: list[str], box: bool) -> None:
    plan = answered("plan", "own", RECORDED / file, "--model", "Qwen/Qwen3-8B")
    assert [group["name"] for group in plan["groups"]] == groups and plan["feasible"]
    assert plan["request"].get("one_box", False) is box


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "own is missing"),
        ({"own": "8 x Nothing 9000"}, "Nothing 9000"),
        ({"own": [{"count": 2}]}, "write groups such as"),
        ({"own": "L4", "rate": "1/s"}, "rate"),
        ({"own": "L4", "site_power": "2 MWh"}, "site_power"),
        ({"own": "L4", "min_speed": "-1"}, "min_speed"),
        ({"own": "L4", "workloads": [{"model": "8B"}]}, "load"),
        ({"own": 7}, "own"),
        ({"own": ["L4"] * 40}, "more than"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(fields: dict[str, object], said: str) -> None:
    with pytest.raises(TonnageError, match=said):
        planned(**fields)


def test_no_part_of_the_catalogue_breaks_an_inventory() -> None:
    rows = answered("catalog", "accelerators", "--wide", "--all")["rows"]
    released = [row["id"] for row in rows if row["status"] == "released"]
    assert len(released) > 100
    for part in released[:: 9 if FULL else 27]:
        plan = planned(own=part, model="Qwen/Qwen3-8B")
        assert plan.groups[0].rows or plan.groups[0].none_because


def test_one_box_leads_with_the_split_where_it_is_better_than_every_group() -> None:
    plan = planned(own="RTX 4090, 2 x RTX 3090", one_box=True, model="meta-llama/Llama-3.3-70B-Instruct")
    assert "over all cards" in plan._repr_html_()
    assert plan.mixed[0].decode_per_s.value > max(group.rows[0].per_request for group in plan.groups)
