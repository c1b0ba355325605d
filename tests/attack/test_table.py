"""The table of attacks: a row that was run takes its line's place, and the others keep theirs."""

import importlib
from collections.abc import Callable

import pytest
from tools.attack.__main__ import PARTS, line_of, with_lines
from tools.attack.misread import MISREAD, refused
from tools.attack.rows import Outcome, Row

HELD = Outcome(3, (), "slowest 0.2 s")
BROKEN = Outcome(2, ("500 for Origin '['",), "")
FIRST, SECOND = Row("bounded", "two ask", lambda _: HELD), Row("refused", "one asks", lambda _: BROKEN)


def told(*rows: Row, share: float = 1.0) -> dict[tuple[str, str], str]:
    return {(row.promise, row.test): line_of(row, row.attack(share), share) for row in rows}


def test_a_promise_that_did_not_hold_says_what_broke_it() -> None:
    assert line_of(FIRST, HELD, 0.1).startswith("| bounded | two ask | 3 | holds; slowest 0.2 s |")
    assert "0.1 of all" in line_of(FIRST, HELD, 0.1) and "of all" not in line_of(FIRST, HELD, 1.0)
    assert "| refused | one asks | 2 | **does not hold**: 500 for Origin '[' |" in line_of(SECOND, BROKEN, 1.0)


def test_a_row_that_was_not_run_keeps_its_line_and_one_that_is_gone_loses_it() -> None:
    rows = (FIRST, SECOND)
    one = with_lines("# Attacks\n", "Web", rows, told(FIRST))
    assert "holds; slowest 0.2 s" in one and "| refused | one asks | 0 | not run |" in one
    both = with_lines(one, "Web", rows, told(SECOND))
    assert "holds; slowest 0.2 s" in both and "does not hold" in both and "not run" not in both
    assert "bounded" not in with_lines(both, "Web", (SECOND,), {})


def test_a_section_leaves_the_others_alone() -> None:
    both = with_lines(with_lines("# Attacks\n", "Web", (FIRST,), told(FIRST)), "Stores", (SECOND,), told(SECOND))
    again = with_lines(both, "Web", (FIRST,), told(FIRST, share=0.5))
    assert again == both.replace("cores |", "cores, 0.5 of all |", 1)
    assert again.index("## Web") < again.index("## Stores")


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_rows_of_its_own(part: str) -> None:
    rows = importlib.import_module(f"tools.attack.{part}").ROWS
    assert len({(row.promise, row.test) for row in rows}) == len(rows)
    assert all(isinstance(row, Row) and row.promise and "|" not in row.promise + row.test for row in rows)


@pytest.mark.parametrize(("where", "what", "take"), MISREAD[::9])
def test_what_may_mean_two_things_is_refused(where: str, what: str, take: Callable[[], object]) -> None:
    """Every ninth; `make attack` tries all."""
    assert refused(take), f"{where}: {what}"


def test_a_plain_question_is_no_refusal() -> None:
    assert not refused(lambda: None)
