"""What do interruptions and checkpoints leave of a run's time?

A run alternates between `interval_s` of work and a checkpoint that blocks it for `blocking_s`. An interruption loses
the work since the last checkpoint and the time to recover. Interruptions come as a Poisson process whose rate is
itself uncertain (gamma-distributed over clusters), so short runs are lucky or not and long ones show the mean.

Ignored: spot up-times are heavier-tailed than exponential, and failures of neighbouring nodes come together.
"""

from __future__ import annotations

from math import ceil, exp, lgamma, log, sqrt
from statistics import NormalDist


def time_between_interruptions_s(*, nodes: float, per_node_day: float, spot_s: float | None = None) -> float:
    """
    Mean time between interruptions of a synchronous job.

    M = 1 / (n r / 86400 + 1 / u): any node stops all of them, and so does the end of a spot allocation.

    Parameters
    ----------
    nodes : number
        n, nodes of the job. [nodes]
    per_node_day : number
        r, interruptions of one node in a day. [1/d]
    spot_s : number
        u, mean up-time of the whole spot allocation; None = not on spot. [s]

    Returns
    -------
    number
        Mean time between interruptions. [s]

    Valid
    -----
    Independent node failures; spot reclaims of all nodes together, as traces show them.

    Source
    ------
    arXiv 2407.21783, section 3.3.4: 419 interruptions of 2,048 nodes in 54 days are 3.1 h apart.

    Examples
    --------
    >>> print(f"{time_between_interruptions_s(nodes=2048, per_node_day=419 / 2048 / 54) / 3600:.2f} h")
    3.09 h
    """
    rate = nodes * per_node_day / 86400.0 + (1.0 / spot_s if spot_s else 0.0)
    return 1.0 / rate


def checkpoint_interval_s(*, blocking_s: float, between_s: float, least_s: float = 0.0) -> float:
    """
    Work between checkpoints that loses least, with Daly's correction.

    tau = sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d for d < 2M, else M; at least the background write.

    Parameters
    ----------
    blocking_s : number
        d, time that one checkpoint stops the work. [s]
    between_s : number
        M, mean time between interruptions. [s]
    least_s : number
        Time of the background write: the next checkpoint waits for it. [s]

    Returns
    -------
    number
        Work between two checkpoints. [s]

    Valid
    -----
    Exponential times between interruptions.

    Source
    ------
    Daly, Future Generation Computer Systems 22 (2006), 303, equation 37.

    Examples
    --------
    >>> print(f"{checkpoint_interval_s(blocking_s=40, between_s=168 * 3600) / 3600:.1f} h")
    1.9 h
    """
    if blocking_s >= 2.0 * between_s:
        return max(between_s, least_s)
    x = blocking_s / (2.0 * between_s)
    best = sqrt(2.0 * blocking_s * between_s) * (1.0 + sqrt(x) / 3.0 + x / 9.0) - blocking_s
    return max(best, least_s)


def useful_time_fraction(*, interval_s: float, blocking_s: float, between_s: float, recovery_s: float) -> float:
    """
    Share of wall time that ends up in the model.

    u = tau / (M e^(R / M) (e^((tau + d) / M) - 1))

    Parameters
    ----------
    interval_s : number
        tau, work between two checkpoints. [s]
    blocking_s : number
        d, time that one checkpoint stops the work. [s]
    between_s : number
        M, mean time between interruptions. [s]
    recovery_s : number
        R, from an interruption to the first new step: detect, reschedule, load, warm up, wait for a spare. [s]

    Returns
    -------
    number
        Useful time fraction; 0 when a checkpoint is practically never reached. [-]

    Valid
    -----
    Exponential times between interruptions, which may also strike while checkpointing and recovering.

    Source
    ------
    Daly, Future Generation Computer Systems 22 (2006), 303, equation 20.

    Examples
    --------
    >>> print(f"{useful_time_fraction(interval_s=816, blocking_s=30, between_s=11124, recovery_s=300):.2f}")
    0.90
    """
    exponent = (interval_s + blocking_s) / between_s
    if exponent + recovery_s / between_s > 100.0:
        return 0.0
    return interval_s / (between_s * exp(recovery_s / between_s) * (exp(exponent) - 1.0))


