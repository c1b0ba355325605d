"""Accelerators that are there, as the faces ask."""

from __future__ import annotations

from tonnage.questions.own.answer import OwnPlan
from tonnage.questions.own.request import Own
from tonnage.questions.question import Form, Question

QUESTIONS = (
    Question(
        name="own",
        room="own",
        request=Own,
        answer=OwnPlan,
        needs=("own",),
        tool="plan_owned_accelerators",
        form=Form(
            title="My accelerators",
            button="See what they serve",
            about="What is there in; what each group serves best, what is missing, and what it draws out.",
            written=("workloads",),
            essentials=(
                "own",
                "workloads",
                "traffic",
                "min_speed",
                "one_box",
                "host_memory",
                "site_power",
                "electricity",
            ),
            example={"own": "8 x A100 80GB, 4 x L40S", "traffic": "chat", "min_speed": "20"},
        ),
    ),
)
