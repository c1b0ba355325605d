"""On a phone and a tablet nothing lies off the side, lists begin on the first screen, and what opens is seen."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.browser.test_journeys import ANSWER_MS

SERVE = "/plan/serve?model=8B&rate=4/s&traffic=chat&ttft=1+s&tpot=50+ms&accelerator=L40S,H100&quick=true"
ANSWERS = [
    SERVE,
    "/fit?model=8B&accelerator=RTX+4090&context=8k",
    "/cost/rent-or-buy?machine=H100&utilisation=60+%25&country=DE",
    "/plan/rl?model=8B&steps=50&prompts_per_step=16&responses_per_prompt=8&response_tokens=1000&accelerator=H100&count=8",
    "/local?accelerator=RTX+4090&memory=64+GB&context=8k&every_format=true",
    "/plan/batch?model=8B&items=5M&deadline=8+h&prompt_tokens=400&output_tokens=60&accelerator=L40S,H100",
    "/accelerators",
    "/accelerators/h100-sxm5-80gb",
    "/models?kind=llm",
    "/prices",
    "/accuracy",
    "/",
]
SIDEWAYS = """[...document.querySelectorAll('.scroll, .tablist, .top nav')]
    .filter((box) => box.offsetParent && box.scrollWidth > box.clientWidth + 1)
    .map((box) => box.getAttribute('aria-label'))"""


@pytest.mark.parametrize("path", ["/accelerators", "/models?kind=llm", "/prices", "/accuracy"])
@pytest.mark.parametrize("dark", [False, True])
def test_a_list_begins_on_the_first_screen(visit: Any, path: str, dark: bool) -> None:
    page = visit(path, width=390, dark=dark)
    row = page.query_selector_all("tbody tr")[0]
    assert row.bounding_box()["y"] + row.bounding_box()["height"] < 844
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    if path == "/accuracy":
        return
    name, price = (cell.bounding_box() for cell in row.query_selector_all("td")[:2])
    assert name["x"] >= 0 and price["x"] + price["width"] <= 390
    assert not page.is_visible(".facets a")
    page.click(".facets summary")
    assert page.is_visible(".facets a")
    assert not [item["id"] for item in Axe().run(page).response["violations"]]


def test_filters_stand_open_beside_a_list_where_there_is_room(visit: Any) -> None:
    page = visit("/accelerators", width=1440)
    assert page.is_visible(".facets a") and not page.is_visible(".facets summary")


@pytest.mark.parametrize("dark", [False, True])
def test_change_or_add_opens_where_it_is_seen_and_answers(visit: Any, dark: bool) -> None:
    page = visit(SERVE, width=390, dark=dark)
    page.click(".chip.add > summary")
    box = page.query_selector(".chip.add .pop").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] >= 0 and box["y"] + box["height"] <= 900
    page.fill(".chip.add input[name=precision]", "bf16")
    page.click(".chip.add .pop button.primary")
    page.wait_for_selector("main:not([aria-busy]) .chip:has-text('bf16')", timeout=ANSWER_MS)
    assert "precision=bf16" in page.url and not page.is_visible(".chip.add .pop")


@pytest.mark.parametrize("width", [390, 768])
@pytest.mark.parametrize("path", ANSWERS)
def test_nothing_lies_off_the_side(visit: Any, path: str, width: int) -> None:
    page = visit(path, width=width)
    page.wait_for_selector("main:not([data-waits])", timeout=ANSWER_MS)
    for tab in [None, *page.query_selector_all("[role=tab]")]:
        if tab is not None:
            tab.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(SIDEWAYS) == []


def test_every_question_is_reached_from_the_top_of_a_phone(visit: Any) -> None:
    page = visit("/", width=390)
    page.click(".asks .menu summary")
    for link in page.query_selector_all(".asks a"):
        box = link.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] + box["height"] <= 900


def test_a_phone_gets_a_picture_of_its_own_width(visit: Any) -> None:
    pytest.importorskip("vl_convert")
    page = visit(SERVE, width=390)
    page.wait_for_function("document.querySelector('.chart img').naturalWidth > 0", timeout=ANSWER_MS)
    assert page.evaluate("document.querySelector('.chart img').currentSrc").endswith("-narrow-light.svg")
    assert page.evaluate("document.querySelector('.chart img').naturalWidth") <= 400
