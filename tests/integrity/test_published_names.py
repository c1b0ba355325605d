"""Names that recipes, cookbooks and benchmarks of 2026 use: how many resolve, and which do not and why.

`names` of other projects' lists, with the place and the day they were seen; the lists themselves are not copied.
"""

import csv
from pathlib import Path

import pytest
from tests.every_row import every_row
from tests.shipped import table

import tonnage
from tonnage.errors import TonnageError, UnknownName

with (Path(__file__).parents[1] / "data" / "hub" / "published_names.csv").open(encoding="utf-8", newline="") as _file:
    NAMES = list(csv.DictReader(_file))
SIZED = table("models/sized.csv")
DECODERS = {"llm", "llm-moe", "vlm", "hybrid", "hybrid-moe"}
"""Kinds that write tokens: a shape of their size tells their work."""


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def known(name: str) -> bool:
    try:
        return bool(tonnage.model(name))
    except UnknownName:
        return False


def test_all_but_a_few_of_the_names_resolve_and_those_few_say_why_not() -> None:
    unresolved = {row["name"] for row in NAMES if not known(row["name"])}
    assert unresolved == {row["name"] for row in NAMES if row["unresolved"]}
    assert len(NAMES) >= 330
    assert 1 - len(unresolved) / len(NAMES) >= 0.956, sorted(unresolved)


def test_every_name_says_where_and_when_it_was_seen() -> None:
    assert len({row["name"].lower() for row in NAMES}) == len(NAMES)
    assert all(row["origin"] and row["where"] and row["seen"].startswith("2026") for row in NAMES)


@every_row(SIZED, name=lambda row: row["id"])
def test_a_model_of_which_only_sizes_are_published_says_so_and_meets_them(row: dict[str, str]) -> None:
    found = tonnage.model(row["id"])
    assert row["source"] and row["licence"] and row["checked"].startswith("20")
    (said,) = found.assumed
    assert "published" in said
    total, active = float(row["published_parameters"]), row["published_active_parameters"]
    assert bool(found.layers) == (row["kind"] in DECODERS)
    assert bool(active) == row["kind"].endswith("-moe")
    if not found.layers:
        assert found.extra_parameters == pytest.approx(total, rel=0.01)
        with pytest.raises(TonnageError, match="only its size is published"):
            tonnage.fit(row["id"], accelerator="B300")
        return
    counted = tonnage.fit(row["id"], accelerator="B300")
    assert counted.parameters == pytest.approx(total, rel=0.01)
    if active:
        assert counted.active_parameters == pytest.approx(float(active), rel=0.03)


def test_a_mixture_known_by_its_sizes_splits_over_a_node() -> None:
    for row in SIZED:
        for group in tonnage.model(row["id"]).layers:
            experts = getattr(group.feed_forward, "num_experts", 8)
            assert experts % 8 == 0, row["id"]
