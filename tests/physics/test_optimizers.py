"""Optimizers: states per parameter, names as people spell them."""

import pytest

from tonnage.errors import UnknownName
from tonnage.physics.optimizers import OPTIMIZERS, newton_schulz_flop, optimizer, state_bytes_per_parameter, step_bytes


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("AdamW", "adamw"),
        ("adam_8bit", "adamw-8bit"),
        ("paged_adamw_8bit", "adamw-8bit"),
        ("Lion", "lion"),
        ("SGD", "sgd"),
        ("decoupled_adamw", "adamw"),
    ],
)
def test_names_are_read_as_people_spell_them(said: str, meant: str) -> None:
    assert optimizer(said).name == meant


def test_an_unknown_optimizer_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"did you mean .*'adamw'"):
        optimizer("adanw")


def test_every_optimizer_names_its_source_and_counts_its_states() -> None:
    for row in OPTIMIZERS.values():
        assert row.source
        assert 0 <= row.states <= 3


def test_eight_bit_adam_keeps_a_quarter_of_adam() -> None:
    adam = state_bytes_per_parameter(states=2, state_bits=32)
    small = state_bytes_per_parameter(states=2, state_bits=optimizer("adamw-8bit").bits or 32)
    assert small == pytest.approx(adam / 4, rel=0.02)


def test_without_a_master_copy_weights_are_read_and_written() -> None:
    assert step_bytes(weight_bytes=2, grad_bytes=2, master_bytes=0, state_bytes=4) == 2 + 8 + 4


def test_newton_schulz_does_not_care_for_orientation() -> None:
    assert newton_schulz_flop(rows=100, columns=300) == newton_schulz_flop(rows=300, columns=100)
