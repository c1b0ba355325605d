"""Offers that sellers made to the user: read with sentences that teach, and charged as they bind, in every plan."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.command import told

import tonnage
from tonnage.errors import TonnageError

YEAR = {
    "name": "acme", "provider": "acme", "accelerator": "H100", "price": "$0.60/h", "term": "12 months", "minimum": 16,
    "take_or_pay": "75 %", "upfront": "30 %", "start": "2027-01-15", "as_of": "2026-11-20", "network": "3200 Gbit/s",
}  # fmt: skip
SERVE = {"model": "meta-llama/Llama-3.1-8B-Instruct", "rate": "100/s", "tpot": "50 ms", "accelerator": "H100",
         "quick": True}  # fmt: skip


def plan(kind: str = "serve", **fields: Any) -> Any:
    asked = {**(SERVE if kind == "serve" else {}), **fields}
    return getattr(tonnage, f"plan_{kind}")(**asked)


def test_a_minimum_is_paid_and_opened() -> None:
    bill = plan(quotes=[YEAR]).options[0].bill
    assert (bill.provider, bill.term, bill.instances) == ("acme", "contract", 1)
    assert bill.usd_per_hour == pytest.approx(12 * 0.60)  # 75 % of sixteen, of which eight are used
    assert [round(line.value, 6) for line in bill.lines] == [4.8, 2.4]
    assert bill.commitment.years == 1.0
    other = plan(quotes=[{**YEAR, "minimum": 0}]).options[0].bill
    assert other.usd_per_hour == pytest.approx(4.8) and len(other.lines) == 1


def test_a_quote_without_a_term_is_a_price_by_the_hour() -> None:
    bill = plan(quotes=[{"accelerator": "H100", "price": "$0.50/h", "count": 1}]).options[0].bill
    assert (bill.provider, bill.term, bill.usd_per_instance_hour) == ("yours", "on-demand", 0.5)
    assert bill.contract is None


def test_more_than_there_are_is_not_offered() -> None:
    found = plan(quotes=[{**YEAR, "minimum": 0, "maximum": 8}], rate="900/s")
    assert all(option.bill.provider != "acme" for option in found.options)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("batch", {"model": "meta-llama/Llama-3.1-8B-Instruct", "items": "3B", "accelerator": "H100"}),
        ("infer", {"model": "BAAI/bge-m3", "rate": "40000/s", "accelerator": "H100"}),
        ("train", {"model": "meta-llama/Llama-3.1-8B", "tokens": "300B", "accelerator": "H100", "count": 16}),
        ("fleet", {"workloads": [{"model": "8B", "rate": "20/s", "tpot": "50 ms"}], "accelerator": "H100",
                   "quick": True}),
    ],
)  # fmt: skip
def test_every_kind_of_plan_takes_quotes(kind: str, fields: dict[str, Any]) -> None:
    """At a hundredth of the market's price a quote leads wherever it may be used."""
    block = {**YEAR, "price": "$0.02/h", "minimum": 0, "term": "60 days"}
    made = plan(kind, **fields, quotes=[block])
    lead = made.instances[0].provider if kind == "fleet" else made.options[0].bill.provider
    assert lead == "acme"


def test_a_run_pays_for_the_whole_block() -> None:
    fields = {"model": "meta-llama/Llama-3.1-8B", "tokens": "20B", "accelerator": "H100", "count": 8}
    one = plan("train", **fields, quotes=[{**YEAR, "price": "$0.02/h", "minimum": 0, "term": "14 days"}])
    two = plan("train", **fields, quotes=[{**YEAR, "price": "$0.02/h", "minimum": 0, "term": "28 days"}])
    assert one.options[0].cost.value == pytest.approx(8 * 0.02 * 14 * 24)
    assert two.options[0].cost.value == pytest.approx(2 * one.options[0].cost.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"price": None}, r"quotes\[1\].price is missing"),
        ({"price": "2 GB"}, r"quotes\[1\].price"),
        ({"ramp": "4=8, 1=16", "minimum": None}, r"ramp: months must rise"),
        ({"ramp": "soon", "minimum": None}, r"is no MONTH=COUNT"),
        ({"ramp": "1=8"}, r"minimum and ramp contradict"),
        ({"start": "tomorrow"}, r"start is 'tomorrow', but a day is expected"),
        ({"start": "2027-02-30"}, r"a day is expected"),
        ({"term": None}, r"needs a term"),
        ({"take_or_pay": "120 %"}, r"take_or_pay"),
        ({"maximum": 8}, r"at most 8 may be had"),
        ({"accelerator": "H1000"}, r"H1000"),
        ({"country": "XX"}, r"country"),
        ({"as_of": "2099-01-01", "start": None}, r"a day that has not come"),
        ({"as_of": "2026-11-20", "start": "2026-11-01"}, r"after its start"),
        ({"term": "12 min"}, r"term: '12 min' is out of range"),
        ({"prize": "$1/h"}, r"prize"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], says: str) -> None:
    with pytest.raises(TonnageError, match=says):
        plan(quotes=[{**YEAR, **change}])


@pytest.mark.parametrize("value", ["quotes.yaml", 3, [3], [[]], {"a": 1}, [YEAR] * 65])
def test_only_a_list_of_entries_is_taken(value: Any) -> None:
    """A path is read on the command line alone: over HTTP it would be a file of the server."""
    with pytest.raises(TonnageError, match="quotes"):
        plan(quotes=value)


def test_command_file_and_python_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(json.dumps({"quotes": [YEAR]}), encoding="utf-8")
    flags = ["--rate", "100/s", "--tpot", "50 ms", "-a", "H100", "--quick", "--today", "2026-11-23", "--json"]
    done = told("plan", "serve", SERVE["model"], *flags, "--quotes", tmp_path / "q.yaml")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)["options"][0]["bill"]
    alike = plan(quotes=[{**YEAR, "price": 0.6}]).options[0].bill
    assert (said["provider"], said["contract"]["minimum"]) == ("acme", 16)
    assert sum(line["value"] for line in said["lines"]) == pytest.approx(alike.usd_per_hour)


@pytest.mark.parametrize("text", ["", "[]", "a: 1", "- 3", "{", "\x00", "quotes: []"])
def test_a_file_that_is_none_ends_in_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.yaml").write_text(text, encoding="utf-8")
    done = told("plan", "serve", "8B", "--rate", "2/s", "--quotes", tmp_path / "q.yaml")
    assert done.exit_code == 2 and "Traceback" not in done.output
