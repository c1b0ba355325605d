"""Making a model, then serving it, as the faces ask."""

from __future__ import annotations

from tonnage.questions.lifecycle.answer import LifecyclePlan
from tonnage.questions.lifecycle.request import LifecycleRequest
from tonnage.questions.question import LLAMA_8B, QUICKER, Form, Question

QUESTIONS = (
    Question(
        name="lifecycle",
        room="lifecycle",
        request=LifecycleRequest,
        answer=LifecyclePlan,
        needs=("months", "serve"),
        help="""
    Make MODEL here, serve it there: one bill, one timeline, and whether one kind of accelerator could do both.
    """,
        tool="plan_training_then_serving",
        form=Form(
            title="Train, then serve",
            about="How it is made and how it is served in; one bill and one timeline out.",
            at_first="quick",
            essentials=(
                "model",
                "months",
                "finetune.method",
                "finetune.tokens",
                "finetune.deadline",
                "serve.rate",
                "serve.traffic",
                "serve.ttft",
                "serve.tpot",
                "serve.eu",
            ),
            example={
                "model": LLAMA_8B,
                "months": "12",
                "finetune.method": "lora",
                "finetune.tokens": "40M",
                "serve.rate": "4/s",
                "serve.traffic": "chat",
                "serve.ttft": "1 s",
            },
            instead=QUICKER,
        ),
    ),
)
