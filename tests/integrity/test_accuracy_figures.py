"""The figures of the published page are those that the web page shows."""

import csv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_pages_figures_are_the_reports() -> None:
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    with (ROOT / "src/tonnage/catalog/data/accuracy.csv").open(encoding="utf-8", newline="") as file:
        told = [line for line in csv.DictReader(file) if line["left out"] == "its source"]
    assert len(told) >= 9
    for line in told:
        shown = " | ".join(line[column] for column in ("groups", "numbers", "mean of medians", "covered, mean"))
        assert f"| {shown} |" in page, "run `make accuracy`, which writes both"


def test_the_picture_shows_the_pages_figures() -> None:
    picture = (ROOT / "docs" / "images" / "how-sure.svg").read_text(encoding="utf-8")
    with (ROOT / "src/tonnage/catalog/data/accuracy.csv").open(encoding="utf-8", newline="") as file:
        told = [line for line in csv.DictReader(file) if line["left out"][:3] == "its" and line["covered, mean"] != "-"]
    for line in told:
        share, name = float(line["covered, mean"].split()[0]), f"name: {line['figure']}; left out of every fit: "
        assert f"{share:.6f}%; {name}{line['left out']}" in picture, "run `make accuracy`, which draws it"


def test_the_page_is_short_and_its_tables_are_there() -> None:
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert len(page.split()) <= 1_500
    linked = {path.name for path in (ROOT / "docs" / "accuracy").glob("*.csv") if f"(accuracy/{path.name})" in page}
    assert linked == {path.name for path in (ROOT / "docs" / "accuracy").glob("*.csv")} - {"unseen.csv"}


def test_the_page_names_sources_in_words() -> None:
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    with (ROOT / "measurements" / "sources.csv").open(encoding="utf-8", newline="") as file:
        names = {line["source"]: line["name"] for line in csv.DictReader(file)}
    with (ROOT / "docs" / "accuracy" / "sources.csv").open(encoding="utf-8", newline="") as file:
        assert {line["source"] for line in csv.DictReader(file)} <= names.keys()
    assert not [source for source in names if f"| {source}" in page]
