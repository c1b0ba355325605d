"""Rates of interruption, figures of recovery, spot up-times: ordered bands, a source each."""

import pytest

from tonnage.catalog.failures import interruptions, run_fact, spot_uptime
from tonnage.errors import UnknownName

FACTS = ("detect_and_restart", "start_up", "repair", "state_per_parameter", "storage_write", "storage_per_node",
         "staging", "barrier")  # fmt: skip


@pytest.mark.parametrize("key", FACTS)
def test_each_figure_lies_in_its_band_and_names_its_source(key: str) -> None:
    fact = run_fact(key)
    assert 0 < fact.low <= fact.value <= fact.high
    assert fact.source and fact.unit


@pytest.mark.parametrize("nodes", [1, 48, 2048])
def test_rates_lie_in_their_band(nodes: int) -> None:
    rate = interruptions(nodes=nodes)
    assert 0 < rate.low < rate.per_node_day < rate.high
    assert rate.source


def test_flagship_clusters_fail_less_per_node_than_small_jobs() -> None:
    assert interruptions(nodes=2048).per_node_day < interruptions(nodes=8).per_node_day


def test_spot_capacity_beyond_what_was_traced_stays_up_for_less() -> None:
    up = [spot_uptime(instances=n).mean_up_s for n in (16, 32, 64)]
    assert up == sorted(up, reverse=True)
    assert spot_uptime(instances=1).availability < 1


def test_an_unknown_figure_is_refused() -> None:
    with pytest.raises(UnknownName, match="detect_and_restart"):
        run_fact("detect_and_restrt")