def checkpoint_write_s(
    *, state_bytes: float, storage_bytes_per_s: float, nodes: float, node_bytes_per_s: float
) -> float:
    """
    Time to write one sharded checkpoint to shared storage.

    t = max(S / B, S / (n b))

    Parameters
    ----------
    state_bytes : number
        S, of all ranks together. [bytes]
    storage_bytes_per_s : number
        B, what the storage takes in all. [bytes/s]
    nodes : number
        n, nodes that write their share. [nodes]
    node_bytes_per_s : number
        b, what one node sends. [bytes/s]

    Returns
    -------
    number
        Time of the write. [s]

    Valid
    -----
    Every node holds an equal share of the state and writes at the same time.

    Source
    ------
    BLOOM: 2.3 TB in about 40 s from 48 nodes (bigscience-workshop/bigscience, train/tr11-176B-ml).

    Examples
    --------
    >>> checkpoint_write_s(state_bytes=2.3e12, storage_bytes_per_s=57.5e9, nodes=48, node_bytes_per_s=50e9)
    40.0
    """
    return max(state_bytes / storage_bytes_per_s, state_bytes / (nodes * node_bytes_per_s))


def gamma_quantile(*, shape: float, z: float) -> float:
    """
    Quantile of a gamma variable over its mean.

    q = (1 - 1 / (9 k) + z / (3 sqrt(k)))^3

    Parameters
    ----------
    shape : number
        k, shape of the gamma distribution. [-]
    z : number
        The same quantile of the standard normal: 1.645 for 95 %. [-]

    Returns
    -------
    number
        Quantile over mean; never negative. [-]

    Valid
    -----
    k >= 1: within 2 % between the 5 % and the 95 % quantile.

    Source
    ------
    Wilson and Hilferty, PNAS 17 (1931), 684.

    Examples
    --------
    >>> round(gamma_quantile(shape=8, z=1.645), 2), round(gamma_quantile(shape=8, z=-1.645), 2)
    (1.64, 0.5)
    """
    root: float = max(0.0, 1.0 - 1.0 / (9.0 * shape) + z / (3.0 * sqrt(shape)))
    return root * root * root


def gamma_shape(*, low: float, high: float) -> float:
    """
    Shape of the gamma distribution whose 5 % and 95 % quantiles have this ratio.

    With r = (high / low)^(1/3) and z = 1.645: 3 c^2 (1 - r) + z c (1 + r) - (1 - r) / 3 = 0 for c = sqrt(k).

    Parameters
    ----------
    low : number
        5 % quantile, above zero. [-]
    high : number
        95 % quantile, above low, in the same unit. [-]

    Returns
    -------
    number
        k, shape. [-]

    Valid
    -----
    high / low below about 30: beyond, k falls under 1.

    Source
    ------
    Solved from Wilson and Hilferty, PNAS 17 (1931), 684.

    Examples
    --------
    >>> round(gamma_shape(low=2, high=6.5), 1)
    8.2
    """
    r = (high / low) ** (1.0 / 3.0)
    a, b, c = 3.0 * (1.0 - r), 1.6449 * (1.0 + r), -(1.0 - r) / 3.0
    root: float = (-b - sqrt(b * b - 4.0 * a * c)) / (2.0 * a)
    return root * root


def poisson_quantile(*, mean: float, p: float) -> int:
    """
    Smallest count that a Poisson variable does not exceed with probability p.

    Parameters
    ----------
    mean : number
        Expected count. [-]
    p : number
        Probability, between 0 and 1. [-]

    Returns
    -------
    number
        Count. [-]

    Valid
    -----
    Exact up to a mean of 500. Beyond it the normal quantile with its first correction for skewness: within one count.

    Source
    ------
    Counting; beyond, Cornish and Fisher (1938): z + (z^2 - 1) / (6 sqrt(mean)) standard deviations.

    Examples
    --------
    >>> [poisson_quantile(mean=2.0, p=p) for p in (0.1, 0.5, 0.95)]
    [0, 2, 5]
    """
    if mean > 500.0:
        z = NormalDist().inv_cdf(p)
        return ceil(mean + z * sqrt(mean) + (z * z - 1.0) / 6.0 - 0.5)
    term, count = exp(-mean), 0
    total = term
    while total < p and count < 2000:
        count += 1
        term = exp(count * log(mean) - mean - lgamma(count + 1)) if mean > 0 else 0.0
        total += term
    return count
