"""
Named traffic: what lengths "chat" or "code" means, with the trace it comes from, and how load varies over a day.

Shapes are published rates by the hour, relative to their mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from tonnage.catalog.rows import DATA, table
from tonnage.domain.requests.common import Lengths
from tonnage.domain.sessions import SessionProfile
from tonnage.errors import UnknownName
from tonnage.record import Record

Quantiles = tuple[tuple[float, float], ...]
QUANTILES = {"p0": 0.0, "p1": 0.01, "p5": 0.05, "p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9,
             "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "max": 1.0}  # fmt: skip
"""Columns of the file, and the share of requests that are no longer."""
WINDOWS_S = {"dispersion": 1.0, "dispersion_10s": 10.0, "dispersion_60s": 60.0, "dispersion_300s": 300.0}


class Profile(Record, kw_only=True):
    """A traffic profile: what it is, its lengths and burstiness, and where the figures come from."""

    name: str
    what: str
    lengths: Lengths
    dispersion: float | None
    """Variance over mean of the arrivals in one second (ten where stamps are quantised); absent = not published."""
    source: str
    prompt_quantiles: Quantiles = ()
    """(share, tokens) rising; empty where only the mean is published."""
    output_quantiles: Quantiles = ()
    dispersions: tuple[tuple[float, float], ...] = ()
    """(window in seconds, variance over mean of the arrivals in it): how much the rate itself wanders."""


@cache
def profiles() -> dict[str, Profile]:
    """Every built-in profile by name."""
    rows: dict[str, dict[str, dict[str, str]]] = {}
    for row in table(DATA / "traffic" / "profiles.csv"):
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
    """Lengths and arrivals of one kind of traffic, from its rows of prompts and of answers."""
    lengths = Lengths(
        prompt_tokens=float(prompt["mean"]),
        output_tokens=float(output["mean"]),
        prompt_p95=float(prompt["p95"]) if prompt["p95"] else None,
        output_p95=float(output["p95"]) if output["p95"] else None,
        profile=name,
    )
    dispersion = float(prompt["dispersion"]) if prompt["dispersion"] else None
    return Profile(
        name=name,
        what=prompt["what"],
        lengths=lengths,
        dispersion=dispersion,
        source=prompt["source"],
        prompt_quantiles=_quantiles(prompt),
        output_quantiles=_quantiles(output),
        dispersions=tuple((at, float(prompt[name])) for name, at in WINDOWS_S.items() if prompt[name]),
    )


def _quantiles(row: dict[str, str]) -> Quantiles:
    return tuple((share, float(row[name])) for name, share in QUANTILES.items() if row[name])


class Shape(Record, kw_only=True):
    """A row of hourly rates that repeats."""

    name: str
    what: str
    hours: tuple[float, ...]
    """Rate of each hour relative to the mean: 24 of a day or 168 of a week."""
    source: str


@cache
def shapes() -> Mapping[str, Shape]:
    """Every built-in shape by name."""
    return {
        row["shape"]: Shape(
            name=row["shape"],
            what=row["what"],
            hours=tuple(float(rate) for rate in row["rates"].split()),
            source=row["source"],
        )
        for row in table(DATA / "traffic" / "shapes.csv")
    }


def shape(name: str) -> Shape:
    """
    The shape of that name.

    Raises
    ------
    UnknownName
        No such shape.
    """
    if name not in shapes():
        raise UnknownName("shape of load", name, known=shapes())
    return shapes()[name]


@cache
def session_profiles() -> Mapping[str, SessionProfile]:
    """Every traffic profile whose sessions are known, by the profile's name."""
    rows = msgspec.json.decode((DATA / "traffic" / "sessions.json").read_bytes(), type=list[SessionProfile])
    return {row.name: row for row in rows}


def session_profile(name: str | None) -> SessionProfile | None:
    """The sessions of a traffic profile; None where nothing is published of them."""
    return session_profiles().get(name) if name else None
