"""
Electricity and carbon of work: what an accelerator does becomes watts, watts and hours kWh, and those kilograms.

One sum gives the draw of an accelerator in serving, training and everything between: kernels that run at all, bytes
that memory moves, products that are made, and nothing beyond the limit, where clocks fall. What the state is over time
(steps, phases, waiting) is said by who calls it; hosts come on top (`core.host`).

Cooling and losses of the building are the PUE. Carbon is the grid's annual average where the machines stand, not the
marginal plant and not what a provider has contracted.
"""

from __future__ import annotations

from math import exp
from typing import Final

from tonnage.errors import BadRequest
from tonnage.pricing.bills import HOURS_PER_MONTH

WORKING_DRAW: Final = 0.46
"""
What a board draws over its limit while kernels run back to back, before any byte or product: clocks at their highest,
schedulers, registers and on-chip memory; also while collectives poll for what other ranks send. [-]

This and the three below are one least-squares fit of 225 readings of ML.ENERGY (H100, vLLM 0.11, five model families,
8 to 2,047 sequences; measurements/energy_2.csv.gz): power within 8 % in the median. Fitted without a family, its energy
a token is met within 3 (Gemma 3) to 16 % (gpt-oss), 10 % in the median; the four numbers trade against each other then
(without Qwen3, half of the readings: 0.32, 0.46, 1.7 and 0.94). No other part was read. The sum agrees with decoding at
60 to 70 % of the limit, published for A100 and H100 (POLCA, arXiv 2308.12908).
"""
WEIGHT_DRAW: Final = 0.21
"""Further draw at the data sheet's memory rate, for weights streamed through products: 44 pJ a byte on an H100. [-]"""
VECTOR_DRAW: Final = 0.87
"""The same for cached keys and values and for element-wise operators: each byte passes the vector units. [-]"""
PRODUCT_DRAW: Final = 1.06
"""The same at the peak of the products' format: a sustained product meets the limit with clocks that fall. [-]"""
IDLE_DRAW: Final = 0.15
"""Share of its limit that a board draws without work: T4 10 of 70 W, A100 50 to 60 of 400 W (nvidia-smi). [-]"""


def board_share(*, weights: float, others: float, products: float, busy: float = 1.0) -> float:
    """
    Mean draw of a board over its limit.

    s = b min(1, 0.46 + 0.21 w + 0.87 v + 1.06 p) + 0.15 (1 - b)

    Parameters
    ----------
    weights : number
        w, bytes of weights read for products, over what the rated memory bandwidth moves in the same time. [-]
    others : number
        v, the same of all other bytes: cached keys and values, element-wise work. [-]
    products : number
        p, FLOP that matrix units execute, padding included, over the dense peak of their format. [-]
    busy : number
        b, share of the time in which kernels run; the three above are means over that time. [-]

    Returns
    -------
    number
        s, mean draw over the limit, 0.15 to 1. [-]

    Raises
    ------
    BadRequest
        A share is negative, or busy is above 1.

    Valid
    -----
    Fitted on H100 that serve; other parts, formats and training take it with the spread of 1.25 that callers state.
    Published for training: 624 W of 700 W (Olmo 3 7B) and 649 W (32B) on H100.

    Source
    ------
    Least squares on ML.ENERGY v3 (see `WORKING_DRAW`); idle readings of nvidia-smi.

    Examples
    --------
    >>> round(board_share(weights=0.6, others=0.05, products=0.02), 2)
    0.65
    >>> board_share(weights=0.0, others=0.0, products=0.0, busy=0.0)
    0.15
    """
    if min(weights, others, products, busy) < 0.0 or busy > 1.0 + 1e-9:
        raise BadRequest(
            f"board_share: weights {weights:g}, others {others:g}, products {products:g} must not be negative and "
            f"busy {busy:g} from 0 to 1"
        )
    working = WORKING_DRAW + WEIGHT_DRAW * weights + VECTOR_DRAW * others + PRODUCT_DRAW * products
    return busy * min(1.0, working) + (1.0 - busy) * IDLE_DRAW


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
