"""The benchmark of the page knows an answer from a refusal, whichever form asked."""

import pytest
from tools.benchmarks.page import answer_s

pytest.importorskip("litestar", reason="the web extra brings it")

from tonnage.web.questions import QUESTIONS


@pytest.mark.parametrize("path", ["plan/infer", "cost/rent-or-buy", "fit"])
def test_an_answer_is_timed(path: str) -> None:
    assert answer_s(path, QUESTIONS[path].example) > 0.0


def test_what_cannot_be_done_is_no_answer() -> None:
    fields = {**QUESTIONS["fit"].example, "model": "meta-llama/Llama-3.1-70B-Instruct", "accelerator": "T4"}
    with pytest.raises(AssertionError, match="fit"):
        answer_s("fit", fields)
