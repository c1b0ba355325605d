"""A stranger's journeys: each form by mouse, by keyboard alone, on a phone, in the dark, without scripts."""

import zipfile
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

FORMS = {
    "plan/serve": "Rent",
    "plan/finetune": "Rent",
    "plan/train": "Rent",
    "plan/batch": "Rent",
    "plan/lifecycle": "serve it on",
    "plan/rl": "step",
    "plan/infer": "streams",
    "plan/fleet": "workloads",
    "plan/own": "tokens/s",
    "plan/budget": "largest rate",
    "compare/ways": "",
    "fit": "fits",
    "local": "runs",
    "cost/rent-or-buy": "",
    "simulate": "objectives",
    "adopt": "",
    "advise": "",
    "explain": "tokens in",
    "diagnose": "",
    "trace": "prefix cache",
}
PICTURED = {*FORMS} - {"explain", "diagnose", "trace"}
"""Whose answer is more than a few lines: each has a picture."""
ANSWER_MS = 300_000
MODEL = "model=meta-llama/Llama-3.1-8B-Instruct"


def answered(page: Any) -> str:
    """The sentence of the answer, the simulated one where a first one comes before it."""
    page.wait_for_selector("main:not([data-waits]) .sentence", timeout=ANSWER_MS)
    sentence: str = page.inner_text(".sentence")
    return sentence


LOOKS = (("dark", 360), ("light", 1280))
"""Colours and width of a page."""


def check_accessible(page: Any, *places: int) -> None:
    """Nothing off the side in dark and narrow, in light and wide; no finding of axe in those (both), of any weight."""
    for place, (scheme, width) in enumerate(LOOKS):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if place in places or not places:
            found = Axe().run(page).response["violations"]
            assert not [f"{item['id']}: {item['help']} {item['nodes'][0]['html'][:120]}" for item in found]


def send(page: Any) -> str:
    """Send the form, over few kinds of accelerator where it names none; the sentence of the answer."""
    page.evaluate(  # to train anew is asked by none
        "document.querySelectorAll('#question [name$=accelerator]:not([name^=train])')"
        ".forEach(field => field.value ||= 'H100,L40S')"
    )
    page.click("#question button[type=submit]")
    page.wait_for_selector("main:not([aria-busy]) .sentence", timeout=ANSWER_MS)
    return answered(page)


def test_every_form_is_here(visit: Any) -> None:
    page = visit("/")
    page.click(".asks .menu summary")
    links = page.query_selector_all(".asks a")
    assert all(link.is_visible() for link in links)
    assert {link.get_attribute("href").strip("/") for link in links} >= set(FORMS)
    assert not {link.get_attribute("href").strip("/") for link in links} - {*FORMS, ""}


@pytest.mark.parametrize("path", FORMS)
def test_a_stranger_sends_the_example_and_reads_the_answer(visit: Any, path: str) -> None:
    page = visit(f"/{path}")
    # Forms share their colours, answers theirs: half of each are asked in either.
    place = list(FORMS).index(path) % len(LOOKS)
    check_accessible(page, place)
    sentence = send(page)
    assert FORMS[path] in sentence and len(sentence) > 30
    assert not page.query_selector(".sentence.no")
    assert path not in PICTURED or page.query_selector("figure")
    check_accessible(page, 1 - place)
    for tab in [None, *page.query_selector_all("[role=tab]")]:
        if tab is not None:
            tab.click()
        for figure in [figure for figure in page.query_selector_all("figure") if figure.is_visible()]:
            figure.scroll_into_view_if_needed()
            page.wait_for_function(  # the picture, then the chart drawn in its place
                "figure => { const i = figure.querySelector('img'); const s = figure.querySelector('.vega-embed svg');"
                " return s ? s.clientWidth > 100 : i.complete && i.naturalWidth > 100 }",
                arg=figure,
                timeout=ANSWER_MS,
            )
            figure.query_selector("summary").click()
            assert figure.query_selector_all("tbody tr")


def test_a_first_answer_comes_before_the_simulated_one(visit: Any) -> None:
    held: list[Any] = []
    page = visit("/plan/serve?model=8B&rate=3/s&traffic=chat&ttft=1+s&accelerator=L40S,H100", held=held)
    first = page.inner_text(".sentence")
    assert "Rent" in first and "simulated" in page.inner_text("#waits")
    assert page.inner_text("#waits-at").endswith(" s, starting the simulator")
    for asked in held:
        asked.continue_()
    page.unroute("**/progress/**")
    page.click(".chip:has(#f-rate) summary")
    page.type("#f-rate", "7")
    assert "Rent" in answered(page)
    assert page.query_selector("#waits") is None
    assert page.input_value("#f-rate") == "73/s"  # what is being typed stays


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280, 1440])
def test_what_if_then_side_by_side(visit: Any, width: int, dark: bool) -> None:
    asked = "/plan/batch?model=8B&items=5M&deadline=8+h&prompt_tokens=400&output_tokens=60&accelerator=L40S,H100"
    page = visit(asked, width=width, dark=dark)
    answered(page)
    page.click("#what-ifs a")
    page.wait_for_selector("#what-ifs tbody tr", timeout=ANSWER_MS)
    told = page.inner_text("#what-ifs")
    assert "twice the work: 10M" in told and "cost +" in told
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not [item["id"] for item in Axe().run(page).response["violations"]]
    page.click("#what-ifs tbody tr:first-child a:has-text('side by side')")
    page.wait_for_selector(".side section:nth-child(2) .sentence")
    assert "second over first" in page.inner_text("main") and page.query_selector_all("section table")


