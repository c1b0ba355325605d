"""Generated traffic has the moments it is asked for."""

import numpy as np
import pytest

from tonnage.catalog.traffic import profiles
from tonnage.errors import BadRequest
from tonnage.simulation.arrivals import (
    Quantiles,
    at_rate,
    diurnal,
    doubly_stochastic,
    draw_lengths,
    gamma_renewal,
    on_off,
    poisson,
    random,
    spread_lengths,
    spread_over_clock_step,
)

N = 200_000


def dispersion(times: np.ndarray, window: float) -> float:
    """Variance over mean of the counts in whole windows."""
    counts = np.bincount((times / window).astype(int))[:-1]
    return float(counts.var() / counts.mean())


def test_poisson() -> None:
    times = poisson(random(1), N, rate_per_s=5.0)
    assert N / times[-1] == pytest.approx(5.0, rel=0.01)
    assert dispersion(times, 10.0) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("variation", [0.5, 3.0])
def test_gamma_gaps(variation: float) -> None:
    gaps = np.diff(gamma_renewal(random(1), N, rate_per_s=2.0, variation=variation))
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.03)
    assert gaps.mean() == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize(("rate", "asked", "window"), [(5.5, 3.9, 10.0), (2.6, 72.0, 10.0), (5.5, 16.0, 60.0)])
def test_rates_that_wander(rate: float, asked: float, window: float) -> None:
    times = doubly_stochastic(random(1), 2 * N, rate_per_s=rate, dispersion=asked, window_s=window)
    assert (np.diff(times) >= 0).all()
    assert 2 * N / times[-1] == pytest.approx(rate, rel=0.05)
    assert dispersion(times, window) == pytest.approx(asked, rel=0.1)


def test_on_off_keeps_the_mean_rate() -> None:
    times = on_off(random(1), N, rate_per_s=4.0, on_s=20.0, off_s=60.0)
    assert N / times[-1] == pytest.approx(4.0, rel=0.05)
    assert (np.diff(times) > 10.0).sum() > 100


def test_a_day_has_the_shape_it_is_given() -> None:
    hours = [0.5] * 12 + [1.5] * 12
    times = diurnal(np.linspace(0, 2 * 86400, N, endpoint=False), hours=hours)
    counts, _ = np.histogram(times % 86400, bins=24, range=(0, 86400))
    assert counts / counts.mean() == pytest.approx(hours, rel=0.02)


def test_stretching_keeps_the_pattern() -> None:
    times = poisson(random(1), 1000, rate_per_s=2.0)
    fast = at_rate(times, 8.0)
    assert 999 / fast[-1] == pytest.approx(8.0)
    assert np.diff(fast) == pytest.approx(np.diff(times) * np.diff(fast)[0] / np.diff(times)[0])


@pytest.mark.parametrize("name", [name for name, p in profiles().items() if p.prompt_quantiles])
def test_profiles_reproduce_the_published_lengths(name: str) -> None:
    found = profiles()[name]
    for quantiles, mean in (
        (found.prompt_quantiles, found.lengths.prompt_tokens),
        (found.output_quantiles, found.lengths.output_tokens),
    ):
        shares, tokens = zip(*quantiles, strict=True)
        drawn = draw_lengths(random(1), 2 * N, quantiles=Quantiles(shares, tokens, mean))
        assert drawn.mean() == pytest.approx(mean, rel=0.015)
        for share, published in quantiles:
            if 0.05 <= share <= 0.99:
                # As many are shorter, and as many longer, as the quantile says; ties make it a range.
                assert (drawn < published).mean() <= share + 0.005
                assert (drawn <= published + 1).mean() >= share - 0.005


def test_lengths_between_fractions_of_nominal() -> None:
    drawn = spread_lengths(random(1), N, nominal=1000, spread=(0.8, 1.0))
    assert drawn.min() >= 800 and drawn.max() <= 1000
    assert drawn.mean() == pytest.approx(900, rel=0.01)


def test_a_coarse_clock_is_smoothed_and_a_fine_one_is_not() -> None:
    coarse = np.repeat(np.arange(100) * 3.0, 10)
    smooth = spread_over_clock_step(random(1), coarse)
    assert (np.abs(smooth - coarse) < 3.0).all() and len(np.unique(smooth)) == 1000
    fine = np.sort(random(1).random(1000))
    assert spread_over_clock_step(random(1), fine) is fine


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: poisson(random(0), 5, rate_per_s=0.0), "rate"),
        (lambda: gamma_renewal(random(0), 5, rate_per_s=1.0, variation=0.0), "variation"),
        (lambda: doubly_stochastic(random(0), 5, rate_per_s=1.0, dispersion=0.5, window_s=1.0), "dispersion"),
        (lambda: at_rate(np.zeros(3), 1.0), "at once"),
        (lambda: diurnal(np.zeros(3), hours=[0.0, 0.0]), "hours"),
    ],
)
def test_what_makes_no_sense_is_said(call: object, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        call()  # type: ignore[operator]
