"""The table of attacks: a section takes the place of its own and leaves the others alone."""

from __future__ import annotations

from tools.attack.__main__ import section, with_section
from tools.attack.rows import Outcome, Row

HELD = Outcome(3, (), "slowest 0.2 s")
BROKEN = Outcome(2, ("500 for Origin '['",), "")


def test_a_promise_that_did_not_hold_says_what_broke_it() -> None:
    rows = [(Row("bounded", "two ask", lambda _: HELD), HELD), (Row("refused", "one asks", lambda _: BROKEN), BROKEN)]
    told = section(rows, 0.1)
    assert "| bounded | two ask | 3 | holds; slowest 0.2 s |" in told and "10% of the full number" in told
    assert "| refused | one asks | 2 | **does not hold**: 500 for Origin '[' |" in told


def test_a_section_takes_the_place_of_its_own() -> None:
    both = with_section(with_section("# Attacks\n", "Web", "one"), "Readers", "two")
    assert both == "# Attacks\n\n## Web\n\none\n\n## Readers\n\ntwo\n"
    assert with_section(both, "Web", "three") == both.replace("one", "three")
    assert with_section(both, "Readers", "four") == both.replace("two", "four")
