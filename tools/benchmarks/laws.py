"""
Laws that no prediction may break: what an engineer knows before anybody measures, checked over the whole catalogue.

`python -m tools.benchmarks.laws [--comparisons N] [--law NAME] [--seed S …] [--write]`.
Draws, with each seed, N comparisons of deployments (model, accelerator, engine, tensor-parallel degree, loads),
predicts each case once with `predict`, and compares pairs of predictions:

- `format`: a format with arithmetic of its own in that engine is at most 1.3 times slower than 16 bits (TPOT);
  weight-only kernels up to 16 clients;
- `tensor`: twice the tensor parallelism inside NVLink is at most 1.25 times slower while a shard holds over 2 GB;
- `part`: an accelerator at least equal in memory, bandwidth, links and FLOP/s is at most 1.05 times slower than another
  of its maker, `vendor`: than one of another maker, whose software is another;
- `bytes`: no decode step is faster than its weights and its cache pass the data sheet's memory bandwidth, what the
  last-level cache may hold left out;
- `engine`: vLLM, SGLang and TensorRT-LLM lie within 2.5 times of each other;
- `overload`: more clients, or arrivals beyond capacity, never lower the throughput by more than 5 %; drops where the
  cache of keys and values cannot hold what is in flight are counted apart (preemption).

Only pairs are compared where every client's cache fits, so that both run the same batch; pairs of one number (parts
that are alike to the model, a queue that only grows) say nothing: they are counted apart (`same`) and not among the N.
What was measured may break a law: the engine's own kernels on the better part or on the same silicon, or rows of the
engine there. Such violations are listed by name or pattern in `tools/benchmarks/laws_exceptions.csv`, with the source
and the largest ratio. The exit code is 1 for any other violation, and for listed ones that have become worse. Told as
well: exceptions that excused nothing in the sweep, and those listed far above what they excuse. `--write` adds those
whose better side rests on the engine's own tables of that very part (basis *calibrated*).
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from tools.benchmarks.law_pairs import CHECKS, LAWS, Comparison, Situation, outcome, starts

from tonnage_accuracy.tables import read_table, write_table

WORSE: Final = 1.02
"""A listed exception holds up to this over its listed ratio, which is rounded. [-]"""
WIDE: Final = 1.1
"""An exception listed this far over the most that it excuses in a sweep is told: it may be narrower. [-]"""
EXCEPTIONS: Final = Path(__file__).parent / "laws_exceptions.csv"


def sweep(
    count: int, *, seed: int, laws: tuple[str, ...] = tuple(CHECKS), same: Counter[str] | None = None
) -> list[Comparison]:
    """So many different comparisons, drawn with a seed; pairs of one number do not count but by law in `same`."""
    draw, found = random.Random(seed), dict[tuple[str, Situation, Situation], Comparison]()
    for start in starts(draw):
        for law in laws:
            for one in CHECKS[law](start, draw):
                if one is not None and one.same and same is not None:
                    same[one.law] += 1
                elif one is not None and not one.same:
                    found.setdefault((one.law, one.one, one.other), one)
        if len(found) >= count:
            break
        outcome.cache_clear()  # another deployment asks other cases
    return list(found.values())[:count]


def listed(path: Path) -> dict[tuple[str, str], float]:
    """Measured violations by law and name, or a pattern of names (`*` for any text), with the largest ratio seen."""
    rows = read_table(path) if path.exists() else ()
    return {(row["law"], row["what"]): float(row["ratio"]) for row in rows}


def excused(one: Comparison, known: dict[tuple[str, str], float]) -> bool:
    """A violation that is listed, no worse than when it was."""
    return any(
        law == one.law and one.ratio <= ratio * WORSE and fnmatchcase(one.what, what)
        for (law, what), ratio in known.items()
    )


def used(found: list[Comparison], known: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Of each exception, the largest ratio that it excuses in a sweep; 0 where nothing needs it."""
    needed = dict.fromkeys(known, 0.0)
    for one in found:
        if one.broken and not one.preempted:
            for key, ratio in known.items():
                if excused(one, {key: ratio}):
                    needed[key] = max(needed[key], one.ratio)
    return needed


