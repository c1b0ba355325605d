"""What a page leaves out of a document: how to go on in a terminal, which notes hold apart from what they say."""

import ast

import pytest
from tests.style.source import modules, tree_of

import tonnage
from tonnage.questions.answers import document_of
from tonnage.report.document import Note
from tonnage.report.html import blocks as as_html
from tonnage.report.html import markdown
from tonnage.web import view

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
