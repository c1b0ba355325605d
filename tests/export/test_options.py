"""Options written for an engine exist in its release, with the choices it takes."""

import json
import re
import shlex
from importlib.resources import files

import pytest
import yaml
from tests.export.plans import CASES, TRAIN_CASES, exported, plan, targets, train_plan

ENGINES = ("vllm", "sglang", "trtllm", "llamacpp")


def known(engine: str) -> dict[str, list[str] | None]:
    text = files("tonnage.export").joinpath(f"data/options/{engine}.json").read_text(encoding="utf-8")
    options: dict[str, list[str] | None] = json.loads(text)["options"]
    return options


def unknown(argv: list[str], options: dict[str, list[str] | None]) -> list[str]:
    """What the engine would not take: an option it lacks, or a value outside its choices."""
    wrong = []
    for position, word in enumerate(argv):
        if not word.startswith("--"):
            continue
        choices = options.get(word, []) if word in options else None
        value = argv[position + 1] if position + 1 < len(argv) else ""
        if word not in options or (choices and value not in choices):
            wrong.append(f"{word} {value}")
    return wrong


@pytest.mark.parametrize("case", [name for name, (target, _) in CASES.items() if target in ENGINES])
def test_options_exist_in_the_release(case: str) -> None:
    target, changes = CASES[case]
    script = exported(plan(**changes), target)["serve.sh"].replace("\\\n", " ")
    started = re.split(r"(?<!\w)exec (?!ray)", script)[-1]
    alone = re.split(r"\n(?:else|fi)\b", started)[0].rstrip("\n")
    argv = shlex.split(alone.removesuffix("'") if alone.count("'") % 2 else alone)
    assert len([word for word in argv if word.startswith("--")]) >= 8
    assert unknown(argv, known(target)) == []


def test_a_wrong_option_or_choice_is_found() -> None:
    options = known("vllm")
    assert unknown(["--tensor-parallel-sizee", "2", "--kv-cache-dtype", "fp3"], options) == [
        "--tensor-parallel-sizee 2",
        "--kv-cache-dtype fp3",
    ]


@pytest.mark.parametrize("engine", [*ENGINES, "megatron", "axolotl", "trl"])
def test_lists_are_of_the_release_the_files_are_for(engine: str) -> None:
    text = files("tonnage.export").joinpath(f"data/options/{engine}.json").read_text(encoding="utf-8")
    assert f" {json.loads(text)['version']}: " in targets()[engine]


def test_every_flag_of_megatron_is_one_of_the_release_with_a_value_it_takes() -> None:
    target, changes = TRAIN_CASES["megatron"]
    for more in ({}, {"method": "full", "recompute": "full", "precision": "mxfp8"}):
        script = exported(train_plan(**{**changes, **more}), target)["pretrain.sh"].replace("\\\n", " ")
        argv = shlex.split(script.partition("pretrain_gpt.py")[2])
        assert len(argv) > 60 and unknown(argv, known("megatron")) == []


@pytest.mark.parametrize(
    ("case", "file"),
    [("axolotl-lora", "axolotl.yaml"), ("axolotl-qlora", "axolotl.yaml"), ("axolotl-full", "axolotl.yaml"),
     ("trl-qlora", "sft.yaml")],
)  # fmt: skip
def test_fields_of_configurations_exist_in_the_release(case: str, file: str) -> None:
    target, changes = TRAIN_CASES[case]
    fields = yaml.safe_load(exported(train_plan(**changes), target)[file])
    assert len(fields) > 15 and {f"--{name}" for name in fields} <= set(known(target))
