"""Code asks what an engine does, not what it is called: names of engines and frameworks stand in `engines` alone."""

import ast

import pytest
from tests.style.source import modules, tree_of

from tonnage.domain.metrics import LATENCIES, METRICS
from tonnage.engines.registry import engines, framework_words, server_metrics, training_families

OWN = ("engines/", "export/targets/")
"""The records themselves, and export modules, each named after its target."""

HOMONYMS = {"fsdp", "dualpipe", "lightning", "compiled"}
"""Words of the field beside: ways of sharding, schedules, kinds of attention, a folder of machine code."""

ALLOWED = {
    "domain/layout.py": ({"vllm", "pytorch"}, "what runs where a request names none"),
    "catalog/hub/dense.py": ({"maxtext"}, "an importer of other tools' configurations"),
    "catalog/hub/names.py": ({"hf", "unsloth", "megatron", "mlx"}, "words of model names"),
    "measure/history.py": ({"vllm", "sglang", "transformers"}, "Python packages whose versions are kept"),
    "export/training_files.py": ({"vllm"}, "the engine whose offline class the exported loop calls"),
    "adopt/__init__.py": ({"axolotl", "trl"}, "reads the files of these programs"),
    "adopt/manifests.py": ({"vllm"}, "what platforms that name no engine start"),
}
"""File, the names it may say, and why."""


def names() -> frozenset[str]:
    """Every spelling of an engine, a server or a framework."""
    served = {name for spec in engines().values() for name in (spec.name, *spec.aliases, *spec.stands_for)}
    return (
        frozenset({*served, *training_families(), *framework_words(), *(page.name for page in server_metrics())})
        - HOMONYMS
    )


def named(text: str, known: frozenset[str]) -> list[tuple[int, str]]:
    """Line and name of every string of a file that is such a name."""
    return [
        (node.lineno, node.value.lower())
        for node in ast.walk(tree_of(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.lower() in known
    ]


def test_no_code_asks_for_an_engine_by_name() -> None:
    known = names()
    wrong = [
        f"src/tonnage/{module}:{line} '{name}'"
        for module, text in modules()
        if not module.startswith(OWN)
        for line, name in named(text, known)
        if module not in ALLOWED or name not in ALLOWED[module][0]
    ]
    assert not wrong, "ask a record of tonnage.engines what it does:\n" + "\n".join(wrong)


@pytest.mark.parametrize("module", ALLOWED)
def test_what_is_allowed_is_used(module: str) -> None:
    allowed, why = ALLOWED[module]
    assert {name for _, name in named(dict(modules())[module], names())} == allowed
    assert why


@pytest.mark.parametrize(
    "code",
    [
        'if engine.name == "vllm": pass',
        'TABLE = {"sglang": 1}',
        'x = name in {"llama.cpp", "other"}',
        'match software:\n    case "megatron": pass',
        'engine: str = "TensorRT-LLM"',
    ],
)
def test_every_way_of_asking_is_found(code: str) -> None:
    assert named(code, names())


def test_words_beside_a_name_are_not_it() -> None:
    assert not named('x = "vLLM start logs"; y = "fsdp"; vllm = 1', names())


def test_no_other_module_spells_a_latency() -> None:
    """What tables, axes and sentences call a metric is taken from its declaration."""
    titles = {metric.title for metric in LATENCIES}
    spelt = {
        module
        for module, text in modules()
        for node in ast.walk(tree_of(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in titles
    }
    assert spelt == {"domain/metrics.py"}


def test_a_metrics_name_ends_with_its_unit_and_it_says_which_end_is_better() -> None:
    for metric in METRICS.values():
        assert metric.name.endswith({"s": "_s", "W": "_w", "bytes": "_bytes", "": ""}[metric.unit])
        assert metric.less_is_better is not ("_per_s" in metric.name), metric.name
