"""Options written for an engine exist in its release, with the choices it takes."""

from __future__ import annotations

import json
import shlex
from importlib.resources import files

import pytest
from tests.export.plans import CASES, plan
from tests.export.train_plans import TRAIN_CASES, train_plan

from tonnage import export
from tonnage.adopt import read_running
from tonnage.engines.registry import SETTINGS, engine_spec
from tonnage.export import target_module
from tonnage.export.deployment import deployment, server
from tonnage.export.options import known_options

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


def words(engine: str, argv: tuple[str, ...]) -> list[str]:
    line = argv[-1].partition("exec ")[2] if engine == "trtllm" else None
    return shlex.split(line) if line else list(argv)


@pytest.mark.parametrize("case", [name for name, (target, _) in CASES.items() if target in ENGINES])
def test_options_exist_in_the_release(case: str) -> None:
    target, changes = CASES[case]
    made = plan(**changes)
    server_of = server(deployment(made, made.options[0]))
    argv = words(target, server_of.argv)
    assert len([word for word in argv if word.startswith("--")]) >= 8
    assert unknown(argv, known(target)) == []


def test_a_wrong_option_or_choice_is_found() -> None:
    options = known("vllm")
    assert unknown(["--tensor-parallel-sizee", "2", "--kv-cache-dtype", "fp3"], options) == [
        "--tensor-parallel-sizee 2",
        "--kv-cache-dtype fp3",
    ]


@pytest.mark.parametrize("engine", [*ENGINES, "megatron"])
def test_lists_are_of_the_release_the_files_are_for(engine: str) -> None:
    text = files("tonnage.export").joinpath(f"data/options/{engine}.json").read_text(encoding="utf-8")
    assert json.loads(text)["version"] == export.known_targets()[engine].version


def test_every_flag_of_megatron_is_one_of_the_release_with_a_value_it_takes() -> None:
    target, changes = TRAIN_CASES["megatron"]
    made = train_plan(**changes)
    for option in (made, train_plan(**{**changes, "method": "full", "recompute": "full", "precision": "mxfp8"})):
        script = export.export(option, option.options[0], to=target)["pretrain.sh"].replace("\\\n", " ")
        argv = shlex.split(script.partition("pretrain_gpt.py")[2])
        assert len(argv) > 60 and unknown(argv, known("megatron")) == []


@pytest.mark.parametrize(
    ("case", "file"),
    [("axolotl-lora", "axolotl.yaml"), ("axolotl-qlora", "axolotl.yaml"), ("axolotl-full", "axolotl.yaml"),
     ("trl-qlora", "sft.yaml")],
)  # fmt: skip
def test_fields_of_configurations_exist_in_the_release(case: str, file: str) -> None:
    target, changes = TRAIN_CASES[case]
    made = train_plan(**changes)
    found = read_running(export.export(made, made.options[0], to=target)[file], name=file)
    assert found.unknown == () and found.program == target
    assert known_options(target), "the list of the release's fields is kept"
    listed = files("tonnage.export").joinpath(f"data/options/{target}.json").read_text(encoding="utf-8")
    assert json.loads(listed)["version"] == export.known_targets()[target].version


@pytest.mark.parametrize("name", ["vllm", "sglang", "trtllm"])
def test_a_case_takes_the_settings_that_a_command_is_read_into(name: str) -> None:
    options, spec = target_module(name).OPTIONS, engine_spec(name)
    read = {option: setting for option, (setting, _) in (options.values | options.flags).items() if setting in SETTINGS}
    for option, setting in read.items():
        plain = option.rpartition(".")[2]
        taken = {plain: plain} | dict(spec.own_settings) | dict(spec.own_switches)
        assert taken[plain] == setting, option
        if option in options.flags:
            assert (plain in spec.own_switches) is not options.flags[option][1], option
