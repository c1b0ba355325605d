"""A stranger's journeys: each form by mouse, by keyboard alone, on a phone, in the dark, without scripts."""

from __future__ import annotations

from typing import Any

import pytest

FORMS = {
    "plan/serve": "Rent",
    "plan/finetune": "",
    "plan/batch": "",
    "plan/infer": "streams",
    "plan/fleet": "workloads",
    "compare/ways": "",
    "fit": "fits",
    "cost/rent-or-buy": "",
    "simulate": "",
}
ANSWER_MS = 120_000


def answered(page: Any) -> str:
    """The sentence of the answer, the simulated one where a first one comes before it."""
    page.wait_for_selector("main:not([data-waits]) .sentence", timeout=ANSWER_MS)
    sentence: str = page.inner_text(".sentence")
    return sentence


def send(page: Any) -> str:
    """Send the form; the sentence of the answer."""
    page.click("form button[type=submit]")
    return answered(page)


@pytest.mark.parametrize("path", FORMS)
def test_a_stranger_sends_the_example_and_reads_the_answer(visit: Any, path: str) -> None:
    page = visit("/")
    page.click(f"main a[href='/{path}']")
    sentence = send(page)
    assert FORMS[path] in sentence and len(sentence) > 30
    assert not page.query_selector(".sentence.no")
    for figure in page.query_selector_all("figure"):
        figure.scroll_into_view_if_needed()
        page.wait_for_function(
            "figure => { const i = figure.querySelector('img'); return i.complete && i.naturalWidth > 100 }",
            arg=figure, timeout=ANSWER_MS,
        )  # fmt: skip
        figure.query_selector("summary").click()
        assert figure.query_selector_all("tbody tr")


def test_a_first_answer_comes_before_the_simulated_one(visit: Any) -> None:
    page = visit("/plan/serve?model=8B&rate=3/s&traffic=chat&ttft=1+s&accelerator=L40S,H100")
    first = page.inner_text(".sentence")
    assert "Rent" in first and "simulated" in page.inner_text("#waits")
    page.fill("#f-rate", "7/s")
    assert "Rent" in answered(page)
    assert page.query_selector("#waits") is None
    assert page.input_value("#f-rate") == "7/s"  # what is being typed stays


def test_what_if_then_side_by_side(visit: Any) -> None:
    page = visit("/plan/batch?model=8B&items=5M&deadline=8+h&prompt_tokens=400&output_tokens=60&accelerator=L40S,H100")
    answered(page)
    page.click("#what-ifs a")
    page.wait_for_selector("#what-ifs tbody tr", timeout=ANSWER_MS)
    told = page.inner_text("#what-ifs")
    assert "twice the work: 10M" in told and "cost +" in told
    page.click("#what-ifs tbody tr:first-child a:has-text('side by side')")
    page.wait_for_selector(".side section:nth-child(2) .sentence")
    assert "second over first" in page.inner_text("main") and page.query_selector_all("section table")


def test_two_answers_are_compared_by_links_alone(visit: Any) -> None:
    page = visit("/plan/finetune?model=8B&tokens=4M&accelerator=L40S")
    answered(page)
    page.goto(page.url.replace("L40S", "H100"))
    answered(page)
    page.click("text=Keep it for comparing")
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
    page.wait_for_selector(".sentence", timeout=ANSWER_MS)
    assert "16,000" in page.inner_text(".sentence")
    page.wait_for_function("() => document.activeElement.id === 'main'")


FLEET = "/plan/fleet?quick=true&provider=gcp&workloads=-+{name:+chat,+model:+8B,+rate:+2/s,+traffic:+chat}"


@pytest.mark.parametrize(
    ("path", "dark"),
    [
        ("/plan/serve?model=8B&rate=2/s&traffic=chat&accelerator=L40S,H100", False),
        ("/plan/serve?model=8B&rate=2/s&traffic=chat&accelerator=L40S,H100", True),
        ("/plan/infer?model=ultralytics/yolov8m&streams=20&fps=25", False),
        (FLEET, True),
    ],
)
def test_on_a_phone_nothing_runs_off_the_side(visit: Any, path: str, dark: bool) -> None:
    page = visit(path, width=360, dark=dark)
    answered(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    top = page.evaluate("document.querySelector('.sentence').getBoundingClientRect().top")
    assert top < page.evaluate("document.querySelector('form').getBoundingClientRect().top")


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


@pytest.mark.parametrize(
    "path", ["/", "/fit?model=8B&accelerator=H100", "/plan/serve", "/cost/rent-or-buy?machine=H100", "/api"]
)
def test_accessibility(visit: Any, path: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    for dark in (False, True):
        page = visit(path, dark=dark)
        found = axe.Axe().run(page).response["violations"]
        serious = [f"{item['id']}: {item['help']} {item['nodes'][0]['html'][:120]}" for item in found
                   if item["impact"] in ("serious", "critical")]  # fmt: skip
        assert not serious
