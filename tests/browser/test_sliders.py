"""Sliders of a plan to serve: cost and replicas while one drags, the exact answer when it is let go."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.browser.test_journeys import ANSWER_MS
from tests.browser.test_options import LOOKS, QUICK

FAST_MS = 100
MOVE = """([name, place]) => {
    const slider = document.querySelector(`#t-${name}`);
    const began = performance.now();
    slider.value = place;
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    return [document.querySelector('#tuned').textContent, performance.now() - began];
}"""


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_what_a_slider_shows_is_what_the_answer_says(visit: Any, width: int, dark: bool) -> None:
    page = visit(QUICK, width=width, dark=dark)
    assert [one.get_attribute("data-name") for one in page.query_selector_all("#tune input")] == [
        "rate", "ttft", "tpot", "confidence",
    ]  # fmt: skip
    page.query_selector("#tune").scroll_into_view_if_needed()
    told, _ = page.evaluate(MOVE, ["rate", 10])
    assert "being computed" in told or "$" in told
    page.wait_for_selector("#tuned:has-text('replica')", timeout=ANSWER_MS)
    found = Axe().run(page).response["violations"]
    assert not [f"{item['id']}: {item['nodes'][0]['html'][:120]}" for item in found]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    told, took_ms = page.evaluate(MOVE, ["rate", 10])
    assert took_ms < FAST_MS
    price = told.split("16/s: ")[1].split("/h")[0]
    page.evaluate("document.querySelector('#t-rate').dispatchEvent(new Event('change', {bubbles: true}))")
    page.wait_for_selector("main:not([aria-busy]) .asked:has-text('16 req/s')", timeout=ANSWER_MS)
    assert price == page.inner_text(".price b").split("/h")[0] and "rate=16" in page.url
    page.go_back()
    page.wait_for_selector("main:not([aria-busy]) .asked:has-text(' 4 req/s')", timeout=ANSWER_MS)


def test_of_two_sliders_let_go_one_after_the_other_both_count(visit: Any) -> None:
    page = visit(QUICK)
    page.query_selector("#tune").scroll_into_view_if_needed()
    for name, place in (("rate", 8), ("ttft", 2)):
        page.evaluate(MOVE, [name, place])
        page.evaluate(f"document.querySelector('#t-{name}').dispatchEvent(new Event('change', {{bubbles: true}}))")
    page.wait_for_selector("main:not([aria-busy]) .asked:has-text('8 req/s')", timeout=ANSWER_MS)
    assert "rate=8" in page.url and "ttft=700" in page.url and "TTFT ≤ 700 ms" in page.inner_text(".asked")


def test_only_answers_that_are_no_estimates_on_their_way_have_sliders(visit: Any) -> None:
    held: list[Any] = []
    page = visit("/plan/serve?model=8B&rate=47/s&traffic=chat&ttft=1+s&accelerator=L40S", held=held)
    assert page.query_selector("#waits") and not page.query_selector("#tune")
    for asked in held:
        asked.continue_()


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_the_load_curve_goes_from_idle_past_the_knee(visit: Any, width: int, dark: bool) -> None:
    asked = "/plan/serve?model=8B&rate=4/s&traffic=chat&ttft=1+s&tpot=50+ms&accelerator=H100"
    page = visit(asked, width=width, dark=dark)
    page.wait_for_selector("main:not([aria-busy]) summary:has-text('Latency against load')", timeout=ANSWER_MS)
    page.click("summary:has-text('Latency against load')")
    rows = page.query_selector_all("details[open]:has(summary:has-text('Latency against load')) tbody tr")
    cells = [[cell.inner_text() for cell in row.query_selector_all("td, th")] for row in rows]
    curve = [(float(rate), held == "hold") for name, rate, *_, held in cells if name == "TTFT"]
    assert curve == sorted(curve, key=lambda point: (not point[1], point[0])), "what holds ends where what fails begins"
    most = max(rate for rate, held in curve if held)
    assert curve[0][0] < 0.1 * most and curve[-1][0] > 1.3 * most
    assert page.evaluate("document.documentElement.scrollWidth") <= width
