"""Forms for people: plain numbers, own lengths, rows in place of YAML, an example answer beside each."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.browser.test_journeys import ANSWER_MS, FORMS, answered
from tests.browser.test_options import LOOKS


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_plain_numbers_are_taken_in_the_unit_beside_them(visit: Any, width: int, dark: bool) -> None:
    page = visit("/plan/serve", width=width, dark=dark)
    for name, text in (("rate", "2"), ("ttft", "1"), ("tpot", "50"), ("accelerator", "L40S"), ("budget", "50")):
        page.fill(f"#f-{name}", text)
    page.fill("#f-model", "8B")
    page.fill("#f-prompt_tokens", "900")
    page.fill("#f-output_tokens", "100")
    found = Axe().run(page).response["violations"]
    assert not [f"{item['id']}: {item['nodes'][0]['html'][:120]}" for item in found]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelector('[name=quick]').value = 'true'")
    page.click("#question button[type=submit]")
    page.wait_for_selector("main:not([aria-busy]) .asked", timeout=ANSWER_MS)
    asked = page.inner_text(".asked")
    assert "2 req/s" in asked and "TTFT ≤ 1 s" in asked and "TPOT ≤ 50 ms" in asked and "900 in / 100 out" in asked
    chips = page.inner_text("#question")
    assert all(said in chips for said in ("2/s", "1 s", "50 ms", "50/h"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_names_that_mean_one_field_to_everybody_are_taken_in_addresses(visit: Any) -> None:
    page = visit("/plan/serve?model=8B&qps=2&isl=900&osl=100&accelerator=L40S&quick=true")
    assert "900 in / 100 out" in page.inner_text(".asked") and "2 req/s" in page.inner_text(".asked")


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_a_fleet_is_written_in_rows(visit: Any, width: int, dark: bool) -> None:
    page = visit("/plan/fleet", width=width, dark=dark)
    assert not page.is_visible("#f-workloads") and len(page.query_selector_all(".entry")) == 2
    found = Axe().run(page).response["violations"]
    assert not [f"{item['id']}: {item['nodes'][0]['html'][:120]}" for item in found]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("[aria-label='Remove row 2']")
    page.click(".entries:has(+ #f-workloads) >> text=Add a row")
    for label, text in (("Name", "code"), ("Model", "8B"), ("Traffic", "code"), ("Requests (per second)", "1")):
        page.fill(f"[aria-label='{label}, row 2']", text)
    # Fields without a column are added to the row that needs them, kinds are chosen.
    for label, text in (("Prompt tokens", "900"), ("Output tokens", "100")):
        page.select_option("[aria-label='Add a field, row 2']", label=label)
        page.keyboard.type(text)
    assert "batch" in page.inner_text("[aria-label='Kind, row 2']")
    page.fill("[aria-label='Traffic, row 2']", "")
    page.evaluate("document.querySelector('[name=quick]').value = 'true'")
    page.evaluate("document.querySelector('#f-accelerator').value = 'L4'")
    page.click("#question button[type=submit]")
    page.wait_for_selector("main:not([aria-busy]) .sentence", timeout=ANSWER_MS)
    assert "_tokens" not in page.inner_text("#question") and "prompt_tokens%22%3A%22900" in page.url
    assert "2: assistant, code" in page.inner_text("#question") and "2 workloads" in page.inner_text(".sentence")


@pytest.mark.parametrize("path", FORMS)
def test_every_form_shows_people_s_words_and_an_example_answer(visit: Any, path: str) -> None:
    page = visit(f"/{path}")
    text = page.evaluate("document.querySelector('#question').textContent")
    assert "default" not in text.lower() and "Slo:" not in text
    page.wait_for_selector("#example-answer .sentence", state="attached", timeout=ANSWER_MS)
    page.click("#example-answer a:text-is('Open this answer')")
    assert len(answered(page)) > 30


MOST_SCRIPT = 300 * 1024


def test_no_page_brings_more_script_than_it_may(visit: Any) -> None:
    brought: list[int] = []
    page = visit("/plan/serve")
    page.on("response", lambda reply: brought.append(len(reply.body())) if reply.url.endswith(".js") else None)
    page.goto(page.url + "?model=8B&rate=2/s&traffic=chat&accelerator=L40S&quick=true")
    page.wait_for_load_state("networkidle")
    assert brought and sum(brought) <= MOST_SCRIPT
