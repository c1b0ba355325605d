"""What other programs call our options: who writes `--gpu` or `--tensor-parallel-size` is told our name for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

_BESIDE_FIELDS: Final = {"plot": "chart picture", "output": "out save o-file"}
"""Options that belong to no field of a question: names that other programs give them."""


@cache
def theirs_by_ours() -> Mapping[str, list[str]]:
    """Our option: what others call it."""
    from tonnage.domain.requests.field import ALIASES  # only who mistypes an option waits for it

    fields = {name.replace("_", "-"): theirs for name, theirs in ALIASES.items()}
    return {name: theirs.split() for name, theirs in (fields | _BESIDE_FIELDS).items()}


def our_option(name: str, known: Collection[str]) -> str | None:
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
    return next(
        (f"--{our}" for our, theirs in theirs_by_ours().items() if plain in theirs and f"--{our}" in known), None
    )
