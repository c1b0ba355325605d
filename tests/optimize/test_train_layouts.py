"""Layout search: degrees that divide, reasons for the rest, and the same best as looking at everything."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patience import assert_quick
from tests.training_setups import train_setup

from tonnage import catalog
from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import Model
from tonnage.domain.training import Recompute, TrainSetup
from tonnage.optimize.train_layouts import Space, arrangements, bubble_factor, search

DENSE = catalog.model("meta-llama/Meta-Llama-3.1-70B")
MIXTURE = catalog.model("mistralai/Mixtral-8x7B-v0.1")


def space(count: int, batch: int = 256, *, model: Model = DENSE, recompute: Recompute | None = None) -> Space:
    templates = tuple(train_setup(software=name, seq_len=4096, model=model) for name in ("megatron", "fsdp"))
    return Space(count=count, domain=8, global_batch=batch, templates=templates, recompute=recompute)


def seconds(setup: TrainSetup) -> float:
    """A stand-in with the shape of the real thing: exchange grows with tp, small micro-batches lose a little."""
    layout = setup.layout
    busy = (
        1.0
        + 0.05 * layout.tp
        + 0.1 / setup.micro_batch
        + {"none": 0.0, "selective": 0.1, "full": 0.33}[setup.recompute]
    )
    return busy * bubble_factor(setup, layers=setup.model.depth)


def over(setup: TrainSetup) -> float:
    layout = setup.layout
    state = 1000.0 / (layout.tp * layout.pp) / (layout.dp if layout.sharding in {"fsdp", "zero2"} else 1)
    kept = 0.1 if setup.recompute == "full" else 1.0
    return state + 10.0 * kept * setup.micro_batch * layout.pp**0.2 / layout.tp - 80.0


def roofline(setup: TrainSetup) -> float:
    return bubble_factor(setup, layers=setup.model.depth) * (1.33 if setup.recompute == "full" else 1.0)


@settings(max_examples=20)
@given(st.sampled_from([8, 16, 24, 48, 64, 96, 128]), st.sampled_from([96, 256, 480]))
def test_every_arrangement_multiplies_to_the_count_and_divides_the_model(count: int, batch: int) -> None:
    for setup in arrangements(space(count, batch)):
        layout = setup.layout
        assert layout.ranks == count
        assert 64 % layout.tp == 0 and layout.tp <= 8
        assert layout.pp <= 80
        assert setup.micro_batch * setup.num_micro_batches * layout.dp == batch
        assert layout.vpp == 1 or setup.num_micro_batches % layout.pp == 0


@pytest.mark.parametrize("count", [8, 64, 256])
def test_branch_and_bound_finds_what_brute_force_finds(count: int) -> None:
    every = [s for s in arrangements(space(count)) if over(s) <= 0]
    best = min((seconds(s) for s in every), default=None)
    found = search(space(count), fits=over, seconds=seconds, bounds=(roofline, roofline), keep=3)
    assert (found.best[0].step_s if found.best else None) == best
    assert list(found.best) == sorted(found.best, key=lambda a: a.step_s)


@pytest.mark.parametrize("count", [64, 256])
def test_at_every_chance_of_fitting_the_fastest_is_found(count: int) -> None:
    def chance(setup: TrainSetup, over_bytes: float) -> float:
        return min(1.0, round(-over_bytes / 60.0, 2))

    every = [(seconds(s), chance(s, over(s))) for s in arrangements(space(count))]
    fits = [(took, sure) for (took, sure) in every if sure >= 0]
    found = search(space(count), fits=over, chance=chance, seconds=seconds, bounds=(roofline, roofline), keep=1)
    chances = [one.chance for one in found.best]
    assert chances == sorted(set(chances)) and [a.step_s for a in found.best] == sorted({a.step_s for a in found.best})
    for wanted in (0.0, 0.3, 0.6, 0.9, max(sure for _, sure in fits)):
        least = min((took for took, sure in fits if sure >= wanted), default=None)
        one = found.likely(wanted)
        assert one is not None and (one.step_s == least if least is not None else one.chance == max(chances))
    assert found.best[0].step_s == min(took for took, _ in fits)


def test_what_does_not_fit_names_the_closest_and_its_shortfall() -> None:
    found = search(space(64), fits=lambda s: over(s) + 1e6, seconds=seconds, bounds=(roofline,))
    assert not found.best and found.smallest is not None
    least = min(over(s) + 1e6 for s in arrangements(space(64)))
    assert found.short_bytes == pytest.approx(least)


def test_experts_are_cut_by_divisors_only() -> None:
    degrees = {s.layout.ep for s in arrangements(space(64, model=MIXTURE))}
    assert degrees == {1, 2, 4, 8}


def test_a_fixed_recomputation_is_kept() -> None:
    assert {s.recompute for s in arrangements(space(64, recompute="full"))} == {"full"}


def test_adapters_are_not_pipelined() -> None:
    lora = train_setup(software="eager", method="lora", seq_len=2048, model=DENSE)
    tried = list(arrangements(Space(count=8, domain=8, global_batch=32, templates=(lora,))))
    assert tried and all(s.layout.pp == s.layout.tp == 1 for s in tried)


@pytest.mark.parametrize(("pp", "vpp", "expected"), [(1, 1, 1.0), (8, 1, 1 + 7 / 64), (8, 5, 1 + 7 / 5 / 64)])
def test_the_bubble_is_that_of_its_schedule(pp: int, vpp: int, expected: float) -> None:
    layout = TrainLayout(pp=pp, vpp=vpp)
    setup = train_setup(layout=layout, num_micro_batches=64, model=DENSE)
    assert bubble_factor(setup, layers=setup.model.depth) <= expected + 1e-9


def test_thousands_of_accelerators_are_enumerated_quickly() -> None:
    start = time.process_time()
    found = search(space(16384, batch=4096), fits=over, seconds=seconds, bounds=(roofline,))
    assert_quick(time.process_time() - start, 5.0)
    assert found.best
