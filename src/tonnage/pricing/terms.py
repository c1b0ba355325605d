"""What do the terms of a price add to it? Billing steps, minimum charges, interruptions, idle time, egress; and what
does an hour cost per token, per request, per month?

A listed price is what the provider asks for an hour. What is spent also depends on how the hour is counted, on hours
that nobody uses, on work lost when capacity is taken back, and on bytes that leave.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.cost import BillingRules, UnitCosts
from tonnage.domain.money import Contract, Provider
from tonnage.pricing.bills import HOURS_PER_MONTH

PREPAID: Final = frozenset({"reserved-1y", "reserved-3y", "block", "contract", "owned"})
"""Terms paid for every hour, used or not."""
TERM_HOURS: Final = {"reserved-1y": 8760.0, "reserved-3y": 26280.0, "block": 24.0}
"""The least that such a term is bought for; capacity blocks are sold by the day. [h]"""

_STEPS: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "month": 730 * 3600.0}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(?:-\d+)?\s*(s|min|minutes?|h|hours?|days?|months?)\b")
_SPANS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0}


def billed_hours(run_s: float, *, step_s: float = 1.0, least_s: float = 0.0) -> float:
    """
    Hours that are charged for a run.

    h = max(ceil(t / step) step, least) / 3600

    Parameters
    ----------
    run_s : number
        t, from start to stop of the instance. [s]
    step_s : number
        Smallest unit that is charged. [s]
    least_s : number
        Smallest charge, or the minimum term. [s]

    Returns
    -------
    number
        Charged time. [h]

    Valid
    -----
    One uninterrupted run.

    Source
    ------
    Providers' billing pages, one row each in the provider table.

    Examples
    --------
    >>> billed_hours(3601, step_s=3600), billed_hours(30, step_s=1, least_s=60) * 60
    (2.0, 1.0)
    """
    if math.isinf(run_s):
        return math.inf
    # A run computed to end exactly on a step must not be charged another one for the last bit of a float.
    return max(math.ceil(run_s / step_s - 1e-9) * step_s, least_s) / 3600.0


def mean_charged_s(mean_run_s: float, *, step_s: float, least_s: float = 0.0) -> float:
    """
    Time that is charged on average for runs that end anywhere in a billing step.

    c = max(t + step / 2, least)

    Parameters
    ----------
    mean_run_s : number
        t, from start to stop, on average. [s]
    step_s : number
        Smallest unit that is charged. [s]
    least_s : number
        Smallest charge. [s]

    Returns
    -------
    number
        Charged time of a run. [s]

    Valid
    -----
    Runs whose lengths differ by more than a step; for one run of known length see `billed_hours`.

    Source
    ------
    Mean of rounding up: half a step.

    Examples
    --------
    >>> mean_charged_s(7800, step_s=3600), mean_charged_s(30, step_s=1, least_s=60)
    (9600.0, 60)
    """
    return max(mean_run_s + step_s / 2.0, least_s)


def term_hours(term: str, contract: Contract | None = None) -> float:
    """The least time that a term is paid for: the contract's, else that of a listed term; 0 = none. [h]"""
    return contract.hours if contract is not None else TERM_HOURS.get(term, 0.0)


def charged_hours(run_s: float, *, rules: BillingRules, term: str, contract: Contract | None = None) -> float:
    """Hours of one instance on the bill of a run: in the provider's steps, at least its minimum or the term's own."""
    least_s = max(rules.least_s, term_hours(term, contract) * 3600.0)
    return billed_hours(run_s, step_s=rules.step_s, least_s=least_s)


def run_lines(
    spent_s: Mapping[str, float], *, charged_h: float, usd_per_hour: float, told: str = ""
) -> tuple[Quantity, ...]:
    """
    The bill of a run, opened by what its hours were spent on; what the provider rounds up is a line of its own.

    Parameters
    ----------
    spent_s : mapping
        Name -> wall time that the run spends on it, with all instances of the bill running. [s]
    charged_h : float
        Wall time that is charged: `charged_hours` of the sum. [h]
    usd_per_hour : float
        Of all instances together. [USD/h]
    told : str, optional
        What the price is of, for the source of each line.
    """
    hours = {name: spent / 3600.0 for name, spent in spent_s.items()}
    hours["rounding of hours"] = charged_h - sum(hours.values())
    price = told or f"{usd_per_hour:,.4g} USD/h"
    return tuple(
        Quantity(name=name, value=usd_per_hour * spent, basis=Basis.DERIVED, source=f"{spent:.2f} h at {price}")
        for name, spent in hours.items()
        if spent > 1e-12
    )


def useful_share(*, between_s: float, lost_s: float) -> float:
    """
    Share of rented time that does useful work when capacity is taken back.

    u = M / (M + L): each interruption wastes L, the work not yet saved and the restart.

    Parameters
    ----------
    between_s : number
        M, mean time from a start to the next interruption. [s]
    lost_s : number
        L, work repeated and time to start again, charged or not. [s]

    Returns
    -------
    number
        Useful time over rented time. [-]

    Valid
    -----
    L shorter than M; for checkpointed training see `tonnage.physics.goodput`.

    Source
    ------
    Renewal reward: useful time of a cycle over its length.

    Examples
    --------
    >>> useful_share(between_s=2.6 * 3600, lost_s=0.1 * 3600)
    0.963
    """
    return between_s / (between_s + lost_s)


