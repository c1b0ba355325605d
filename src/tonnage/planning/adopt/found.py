"""What looking at a running deployment found, whichever kind of work it does."""

from __future__ import annotations

import msgspec

from tonnage.domain.adoption import ServeSides, TrainSides

__all__ = ["Found"]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Today's plan of one option, the better plan, and everything that was assumed or noticed."""

    sides: ServeSides | TrainSides
    carries: bool = True
    """Today's replicas carry the stated load within the objectives."""
    assumed: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    command: str = ""
