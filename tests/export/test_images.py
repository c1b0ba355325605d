"""Container images: all that exports name are listed with a tag that was seen, and nothing else is listed."""

import csv
import re
from datetime import date
from importlib.resources import files
from typing import Any

from tests.export.plans import CASES, SIXTEEN, TRAIN_CASES, exported, plan, train_plan

ROWS = list(csv.DictReader(files("tonnage.export").joinpath("data/images.csv").read_text("utf-8").splitlines()))
NAMED = re.compile(r"""(?:["']?image(?:_id)?["']?: ["']?(?:docker:)?|docker run [^\n]*? )([\w./-]+:[\w.-]+)""")
GGUF = {
    "name": "llamacpp",
    "weights": "gguf-q4_k_m",
    "kv": "gguf-q8_0",
    "named": "bartowski/Meta-Llama-3.1-70B-Instruct-GGUF",
}
TRTLLM = {"name": "trtllm", "named": "nvidia/Llama-3.1-70B-Instruct-FP8"}
NUMBER = r"\d+(?:\.\d+\.\d+)?"
"""A release, or the number of a build."""
SERVED: tuple[dict[str, Any], ...] = (
    {},
    {"accelerator": "mi300x"},
    {"name": "sglang"},
    {"name": "sglang", "accelerator": "mi300x"},
    {"name": "sglang", "accelerator": "mi355x"},
    TRTLLM,
    GGUF,
    {**GGUF, "accelerator": "mi300x"},
)
TRAINED: tuple[dict[str, Any], ...] = (
    {**SIXTEEN, "sharding": "hsdp"},
    {**SIXTEEN, "sharding": "hsdp", "accelerator": "mi300x"},
    TRAIN_CASES["neuronx-lora"][1],
)


def texts() -> list[str]:
    """Texts of every orchestrator's files for each engine and maker, and of every golden case."""
    cases = [(target, plan, changes) for target, changes in CASES.values()]
    cases += [(target, train_plan, changes) for target, changes in TRAIN_CASES.values()]
    cases += [("kubernetes", plan, changes) for changes in SERVED]
    cases += [("skypilot", plan, {}), ("dynamo", plan, {"name": "sglang"})]
    cases += [("jobset", train_plan, changes) for changes in TRAINED]
    found = []
    for target, make, changes in cases:
        found += exported(make(**changes), target).values()
    return found


def test_every_exported_image_is_listed_and_every_listed_one_is_exported() -> None:
    tags = {row["use"]: re.escape(row["image"]).replace(re.escape("{version}"), NUMBER) for row in ROWS}
    named = {name for text in texts() for name in NAMED.findall(text)}
    unlisted = {name for name in named if not any(re.fullmatch(tag, name) for tag in tags.values())}
    assert len(named) >= 13 and not unlisted
    unused = {use for use, tag in tags.items() if not any(re.fullmatch(tag, name) for name in named)}
    assert unused == {"llamacpp"}  # of processors, which no orchestrator's file is written for


def test_each_row_says_which_of_its_tags_was_seen_when_and_where() -> None:
    for row in ROWS:
        tag = re.escape(row["image"].rpartition(":")[2]).replace(re.escape("{version}"), NUMBER)
        assert re.fullmatch(tag, row["seen"]), row["use"]
        assert date(2026, 11, 1) <= date.fromisoformat(row["read"]) and len(row["source"]) > 20


def test_no_exporter_names_an_image_of_its_own() -> None:
    repositories = {row["image"].rpartition(":")[0] for row in ROWS}
    for path in files("tonnage.export").joinpath("targets").iterdir():
        if path.name.endswith(".py"):
            text = path.read_text("utf-8")
            assert not [name for name in repositories if f"{name}:" in text], path.name


def test_sglangs_images_are_of_the_parts_architecture_and_others_are_told() -> None:
    def written(accelerator: str) -> str:
        return exported(plan(name="sglang", accelerator=accelerator), "kubernetes")["serve.yaml"]

    assert "rocm700-mi30x" in written("mi325x") and "rocm700-mi35x" in written("mi350x")
    assert "build your own" in written("mi250x") and "build your own" not in written("mi355x")