def write_exceptions(path: Path, broken: list[Comparison]) -> None:
    """Add the measured violations, with the worst ratio of each; reasons that somebody wrote stay."""
    rows = listed(path)
    known = read_table(path) if path.exists() else ()
    reasons = {(row["law"], row["what"]): row["reason"] for row in known}
    for one in broken:
        if one.measured and one.law != "bytes":
            rows[one.law, one.what] = max(rows.get((one.law, one.what), 0.0), one.ratio)
    lines = [(*key, f"{ratio:.3f}", reasons.get(key, "measured")) for key, ratio in sorted(rows.items())]
    write_table(path, [("law", "what", "ratio", "reason"), *lines])


def table(
    found: list[Comparison], known: dict[tuple[str, str], float], same: Counter[str] | None = None
) -> list[dict[str, object]]:
    """Per law: comparisons, pairs of one number beside them, violations, and which are explained, listed or neither."""
    rows = []
    for law, limit in LAWS.items():
        mine = [one for one in found if one.law == law]
        broken = [one for one in mine if one.broken]
        preempted = sum(one.preempted for one in broken)
        excuses = sum(excused(one, known) for one in broken)
        rows.append(
            {
                "law": law,
                "limit": limit,
                "comparisons": len(mine),
                "same": (same or Counter())[law],
                "violations": len(broken),
                "preemption": preempted,
                "measured": sum(one.measured for one in broken),
                "listed": excuses,
                "unlisted": len(broken) - preempted - excuses,
                "worst": max((one.ratio for one in mine), default=0.0),
            }
        )
    return rows


def main() -> None:
    """Print the table and the worst 20; the exit code is 1 where a violation is neither listed nor explained."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.laws", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--comparisons", type=int, default=20_000)
    parser.add_argument("--law", choices=CHECKS)
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="so many sweeps, counted together")
    parser.add_argument("--write", action="store_true", help="add measured violations to the exceptions, for review")
    asked = parser.parse_args()
    start = time.process_time()
    laws, seen = (asked.law,) if asked.law else tuple(CHECKS), dict[tuple[str, Situation, Situation], Comparison]()
    same = Counter[str]()
    for seed in asked.seed:
        drawn = sweep(asked.comparisons, seed=seed, laws=laws, same=same)
        seen |= {(one.law, one.one, one.other): one for one in drawn}
    found = list(seen.values())
    took_s = time.process_time() - start
    if asked.write:
        write_exceptions(EXCEPTIONS, [one for one in found if one.broken])
    known = listed(EXCEPTIONS)
    rows = table(found, known, same)
    left = [one for one in found if one.broken and not one.preempted and not excused(one, known)]
    left.sort(key=lambda one: one.ratio / LAWS[one.law], reverse=True)
    _print(rows, left, took_s)
    _print_exceptions(known, used(found, known))
    raise SystemExit(bool(left))


def _print(rows: list[dict[str, object]], left: list[Comparison], took_s: float) -> None:
    print(f"{sum(int(str(row['comparisons'])) for row in rows):,} comparisons in {took_s:.0f} CPU s")
    print("".join(f"{name:>12}" for name in rows[0]))
    for row in rows:
        print("".join(f"{cell:>12.4g}" if isinstance(cell, float) else f"{cell:>12}" for cell in row.values()))
    for one in left[:20]:
        unit = "tokens/s" if one.law == "overload" else "ms"
        first, second = (number if unit == "tokens/s" else 1e3 * number for number in one.numbers)
        print(f"{one.law} {one.ratio:.2f}: {one.one} {first:.4g} {unit}, but {one.other} {second:.4g} {unit}")
    if len(left) > 20:
        common = Counter(one.law for one in left[20:])
        print("and " + ", ".join(f"{count} of {law}" for law, count in common.items()))


def _print_exceptions(known: dict[tuple[str, str], float], needed: dict[tuple[str, str], float]) -> None:
    idle = [f"{law} {what}" for (law, what), most in needed.items() if not most]
    if idle:
        print(f"{len(idle)} of {len(known)} exceptions excused nothing here: {'; '.join(idle)}")
    for (law, what), most in needed.items():
        if most and known[law, what] > WIDE * most:
            print(f"{law} {what}: listed up to {known[law, what]:.2f}, needed up to {most:.2f}")


if __name__ == "__main__":
    main()
