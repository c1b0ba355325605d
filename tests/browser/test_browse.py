"""From a row of the catalogue, or an answer, to what an accelerator is, its prices over time and what was measured."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.browser.test_options import LOOKS, QUICK

PICTURES = "[...document.querySelectorAll('figure img')]"


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_a_row_of_the_catalogue_leads_to_the_page_of_its_part(visit: Any, width: int, dark: bool) -> None:
    page = visit("/accelerators?q=h200+sxm", width=width, dark=dark)
    page.click("tbody tr:first-child td:first-child a")
    page.wait_for_url("**/accelerators/h200-sxm-141gb")
    assert "141 GB" in page.inner_text("h1")
    assert "4.8 TB/s" in page.inner_text("[aria-label='What it is']")
    assert page.query_selector_all("[aria-label='Who rents it'] tbody tr")
    assert page.query_selector_all("[aria-label='Measured by others'] table.cards tbody tr")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(page).response["violations"]
    assert not [f"{item['id']}: {item['help']} {item['nodes'][0]['html'][:120]}" for item in found]


def test_its_pictures_are_seen_and_explored(visit: Any) -> None:
    pytest.importorskip("vl_convert")
    page = visit("/accelerators/h100-sxm5-80gb", width=1440)
    pictures = page.query_selector_all("figure img")
    assert len(pictures) == 4
    for picture in pictures:
        picture.scroll_into_view_if_needed()
    page.wait_for_load_state("networkidle")
    assert page.evaluate(f"{PICTURES}.every(one => one.naturalWidth > 300)")
    page.hover("#chart-prices img")
    page.wait_for_selector("#chart-prices .vega-embed svg")


def test_the_part_of_an_answer_leads_to_its_page(visit: Any) -> None:
    page = visit(QUICK)
    name = page.inner_text(".product").split(" x ")[-1]
    page.click(".product a")
    page.wait_for_selector("[aria-label='What it is']")
    assert name.split()[0] in page.inner_text("main")
    page.go_back()
    page.wait_for_selector("#options")
