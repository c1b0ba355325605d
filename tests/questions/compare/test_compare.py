"""Ways side by side: the same requests for all, the usual four, any two options, and what cannot be compared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.command import told as command

import tonnage
from tonnage.errors import BadRequest, TonnageError

CASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "accelerator": "H100",
    "replicas": 2,
    "traffic": {"profile": "chat", "rate": "20/s", "requests": "1500"},
    "slo": {"ttft": "1 s", "tpot": "30 ms"},
}


FEW = {"profile": "chat", "rate": "6/s", "requests": "300"}


def told(**changes: Any) -> Any:
    return tonnage.compare(**CASE | changes)


def row(found: Any, what: str) -> dict[str, Any]:
    values = next(figure.values for figure in found.figures if figure.what == what)
    return dict(zip(found.sides, values, strict=True))


def best_of(found: Any, what: str) -> int | None:
    return next(figure.best for figure in found.figures if figure.what == what)


def test_the_usual_ways_answer_the_same_requests() -> None:
    found = told()
    assert found.sides == ("static", "dynamic", "continuous", "disaggregated 1+1")
    assert {one.requests for one in found.simulations} == {1500}
    assert set(row(found, "accelerators").values()) == {2.0}
    tokens = {round(one.output_tokens_per_s * one.span_s) for one in found.simulations}
    assert len(tokens) == 1
    first = row(found, "p95 ttft")
    assert first["continuous"] < 0.1 * first["static"]
    assert row(found, "p99 ITL")["disaggregated 1+1"] < row(found, "p99 ITL")["continuous"]
    assert found.best in ("continuous", "disaggregated 1+1")
    assert found.sentence.startswith(f"Best is {found.best}: ")
    assert found.kind == "simulate"
    for figure in found.figures:
        ahead = {value for value in figure.values if value is not None}
        assert (figure.best is None) or (len(ahead) > 1 and figure.values[figure.best] in {min(ahead), max(ahead)})
    assert row(found, "p99 ITL")[found.sides[best_of(found, "p99 ITL")]] == min(row(found, "p99 ITL").values())
    assert best_of(found, "accelerators") is None, "all are alike"


def test_more_replicas_are_divided_in_every_way() -> None:
    sides = told(replicas=4, traffic=FEW).sides
    assert sides[3:] == ("disaggregated 1+3", "disaggregated 2+2", "disaggregated 3+1")
    assert len(told(replicas=40, traffic=FEW).sides) <= 12


def test_pools_apart_are_compared_with_the_same_accelerators_together() -> None:
    one = {"tp": 1}
    split = {"prefill_workers": 1, "prefill": one, "decode_workers": 2, "decode": one}
    base = {name: value for name, value in CASE.items() if name != "replicas"} | {"traffic": FEW}
    found: Any = tonnage.compare(**base, disaggregation=split)
    assert found.sides == ("static", "dynamic", "continuous", "disaggregated")
    assert set(row(found, "accelerators").values()) == {3.0}
    with pytest.raises(BadRequest, match="unlike layouts"):
        tonnage.compare(**base, disaggregation={**split, "decode": {"tp": 2}})


def test_any_two_options() -> None:
    ways = {"small": {"engine_options": {"max_num_batched_tokens": 512}}, "large": {}, "sglang": {"engine": "sglang"}}
    found = told(ways=ways, engine_options={"max_num_seqs": 64})
    assert found.sides == ("small", "large", "sglang")
    assert row(found, "p99 ITL")["small"] < row(found, "p99 ITL")["large"]
    shown = found._repr_html_()
    assert "small" in shown and "p95 TTFT" in shown
    (chart,) = tonnage.charts(found)
    assert len(chart.rows) == 27


def test_a_way_lays_mappings_over_the_base_field_by_field() -> None:
    few, small = {"max_num_seqs": 4}, {"max_num_batched_tokens": 512}
    found = told(engine_options=few, ways={"a": {"engine_options": small}, "b": None}, traffic=FEW)
    whole = [tonnage.simulate(**CASE | {"engine_options": options, "traffic": FEW}) for options in (few | small, few)]
    assert [one.itl_s for one in found.simulations] == [one.itl_s for one in whole]
    assert found.simulations[0].itl_s != found.simulations[1].itl_s


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ways": {}}, "ways must hold"),
        ({"ways": []}, "ways must hold"),
        ({"ways": {"a": 3}}, "ways.a must hold"),
        ({"ways": {"a": {"traffic": {"profile": "code", "rate": "1/s"}}}}, "traffic cannot change"),
        ({"ways": {"a": {"replicas": "many"}}}, "ways.a: replicas"),
        ({"ways": {str(i): {} for i in range(13)}}, "13 are more than"),
        ({"ways": {"a": {"nonsense": 1}}}, "no field 'nonsense'"),
        ({"traffic": {"profile": "chat"}}, "no load is given"),
    ],
)
def test_what_is_no_comparison_is_one_sentence(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(TonnageError, match=named) as caught:
        told(**changes)
    assert "\n" not in str(caught.value)


def test_why_pools_apart_are_missing_is_said() -> None:
    alone = told(replicas=1, traffic=FEW)
    clients = told(traffic={"profile": "chat", "concurrency": "8", "requests": "300"})
    assert len(alone.sides) == len(clients.sides) == 3
    assert any("two replicas" in note for note in alone.assumed)
    assert any("need a rate" in note for note in clients.assumed)


def test_nothing_that_runs_is_an_answer() -> None:
    found = told(model="meta-llama/Llama-3.1-405B-Instruct")
    assert not found.fits and found.best is None and found.sentence.startswith("None of them runs: ")


def test_without_objectives_the_shortest_answers_win() -> None:
    found = told(slo=None, ways={"one": {"replicas": 1}, "two": {}})
    assert found.best == "two" and found.sentence.startswith("Best is two: p95 end to end")


def test_a_run_that_is_broken_off_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: int, __: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tonnage.cli.compare.watch_bar", lambda: stop)
    found = json.loads(command("compare", "-", "--json", given=CASE).stdout)
    assert found["partial"] and found["sides"] == ["static"] and "partial" in found["sentence"]
