"""A picture leads every answer, at three widths, in light and dark: drawn, within the page, with its numbers beside."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.browser.test_journeys import ANSWER_MS
from tests.browser.test_options import LOOKS

LED = {
    "plan/own": "Quality against speed",
    "plan/budget": "Cost against the rate",
    "adopt": "What runs today (ringed)",
    "advise": "Cost of each change",
    "plan/rl": "A step as a timeline",
    "plan/batch": "Cost against time",
    "cost/rent-or-buy": "Where owning begins to pay",
}
"""Form -> words of the title of the picture beside the answer to its example."""


@pytest.mark.parametrize(("width", "dark"), LOOKS)
@pytest.mark.parametrize("path", LED)
def test_a_picture_leads_the_answer(visit: Any, path: str, width: int, dark: bool) -> None:
    pytest.importorskip("vl_convert")
    page = visit(f"/{path}", width=width, dark=dark)
    page.click("#question button[type=submit]")
    page.wait_for_selector("main:not([aria-busy]):not([data-waits]) .chart figure", timeout=ANSWER_MS)
    figure = page.query_selector(".chart figure")
    assert LED[path] in figure.query_selector("figcaption b").inner_text()
    figure.scroll_into_view_if_needed()
    page.wait_for_function("f => f.querySelector('img').naturalWidth > 100", arg=figure, timeout=ANSWER_MS)
    shown = page.evaluate("f => f.querySelector('img').currentSrc", figure)
    assert shown.endswith("dark.svg" if dark else "light.svg")
    drawn = page.evaluate("async a => (await (await fetch(a)).text())", shown)
    if path == "cost/rent-or-buy":  # a crossing says the use from which owning costs no more
        assert page.inner_text(".sentence").split("from ")[1].removesuffix(" use.") in drawn.replace("\u202f", " ")
    figure.query_selector("summary").click()
    assert figure.query_selector_all("tbody tr")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not [item["id"] for item in Axe().run(page).response["violations"]]


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_accuracy_is_a_picture_of_predicted_against_measured(visit: Any, width: int, dark: bool) -> None:
    page = visit("/accuracy", width=width, dark=dark)
    figures = page.query_selector_all("figure")
    assert figures and "measured" in figures[0].inner_text().lower()
    for figure in figures:
        figure.scroll_into_view_if_needed()
        page.wait_for_function("f => f.querySelector('img').naturalWidth > 100", arg=figure, timeout=ANSWER_MS)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not [item["id"] for item in Axe().run(page).response["violations"]]
