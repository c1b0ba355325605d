"""Changes beyond the tolerance are found, those within it are not, and kinds are never mixed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.export import plans

from tonnage.domain.plan import ServePlan
from tonnage.errors import BadRequest
from tonnage.questions.check.check import check
from tonnage.questions.check.page import as_markdown
from tonnage.questions.compare.answer import CHECK_SCHEMA, Check


def plan(*model: str, **changes: Any) -> ServePlan:
    return msgspec.convert(plans.plan(*model, **changes), ServePlan)


def costing(usd: float) -> ServePlan:
    return plan(cost={"value": usd, "unit": "USD/h"})


def moved(found: Check) -> list[str]:
    return [change.what for change in found.changes if change.beyond]


def test_the_same_plan_is_unchanged() -> None:
    found = check(plan(), plan(), tolerance=0.0)
    assert not found.changed and found.schema == CHECK_SCHEMA and moved(found) == []
    assert {"cost", "ttft", "tpot", "accelerators", "configuration"} <= {change.what for change in found.changes}


@given(st.floats(0.0, 0.5), st.floats(0.5, 2.0))
def test_a_move_counts_exactly_when_it_exceeds_the_tolerance(tolerance: float, factor: float) -> None:
    found = check(costing(100.0), costing(100.0 * factor), tolerance=tolerance)
    assert found.changed == (abs(100.0 * factor / 100.0 - 1.0) > tolerance)


def test_dearer_is_worse_and_cheaper_is_not() -> None:
    worse = {
        usd: next(change.worse for change in check(costing(100.0), costing(usd)).changes if change.what == "cost")
        for usd in (150.0, 50.0, 101.0)
    }
    assert worse == {150.0: True, 50.0: False, 101.0: None}


def test_another_accelerator_is_a_change_whatever_the_figures_say() -> None:
    assert moved(check(plan(), plan(accelerator="h200-sxm-141gb"), tolerance=9.0)) == ["configuration"]


def test_infeasible_now_says_so() -> None:
    nothing = msgspec.structs.replace(plan(), options=(), feasible=False)
    found = check(plan(), nothing)
    assert found.changed and not found.feasible and "infeasible now" in found.sentence
    again = check(nothing, nothing)
    assert not again.changed and not again.feasible


def test_another_kind_is_refused() -> None:
    with pytest.raises(BadRequest, match="cannot be compared"):
        check(plan(), msgspec.structs.replace(plan()).request)  # type: ignore[arg-type]


def test_markdown_holds_what_moved_and_no_markup_of_a_name() -> None:
    hostile = "x/<img src=x onerror=alert(1)>|[a](b)\n# title @team"
    text = as_markdown(check(plan(), plan(hostile, cost={"value": 99.0, "unit": "USD/h"})))
    assert "**+23.8%**" in text
    assert "<img" not in text and "[a](b)" not in text and "@team" not in text and "\n# title" not in text
    assert text.count("|---|---|---|---|") == 2
