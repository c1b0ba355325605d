"""Steps of sliders are what whole plans of the same questions say first."""

from typing import Any

import pytest

import tonnage
from tonnage import catalog
from tonnage.web.tuning import sliders, step_of

GIVEN = {"model": "8B", "rate": "4/s", "traffic": "chat", "ttft": "1 s", "tpot": "50 ms", "accelerator": "L40S,H100"}


def plan(given: dict[str, str], quick: bool) -> Any:
    return tonnage.plan_serve(**{**given, "accelerator": given["accelerator"].split(","), "quick": quick})


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(("name", "place"), [("rate", 10), ("ttft", 1), ("tpot", 8), ("confidence", 6)])
def test_a_step_is_the_first_option_of_its_plan(name: str, place: int, quick: bool) -> None:
    slider = next(one for one in sliders(plan(GIVEN, True), GIVEN) if one.name == name)
    asked = {**GIVEN, name: slider.steps[place]}
    first = plan(asked, quick).options[0]
    told = step_of({**asked, "quick": str(quick).lower()}, additions=catalog.NOTHING)
    assert (told.usd_per_hour, told.replicas) == (first.cost.value, first.replicas)
    assert (told.low, told.high) == (first.cost.low, first.cost.high) and f"${first.cost.value:,.2f}/h" in told.text


def test_the_step_that_is_asked_for_is_written_as_it_was() -> None:
    found = {one.name: one for one in sliders(plan(GIVEN, True), GIVEN)}
    assert [found[name].steps[found[name].at] for name in ("rate", "ttft", "tpot")] == ["4/s", "1 s", "50 ms"]
    plain = {one.name: one for one in sliders(plan(GIVEN, True), {**GIVEN, "ttft": "1", "rate": "4"})}
    assert [plain[name].steps[plain[name].at] for name in ("rate", "ttft")] == ["4/s", "1 s"]
    assert list(found) == ["rate", "ttft", "tpot", "confidence"]
    assert not sliders(tonnage.fit("8B", accelerator="H100"), {})


def test_the_load_of_users_is_moved_in_users() -> None:
    given = {**{name: text for name, text in GIVEN.items() if name != "rate"}, "users": "200"}
    first = sliders(plan(given, True), given)[0]
    assert (first.name, first.steps[first.at], first.steps[-1]) == ("users", "200", "800")
    told = step_of({**given, "users": first.steps[-1], "quick": "true"}, additions=catalog.NOTHING)
    assert told.replicas == plan({**given, "users": "800"}, True).options[0].replicas


def test_a_step_that_nothing_meets_says_so() -> None:
    told = step_of({**GIVEN, "tpot": "1 ms", "quick": "true"}, additions=catalog.NOTHING)
    assert told.usd_per_hour is None and "nothing meets" in told.text


def test_of_several_at_one_cost_a_step_is_the_one_that_its_plan_puts_first() -> None:
    """Two replicas of one accelerator and one of two cost the same here."""
    asked = {"model": "70B", "rate": "2.8/s", "traffic": "chat", "ttft": "4.5 s", "tpot": "100 ms",
             "accelerator": "GH200"}  # fmt: skip
    options = tonnage.plan_serve(**{**asked, "quick": True}).options
    alike = [one for one in options if one.sure and one.cost.value == options[0].cost.value]
    assert len({one.replicas for one in alike}) > 1
    assert step_of({**asked, "quick": "true"}, additions=catalog.NOTHING).replicas == options[0].replicas
