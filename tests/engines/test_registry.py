"""Engines are found by their modules, under any spelling; who is not described is taken for a library."""

from __future__ import annotations

import pkgutil

import pytest

from tonnage import engines as folder
from tonnage.domain.layout import Engine
from tonnage.engines.registry import (
    engine_name,
    engine_spec,
    engines,
    find_engine,
    planned_engines,
    unlisted_engine,
)
from tonnage.errors import UnknownName


def test_names_and_their_spellings() -> None:
    assert engine_name("TensorRT-LLM") == "trtllm"
    assert engine_name("llama.cpp") == "llamacpp"
    assert engine_name(" vLLM ") == "vllm"
    with pytest.raises(UnknownName, match="did you mean 'vllm'"):
        engine_name("vlm")
    assert find_engine("registry") is None


def test_no_two_engines_share_a_spelling() -> None:
    spellings = [name for spec in engines().values() for name in (spec.name, *spec.aliases)]
    assert len(spellings) == len(set(spellings)) and all(name == name.lower() for name in spellings)


def test_a_module_is_called_as_its_engine() -> None:
    stems = {module.name for module in pkgutil.iter_modules(folder.__path__)}
    assert {name.replace("-", "_") for name in engines()} <= stems


def test_what_stands_for_others_is_an_engine_itself() -> None:
    for spec in engines().values():
        assert spec.overheads_of in engines()
        assert not set(spec.stands_for) & set(engines())
    assert unlisted_engine().memory.kind == "need"


def test_plans_look_at_the_best_measured_first_and_the_default_is_among_them() -> None:
    assert planned_engines()[0] == Engine().name
    assert len(planned_engines()) == len({engine_spec(name).planned for name in planned_engines()}) >= 6


def test_releases_are_in_the_order_they_appeared() -> None:
    for spec in engines().values():
        assert list(spec.releases) == sorted(spec.releases)
