"""An amount of money, as the faces ask."""

from __future__ import annotations

from tonnage.questions.budget.answer import BudgetPlan
from tonnage.questions.budget.request import Budget
from tonnage.questions.question import LLAMA_8B, Form, Question

QUESTIONS = (
    Question(
        name="budget",
        room="budget",
        request=Budget,
        answer=BudgetPlan,
        needs=("amount",),
        tool="plan_within_budget",
        form=Form(
            title="What a budget buys",
            button="See what it buys",
            about="An amount in; the largest rate, the best model, or the best training run that it pays out.",
            essentials=(
                "amount",
                "purpose",
                "model",
                "rate",
                "traffic",
                "ttft",
                "tpot",
                "tokens",
                "deadline",
                "eu",
                "accelerator",
            ),
            example={"amount": "$3,000/month", "model": LLAMA_8B, "traffic": "chat", "ttft": "1 s", "tpot": "50 ms"},
        ),
    ),
)
