"""Frameworks belong to families by their names, and every family says what it keeps, shards and is looked at for."""

from typing import get_args

import pytest

from tonnage.catalog.fitted import training_coefficients
from tonnage.domain.training import Situation
from tonnage.engines.registry import framework_words, frameworks_in, software_of, training_families, usual_software


@pytest.mark.parametrize(
    ("framework", "family"),
    [
        ("Megatron-DeepSpeed", "deepspeed"),
        ("Megatron-Bridge", "megatron"),
        ("NeMo", "megatron"),
        ("llm-foundry/Composer", "fsdp"),
        ("torchtitan", "fsdp"),
        ("torchtune", "compiled"),
        ("MaxText", "jax"),
        ("HF Transformers + PEFT", "eager"),
        ("litgpt", "fsdp"),
        ("Colossal-AI", "colossalai"),
    ],
)
def test_frameworks_belong_to_families(framework: str, family: str) -> None:
    assert software_of(framework).name == family


def test_without_a_framework_the_usual_one_is_taken() -> None:
    assert software_of(None, count=64).name == "megatron"
    assert software_of(None, method="lora").name == "eager"
    assert software_of(None, layered=False, count=8).name == "eager"
    assert software_of("litgpt", method="lora").name == "eager"


def test_a_name_of_two_families_is_of_the_first() -> None:
    assert software_of("megatron-deepspeed").name == "deepspeed"
    assert software_of("trl+unsloth").name == "compiled"
    assert software_of("pytorch-fsdp").name == "fsdp"
    assert len({spec.precedence for spec in training_families().values()}) == len(training_families())


def test_every_framework_belongs_to_a_known_family() -> None:
    for word in framework_words():
        assert software_of(word, method="lora").name in training_families()
        for one in frameworks_in(word):
            assert one.software in training_families() and (
                one.pretrains_as is None or one.pretrains_as in training_families()
            )


@pytest.mark.parametrize("situation", get_args(Situation))
def test_every_situation_has_usual_software(situation: Situation) -> None:
    groups = usual_software(situation)
    assert groups and all(groups)


def test_a_family_s_example_is_one_of_it() -> None:
    for spec in training_families().values():
        assert software_of(spec.example) is spec


def test_every_family_has_fitted_coefficients_or_another_s() -> None:
    known = training_coefficients()
    for table in (known.passes, known.layer_s, known.turn_s, known.step_s, known.activation):
        assert {spec.fitted for spec in training_families().values()} <= set(table)
