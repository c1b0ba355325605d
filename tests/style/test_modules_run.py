"""A usual question passes through few modules, so that few files are to be opened when its answer looks wrong."""

import pytest
from tools.benchmarks.modules import USUAL, count_alone


@pytest.mark.parametrize("question", USUAL, ids=lambda question: question.partition(" llama")[0])
def test_a_usual_question_runs_few_modules(question: str) -> None:
    found = count_alone(question)
    assert 20 < found <= USUAL[question], (
        f"{found} modules run; `python -m tools.benchmarks.modules {question}` lists them: "
        "join small ones, or do not run what this answer does not need"
    )
