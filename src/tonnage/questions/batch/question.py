"""Offline work by a deadline, as the faces ask."""

from __future__ import annotations

from tonnage.domain.batch_plan import BatchPlan
from tonnage.domain.requests.serve import Batch
from tonnage.questions.question import LLAMA_8B, Form, Question

QUESTIONS = (
    Question(
        name="batch",
        room="batch",
        request=Batch,
        answer=BatchPlan,
        help="""
    The cheapest way to answer so many prompts with MODEL by a deadline, and what more speed would cost.

    \b
    tonnage plan batch 8B --items 50M --deadline "8 h" --prompt-tokens 400 --output-tokens 60
    """,
        tool="plan_batch_inference",
        form=Form(
            title="Batch inference",
            about="Prompts and a deadline in; the cheapest machines that are done in time out.",
            essentials=(
                "model",
                "items",
                "deadline",
                "traffic",
                "prompt_tokens",
                "output_tokens",
                "budget",
                "eu",
                "accelerator",
            ),
            example={
                "model": LLAMA_8B,
                "items": "50M",
                "deadline": "8 h",
                "prompt_tokens": "400",
                "output_tokens": "60",
            },
        ),
    ),
)
