"""On a desk: lists show every column, and a chart is as wide as the tab in which it stands alone."""

from typing import Any

import pytest
from tests.browser.test_journeys import answered

BATCH = "/plan/batch?model=8B&items=50M&deadline=8+h&prompt_tokens=400&output_tokens=60"


@pytest.mark.parametrize("width", [1024, 1280, 1366, 1440])
@pytest.mark.parametrize("path", ["/accelerators", "/models", "/prices", BATCH])
def test_no_column_of_a_list_is_cut(visit: Any, path: str, width: int) -> None:
    page = visit(path, width=width)
    held = page.query_selector(":is(.listed, #options) .scroll")
    room, needed = held.evaluate("one => [one.clientWidth, one.scrollWidth]")
    assert needed <= room


@pytest.mark.parametrize("dark", [False, True])
def test_a_chart_that_stands_alone_fills_its_tab(visit: Any, dark: bool) -> None:
    page = visit(
        "/plan/serve?model=8B&rate=3/s&traffic=chat&ttft=1+s&tpot=50+ms&accelerator=L40S", width=1440, dark=dark
    )
    answered(page)
    alone = 0
    for tab in page.query_selector_all(".tabs [role=tab]"):
        tab.click()
        figures = [one for one in page.query_selector_all(".panel figure") if one.is_visible()]
        if len(figures) != 1:
            continue
        figures[0].scroll_into_view_if_needed()
        page.wait_for_function("f => f.querySelector('img').naturalWidth > 100", arg=figures[0])
        shares = figures[0].evaluate("f => f.querySelector('img').clientWidth / f.closest('.panel').clientWidth")
        assert shares > 0.8, tab.inner_text()
        alone += 1
    assert alone >= 2


def test_a_whisker_that_leaves_the_meter_ends_in_an_arrow(visit: Any) -> None:
    page = visit(
        "/plan/serve?model=8B&rate=3/s&traffic=chat&ttft=1+s&tpot=10+ms&accelerator=RTX+4090&quick=true", width=1440
    )
    answered(page)
    meters = page.query_selector_all(".meters .track")
    cut = [meter.query_selector(".goes-on") is not None for meter in meters]
    capped = [len(meter.query_selector_all(".whisker")) == 3 for meter in meters]
    assert any(cut) and not any(one and other for one, other in zip(cut, capped, strict=True))
