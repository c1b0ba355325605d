"""How much slower does arithmetic become under a power limit, when memory keeps its clock?"""

from __future__ import annotations

from tonnage.errors import BadRequest


def capped_clock(*, power_share: float, static_share: float = 0.3) -> float:
    """
    Clock of the processors under a lower board limit, over the clock at the usual one.

    f = ((p - s) / (1 - s))^(1/3): what switching draws goes with voltage squared times clock, and voltage goes with
    clock; leakage, memory and links draw the same at every clock. A textbook's relation that no measurement here was
    held against.

    Parameters
    ----------
    power_share : number
        p, limit over the usual limit, above s and at most 1. [-]
    static_share : number
        s, share of the usual limit that does not depend on the clock. [-]

    Returns
    -------
    number
        f; work limited by memory traffic keeps its speed. [-]

    Raises
    ------
    BadRequest
        The limit leaves nothing for switching, or is above the usual one.

    Valid
    -----
    Limits of 50 to 100 %; boards that reach their limit at the usual one. A board below its limit loses less.

    Source
    ------
    Mudge 2001, "Power: a first-class architectural design constraint", IEEE Computer 34(4): P ~ C V^2 f with V ~ f.

    Examples
    --------
    >>> round(capped_clock(power_share=0.7), 2)
    0.83
    """
    if not static_share < power_share <= 1.0:
        raise BadRequest(f"power_share: {power_share:g} must be above {static_share:g} and at most 1")
    return float(((power_share - static_share) / (1.0 - static_share)) ** (1.0 / 3.0))
