"""A stranger's journeys: each form by mouse, by keyboard alone, on a phone, in the dark, without scripts."""

from __future__ import annotations

from typing import Any

import pytest

FORMS = {
    "plan/serve": "Rent",
    "plan/finetune": "",
    "plan/batch": "",
    "fit": "fits",
    "cost/rent-or-buy": "",
    "simulate": "",
}
ANSWER_MS = 30_000


def send(page: Any) -> str:
    """Send the form; the sentence of the answer."""
    page.click("form button[type=submit]")
    page.wait_for_selector(".sentence", timeout=ANSWER_MS)
    sentence: str = page.inner_text(".sentence")
    return sentence


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


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone_nothing_runs_off_the_side(visit: Any, dark: bool) -> None:
    page = visit("/plan/serve?model=8B&rate=2/s&traffic=chat&accelerator=L40S,H100", width=360, dark=dark)
    page.wait_for_selector(".sentence", timeout=ANSWER_MS)
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
