"""What a fork server loads before its first worker: importing this asks one small question.

A plan or a simulation starts with two seconds of loading (the compiled simulator, the catalogue). Workers forked from a
process that has been through it begin at once.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from tonnage.sweep.runners import answer_chunk

QUESTION: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "accelerator": "H100",
    "slo": {"ttft": "1 s", "tpot": "50 ms"},
    "traffic": {"profile": "chat", "requests": 10, "rate": "1/s"},
}

importlib.import_module("tonnage.questions.serve.plan")
answer_chunk("simulate", (("", QUESTION),), take={}, folders=())
