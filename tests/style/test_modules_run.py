"""A usual question passes through few modules and short calls: few files to open when its answer looks wrong."""

import pytest
from tools.benchmarks.modules import USUAL, reach_alone


@pytest.mark.parametrize("question", USUAL, ids=lambda question: question.partition(" llama")[0])
def test_a_usual_question_runs_few_modules(question: str) -> None:
    found, most = reach_alone(question), USUAL[question]
    said = f"`python -m tools.benchmarks.modules {question}` lists them: "
    assert 20 < found.modules <= most.modules, (
        f"{found.modules} modules run; {said}join small ones, or do not run what this answer does not need"
    )
    assert 10 < found.depth <= most.depth, f"{found.depth} functions wait for each other; {said}hand values, not calls"
