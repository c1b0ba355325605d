"""Known operating points: enough of them, each with a source and a range, and the page says what is wrong."""

from pathlib import Path

from msgspec.structs import replace
from tools.known.__main__ import Answered, answered, page, points

FOUND = list(points())


def test_there_are_eighty_points_of_all_kinds_with_source_and_range() -> None:
    assert len(FOUND) >= 80 and len({point.id for point in FOUND}) == len(FOUND)
    assert {point.kind for point in FOUND} == {"serving", "training", "local"}
    assert all(point.source and 0 < point.low < point.high for point in FOUND)


def test_the_page_lists_every_point_and_first_those_that_are_wrong() -> None:
    inside, outside = Answered(FOUND[0], FOUND[0].low * 1.01, ""), Answered(FOUND[1], FOUND[1].low * 0.5, "")
    refused = Answered(FOUND[2], None, "no such part")
    text = page([inside, outside, refused])
    wrong = text.partition("## Wrong")[2].partition("## All of")[0]
    assert "1 of 3 lie inside" in text
    assert FOUND[0].what not in wrong and FOUND[1].what in wrong and "0.50 of its end" in wrong
    assert "no answer: no such part" in wrong


def test_the_page_in_the_repository_is_of_these_points() -> None:
    text = (Path(__file__).parents[2] / "docs" / "known.md").read_text()
    assert all(point.what in text and point.source in text for point in FOUND)


def test_an_unknown_part_is_an_answer_and_no_crash() -> None:
    point = FOUND[0]
    found = answered(point._replace(case=replace(point.case, accelerator="no-such-part")))
    assert found.value is None and "no-such-part" in found.reason and not found.right
