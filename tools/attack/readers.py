"""Attacks on readers of others' files: small bad inputs, files of 8 to 300 MB, and questions at the edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tools.attack.misread import MISREAD, refused
from tools.attack.rows import Outcome, Row
from tools.fuzz.readers import READERS

SEED: Final = 7
SMALL: Final = 200_000
LARGE: Final = 500
ANSWERS: Final = 2_000
GROUPS: Final = {
    "requests and cases": ("requests", "request-json", "cases-yaml", "cases-json", "plans", "additions", "quotes"),
    "model files": ("gguf", "safetensors", "config.json"),
    "traces (25 MB/s)": ("trace",),
    "reports, logs, profiles and rows": (
        "reports", "kineto", "measurement-log", "rank-log", "metrics", "rows", "history", "inventory", "adopt",
    ),
}  # fmt: skip
"""Readers of large files, in pieces that end soon."""


def hostile_files(share: float) -> Outcome:
    """Small bad inputs for every reader, each in a process of its own."""
    from tools.fuzz.__main__ import asked_child

    each = -(-round(SMALL * share) // len(READERS))
    told = [asked_child(name, inputs=each, seed=SEED, guide=False) for name in READERS]
    findings = [f"{one['reader']}: {found['why'][-200:]}" for one in told for found in one["findings"]]
    slowest, memory = max(one["slowest_s"] for one in told), max(one["grown_bytes"] for one in told)
    figures = f"{sum(one['refused'] for one in told):,} refused, slowest {slowest:.1f} CPU s, {memory / 1e6:.0f} MB"
    return Outcome(sum(one["inputs"] for one in told), tuple(findings), figures)


def _large(group: str) -> Callable[[float], Outcome]:
    def attack(share: float) -> Outcome:
        from tools.fuzz.large import SHAPES, run

        mine = sum(shape.reader in GROUPS[group] for shape in SHAPES)
        inputs = max(1, round(LARGE * share * mine / len(SHAPES)))
        count, findings = run(inputs=inputs, seed=SEED, readers=GROUPS[group])
        return Outcome(count, tuple(findings), "")

    return attack


def whole_answers(share: float) -> Outcome:
    """Questions at the edges of what may be asked."""
    from tools.fuzz.answers import run

    answered, told, findings = run(inputs=max(1, round(ANSWERS * share)), seed=SEED)
    count = answered + told + len(findings)
    return Outcome(count, tuple(findings), f"{answered:,} answered, {told:,} refused with one sentence")


def misreadings(_: float) -> Outcome:
    """What two readers read differently, at every entrance that takes it."""
    findings = [f"{where}: {text} was taken" for where, text, take in MISREAD if not refused(take)]
    return Outcome(len(MISREAD), tuple(findings), "all refused" if not findings else "")


ROWS: tuple[Row, ...] = (
    Row("what may mean two things is refused, not read", "numbers, dates and names twice, in each reader", misreadings),
    Row("an answer or one sentence, in 2 s and 500 MB", f"{len(READERS)} readers, small bad inputs", hostile_files),
    *(Row("files of 8 to 300 MB in 5 s and 500 MB, or refused", group, _large(group)) for group in GROUPS),
    Row("sound JSON, no NaN, no inverted interval, or one sentence", "questions at the edges", whole_answers),
)
