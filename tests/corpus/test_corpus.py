"""Some questions of the corpus, asked again: the same decisions, the same numbers, the same text.

The whole corpus is `make corpus`. Kept answers are of Python 3.11 and the libraries of `.ci/constraints.txt`.
"""

import importlib.metadata
import re
import sys
from pathlib import Path

import pytest
from tools.corpus.__main__ import KEPT, TEXTS, compare, kept_answers, text_path
from tools.corpus.asking import Answer, Question, ask, questions, workplace
from tools.corpus.layers import differences, layers_of

ROOT = Path(__file__).parents[2]
CHOSEN = [question for question in questions() if question.chosen]


def pinned(name: str) -> bool:
    found = re.search(rf"^{name}==(\S+)", (ROOT / ".ci/constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, "the lock names it, or no kept answer would be compared"
    return found[1] == importlib.metadata.version(name)


def test_every_question_is_kept_and_asked_once() -> None:
    lines = [question.line for question in questions()]
    assert len(lines) == len(set(lines)) and set(lines) == set(kept_answers()) and KEPT.stat().st_size < 3e6
    assert len(lines) >= 400 and len(CHOSEN) >= 40
    texts = [text_path(question) for question in questions() if question.shown]
    assert len(texts) >= 40 and len(texts) == len(set(texts)) and set(texts) == set(TEXTS.iterdir())


def test_a_question_that_reads_a_file_is_asked_after_the_one_that_writes_it() -> None:
    exported = next(question for question in questions() if question.line.startswith("export plan.json --to list"))
    assert [writer.line for writer in exported.needs] == ["plan check.yaml -o plan.json"]
    with workplace():
        assert ask(exported).code == 0 and Path("plan.json").exists()


def test_which_tables_were_read_decides_nothing() -> None:
    texts = (f'{{"provenance": {{"catalogue": {{"data": "{data}"}}, "made": "today"}}}}' for data in ("f5fa", "0123"))
    one, other = (layers_of(Answer(code=0, out=text, error="", files={})) for text in texts)
    assert not differences(one, other) and "provenance.made" in one["decisions"]


def test_a_moved_decision_number_or_word_is_seen() -> None:
    then = {"code": 0, "decisions": {"a[0].b": "H100"}, "numbers": {"c": [2, 3.0, 3.0, 2.5]}, "words": {"d": "x"}}
    assert differences(then, then) == []
    moved = {**then, "decisions": {"a[0].b": "H200"}, "numbers": {"c": [2, 3.0, 3.0, 2.0]}, "words": {"d": "y"}}
    assert [(layer, path) for layer, path, _ in differences(then, moved)] == [
        ("decisions", "a[].b"), ("numbers", "c"), ("words", "d"),
    ]  # fmt: skip
    assert differences(then, {**then, "numbers": {"c": [2, 3.0 + 1e-12, 3.0, 2.5]}}) == []


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or not (pinned("numpy") and pinned("numba")),
    reason="kept answers are of Python 3.11 and the pinned numpy and numba",
)
@pytest.mark.parametrize("question", CHOSEN, ids=lambda question: question.line)
def test_the_answer_is_the_kept_one(question: Question) -> None:
    with workplace():
        assert compare(question, ask(question), kept_answers()[question.line]) == []
