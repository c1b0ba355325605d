"""Pre-training and fine-tuning, as the faces ask."""

from __future__ import annotations

from tonnage.domain.requests.train import FineTune, Train
from tonnage.domain.train_plan import TrainPlan
from tonnage.questions.question import LLAMA_8B, Form, Question

QUESTIONS = (
    Question(
        name="finetune",
        room="train",
        request=FineTune,
        answer=TrainPlan,
        help="""
    Accelerators, layout, time and cost of adapting MODEL to a data set: LoRA, QLoRA, DoRA or in full.

    \b
    tonnage plan finetune 8B --method lora --examples 50k --tokens-per-example 800 --deadline "24 h"
    """,
        tool="plan_fine_tuning",
        form=Form(
            title="Fine-tune a model",
            short="Fine-tune",
            about="A data set and a method in; accelerators, hours and dollars out.",
            essentials=(
                "model",
                "method",
                "examples",
                "tokens_per_example",
                "epochs",
                "deadline",
                "budget",
                "eu",
                "accelerator",
            ),
            example={
                "model": LLAMA_8B,
                "method": "lora",
                "examples": "50k",
                "tokens_per_example": "800",
                "deadline": "24 h",
            },
        ),
    ),
    Question(
        name="train",
        room="train",
        request=Train,
        answer=TrainPlan,
        help="""
    Accelerators, layout, time and cost of pre-training MODEL on so many tokens, by a deadline or within a budget.

    \b
    tonnage plan train 8B --tokens 100B --deadline "30 days" --seq-len 8192
    """,
        tool="plan_training",
        form=Form(
            title="Train from scratch",
            short="Train",
            about="Tokens and a deadline in; accelerators, parallelism, days and dollars out.",
            essentials=("model", "tokens", "seq_len", "deadline", "budget", "precision", "eu", "accelerator"),
            example={"model": LLAMA_8B, "tokens": "100B", "deadline": "30 days", "seq_len": "8192"},
        ),
    ),
)