def test_two_answers_are_compared_by_links_alone(visit: Any) -> None:
    page = visit("/plan/finetune?model=8B&tokens=4M&accelerator=L40S")
    answered(page)
    page.goto(page.url.replace("L40S", "H100"))
    answered(page)
    page.click(".actions >> text=Compare")
    page.wait_for_selector("h1:has-text('Compare')")
    page.click("main ul.plain a:has-text('L40S'), main ul.plain a:has-text('l40s')")
    page.wait_for_selector(".side section:nth-child(2) .sentence")
    rows = [row.inner_text().split("\t")[0] for row in page.query_selector_all("main > section tbody tr")]
    assert {"cost", "duration", "configuration"} <= set(rows)


def test_by_keyboard_alone(visit: Any) -> None:
    page = visit("/fit")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the answer"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "f-context":
            break
    page.keyboard.press("Control+A")
    page.keyboard.type("16k")
    page.keyboard.press("Enter")
    # The form's example answer stands there before, of another context.
    page.wait_for_selector(".sentence:has-text('16,000')", timeout=ANSWER_MS)
    page.wait_for_function("() => document.activeElement.id === 'main'")


@pytest.mark.parametrize("path", FORMS)
def test_every_form_is_sent_by_keyboard_alone(visit: Any, path: str) -> None:
    """
    Tab reaches every field shown, in the order of the page, then the button; Enter sends; no trap on the way. Of
    choices side by side it reaches the one that is set: arrow keys go on from there.
    """
    page = visit(f"/{path}")
    shown = page.evaluate(
        "[...document.querySelectorAll('#question input, #question select, #question textarea, #question button')]"
        ".filter(field => field.checkVisibility() && (field.type != 'radio' || field.checked))"
        ".map(field => field.id || field.type)"
    )
    page.keyboard.press("Tab")
    reached = []
    for _ in range(120):
        at = page.evaluate("document.activeElement.id || document.activeElement.type || ''")
        if at in shown:
            reached.append(at)
        if at == "submit":
            break
        page.keyboard.press("Tab")
    assert reached == shown


FLEET = (
    "/plan/fleet?quick=true&provider=gcp&accelerator=L4&workloads=-+{name:+chat,+model:+8B,+rate:+2/s,+traffic:+chat}"
)


