"""Where do renting and owning meet: in share of hours used, in hours, in months?

Owning costs F + E u over a machine's life: F whatever it does, E for the energy of working all the time. Renting by
the hour costs R u; a reservation costs R whether it is used or not.
"""

from __future__ import annotations

from math import expm1, sqrt

__all__ = ["break_even_utilisation", "mean_price_factor", "payback_years"]


def break_even_utilisation(*, fixed_usd: float, full_use_usd: float, rent_usd: float) -> float | None:
    """
    Share of hours from which owning costs no more than renting by the hour.

    u* = F / (R - E)

    Parameters
    ----------
    fixed_usd : number
        F, owning an idle machine for its whole life. [USD]
    full_use_usd : number
        E, what working all the time adds to F. [USD]
    rent_usd : number
        R, renting for every hour of the same life. [USD]

    Returns
    -------
    number
        u*; above 1 means that not even full use is enough; None when an hour of rent is cheaper than the energy of
        working in it. [-]

    Valid
    -----
    Rent paid for used hours only, at one price. A machine kept for a share u of its hours.

    Source
    ------
    Derived: F + E u = R u.

    Examples
    --------
    >>> round(break_even_utilisation(fixed_usd=500_000, full_use_usd=20_000, rent_usd=1_000_000), 3)
    0.51
    """
    if rent_usd <= full_use_usd:
        return None
    return fixed_usd / (rent_usd - full_use_usd)


def payback_years(
    *, upfront_usd: float, running_usd_per_year: float, interest_usd_per_year: float, rent_usd_per_year: float,
    years: float,
) -> float | None:  # fmt: skip
    """
    Time until the rent that is saved has paid for the machine.

    r t = U + a t + c (t - t^2 / 2Y): interest c is on what is still owed, which falls to nothing at the end of the
    life Y. The smaller root of this square is the day.

    Parameters
    ----------
    upfront_usd : number
        U, everything bought at the start. [USD]
    running_usd_per_year : number
        a, energy, hosting, staff, support, insurance. [USD/year]
    interest_usd_per_year : number
        c, interest of the first year on the whole purchase. [USD/year]
    rent_usd_per_year : number
        r, rent for the same work. [USD/year]
    years : number
        Y, life of the machine. [years]

    Returns
    -------
    number
        t; None when it does not happen within the life. [years]

    Valid
    -----
    Resale is left out: the machine is kept. Rent at one price.

    Source
    ------
    Derived: cumulated rent equals cumulated cost, loan paid off evenly.

    Examples
    --------
    >>> payback_years(
    ...     upfront_usd=100, running_usd_per_year=10, interest_usd_per_year=0, rent_usd_per_year=60, years=4)
    2.0
    """
    saved = rent_usd_per_year - running_usd_per_year - interest_usd_per_year
    half = interest_usd_per_year / (2.0 * years)
    root = sqrt(saved**2 + 4.0 * half * upfront_usd)
    # Two forms of one root; each is used where its terms do not cancel.
    if saved > 0.0:
        t = 2.0 * upfront_usd / (saved + root)
    elif half > 0.0:
        t = (root - saved) / (2.0 * half)
    else:
        return None
    return t if t <= years else None


def mean_price_factor(*, decline_per_year: float, years: float) -> float:
    """
    Mean of a price over some years, as a share of today's, when it falls steadily.

    f = (1 - e^(-g t)) / (g t)

    Parameters
    ----------
    decline_per_year : number
        g, continuous rate: a price at 1 / e of today's after 1 / g years. [1/year]
    years : number
        t, over which it is paid. [years]

    Returns
    -------
    number
        Mean price over today's. [-]

    Valid
    -----
    A steady fall; new generations come in steps.

    Source
    ------
    Mean of e^(-g t).

    Examples
    --------
    >>> round(mean_price_factor(decline_per_year=0.2, years=4), 3)
    0.688
    """
    fall = decline_per_year * years
    return -expm1(-fall) / fall if fall else 1.0
