"""How do groups of training rows stand beside what each is to reach? One table for a terminal and for the page."""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.domain.accuracy import Figure

__all__ = ["networks_page", "training_page", "training_rows"]

HEADER = ("group", "figure", "numbers", "value", "to reach", "reached")

_HEAD = """## Training, group by group

Each row of training counts once, by the first speed that it prints; a row that prints FLOP/s only is counted as its
source counts them. *Left out* is what fits say that never saw the row's source (or accelerator). Growth compares two
counts of the same job, where only the data-parallel ranks grow. vTrain's tables (`measurements/outside`) are in no
fit. A published layout is compared with the best arrangement of the same job that the search finds, by predicted
step time."""


_NETWORKS = """## Networks and single streams, group by group

Batches through models that do not serve chats, and one request at a time through llama.cpp, ExLlama and MLC; prompts of
one accelerator are rows without an answer, which no fit reads. *Own* are real runs on a processor that `tonnage measure
device` measured just before ([measurements/own](../measurements/own/runs.csv)): PyTorch networks traced, predicted from
the device's file, then run; the best of many runs in seconds of the one thread, for the machine was shared."""


def training_rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """Header and one row per figure."""
    return [HEADER, *(_row(line) for line in figures)] if figures else []


def training_page(figures: Sequence[Figure]) -> list[str]:
    """The section of the page; nothing where no training row was scored."""
    if not figures:
        return []
    header, *rows = training_rows(figures)
    lines = [header, tuple("---" for _ in header), *rows]
    return [_HEAD, "\n".join("| " + " | ".join(line) + " |" for line in lines)]


def networks_page(figures: Sequence[Figure]) -> list[str]:
    """The same table for networks and single streams."""
    if not figures:
        return []
    header, *rows = training_rows(figures)
    lines = [header, tuple("---" for _ in header), *rows]
    return [_NETWORKS, "\n".join("| " + " | ".join(line) + " |" for line in lines)]


def _row(line: Figure) -> tuple[str, ...]:
    met = line.met
    stated = line.at_most is not None or line.at_least is not None
    return (
        line.group,
        line.figure,
        f"{line.rows:,}",
        "-" if line.value is None else f"{line.value:.1%}",
        _bounds(line),
        "" if met is None or not stated else "yes" if met else "NO",
    )


def _bounds(line: Figure) -> str:
    if line.at_least is not None and line.at_most is not None:
        return f"{line.at_least:.0%} to {line.at_most:.0%}"
    if line.at_most is not None:
        return f"at most {line.at_most:.0%}"
    return f"at least {line.at_least:.0%}" if line.at_least is not None else "-"