@pytest.mark.parametrize(
    ("path", "dark"),
    [
        ("/plan/serve?model=8B&rate=2/s&traffic=chat&accelerator=L40S,H100", False),
        ("/plan/serve?model=8B&rate=2/s&traffic=chat&accelerator=L40S,H100", True),
        ("/plan/infer?model=ultralytics/yolov8m&streams=20&fps=25&accelerator=L4", False),
        (FLEET, True),
    ],
)
def test_on_a_phone_nothing_runs_off_the_side(visit: Any, path: str, dark: bool) -> None:
    page = visit(path, width=360, dark=dark)
    answered(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("document.querySelector('.answer').getBoundingClientRect().top") < 700


def test_six_actions_from_the_front_page_to_an_exported_plan(visit: Any) -> None:
    """Model, rate, send, start it, target: the files are there; nothing else has to be known."""
    page = visit("/")
    page.fill("#f-model", "meta-llama/Llama-3.1-8B-Instruct")
    page.fill("#f-rate", "2/s")
    send(page)
    page.click(".actions a:text-is('Start it')")
    page.click("main a:text-is('vllm')")
    page.wait_for_selector("pre")
    assert "vllm serve" in page.inner_text("main") and "Llama-3.1-8B-Instruct" in page.inner_text("main")


def test_a_changed_chip_recalculates_and_the_table_and_the_chart_answer_each_other(visit: Any) -> None:
    pytest.importorskip("vl_convert")
    page = visit("/plan/serve?model=8B&rate=2/s&traffic=chat&ttft=1+s&tpot=50+ms&quick=true&accelerator=L40S,L4,H100")
    answered(page)
    page.click(".chip:has(#f-rate) summary")
    page.fill("#f-rate", "30/s")
    page.keyboard.press("Tab")
    page.wait_for_selector("main:not([aria-busy]) .asked:has-text('30 req/s')", timeout=ANSWER_MS)
    assert "rate=30" in page.url
    page.hover(".chart figure")
    page.wait_for_selector(".chart .vega-embed svg", timeout=ANSWER_MS)
    page.click("#options tbody tr:nth-child(2) td:nth-child(2)")
    page.wait_for_selector("#options tbody tr:nth-child(2).chosen", timeout=ANSWER_MS)
    page.go_back()
    page.wait_for_selector("#options tbody tr:nth-child(1).chosen", timeout=ANSWER_MS)
    page.go_back()
    page.wait_for_selector("main:not([aria-busy]) .asked:has-text(' 2 req/s')", timeout=ANSWER_MS)


def test_errors_stand_beside_their_fields_all_at_once(visit: Any) -> None:
    page = visit("/plan/serve", refused=True)
    page.fill("#f-rate", "fast")
    page.fill("#f-ttft", "1 kg")
    page.click("#question button[type=submit]")
    page.wait_for_selector("#problems", timeout=ANSWER_MS)
    assert "2 fields" in page.inner_text("#problems")
    for name in ("rate", "ttft"):
        assert page.get_attribute(f"#f-{name}", "aria-invalid") == "true"
        assert page.get_attribute(f"#f-{name}", "aria-describedby").split()[0] == f"e-f-{name}"


def test_the_catalogue_is_searched_filtered_and_sorted_by_its_address(visit: Any) -> None:
    page = visit("/accelerators")
    page.fill("#q", "h200")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=h200*")
    assert {row.inner_text().split()[0] for row in page.query_selector_all("tbody tr")} == {"H200", "GH200"}
    page.goto(page.url.split("?")[0] + "?sort=-memory")
    first = [
        float(row.query_selector_all("td")[3].inner_text().replace(",", ""))
        for row in page.query_selector_all("tbody tr")[:5]
    ]
    assert first == sorted(first, reverse=True)


def test_nothing_on_a_page_speaks_of_the_command_line(visit: Any) -> None:
    page = visit("/plan/serve?model=8B&rate=2/s&traffic=chat&quick=true&accelerator=L40S")
    answered(page)
    assert " --" not in page.inner_text("main .answer, main #options") and "tonnage explain" not in page.inner_text(
        "main"
    )


def test_without_scripts(visit: Any) -> None:
    page = visit("/fit", scripts=False)
    assert "fits" in send(page)


def test_a_link_holds_the_question_and_nothing_else(visit: Any) -> None:
    page = visit("/fit")
    send(page)
    assert page.url.endswith("/fit?model=meta-llama%2FLlama-3.1-8B-Instruct&accelerator=RTX+4090&context=8k")
    again = visit(page.url.split("/", 3)[3].join(("/", "")))
    assert again.inner_text(".sentence") == page.inner_text(".sentence")


def test_an_own_configuration(visit: Any, tmp_path: Any) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,'
        '"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256}'
    )
    page = visit("/fit")
    page.set_input_files("#upload", str(config))
    page.wait_for_function("() => document.getElementById('f-model').value.startsWith('upload:')")
    assert "fits" in send(page) or "needs" in page.inner_text(".sentence")


@pytest.mark.parametrize("path", ["/", "/api", "/accelerators", "/models?q=llama", "/prices?provider=aws", "/accuracy"])
def test_accessibility(visit: Any, path: str) -> None:
    check_accessible(visit(path))


def test_what_ifs_comparisons_and_files_are_accessible(visit: Any) -> None:
    page = visit(f"/plan/serve?{MODEL}&rate=2/s&traffic=chat&accelerator=L40S&quick=true")
    key = page.get_attribute("a[href^='/answer/']", "href").split("/")[2].split(".")[0]
    other = visit(f"/plan/serve?{MODEL}&rate=3/s&traffic=chat&accelerator=L40S&quick=true")
    second = other.get_attribute("a[href^='/compare?left=']", "href").split("=", 1)[1]
    base = page.url.split("/plan/")[0]
    for path in (
        f"/what-ifs/{key}",
        f"/compare?left={key}",
        f"/compare?left={key}&right={second}",
        f"/export/{key}?to=vllm",
        f"/export/{key}",
    ):
        page.goto(base + path)
        check_accessible(page)


@pytest.mark.parametrize("width", [390, 1440])
def test_three_clicks_from_the_front_page_to_an_archive_of_all_files(visit: Any, width: int, tmp_path: Path) -> None:
    page = visit("/", width=width)
    send(page)
    page.click(".actions a:text-is('Start it')")
    with page.expect_download() as begun:
        page.click("main a:text-is('Download all as one archive')")
    begun.value.save_as(tmp_path / "start.zip")
    with zipfile.ZipFile(tmp_path / "start.zip") as found:
        names = found.namelist()
        assert found.testzip() is None and "README.txt" in names
    assert {"vllm/serve.sh", "kubernetes/serve.yaml"} <= set(names)
