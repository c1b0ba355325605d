"""Serving, as the faces ask."""

from __future__ import annotations

from tonnage.domain.plan import ServePlan
from tonnage.domain.requests.serve import Serve
from tonnage.questions.question import LENGTHS, QUICKER, Form, Question

QUESTIONS = (
    Question(
        name="serve",
        room="serve",
        request=Serve,
        answer=ServePlan,
        help="""
    Accelerators, layout and replicas that serve MODEL at this load, within the objectives, cheapest first.

    \b
    tonnage plan serve Llama-3.1-70B --rate 4/s --traffic chat --ttft "1 s" --tpot "50 ms"
    tonnage plan serve 8B --users 500 --traffic rag --ttft "2 s" --eu --quick
    tonnage plan serve Qwen/Qwen3-32B --concurrency 32 --traffic code -a H100 --why
    """,
        tool="plan_serving",
        form=Form(
            title="Serve a model",
            short="Serve",
            about="Requests and objectives in; accelerators, layout, latency and the bill out.",
            at_first="quick",
            essentials=(
                "model",
                "rate",
                "concurrency",
                "users",
                "traffic",
                *LENGTHS,
                "ttft",
                "tpot",
                "budget",
                "eu",
                "accelerator",
                "precision",
            ),
            example={
                "model": "meta-llama/Llama-3.1-70B-Instruct",
                "rate": "4/s",
                "traffic": "chat",
                "ttft": "1 s",
                "tpot": "50 ms",
            },
            instead=QUICKER,
        ),
    ),
)
