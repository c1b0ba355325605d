"""
Does what is answered start? `make startable` counts it: thirty models under three loads, and every example.

Plans are kept in `build/startable`, so that exporters are tried again in seconds; `--again` plans anew. Of a served
model the first option must start on its engine and on Kubernetes without a further flag, from a checkpoint that is
known (on its engine alone where workers are rented, which have no nodes, counted apart); SkyPilot and dstack are
counted where their files start it, on machines that they rent or that are joined. Of an example each of the first ten
options must start, on every target that is offered for it. What fails is named with its reason, and so is an option
that no target starts.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tonnage import export
from tonnage.cli import root
from tonnage.export.deployment import WORKER
from tonnage.questions.ask import read_plan
from tonnage.questions.launchable import launchable_option

ROOT: Final = Path(__file__).parents[1]
KEPT: Final = ROOT / "build/startable"
TODAY: Final = "2026-11-21"
FIRST: Final = 10
"""Options of an example that are tried."""
STARTED: Final = ("serve", "batch", "train", "finetune", "rl")
"""Kinds of plan that have targets."""
MODELS: Final = (
    "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct",
    "meta-llama/Llama-3.1-405B-Instruct", "meta-llama/Llama-3.2-1B-Instruct", "meta-llama/Llama-3.2-3B-Instruct",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct", "meta-llama/Llama-4-Maverick-17B-128E-Instruct", "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-4B", "Qwen/Qwen3-8B", "Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-235B-A22B",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct", "Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-72B-Instruct", "Qwen/QwQ-32B", "mistralai/Mistral-7B-Instruct-v0.3",
    "mistralai/Mixtral-8x7B-Instruct-v0.1", "mistralai/Mistral-Small-24B-Instruct-2501", "google/gemma-3-27b-it",
    "microsoft/phi-4", "openai/gpt-oss-20b", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-R1",
    "deepseek-ai/DeepSeek-V3.1", "moonshotai/Kimi-K2-Instruct",
)  # fmt: skip
"""Those that the engines' own recipes and test lists name most; nobody publishes what is served."""
LOADS: Final[dict[str, dict[str, str]]] = {
    "chat": {"rate": "2/s", "traffic": "chat", "ttft": "1 s", "tpot": "50 ms"},
    "rag": {"rate": "5/s", "traffic": "rag", "ttft": "2 s", "tpot": "60 ms"},
    "bulk": {"rate": "100/s", "traffic": "chat"},
}


def planned(name: str, *words: str, again: bool) -> Any:
    """What `tonnage plan WORDS` answers, kept as a file once it was asked."""
    path = KEPT / f"{name.replace('/', '--')}.json"
    if again or not path.is_file():
        KEPT.mkdir(parents=True, exist_ok=True)
        with (
            Path(os.devnull).open("w", encoding="utf-8") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.suppress(SystemExit),  # 3 where nothing fits, which is an answer
        ):
            root(["plan", *words, "--today", TODAY, "-o", str(path)], prog_name="tonnage")
    return read_plan(str(path))


RENTERS: Final = ("skypilot", "dstack")
"""Targets that rent by themselves."""


def served(*, again: bool) -> Iterator[tuple[str, str, export.Offered | None]]:
    """Model and load, why its first option does not start (empty = it does), and where it can be started."""
    for model in MODELS:
        for load, asked in LOADS.items():
            words = [word for name, value in asked.items() for word in (f"--{name}", value)]
            plan = planned(f"{load}-{model}", "serve", model, *words, "--quick", again=again)
            yield f"{model} {load}", *_first_lacks(plan)


def _first_lacks(plan: Any) -> tuple[str, export.Offered | None]:
    if not plan.options:
        return plan.sentence, None
    plan, option = launchable_option(plan)
    found = export.offered(plan, option)
    needed = (option.configuration.engine.name, *(() if option.bill.kind == WORKER else ("kubernetes",)))
    missing = [name for name in needed if name not in found.ready]
    return (f"{missing}: { {**found.lacking, **found.refused}[missing[0]] }" if missing else ""), found


def example_plans(*, again: bool, kinds: tuple[str, ...] = STARTED) -> Iterator[tuple[str, Any]]:
    """Every example of these kinds, and its plan."""
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        if yaml.safe_load(path.read_text(encoding="utf-8")).get("plan") in kinds:
            yield path.stem, planned(path.stem, str(path), again=again)


def examples(*, again: bool) -> Iterator[tuple[str, int, export.Offered]]:
    """Example, rank and where it can be started."""
    for name, plan in example_plans(again=again):
        for rank in range(1, min(FIRST, len(plan.options)) + 1):
            yield name, rank, export.offered(*launchable_option(plan, rank=rank))


def main(again: bool) -> int:
    """Print what fails and the counts; 1 where something does."""
    counts: Counter[str] = Counter()
    for name, why, offered in served(again=again):
        counts["first options"] += 1
        counts["first options that start"] += not why
        counts["first options from a known checkpoint"] += offered is not None and not offered.lacking
        counts["first options on workers, without Kubernetes"] += (
            offered is not None and "kubernetes" in offered.refused
        )
        for target in RENTERS:
            counts[f"first options that {target} starts"] += offered is not None and target in offered.ready
        if why:
            print(f"{name}: {why[:300]}", flush=True)
    for name, rank, found in examples(again=again):
        counts["options of examples"] += 1
        counts["options with a target"] += bool(found.ready)
        counts["files' targets"] += len(found.ready)
        if not found.ready:
            print(f"{name} {rank}: {next(iter({**found.lacking, **found.refused}.values()))[:300]}", flush=True)
    for what, count in counts.items():
        print(f"{what}: {count}")
    least = min(counts["first options that start"], counts["first options that skypilot starts"])
    return int(least < 0.95 * counts["first options"])


if __name__ == "__main__":
    raise SystemExit(main("--again" in sys.argv))
