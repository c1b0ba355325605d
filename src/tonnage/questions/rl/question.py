"""Reinforcement learning, as the faces ask."""

from __future__ import annotations

from tonnage.questions.question import LLAMA_8B, Form, Question
from tonnage.questions.rl.answer import RlPlan
from tonnage.questions.rl.request import Rl

QUESTIONS = (
    Question(
        name="rl",
        room="rl",
        request=Rl,
        answer=RlPlan,
        help="""
    Accelerators for rollout and for training of MODEL by PPO, GRPO, RLOO or DAPO: split, layouts, time and cost.

    \b
    tonnage plan rl 8B --steps 200 --prompts-per-step 64 --response-tokens 2000 -a H100 --count 16
    """,
        tool="plan_reinforcement_learning",
        form=Form(
            title="Reinforcement learning",
            about="Steps and lengths of rollouts in; accelerators for rollout and training, their split and cost out.",
            essentials=(
                "model",
                "algorithm",
                "steps",
                "prompts_per_step",
                "responses_per_prompt",
                "prompt_tokens",
                "response_tokens",
                "max_response_tokens",
                "staleness",
                "accelerator",
                "count",
                "deadline",
                "eu",
            ),
            example={
                "model": LLAMA_8B,
                "steps": "200",
                "prompts_per_step": "64",
                "responses_per_prompt": "16",
                "response_tokens": "2000",
                "accelerator": "H100",
                "count": "16",
            },
        ),
    ),
)
