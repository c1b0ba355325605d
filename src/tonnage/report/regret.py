"""How do picks by prediction look beside the truly best ones? A table for a terminal and one for the accuracy page."""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.domain.accuracy import Regret

__all__ = ["regret_page", "regret_rows"]

HEADER = ("predicted by", "TPOT limit", "questions", "choices", "reached, median", "mean", "p10", "limit kept",
          "median if a miss is nothing", "at its own TPOT", "at random")  # fmt: skip

_HEAD = """## Decisions by these predictions

Of the serving points with the same model, lengths and accelerator (whatever the engine, the formats, the layout, the
clients), which configuration gives most output tokens per second and accelerator within a limit on the time per
output token? The pick is the best *predicted* to keep the limit; *reached* is its measured rate over that of the best
*measured* to keep it, at most 1. A pick that misses its limit is counted under *limit kept*; *if a miss is nothing*
counts it as 0, *at its own TPOT* compares it with the best at the time per token that it really has. *At random* is
the mean of all that keep the limit. *Left out* are predictions of fits that never saw the row's group."""


def regret_rows(regrets: Sequence[Regret]) -> list[tuple[str, ...]]:
    """Header and one row per line."""
    return [HEADER, *(_row(line) for line in regrets)] if regrets else []


def regret_page(regrets: Sequence[Regret]) -> list[str]:
    """The section of the page; nothing where no serving point was scored."""
    if not regrets:
        return []
    header, *rows = regret_rows(regrets)
    lines = [header, tuple("---" for _ in header), *rows]
    return [_HEAD, "\n".join("| " + " | ".join(line) + " |" for line in lines)]


def _row(line: Regret) -> tuple[str, ...]:
    over = "" if line.median_over is None else f" (others {line.median_over:.0%} over)"
    return (
        (line.who or "this fit") + (f", one {line.by}" if line.by else ""),
        "all" if line.limit_ms is None else f"{line.limit_ms:g} ms",
        f"{line.questions}",
        f"{line.choices:.0f}",
        f"{line.median_reached:.1%}",
        f"{line.mean_reached:.1%}",
        f"{line.p10_reached:.1%}",
        f"{line.kept:.0%}{over}",
        f"{line.median_strict:.1%}",
        f"{line.median_frontier:.1%}",
        f"{line.random:.1%}",
    )
