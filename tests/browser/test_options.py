"""One chosen option drives the page, and nothing provisional looks final: at three widths, in light and dark."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.browser.test_journeys import ANSWER_MS, answered

ASKED = "/plan/serve?model=8B&rate=4/s&traffic=chat&ttft=1+s&tpot=50+ms&accelerator=L40S,H100,H200"
QUICK = f"{ASKED}&quick=true"
LOOKS = [(390, False), (390, True), (1280, False), (1280, True), (1440, False), (1440, True)]


def chosen(page: Any, rank: int) -> None:
    """Everything on the page is about the option of that rank."""
    page.wait_for_selector(f"main:not([aria-busy]) #option-{rank}.chosen", timeout=ANSWER_MS)
    row = page.query_selector_all(f"#option-{rank} td")
    price = f"${row[2].inner_text()}/h"
    assert [row.get_attribute("data-rank") for row in page.query_selector_all("tr.chosen")] == [str(rank)]
    assert price in page.inner_text(".price") and price in page.inner_text(".actions p")
    for link in ("Start it", "Explain"):
        assert f"option={rank}&" in page.get_attribute(f".actions a:text-is('{link}')", "href")
    assert (f"option={rank}" in page.url) == (f"option={rank}" in page.get_attribute("#share", "href")) == (rank > 1)
    for picture in page.query_selector_all("picture[data-chart]"):
        assert picture.get_attribute("data-chart").endswith(f"-{rank}") == (rank > 1)
    # The recommendation stays marked, and the difference between both stands in one line.
    assert "recommended" in page.inner_text("#option-1")
    assert (page.query_selector(".note.chosen") is not None) == (rank > 1)
    if rank > 1:
        told = page.inner_text(".note.chosen")
        assert (
            "against the recommended" in told and "instead of" in told and f"Option {rank}" in page.inner_text(".kind")
        )


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_one_chosen_option_drives_the_page(visit: Any, width: int, dark: bool) -> None:
    page = visit(QUICK, width=width, dark=dark)
    chosen(page, 1)
    measured = page.inner_text(".changes >> text=Measure first")
    last = page.query_selector_all("#options tbody tr")[-1].get_attribute("data-rank")
    page.click(f"#option-{last} td:nth-child(3)")
    chosen(page, int(last))
    assert page.inner_text(".changes >> text=Measure first") != measured
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(page).response["violations"]
    assert not [f"{item['id']}: {item['help']} {item['nodes'][0]['html'][:120]}" for item in found]
    page.reload()
    chosen(page, int(last))
    page.click(".choice[data-rank='1']") if page.query_selector(".choice[data-rank='1']") else page.click(
        "#option-1 a.opt"
    )
    chosen(page, 1)
    page.go_back()
    chosen(page, int(last))
    page.goto(page.get_attribute("#share", "href") if "http" in page.get_attribute("#share", "href") else page.url)
    chosen(page, int(last))


def test_a_point_of_the_chart_chooses_and_the_chart_stays(visit: Any) -> None:
    pytest.importorskip("vl_convert")
    page = visit(QUICK)
    page.hover(".chart figure")
    page.wait_for_selector(".chart .vega-embed svg", timeout=ANSWER_MS)
    page.evaluate("document.querySelector('.chart svg').dataset.same = 'yes'")
    points = page.query_selector_all(".chart .mark-symbol path")
    place = max((point.bounding_box() for point in points), key=lambda box: -box["y"])  # the dearest
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    page.wait_for_selector("main:not([aria-busy]) .note.chosen", timeout=ANSWER_MS)
    rank = int(page.url.split("option=")[1].split("&")[0])
    assert rank > 1 and page.query_selector(f"#option-{rank}.chosen")
    assert page.query_selector(".chart svg[data-same]"), "the chart is not drawn anew"


def test_an_option_is_chosen_by_keyboard_and_without_scripts(visit: Any) -> None:
    page = visit(QUICK)
    page.focus("#options tbody tr:nth-child(2) a.opt")
    page.keyboard.press("Enter")
    rank = int(page.get_attribute("#options tbody tr:nth-child(2)", "data-rank"))
    chosen(page, rank)
    assert page.evaluate("document.activeElement.dataset.rank") == str(rank)
    plain = visit(QUICK, scripts=False)
    plain.click("#options tbody tr:nth-child(2) a.opt")
    chosen(plain, rank)


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_nothing_provisional_looks_final(visit: Any, width: int, dark: bool) -> None:
    """The fields differ from look to look, so that each is simulated anew."""
    held: list[Any] = []
    page = visit(ASKED.replace("4/s", f"{2 + width // 100 + dark}/s"), width=width, dark=dark, held=held)
    assert page.inner_text(".price .tag") == "estimate"
    assert page.is_visible("#waits progress") and "averages" in page.inner_text("#waits")
    assert page.inner_text(".figures .tag") == "estimate"
    found = Axe().run(page).response["violations"]
    assert not [f"{item['id']}: {item['help']} {item['nodes'][0]['html'][:120]}" for item in found]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for asked in held:
        asked.continue_()
    answered(page)
    assert not page.query_selector(".tag") and not page.query_selector("#waits")


def test_a_simulation_is_stopped_by_hand_and_stays_marked(visit: Any) -> None:
    held: list[Any] = []
    page = visit(ASKED.replace("4/s", "41/s"), held=held)
    page.click("#stop")
    assert "you stopped" in page.inner_text("#waits") and not page.query_selector("#waits progress")
    assert page.inner_text(".price .tag") == "estimate"
    for asked in held:
        asked.abort()


def test_a_stopped_simulation_stays_stopped_while_options_are_chosen(visit: Any) -> None:
    held: list[Any] = []
    page = visit(ASKED.replace("4/s", "42/s"), held=held)
    page.click("#stop")
    page.click("#options tbody tr:nth-child(2) td:nth-child(3)")
    page.wait_for_selector("main:not([aria-busy]) .note.chosen", timeout=ANSWER_MS)
    assert "you stopped" in page.inner_text("#waits") and not page.query_selector("#waits progress")
    assert len(held) == 1, "nothing is followed any more"
    for asked in held:
        asked.abort()


@pytest.mark.parametrize(("width", "dark"), LOOKS)
@pytest.mark.parametrize("asked", ["99", "0", "abc"])
def test_an_option_that_there_is_not_is_said_and_the_question_stays(
    visit: Any, asked: str, width: int, dark: bool
) -> None:
    page = visit(f"{QUICK}&option={asked}", width=width, dark=dark)
    assert f"option {asked}, which this answer does not have" in page.inner_text("#lost")
    chosen_row = page.query_selector_all("tr.chosen")
    assert [row.get_attribute("data-rank") for row in chosen_row] == ["1"]
    assert "option=" not in page.get_attribute("#share", "href")
    names = [pair.split("=")[0] for pair in page.get_attribute("#share", "href").split("?")[1].split("&")]
    assert names == ["model", "rate", "traffic", "ttft", "tpot", "accelerator", "quick"], "as they were written"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not [item["id"] for item in Axe().run(page).response["violations"]]


def test_an_option_chosen_while_it_is_simulated_stays_chosen(visit: Any) -> None:
    held: list[Any] = []
    page = visit(ASKED.replace("4/s", "43/s"), held=held)
    row = page.query_selector_all("#options tbody tr")[1]
    rank, told = row.get_attribute("data-rank"), row.query_selector("td:nth-child(2)").inner_text()
    page.click(f"#option-{rank} td:nth-child(3)")
    page.wait_for_selector("main:not([aria-busy]) .note.chosen")
    for asked in held:
        asked.continue_()
    answered(page)
    again = page.query_selector("tr.chosen")
    same = again.query_selector("td:nth-child(2)").inner_text() == told
    assert same if "option=" in page.url else "not among those found" in page.inner_text("#busy")


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_where_two_objectives_exclude_each_other_apply_leads_to_what_works(visit: Any, width: int, dark: bool) -> None:
    asked = QUICK.replace("ttft=1+s&tpot=50+ms", "ttft=10+ms&tpot=1+ms").replace("L40S,H100,H200", "L4,L40S")
    page = visit(asked, width=width, dark=dark)
    assert "TP8 FP8 vLLM" in page.inner_text(".sentence.no") and "tp8" not in page.inner_text("main")
    (way,) = page.query_selector_all("[aria-label='What would change this'] li")
    assert way.inner_text().startswith("With TTFT within ") and " at $" in way.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not [item["id"] for item in Axe().run(page).response["violations"]]
    way.query_selector(".apply").click()
    page.wait_for_selector("main:not([aria-busy]) #option-1", timeout=ANSWER_MS)
    assert not page.query_selector(".sentence.no") and page.query_selector(".price")


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_what_runs_today_and_what_should_run(visit: Any, width: int, dark: bool) -> None:
    """The first answer is marked as an estimate; the simulated one says what is new beside today's, and the saving."""
    held: list[Any] = []
    file = f"vllm+serve+meta-llama/Llama-3.1-8B-Instruct+--max-num-seqs+{60 + width // 100 + dark}"
    asked = f"/adopt?file={file}&accelerator=H100&traffic=chat&ttft=1+s&tpot=50+ms"
    page = visit(asked, width=width, dark=dark, held=held)
    assert page.inner_text(".price .tag") == "estimate" and page.is_visible("#waits progress")
    for asked in held:
        asked.continue_()
    answered(page)
    assert not page.query_selector(".tag") and "a month" in page.inner_text(".figures")
    assert page.inner_text(".product").startswith("1 x NVIDIA") and len(page.query_selector_all(".mrow .track")) == 3
    assert "assumed: load" in page.inner_text("[aria-label='Worth knowing']")
    assert "FP8" in page.inner_text("[aria-label='Check before you rely on it']")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not [item["id"] for item in Axe().run(page).response["violations"]]
