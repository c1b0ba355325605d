"""
The page of recipes, docs/which-gpu.md: twenty questions with their commands, answers and what is published about them.

    python -m tools.recipes              asks all of tools/recipes.toml and writes the page (two CPU minutes)
    python -m tools.recipes qlora-70b …  asks these anew, the others stay as they stand

Each answer is the first screen of its command. One figure of it is held against the range that published practice, or
arithmetic where nothing like it is published, leaves for it; an answer outside is said on the page, with the reason
that tools/recipes.toml gives, and makes the exit code 1.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tools.command import printed

ROOT: Final = Path(__file__).resolve().parents[1]
ASKED: Final = ROOT / "tools" / "recipes.toml"
PAGE: Final = ROOT / "docs" / "which-gpu.md"
HEAD: Final = """\
# Which GPU for …? Twenty recipes

Written by `python -m tools.recipes`. Each answer is what its command printed on its day with the data that is named;
run it again for today's. Prices are list prices without VAT. Below each stands what is published about the case, and
where one figure of the answer lies beside it. Ranges behind a figure hold nine of ten measurements of such cases
([how sure](how-sure.md)); "meets" is the chance of meeting every objective.
"""
Answer = Mapping[str, Any]


def recipes() -> tuple[str, list[dict[str, Any]]]:
    """The day that commands are asked as of, and what is asked."""
    read = tomllib.loads(ASKED.read_text(encoding="utf-8"))
    return read["day"], read["recipe"]


def asked(command: str, *, day: str) -> list[str]:
    """The arguments of a recipe; those that know prices are asked as of its day."""
    words = shlex.split(command)
    return [*words, "--today", day] if words[0] in {"plan", "cost"} else words


def answer(recipe: Mapping[str, Any], *, day: str) -> tuple[str, Answer]:
    """What the command prints, and the same as JSON."""
    words = asked(recipe["command"], day=day)
    if words[0] != "plan":
        return _run(words), json.loads(_run([*words, "--json"]))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "plan.json")
        shown = _run([*words, "-o", str(file)])
        return shown, json.loads(file.read_text(encoding="utf-8"))


def _run(words: Sequence[str]) -> str:
    env = {"COLUMNS": "100", "NO_COLOR": "1", "TONNAGE_DATA": "shipped", "PYTHONUTF8": "1"}
    return "\n".join(line.rstrip() for line in printed(*words, env=env).rstrip().splitlines())


def _part(name: str) -> Any:
    from tonnage.catalog import accelerator

    return accelerator(name)


def _first(found: Answer) -> tuple[str, float, Mapping[str, Any]]:
    """The accelerator that leads, how many of it, and its option (of a fit: its row)."""
    option = (found.get("options") or found["rows"])[0]
    run = option.get("configuration", option)
    return run["accelerator"], float(option.get("accelerators", option.get("count", 1))), option


def _memory_gb(found: Answer) -> float:
    name, count, _ = _first(found)
    return count * _part(name).memory_bytes / 1e9


def _pflops(found: Answer) -> float:
    name, count, _ = _first(found)
    return count * (_part(name).peak("bf16") or 0.0) / 1e15


def _hours(found: Answer) -> float:
    _, count, option = _first(found)
    wall = option["run"]["wall_s"]["value"] if "run" in option else option["wall_s"]["value"]
    return count * float(wall) / 3600


def _cache_gib(found: Answer) -> float:
    _, _, row = _first(found)
    return sum(one["value"] for one in row["memory"]["parts"] if one["name"] == "KV cache") / 2**30


def _rate(found: Answer) -> float:
    return float(_first(found)[2]["capacity_per_s"]["value"])


FIGURES: Final[dict[str, tuple[str, Callable[[Answer], float]]]] = {
    "accelerators": ("accelerators", lambda found: _first(found)[1]),
    "memory_gb": ("GB of accelerator memory in all", _memory_gb),
    "pflops_bf16": ("PFLOP/s of peak in 16 bits in all", _pflops),
    "accelerator_hours": ("accelerator-hours", _hours),
    "cache_gib": ("GiB of cache", _cache_gib),
    "samples_per_accelerator": ("hours of speech an hour and accelerator", _rate),
    "seconds_per_sample": ("accelerator-seconds each", lambda found: 1.0 / _rate(found)),
    "tokens_per_s": ("tokens/s", lambda found: found["rows"][0]["decode_per_s"]["value"]),
    "owning_usd_per_used_hour": ("USD of owning a used hour", lambda found: found["owned_usd_per_used_hour"]["value"]),
}  # fmt: skip
"""What is held against practice: the figure's words and where an answer has it."""


def judged(recipe: Mapping[str, Any], found: Answer) -> tuple[bool, str]:
    """Whether the recipe's figure lies where practice has it, and the sentence that says so."""
    words, take = FIGURES[recipe["figure"]]
    value, (low, high) = take(found), recipe["range"]
    between = f"{low:,g}" if low == high else f"{low:,g} to {high:,g}"
    inside = low <= value <= high
    said = f"Here {_round(value)} {words if value != 1 else words.removesuffix('s')}; expected {between}."
    return inside, said if inside else f"{said} **Outside**: {recipe.get('because') or 'not explained yet'}."


def _round(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def section(recipe: Mapping[str, Any], *, day: str) -> tuple[bool, str]:
    """The part of the page that a recipe has, asked now; and whether its figure lies where it should."""
    shown, found = answer(recipe, day=day)
    inside, said = judged(recipe, found)
    tail = f" --today {day}" if asked(recipe["command"], day=day)[-1] == day else ""
    return inside, "\n".join(
        [
            f"## {recipe['title']}",
            "",
            recipe["asks"],
            "",
            "```text",
            f"$ tonnage {recipe['command']}{tail}",
            shown,
            "```",
            "",
            f"*Published*: {recipe['published']} ({recipe['source']}) {said}",
            "",
            f"As of {day}, data {_data()}.",
            "",
        ]
    )


def _data() -> str:
    from tonnage.catalog.rows import data_version

    return data_version(None)


def sections_of(page: str) -> dict[str, str]:
    """The parts of a page by their headings."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]
    return {part.splitlines()[0].removeprefix("## "): part.rstrip("\n") + "\n" for part in parts}


def rewrite(names: Sequence[str] = ()) -> list[str]:
    """Ask the named recipes, or all, write the page, and return those whose figure lies outside."""
    day, listed = recipes()
    unknown = set(names) - {one["id"] for one in listed}
    if unknown:
        raise SystemExit(
            f"recipes: no {', '.join(sorted(unknown))}; there are: {', '.join(one['id'] for one in listed)}"
        )
    before = sections_of(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    outside, parts = [], []
    for one in listed:
        if names and one["id"] not in names and one["title"] in before:
            parts.append(before[one["title"]])
            continue
        inside, text = section(one, day=day)
        print(f"{one['id']:16} {'as published' if inside else 'OUTSIDE'}", flush=True)
        parts.append(text)
        outside += [] if inside else [one["id"]]
    PAGE.write_text("\n".join([HEAD, *parts]), encoding="utf-8")
    return outside


if __name__ == "__main__":
    sys.exit(1 if rewrite(sys.argv[1:]) else 0)
