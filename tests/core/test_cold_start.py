"""A start is its parts: the published ones add up, and what is kept on the node shortens them."""

import pytest

from tonnage.core.cold_start import STARTS, TIMED_WEIGHT_BYTES, UNKNOWN_PROVISIONING_S, cold_start


def test_the_published_starts_add_up() -> None:
    cold, cached = (
        cold_start(weight_bytes=TIMED_WEIGHT_BYTES, provider="nobody", start_from=place)
        for place in ("network", "cached")
    )  # type: ignore[arg-type]
    assert cold.total_s - UNKNOWN_PROVISIONING_S == pytest.approx(294.0)
    assert cached.total_s - UNKNOWN_PROVISIONING_S == pytest.approx(82.0)


@pytest.mark.parametrize("place", STARTS)
def test_parts_sum_and_grow_with_the_weights(place: str) -> None:
    small, large = (cold_start(weight_bytes=size, provider="lambda", start_from=place) for size in (8e9, 140e9))  # type: ignore[arg-type]
    for found in (small, large):
        assert sum(part.value for part in found.parts) == pytest.approx(found.total_s)
    assert large.weights_s > small.weights_s and large.warm_up_s == small.warm_up_s


def test_an_engine_without_graphs_captures_none() -> None:
    with_graphs, without = (cold_start(weight_bytes=8e9, provider="lambda", graphs=graphs) for graphs in (True, False))
    assert with_graphs.total_s - without.total_s == pytest.approx(54.0)
    assert "graph capture" not in {part.name for part in without.parts}
