"""Pipelines and optimizers of training: bubbles, stages, state and work."""

import pytest

from tonnage.errors import BadRequest, UnknownName
from tonnage.physics.optimizers import OPTIMIZERS, newton_schulz_flop, optimizer, state_bytes_per_parameter, step_bytes
from tonnage.physics.pipeline import bubble_turns, in_flight, split_bubble_s, stage_layers


def test_interleaving_divides_the_bubble() -> None:
    assert bubble_turns(pp=8) == 7
    assert bubble_turns(pp=8, vpp=7) == 1
    assert bubble_turns(pp=1) == 0


@pytest.mark.parametrize(("stage", "held"), [(0, 8), (3, 5), (7, 1)])
def test_one_f_one_b_holds_less_towards_the_end(stage: int, held: int) -> None:
    assert in_flight(pp=8, vpp=1, micro_batches=64, stage=stage) == held
    # Zero-bubble schedules hold the batches of as many stages again, but for the one at work (H2 of Qi et al. 2024).
    assert in_flight(pp=8, vpp=1, micro_batches=64, stage=stage, schedule="zb-h2") == 2 * held - 1


def test_few_micro_batches_hold_no_more_than_there_are() -> None:
    assert in_flight(pp=8, vpp=1, micro_batches=3) == 3
    assert in_flight(pp=8, vpp=2, micro_batches=2) == 2


def test_interleaved_first_stage_matches_the_paper() -> None:
    p, v = 8, 3
    assert in_flight(pp=p, vpp=v, micro_batches=1000) / p == pytest.approx(1 + (p - 1) / (p * v))


def test_stage_layers_rounds_up_for_the_fullest_rank() -> None:
    assert stage_layers(layers=96, pp=8, vpp=6) == 12
    assert stage_layers(layers=61, pp=16) == 4


def test_schedules_that_put_off_weights_hold_more_where_they_start_more() -> None:
    held = {
        name: in_flight(pp=8, vpp=1, micro_batches=64, schedule=name) for name in ("1f1b", "zb-h1", "zb-h2", "dualpipe")
    }
    assert held == {"1f1b": 8, "zb-h1": 8, "zb-h2": 15, "dualpipe": 9}


def test_a_schedule_that_puts_nothing_off_is_refused() -> None:
    with pytest.raises(BadRequest, match="zb-h1"):
        split_bubble_s(pp=4, forward_s=1, input_s=1, weight_s=1, schedule="1f1b")


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
