"""Pipeline: bubble, micro-batches in flight, layers of a stage."""

import pytest

from tonnage.errors import BadRequest
from tonnage.physics.pipeline import bubble_turns, in_flight, split_bubble_s, stage_layers


def test_interleaving_divides_the_bubble() -> None:
    assert bubble_turns(pp=8) == 7
    assert bubble_turns(pp=8, vpp=7) == 1
    assert bubble_turns(pp=1) == 0


@pytest.mark.parametrize(("stage", "held"), [(0, 8), (3, 5), (7, 1)])
def test_one_f_one_b_holds_less_towards_the_end(stage: int, held: int) -> None:
    assert in_flight(pp=8, vpp=1, micro_batches=64, stage=stage) == held


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
