"""What a page leaves out of a document: how to go on in a terminal, which notes hold apart from what they say."""

import ast
from html import unescape

import pytest
from tests.style.source import modules, tree_of

import tonnage
from tonnage.errors import NO_SIMULATOR
from tonnage.questions.answers import document_of
from tonnage.report.document import Note
from tonnage.report.html import blocks as as_html
from tonnage.report.html import markdown
from tonnage.web import pages, questions, view
from tonnage.web.questions import QUESTIONS

HINTS = ("--why", "--all", "tonnage explain")


def test_a_page_needs_no_words_to_leave_hints_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = tonnage.fit("70B")
    (note,) = (one for one in document_of(answer).first if isinstance(one, Note))
    assert "--why" in note.hint and "too small" in note.text
    monkeypatch.setattr(view, "without_commands", lambda text: text)
    shown = view.answer_view(answer, key="k")
    assert shown.rest == note.text
    assert not any(hint in text for _, text in shown.tabs for hint in HINTS)


def test_text_of_a_note_and_its_hint_are_one_line_elsewhere() -> None:
    assert (Note(text="4 left.", hint="Why: --why.").full, Note(hint="Why: --why.").full) == (
        "4 left. Why: --why.",
        "Why: --why.",
    )
    assert "4 left. Why: --why." in as_html([Note(text="4 left.", hint="Why: --why.")])
    assert markdown([Note()]).strip() == "" and "_Why: --why._" in markdown([Note(hint="Why: --why.")])


def test_no_report_writes_a_hint_as_the_text_of_a_note() -> None:
    found = [
        (path, value.value)
        for path, text in modules()
        if path.startswith("report/")
        for call in ast.walk(tree_of(text))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Note"
        for keyword in call.keywords
        if keyword.arg == "text"
        for value in ast.walk(keyword.value)
        if isinstance(value, ast.Constant) and any(hint in str(value.value) for hint in HINTS)
    ]
    assert not found


@pytest.mark.parametrize("path", ["", *QUESTIONS])
def test_every_page_says_in_the_same_words_that_nothing_can_simulate(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def page() -> str:
        return pages.question_page(QUESTIONS[path], given={}) if path else pages.front_page()

    assert "no-simulator" not in page()
    monkeypatch.setattr(pages, "can_simulate", lambda: False)
    told = unescape(page())
    assert f"<b>Estimates only:</b> {NO_SIMULATOR}" in told and "pip install 'tonnage[simulate]'" in told


def test_nothing_is_waited_for_where_nothing_can_simulate(monkeypatch: pytest.MonkeyPatch) -> None:
    serve = QUESTIONS["plan/serve"]
    assert questions.at_first(serve, serve.example) is not None
    monkeypatch.setattr(questions, "can_simulate", lambda: False)
    assert questions.at_first(serve, serve.example) is None


def test_a_chosen_option_is_what_card_charts_and_reasons_are_about() -> None:
    plan = tonnage.plan_serve("8B", rate="4/s", traffic="chat", ttft="1 s", accelerator=["L40S", "H100"], quick=True)
    given = {"model": "8B", "rate": "4/s", "traffic": "chat", "ttft": "1 s"}
    first = view.answer_view(plan, key="k", path="plan/serve", given=given)
    other = view.answer_view(plan, key="k", option=3, path="plan/serve", given=given)
    third = plan.options[2]
    assert other.price == f"${third.bill.usd_per_hour:,.2f}/h" and not first.texts.get("chosen")
    (line,) = other.texts["chosen"]
    more = third.bill.usd_per_hour - plan.options[0].bill.usd_per_hour
    assert f"${abs(more):,.2f}/h {'more' if more > 0 else 'less'}" in line.text if abs(more) > 0.005 else True
    assert "against the recommended" in line.text and 2 in other.table.options
    assert dict(first.tabs)["Memory"] != dict(other.tabs)["Memory"]
    assert first.chart.body["params"] == [{"name": "chosen", "value": 1}]
    assert other.chart.body["params"] == [{"name": "chosen", "value": 3}]


def test_a_job_has_a_tab_of_its_run_and_a_service_one_of_its_load() -> None:
    job = tonnage.plan_train("meta-llama/Llama-3.1-8B", tokens="1B", accelerator="H100", count=8)
    service = tonnage.plan_serve("8B", rate="2/s", traffic="chat", accelerator="L40S", quick=True)
    assert next(name for name, _ in view.answer_view(job, key="k", path="plan/train", given={}).tabs) == "Run"
    assert next(name for name, _ in view.answer_view(service, key="k", path="plan/serve", given={}).tabs) == "Load"
