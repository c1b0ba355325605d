"""The page of recipes: twenty, each with its command, its day and what is published; two are asked again."""

import re

import pytest
from tools import recipes

DAY, LISTED = recipes.recipes()
PAGE = recipes.sections_of(recipes.PAGE.read_text(encoding="utf-8"))
CHEAP = ("long-context", "lora-8b")
"""Asked again here, half a CPU second each; `make recipes` asks all."""


def test_there_are_twenty_and_the_page_has_each_with_its_command_day_and_data() -> None:
    assert len(LISTED) == len({one["id"] for one in LISTED}) == 20
    assert list(PAGE) == [one["title"] for one in LISTED]
    for one in LISTED:
        text = PAGE[one["title"]]
        assert f"$ tonnage {one['command']}" in text and one["source"] in text
        assert re.search(r"As of \d{4}-\d\d-\d\d, data [0-9a-f]{12}\.", text)
        assert one["figure"] in recipes.FIGURES and one["range"][0] <= one["range"][1]


def test_a_figure_outside_is_explained() -> None:
    for one in LISTED:
        assert "**Outside**" not in PAGE[one["title"]] or one.get("because"), one["id"]


@pytest.mark.parametrize("name", CHEAP)
def test_a_recipe_still_prints_what_the_page_shows(name: str, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        recipes.rewrite([name])
        return
    one = next(recipe for recipe in LISTED if recipe["id"] == name)
    inside, text = recipes.section(one, day=DAY)
    without_data = re.compile(r", data [0-9a-f]{12}\.")  # a row added anywhere changes the digits and no answer
    assert inside
    assert without_data.sub("", text) == without_data.sub("", PAGE[one["title"]]), "moved: make recipes"


def test_an_answer_outside_practice_is_said() -> None:
    found = {"rows": [{"accelerator": "h100-sxm5-80gb", "count": 12}]}
    recipe = {"figure": "accelerators", "range": [1, 8]}
    assert recipes.judged(recipe, found) == (
        False,
        "Here 12 accelerators; expected 1 to 8. **Outside**: not explained yet.",
    )
    assert recipes.judged({**recipe, "range": [8, 16]}, found)[0]