def mean_between_reclaims_s(*, monthly_fraction: float) -> float | None:
    """
    Mean time between reclaims from the share of instances that a provider takes back in a month.

    M = 730 h / -ln(1 - f)

    Parameters
    ----------
    monthly_fraction : number
        f, share of instances interrupted in a month. [1/month]

    Returns
    -------
    number
        Mean up-time; None from 100 % on, which says only "more than the last band". [s]

    Valid
    -----
    A constant rate. The AWS feed's bands are averages of thirty days, no forecast.

    Source
    ------
    Exponential up-times; bands of the AWS Spot Advisor.

    Examples
    --------
    >>> round(mean_between_reclaims_s(monthly_fraction=0.05) / 86400)
    593
    """
    if monthly_fraction >= 1.0:
        return None
    return HOURS_PER_MONTH * 3600.0 / -math.log(1.0 - monthly_fraction)


def egress_usd(*, out_bytes: float, usd_per_gb: float, free_bytes: float = 0.0) -> float:
    """
    Charge for bytes that leave a provider's network.

    e = max(0, b - free) / 1e9 x price: providers sell decimal gigabytes.

    Parameters
    ----------
    out_bytes : number
        b, bytes sent out in the month. [bytes]
    usd_per_gb : number
        First paid tier. [USD/GB]
    free_bytes : number
        Monthly allowance. [bytes]

    Returns
    -------
    number
        [USD]

    Valid
    -----
    The first tier; large volumes are cheaper.

    Source
    ------
    Providers' price pages, column egress of the provider table.

    Examples
    --------
    >>> egress_usd(out_bytes=200e9, usd_per_gb=0.09, free_bytes=100e9)
    9.0
    """
    return max(0.0, out_bytes - free_bytes) / 1e9 * usd_per_gb


def idle_usd(*, usd_per_hour: float, busy_share: float, hours: float = HOURS_PER_MONTH) -> float:
    """
    What capacity costs in the hours in which nobody needs it.

    i = p h (1 - b)

    Parameters
    ----------
    usd_per_hour : number
        p, price of what stands. [USD/h]
    busy_share : number
        b, share of the capacity that is used on average. [-]
    hours : number
        h, it stands. [h]

    Returns
    -------
    number
        [USD]

    Valid
    -----
    Capacity that stands all the time.

    Source
    ------
    Derived.

    Examples
    --------
    >>> idle_usd(usd_per_hour=2.0, busy_share=0.75)
    365.0
    """
    return usd_per_hour * hours * (1.0 - busy_share)


def billing_rules(provider: Provider | None) -> BillingRules:
    """
    How a provider counts time, from its published terms.

    Without a published step, or without a provider, steps are whole hours, and `stated` says so; without a minimum
    there is none. Texts such as "10 minutes", "block (day)" and "24 h" are the provider table's own.
    """
    facts = provider.facts if provider is not None else {}
    text, step = facts.get("billing_granularity", ""), stated_step_s(provider)
    term = facts.get("min_term", "")
    least = max(_span_s(facts.get("min_charge", "")) or 0.0, _span_s(term) or 0.0)
    return BillingRules(
        step_s=step or 3600.0,
        least_s=least,
        egress_usd_per_gb=provider.egress_usd_per_gb if provider is not None else None,
        stated=text or "not published: whole hours assumed",
        source=provider.source if provider is not None else "",
    )


def stated_step_s(provider: Provider | None) -> float | None:
    """The step that a provider says it bills time in; None where it says none. [s]"""
    text = provider.facts.get("billing_granularity", "") if provider is not None else ""
    return _span_s(text) or next((seconds for word, seconds in _STEPS.items() if word in text), None)


def unit_costs(
    *,
    usd_per_hour: float,
    requests_per_s: float,
    prompt_tokens: float,
    output_tokens: float,
    prompt_share: float,
    max_requests_per_s: float,
) -> UnitCosts:
    """
    An hourly cost by what it delivers.

    "Output" charges everything to the answers; "blended" divides by all tokens; "input" and "answer" split the cost
    by the time that prompts and answers take, as price lists do.

    Parameters
    ----------
    usd_per_hour : float
        The whole bill. [USD/h]
    requests_per_s : float
        Served on average. [1/s]
    prompt_tokens, output_tokens : float
        Of a mean request. [tokens]
    prompt_share : float
        Share of busy time that prompts take. [-]
    max_requests_per_s : float
        What the same bill could serve within the objectives. [1/s]
    """
    per_request = usd_per_hour / (requests_per_s * 3600.0)
    return UnitCosts(
        usd_per_request=per_request,
        usd_per_million_output_tokens=per_request / output_tokens * 1e6,
        usd_per_million_blended_tokens=per_request / (prompt_tokens + output_tokens) * 1e6,
        usd_per_million_input_share=per_request * prompt_share / prompt_tokens * 1e6,
        usd_per_million_answer_share=per_request * (1.0 - prompt_share) / output_tokens * 1e6,
        requests_per_usd=3600.0 / usd_per_hour * requests_per_s,
        max_requests_per_s_per_usd_hour=max_requests_per_s / usd_per_hour,
    )


def _span_s(text: str) -> float | None:
    """The first span of time in a text: "10 min", "24 h", "1 month"."""
    found = _SPAN.search(text)
    if found is None:
        return None
    number, unit = float(found[1]), found[2]
    factor = _SPANS.get(unit) or next(seconds for word, seconds in _STEPS.items() if unit.startswith(word))
    return number * factor
