"""A kind of plan as the faces need it: what asks it, what answers it, and how its form stands on the page."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec

from tonnage.domain.plan import PlanHeader
from tonnage.record import Record

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LENGTHS = ("prompt_tokens", "output_tokens")
QUICKER = (
    "ask with quick: true (averages), name an accelerator or a provider, or ask on the command line, which has no limit"
)
"""What to ask where a simulated answer takes too long."""


class Form(Record, kw_only=True):
    """How a question stands on the page."""

    title: str
    """What a person came to know, in their words."""
    short: str = ""
    """Its name in the bar at the top; empty = listed under More."""
    button: str = "Find accelerators"
    about: str
    """What goes in and what comes out, in one sentence."""
    essentials: tuple[str, ...]
    """Fields shown at once; the others wait under "more"."""
    example: dict[str, str]
    """Filled in at first: a question whose answer is worth seeing."""
    at_first: str = ""
    """Flag that answers by averages alone: what is shown until the simulated answer is there."""
    written: tuple[str, ...] = ()
    """Fields that hold lists or groups, which a form takes as YAML in a large box."""
    instead: str = "name an accelerator or a provider, or ask on the command line, which has no limit"
    """What to ask where the answer takes too long."""


class Question(Record, kw_only=True):
    """
    A kind of plan.

    Its room, `questions/ROOM`, holds `question.py` with `NAME_request` (texts -> request), and, imported when needed,
    `plan.py` with `plan_ROOM` (request -> plan) and `page.py` with `PAGE` (plan -> document).
    """

    name: str
    """Of the `plan` line in a request file, and of the command."""
    room: str
    request: type[msgspec.Struct]
    answer: type[PlanHeader[Any]]
    needs: tuple[str, ...] = ("model",)
    """Fields that no request goes without."""
    help: str = ""
    """Of a command whose one argument is a model; others write their own."""
    tool: str = ""
    """Its name for assistants; empty = plan_NAME."""
    form: Form

    def find(self, module: str, name: str) -> Any:
        """What a module of the room calls so; None where it does not."""
        return getattr(import_module(f"tonnage.questions.{self.room}.{module}"), name, None)
