"""Electricity and carbon of work: watts and hours become kWh, kWh become kilograms, both per month and per token.

Cooling and losses of the building are the PUE. Carbon is the grid's annual average where the machines stand, not the
marginal plant and not what a provider has contracted.
"""

from __future__ import annotations

from math import exp

from tonnage.pricing.bills import HOURS_PER_MONTH

__all__ = ["busy_share", "carbon_kg", "energy_kwh", "mean_power_w", "tokens_per_joule"]


def busy_share(*, mean_requests: float) -> float:
    """
    Share of time in which a server has at least one request.

    b = 1 - e^(-R): requests in flight are nearly Poisson, and none of them is there with probability e^-R.

    Parameters
    ----------
    mean_requests : number
        R, requests in flight on average. [requests]

    Returns
    -------
    number
        Share of time at work. [-]

    Valid
    -----
    Open loads without queues at rest; at R above 3 nearly always busy.

    Source
    ------
    M/G/infinity: the number in the system is Poisson with mean R.

    Examples
    --------
    >>> round(busy_share(mean_requests=0.5), 2), round(busy_share(mean_requests=5), 2)
    (0.39, 0.99)
    """
    return 1.0 - exp(-mean_requests)


def energy_kwh(*, power_w: float, hours: float = HOURS_PER_MONTH, pue: float = 1.0) -> float:
    """
    Electricity of a mean power over some time.

    E = P t PUE / 1000

    Parameters
    ----------
    power_w : number
        P, mean draw of the machines. [W]
    hours : number
        t; a month unless given. [h]
    pue : number
        Power of the building over power of its machines. [-]

    Returns
    -------
    number
        [kWh]

    Valid
    -----
    Any.

    Source
    ------
    Definition; power usage effectiveness as in ISO/IEC 30134-2.

    Examples
    --------
    >>> energy_kwh(power_w=1000, hours=730, pue=1.2)
    876.0
    """
    return power_w * hours * pue / 1000.0


def carbon_kg(*, kwh: float, grams_per_kwh: float) -> float:
    """
    Carbon dioxide of electricity from one grid.

    m = E g / 1000

    Parameters
    ----------
    kwh : number
        E. [kWh]
    grams_per_kwh : number
        g, annual average of the grid. [g/kWh]

    Returns
    -------
    number
        [kg]

    Valid
    -----
    Location-based: without certificates and contracts.

    Source
    ------
    GHG Protocol Scope 2 Guidance, location-based method.

    Examples
    --------
    >>> carbon_kg(kwh=876, grams_per_kwh=350)
    306.6
    """
    return kwh * grams_per_kwh / 1000.0


def tokens_per_joule(*, tokens_per_s: float, power_w: float) -> float:
    """
    Performance per watt: tokens per second over watts.

    e = r / P

    Parameters
    ----------
    tokens_per_s : number
        r. [tokens/s]
    power_w : number
        P, mean draw with everything around it. [W]

    Returns
    -------
    number
        [tokens/J]

    Valid
    -----
    Say what P holds: boards, machines, or the building.

    Source
    ------
    Definition.

    Examples
    --------
    >>> tokens_per_joule(tokens_per_s=3000, power_w=1000)
    3.0
    """
    return tokens_per_s / power_w


def mean_power_w(*, power_w: float, utilisation: float, load_share: float, idle_share: float) -> float:
    """
    Mean draw of a machine that works part of the time.

    W = M (u l + (1 - u) s)

    Parameters
    ----------
    power_w : number
        M, the most it draws. [W]
    utilisation : number
        u, share of time at work. [-]
    load_share : number
        l, share of M while it works. [-]
    idle_share : number
        s, share of M while it waits. [-]

    Returns
    -------
    number
        Mean power at the plug, cooling of the room not counted. [W]

    Valid
    -----
    Between idle and full load power is taken as linear in the time at work.

    Source
    ------
    Planning shares of the ownership table (tco.csv, group server_power).

    Examples
    --------
    >>> mean_power_w(power_w=10_200, utilisation=1.0, load_share=0.8, idle_share=0.25)
    8160.0
    """
    return power_w * (utilisation * load_share + (1.0 - utilisation) * idle_share)
