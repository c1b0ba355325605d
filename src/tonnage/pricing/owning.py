"""
What does owning a machine cost over the years it is kept, and where does it meet renting?

Purchase less resale, fabric, storage, spares, interest, support, insurance, energy, hosting and staff; each is one
line of the sum. Energy is the only line that grows with use: an idle machine draws idle power. Downtime is not a
line: it lowers the hours in which the machine can work.

Renting by the hour costs R u and a reservation R whether it is used or not, against F + E u of owning: F whatever the
machine does, E for the energy of working all the time, u the share of hours used. Where the lines meet is a break-even.
"""

from __future__ import annotations

from math import expm1, sqrt
from typing import Final

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.cost import OwnedMachine
from tonnage.errors import BadRequest
from tonnage.pricing.energy import mean_power_w
from tonnage.units import percent

HOURS_PER_YEAR: Final = 8760.0
"""365 days; twelve months of 730 hours. [h]"""
MONTHS_PER_YEAR: Final = 12.0
SECONDS_PER_YEAR: Final = HOURS_PER_YEAR * 3600.0


def resale_share(*, years: float, after_3_years: float) -> float:
    """
    Share of its price that a machine sells for after some years.

    r(t) = r3^(t / 3): the same share is lost every year, so that one figure gives a value at any age.

    Parameters
    ----------
    years : number
        t, age at the sale. [years]
    after_3_years : number
        r3, share left after three years, 0 < r3 <= 1; 0 = worth nothing at any age. [-]

    Returns
    -------
    number
        Share of the purchase price. [-]

    Valid
    -----
    One to six years; a sale straight after the purchase brings less than its price.

    Source
    ------
    Declining-balance depreciation; the share after 36 months is a row of the ownership table.

    Examples
    --------
    >>> round(resale_share(years=4, after_3_years=0.3), 3)
    0.201
    """
    return after_3_years ** (years / 3.0) if after_3_years > 0 else 0.0


def interest_usd(*, purchase_usd: float, interest_per_year: float, years: float) -> float:
    """
    Interest on a purchase that is paid off evenly over its life.

    I = P i t / 2: on average half of the price is owed.

    Parameters
    ----------
    purchase_usd : number
        P. [USD]
    interest_per_year : number
        i, of a loan, or what the money would earn elsewhere. [1/year]
    years : number
        t, life of the machine. [years]

    Returns
    -------
    number
        Interest over the whole life. [USD]

    Valid
    -----
    Without compounding: for rates below about 15 % and lives below six years.

    Source
    ------
    Straight-line loan; the formula the ownership table was made for (tco.csv, group finance).

    Examples
    --------
    >>> interest_usd(purchase_usd=280_000, interest_per_year=0.08, years=4)
    44800.0
    """
    return purchase_usd * interest_per_year * years / 2.0


def availability(machine: OwnedMachine) -> float:
    """Share of its hours in which a machine works: an interruption of any accelerator stops it until repaired. [-]"""
    per_year = machine.interruptions * machine.accelerators
    return 1.0 / (1.0 + per_year * machine.repair / SECONDS_PER_YEAR)


def owned_usd(machine: OwnedMachine, *, utilisation: float) -> Quantity:
    """
    Cost of owning over the machine's life, line by line.

    own = purchase (1 - resale) + fabric + storage + spares + interest + (support + insurance) purchase years
    + energy + hosting + staff; linear in the utilisation through the energy alone.

    Raises
    ------
    BadRequest
        The utilisation is outside 0 to 1.
    """
    if not 0.0 <= utilisation <= 1.0:
        raise BadRequest(f"utilisation must be from 0 to 100 %, not {percent(utilisation)}")
    m = machine
    kw = mean_power_w(power_w=m.power, utilisation=utilisation, load_share=m.load, idle_share=m.idle) / 1e3
    resale = resale_share(years=m.years, after_3_years=m.resale_3y)
    share = f"{percent(resale)} of it after {m.years:g} years"
    return Quantity.of_parts(
        "USD",
        (
            _part("purchase", m.purchase, "one machine"),
            _part("resale", -m.purchase * resale, share),
            _part("network", m.network, "its share of the fabric"),
            _part("storage", m.storage, "bought beside it"),
            _part("spares", m.purchase * m.spares, f"{percent(m.spares, 1)} of the purchase"),
            _part(
                "interest",
                interest_usd(purchase_usd=m.purchase, interest_per_year=m.interest, years=m.years),
                f"{percent(m.interest, 1)} a year on half the purchase",
            ),
            _part("support", m.purchase * m.support * m.years, f"{percent(m.support, 1)} of the purchase a year"),
            _part("insurance", m.purchase * m.insurance * m.years, f"{percent(m.insurance, 1)} of the purchase a year"),
            _part(
                "energy",
                kw * m.pue * HOURS_PER_YEAR * m.years * m.electricity,
                f"{kw:.2f} kW on average x PUE {m.pue:g} x {m.electricity:g} USD/kWh",
            ),
            _part(
                "hosting",
                m.power / 1e3 * m.hosting * MONTHS_PER_YEAR * m.years,
                f"{m.power / 1e3:g} kW contracted x {m.hosting:g} USD/kW-month",
            ),
            _part("staff", m.staff * m.years, f"{m.staff:,.0f} USD a year"),
        ),
    )


def owned_usd_per_used_hour(machine: OwnedMachine, *, utilisation: float) -> float:
    """
    Cost of owning one accelerator, over the hours in which it is used and not down for repair. [USD/h]

    Raises
    ------
    BadRequest
        The utilisation is not above 0, or above 1.
    """
    hours = machine.accelerators * HOURS_PER_YEAR * machine.years * utilisation * availability(machine)
    if hours <= 0:
        raise BadRequest("utilisation must be above 0 %: a machine that does nothing has no cost of a used hour")
    return owned_usd(machine, utilisation=utilisation).value / hours


def _part(name: str, value: float, source: str) -> Quantity:
    return Quantity(name=name, value=value, basis=Basis.ASSUMED, source=source)


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
    *,
    upfront_usd: float,
    running_usd_per_year: float,
    interest_usd_per_year: float,
    rent_usd_per_year: float,
    years: float,
) -> float | None:
    """
    Time until the rent that is saved has paid for the machine.

    r t = U + a t + c (t - t^2 / 2Y): interest c is on what is still owed, which falls to nothing at the end of the
    life Y. The positive root of this quadratic equation is the time.

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
