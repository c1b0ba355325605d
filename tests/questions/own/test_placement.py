"""As little as possible is moved: experts before layers, and never more than has to be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage import catalog
from tonnage.domain.precision import Precision
from tonnage.questions.own.speed import Shares, place_layers, shares_of, smallest_placement


def counted(name: str, weights: str = "gguf-q4_k_m") -> Shares:
    model = catalog.model(name)
    precision = Precision(weights=weights, kv="fp16", activations="fp16")
    return shares_of(model, precision, cache_bytes=1e9, depth=1024, piece_tokens=512)


MIXTURE, DENSE = counted("Qwen/Qwen3-30B-A3B"), counted("Qwen/Qwen3-32B")


def test_nothing_moves_where_there_is_room() -> None:
    for shares in (MIXTURE, DENSE):
        found = smallest_placement(shares, short_by=-1.0)
        assert found is not None
        assert (found.moved_bytes, found.read_share) == (0.0, 0.0)


def test_experts_go_first_and_cost_less_than_their_share() -> None:
    found = smallest_placement(MIXTURE, short_by=8e9)
    assert found is not None
    assert found.layers == 0
    assert found.moved_bytes >= 8e9
    assert found.read_share < found.moved_bytes / (MIXTURE.expert_bytes + MIXTURE.layer_bytes)


def test_a_token_of_a_mixture_reads_the_active_share() -> None:
    assert MIXTURE.read_expert_bytes == pytest.approx(MIXTURE.expert_bytes * 8 / 128)
    assert DENSE.read_expert_bytes == DENSE.expert_bytes == 0.0


@given(short=st.floats(1.0, 40e9), more=st.floats(0.0, 10e9))
@pytest.mark.parametrize("shares", [MIXTURE, DENSE], ids=["mixture", "dense"])
def test_what_is_moved_is_enough_least_and_monotone(shares: Shares, short: float, more: float) -> None:
    found, further = smallest_placement(shares, short_by=short), smallest_placement(shares, short_by=short + more)
    if found is None:
        assert further is None
        return
    assert found.moved_bytes >= short * (1 - 1e-9)
    less = (
        place_layers(shares, layers=found.layers, expert_layers=found.expert_layers - 1)
        if not found.layers
        else place_layers(shares, layers=found.layers - 1, expert_layers=found.expert_layers)
    )
    assert less.moved_bytes < short
    if further is not None:
        assert further.read_share >= found.read_share
        assert further.moved_bytes >= found.moved_bytes


def test_all_layers_are_everything() -> None:
    found = place_layers(MIXTURE, layers=MIXTURE.layers, expert_layers=0)
    assert found.read_share == 1.0
    assert found.expert_layers == 0


def test_too_large_for_any_placement() -> None:
    assert smallest_placement(DENSE, short_by=1e12) is None
