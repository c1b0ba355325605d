"""Named traffic profiles: what lengths "chat" or "code" means, with the trace it comes from."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

import msgspec

from tonnage.errors import UnknownName
from tonnage.nouns.workload import Lengths

__all__ = ["Profile", "profile", "profiles"]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A traffic profile: what it is, its lengths and burstiness, and where the figures come from."""

    name: str
    what: str
    lengths: Lengths
    dispersion: float | None
    """Variance over mean of the arrivals in one second (ten where stamps are quantised); absent = not published."""
    source: str


@cache
def profiles() -> dict[str, Profile]:
    """Every built-in profile by name."""
    rows: dict[str, dict[str, dict[str, str]]] = {}
    text = (files("tonnage.catalog") / "data/traffic/profiles.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        rows.setdefault(row["profile"], {})[row["direction"]] = row
    return {name: _profile(name, both["prompt"], both["output"]) for name, both in rows.items()}


def profile(name: str) -> Profile:
    """
    The profile of that name.

    Raises
    ------
    UnknownName
        No such profile.
    """
    known = profiles()
    if name not in known:
        raise UnknownName("traffic profile", name, known=known)
    return known[name]


def _profile(name: str, prompt: dict[str, str], output: dict[str, str]) -> Profile:
    lengths = Lengths(
        prompt_tokens=float(prompt["mean"]),
        output_tokens=float(output["mean"]),
        prompt_p95=float(prompt["p95"]) if prompt["p95"] else None,
        output_p95=float(output["p95"]) if output["p95"] else None,
        profile=name,
    )
    dispersion = float(prompt["dispersion"]) if prompt["dispersion"] else None
    return Profile(name=name, what=prompt["what"], lengths=lengths, dispersion=dispersion, source=prompt["source"])
