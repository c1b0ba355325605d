"""What other programs call our options: who writes `--gpu` or `--tensor-parallel-size` is told our name for it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tonnage.domain.requests.aliases import ALIASES

__all__ = ["OURS", "ours"]

_BESIDE_FIELDS: Final = {"plot": "chart picture", "output": "out save o-file"}
"""Options that belong to no field of a question: names that other programs give them."""
OURS: Final = {
    **{name.replace("_", "-"): theirs.split() for name, theirs in ALIASES.items()},
    **{name: theirs.split() for name, theirs in _BESIDE_FIELDS.items()},
}
"""Our option: what others call it."""


def ours(name: str, known: Collection[str]) -> str | None:
    """
    The option of ours that another program calls `name`, if this command has it.

    Parameters
    ----------
    name : str
        The option as typed, such as `--gpu`; case, and dashes or underscores, do not matter.
    known : collection of str
        The command's own options, such as `--accelerator`.
    """
    plain = name.lstrip("-").lower().replace("_", "-")
    return next((f"--{our}" for our, theirs in OURS.items() if plain in theirs and f"--{our}" in known), None)
