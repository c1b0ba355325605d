"""Power of a training step by its phases: what runs draws, what waits does not, and nothing passes the limit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tonnage import catalog
from tonnage.core import train_estimate as estimate
from tonnage.domain.answer import Quantity
from tonnage.domain.case import TrainCase
from tonnage.domain.training import TrainSetup
from tonnage.pricing.energy import IDLE_DRAW, WORKING_DRAW
from tonnage.questions.train.machine import training_load
from tonnage.questions.train.setup import resolve_setup

PART = catalog.accelerator("h100-sxm5-80gb")


def setup(model: str = "meta-llama/Llama-3.1-8B", **fields: object) -> TrainSetup:
    asked = {"count": 8, "seq_len": 4096, "global_batch": 64} | fields
    case = TrainCase(model=model, accelerator=PART.id, **asked)  # type: ignore[arg-type]
    return resolve_setup(case, model=catalog.model(model), accelerator=PART).setup


SETUP = setup()
STEP = estimate.step(SETUP)


def with_part(name: str, seconds: float) -> Quantity:
    """The step, one of its parts so long."""
    others = tuple(part for part in STEP.parts if part.name != name)
    return Quantity.of_parts("s", (*others, Quantity(name=name, value=seconds)))


@settings(max_examples=40, deadline=None)
@given(seconds=st.floats(0.0, 1e4), name=st.sampled_from([part.name for part in STEP.parts]))
def test_a_board_draws_from_idle_to_its_limit(seconds: float, name: str) -> None:
    load = training_load(SETUP, with_part(name, seconds))
    assert IDLE_DRAW <= load.value <= 1.0 + 1e-12 and load.low < load.value <= load.high <= 1.0


@pytest.mark.parametrize(
    ("name", "share"),
    [("host", IDLE_DRAW), ("bubble", WORKING_DRAW), ("DP communication", WORKING_DRAW), ("optimizer", 1.0)],
)
def test_a_step_of_one_phase_draws_what_that_phase_does(name: str, share: float) -> None:
    only = replace(STEP, value=2.0, parts=(Quantity(name=name, value=2.0),))
    assert training_load(SETUP, only).value == pytest.approx(share, abs=1e-9)


def test_the_same_products_in_more_time_draw_less() -> None:
    shares = [training_load(SETUP, with_part("compute", times * STEP.value)).value for times in (1.0, 2.0, 4.0, 16.0)]
    assert shares == sorted(shares, reverse=True)
    # Products spread over ever more time leave a board that works on next to nothing.
    assert shares[-1] == pytest.approx(WORKING_DRAW, abs=0.06)


def test_an_optimizer_on_the_host_leaves_the_board_idle() -> None:
    away = replace(SETUP, offload="optimizer")
    only = replace(STEP, value=2.0, parts=(Quantity(name="optimizer", value=2.0),))
    assert training_load(away, only).value == pytest.approx(IDLE_DRAW)


def test_recompute_adds_products_where_they_are_not_at_the_limit_yet() -> None:
    slow = with_part("compute", 4.0 * STEP.value)
    none, full = (training_load(replace(SETUP, recompute=kind), slow).value for kind in ("none", "full"))
    assert none < full


def test_networks_without_layers_have_power_too() -> None:
    net = setup("resnet-50", seq_len=None, global_batch=2048)
    assert 0.46 < training_load(net, estimate.step(net)).value <= 1.0
