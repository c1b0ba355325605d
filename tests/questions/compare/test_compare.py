"""Ways side by side: the same requests for all, the usual four, any two options, and what cannot be compared."""

from __future__ import annotations

from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest, TonnageError
from tonnage.questions.answers import blocks_of, charts_of
from tonnage.questions.compare.answer import Comparison
from tonnage.questions.compare.compare import compare, compare_figures, configurations_of
from tonnage.report.html import markdown

CASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "accelerator": "H100",
    "replicas": 2,
    "traffic": {"profile": "chat", "rate": "20/s", "requests": "1500"},
    "slo": {"ttft": "1 s", "tpot": "30 ms"},
}


def told(**changes: Any) -> Comparison:
    return compare(configurations_of({**CASE, **changes}))


def row(found: Comparison, what: str) -> dict[str, Any]:
    values = next(figure.values for figure in found.figures if figure.what == what)
    return dict(zip(found.sides, values, strict=True))


def test_the_usual_ways_answer_the_same_requests() -> None:
    found = told()
    assert found.sides == ("static", "dynamic", "continuous", "disaggregated 1+1")
    assert {one.requests for one in found.simulations} == {1500}
    assert set(row(found, "accelerators").values()) == {2.0}
    tokens = {round(one.output_tokens_per_s * one.span_s) for one in found.simulations}  # type: ignore[operator]
    assert len(tokens) == 1
    first = row(found, "p95 ttft")
    assert first["continuous"] < 0.1 * first["static"]
    assert row(found, "p99 ITL")["disaggregated 1+1"] < row(found, "p99 ITL")["continuous"]
    assert found.best in ("continuous", "disaggregated 1+1")
    assert found.sentence.startswith(f"Best is {found.best}: ")


def test_more_replicas_are_divided_in_every_way() -> None:
    sides = [name for name, _ in configurations_of({**CASE, "replicas": 4}).ways]
    assert sides[3:] == ["disaggregated 1+3", "disaggregated 2+2", "disaggregated 3+1"]
    assert len(configurations_of({**CASE, "replicas": 40}).ways) <= 12


def test_pools_apart_are_compared_with_the_same_accelerators_together() -> None:
    one = {"tp": 1}
    split = {"prefill_workers": 1, "prefill": one, "decode_workers": 2, "decode": one}
    base = {name: value for name, value in CASE.items() if name != "replicas"}
    asked = dict(configurations_of({**base, "disaggregation": split}).ways)
    assert list(asked) == ["static", "dynamic", "continuous", "disaggregated"]
    assert asked["continuous"].replicas == 3 and asked["continuous"].disaggregation is None
    assert asked["disaggregated"].disaggregation is not None
    with pytest.raises(BadRequest, match="unlike layouts"):
        configurations_of({**base, "disaggregation": {**split, "decode": {"tp": 2}}})


def test_any_two_options() -> None:
    ways = {"small": {"engine_options": {"max_num_batched_tokens": 512}}, "large": {}, "sglang": {"engine": "sglang"}}
    found = told(ways=ways, engine_options={"max_num_seqs": 64})
    assert found.sides == ("small", "large", "sglang")
    assert row(found, "p99 ITL")["small"] < row(found, "p99 ITL")["large"]
    text = markdown(blocks_of(found))
    assert "small" in text and "p95 TTFT" in text
    (chart,) = charts_of(found)
    assert len(chart.rows) == 27


def test_a_way_lays_mappings_over_the_base_field_by_field() -> None:
    asked = configurations_of({**CASE, "engine_options": {"max_num_seqs": 64}, "ways": {
        "a": {"engine_options": {"max_num_batched_tokens": 512}}, "b": None,
    }})  # fmt: skip
    assert asked.ways[0][1].engine_options == {"max_num_seqs": 64, "max_num_batched_tokens": 512}
    assert asked.ways[1][1].engine_options == {"max_num_seqs": 64}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ways": {}}, "ways must hold"),
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
    alone = configurations_of({**CASE, "replicas": 1})
    clients = configurations_of({**CASE, "traffic": {"profile": "chat", "concurrency": "8"}})
    assert len(alone.ways) == len(clients.ways) == 3
    assert "two replicas" in alone.notes[-1] and "need a rate" in clients.notes[-1]


def test_nothing_that_runs_is_an_answer() -> None:
    found = told(model="meta-llama/Llama-3.1-405B-Instruct")
    assert not found.fits and found.best is None and found.sentence.startswith("None of them runs: ")


def test_without_objectives_the_shortest_answers_win() -> None:
    found = told(slo=None, ways={"one": {"replicas": 1}, "two": {}})
    assert found.best == "two" and found.sentence.startswith("Best is two: p95 end to end")


def test_a_run_that_is_broken_off_ends_the_comparison() -> None:
    def stop(_: int, __: int) -> None:
        raise KeyboardInterrupt

    found = compare(configurations_of(CASE), watch=stop)
    assert found.partial and found.sides == ("static",) and "partial" in found.sentence


def test_the_best_of_a_row_is_marked_unless_all_are_alike() -> None:
    rows = compare_figures(
        [
            (("a", "s", 2.0, True), ("b", "", "x", None)),
            (("a", "s", 1.0, True), ("c", "s", 3.0, False)),
            (("a", "s", None, True), ("c", "s", 3.0, False)),
        ]
    )
    assert [(one.what, one.values, one.best) for one in rows] == [
        ("a", (2.0, 1.0, None), 1),
        ("b", ("x", None, None), None),
        ("c", (None, 3.0, 3.0), None),
    ]


def test_python_asks_the_same() -> None:
    found = tonnage.compare(**{**CASE, "traffic": {"profile": "chat", "rate": "6/s", "requests": "300"}})
    assert found.kind == "simulate" and len(found.simulations) == 4
    with pytest.raises(BadRequest):
        tonnage.compare(**{**CASE, "ways": []})
