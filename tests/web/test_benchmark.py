"""The benchmark of the page knows an answer from a refusal, whichever form asked."""

import pytest
from tools.benchmarks.page import answer_s

pytest.importorskip("litestar", reason="the web extra brings it")

FIT = {"model": "meta-llama/Llama-3.1-8B-Instruct", "accelerator": "H100", "context": "8k"}
ASKED = {
    "plan/infer": {"model": "ultralytics/yolov8m", "streams": "20", "fps": "25"},
    "cost/rent-or-buy": {"machine": "H100", "utilisation": "60 %"},
    "fit": FIT,
    "plan/serve": {"model": "8B", "rate": "1/s", "traffic": "chat", "accelerator": "L40S"},
}


@pytest.mark.parametrize("path", ASKED)
def test_an_answer_is_timed(path: str) -> None:
    assert answer_s(path, ASKED[path]) > 0.0


def test_what_cannot_be_done_is_no_answer() -> None:
    with pytest.raises(AssertionError, match="fit"):
        answer_s("fit", {**FIT, "model": "meta-llama/Llama-3.1-70B-Instruct", "accelerator": "T4"})
