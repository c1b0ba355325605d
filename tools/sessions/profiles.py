"""
The session profiles of the catalogue, made from published figures and from fits.

python -m tools.sessions.profiles FOLDER_OF_TRACES > src/tonnage/catalog/data/traffic/sessions.json
python -m tools.sessions.profiles --lengths  # rows of profiles.csv for those that are described as sessions alone
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from tonnage.catalog.traces import read_trace
from tonnage.domain.sessions import SessionClass, SessionProfile, Spread
from tonnage.questions.sessions.logs import fit_sessions
from tonnage.simulation.session_steady import steady_turns

MOONCAKE: Final = "Mooncake, FAST 2025, Apache-2.0"
FITTED: Final = (
    ("long-chat", "chat over long contexts", "conversation"),
    ("rag", "questions over long documents", "synthetic"),
)
NORMAL: Final = ((0.0, -2.6), (0.05, -1.645), (0.25, -0.674), (0.5, 0.0), (0.75, 0.674), (0.95, 1.645), (1.0, 2.6))
"""Quantiles of the normal distribution."""


def around(mean: float, sigma: float) -> Spread:
    """A log-normal distribution of that mean, `sigma` of its logarithm; digits that carry no meaning left out."""
    return tuple((share, float(f"{mean * np.exp(sigma * z - sigma**2 / 2):.3g}")) for share, z in NORMAL)


def turned(mean: float) -> tuple[float, ...]:
    """A chance to go on that gives so many turns on average."""
    return (round(1.0 - 1.0 / mean, 4),)


def agent() -> SessionProfile:
    """Turns and lengths such that the mean prompt and the cache ratio are the published ones."""
    turns, fresh = 1.6, 3500.0
    for _ in range(30):
        profile = SessionProfile(
            name="agent",
            what="tool-calling agents",
            source=f"mean prompt 8,596, output 182 and cache ratio 59 % of the toolagent trace ({MOONCAKE}); turns,"
            " gaps and lengths of system prompts assumed",
            shared=((6000.0, 0.2), (4000.0, 0.3), (2000.0, 0.3)),
            answers_kept=False,
            max_context=131072.0,
            classes=(
                SessionClass(
                    go_on=turned(turns),
                    gap_s=around(30.0, 1.0),
                    first_tokens=around(1.2 * fresh, 1.0),
                    growth_tokens=around(0.7 * fresh, 1.0),
                    output_tokens=around(182.0, 0.8),
                ),
            ),
        )
        drawn = steady_turns(profile)
        prompt, kept = float(drawn.prompt.mean()), float(drawn.kept.mean())
        fresh *= ((1.0 - 0.59) * 8596.0 / (prompt - kept)) ** 0.5
        turns = 1.0 + (turns - 1.0) * (0.59 * 8596.0 / kept) ** 0.5
    return profile


def described() -> list[SessionProfile]:
    """Profiles from published means."""
    coding = SessionClass(
        go_on=turned(8.0),
        gap_s=around(20.0, 1.0),
        first_tokens=around(4000.0, 0.8),
        growth_tokens=around(2300.0, 0.9),
        output_tokens=around(400.0, 0.8),
        branch_share=0.03,
        branch_kept=((0.0, 0.1), (1.0, 0.9)),
    )
    research = SessionClass(
        go_on=turned(40.0),
        gap_s=around(15.0, 0.8),
        first_tokens=around(600.0, 0.8),
        growth_tokens=around(2400.0, 0.8),
        output_tokens=around(500.0, 0.7),
    )
    chat = SessionClass(
        go_on=turned(2.54),
        gap_s=around(180.0, 1.0),
        first_tokens=around(295.0, 1.2),
        growth_tokens=around(295.0, 1.2),
        output_tokens=around(441.0, 0.8),
        branch_share=0.05,
        branch_kept=((0.0, 0.2), (1.0, 0.95)),
    )
    return [
        SessionProfile(
            name="coding-agent", what="coding agents",
            source="dialogues past 25K tokens in around 8 turns (Novita AI in LMSYS, HiCache, 2025-09-10); lengths of"
            " turns, tool times and 3,000 tokens of system prompt and tools assumed",
            shared=((3000.0, 1.0),), max_context=131072.0, classes=(coding,),
        ),
        SessionProfile(
            name="deep-research", what="research agents that search and read",
            source="assumed: 40 turns of search and reading in a context of 128K tokens; state your own",
            shared=((2500.0, 1.0),), max_context=126000.0, classes=(research,),
        ),
        SessionProfile(
            name="chat-sessions", what="chat, turn after turn",
            source="2.54 turns, 295 tokens of the user and 441 of the assistant a turn (WildChat, ICLR 2024);"
            f" gaps about those of the conversation trace ({MOONCAKE}); 500 tokens of system prompt assumed",
            shared=((500.0, 1.0),), max_context=32768.0, classes=(chat,),
        ),
    ]  # fmt: skip


def rounded(profile: SessionProfile) -> SessionProfile:
    """Without digits that carry no meaning."""

    def short(value: object) -> object:
        if isinstance(value, float):
            return float(f"{value:.4g}")
        if isinstance(value, list):
            return [short(one) for one in value]
        return {key: short(one) for key, one in value.items()} if isinstance(value, dict) else value

    return msgspec.convert(short(msgspec.to_builtins(profile)), SessionProfile)


def lengths() -> None:
    """Rows of profiles.csv."""
    shares = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
    for profile in described():
        turns = steady_turns(profile)
        for name, column in (("prompt", turns.prompt), ("output", turns.output)):
            numbers = ",".join(f"{value:.0f}" for value in np.quantile(column, shares))
            source = profile.source.replace('"', "'")
            sys.stdout.write(f'{profile.name},{name},{column.mean():.0f},{numbers},,,,,"{profile.what}","{source}"\n')


def main() -> None:
    """Profiles as JSON, one a line."""
    if sys.argv[1] == "--lengths":
        return lengths()
    profiles = [agent(), *described()]
    for name, what, trace in FITTED:
        log = read_trace(Path(sys.argv[1]) / f"mooncake_fast25_{trace}.jsonl.gz")
        found = fit_sessions(log, name=name, what=what)
        source = (
            f"fitted to the {trace} trace, {len(log.sent_s):,} requests ({MOONCAKE}); answers are not in its blocks"
        )
        profiles.append(msgspec.structs.replace(found, source=source))
    lines = ",\n".join(msgspec.json.encode(rounded(profile)).decode() for profile in profiles)
    sys.stdout.write(f"[\n{lines}\n]\n")
    return None


if __name__ == "__main__":
    main()
