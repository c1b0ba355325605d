"""What do owned accelerators draw and cost, and what would a site's power feed?"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.own_plan import OwnedAnswer, PowerCap, SiteAnswer
from tonnage.domain.requests.own import Own
from tonnage.errors import Unmeasured
from tonnage.physics.power_cap import capped_clock
from tonnage.planning.host import USUAL_LOAD, LoadShare, machine_draw, machine_power
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.pricing.energy import energy_kwh

__all__ = ["USUAL_TARIFF", "GroupPower", "group_power", "power_of", "site_answer", "tariff"]

USUAL_TARIFF: Final = ("electricity_default", "US")
CAPS: Final = (1.0, 0.8, 0.6)
AT_HOME: Final = frozenset({"consumer", "apple", "edge"})
"""Segments without a cooled room around them."""


class GroupPower(msgspec.Struct, frozen=True, kw_only=True):
    """Of a group at work."""

    machine_watts: float
    """What its machines are rated for. [W]"""
    watts: float
    """On average under its load, cooling included. [W]"""
    board_watts: float
    """Of that, the boards alone. [W]"""
    pue: float
    usd_per_month: float
    source: str


def tariff(request: Own) -> float:
    """What power costs: as stated, or the planning value for the United States. [USD/kWh]"""
    return request.electricity or catalog.parameter(*USUAL_TARIFF).value


def group_power(
    request: Own, part: Accelerator, *, count: int, load: LoadShare = USUAL_LOAD, busy: float = 1.0
) -> GroupPower | None:
    """The same at what the request's power costs."""
    return power_of(part, count=count, usd_per_kwh=tariff(request), load=load, busy=busy)


def power_of(
    part: Accelerator, *, count: int, usd_per_kwh: float, load: LoadShare = USUAL_LOAD, busy: float = 1.0
) -> GroupPower | None:
    """
    What so many accelerators draw with their hosts and cooling; None where the part's power is not published.

    Parameters
    ----------
    load : LoadShare, optional
        Of the boards while they work; absent = nobody has said at what.
    busy : float, optional
        Share of time at work. [-]
    """
    try:
        machine = machine_power(part, count=count)
    except Unmeasured:
        return None
    drawn = machine_draw(machine, load=load, busy=busy)
    pue = catalog.parameter("pue", "office_workstation" if part.segment in AT_HOME else "modern_ai_dc").value
    watts = drawn.watts * pue
    month = energy_kwh(power_w=watts, hours=HOURS_PER_MONTH) * usd_per_kwh
    return GroupPower(
        machine_watts=machine.watts,
        watts=watts,
        board_watts=drawn.board_watts,
        pue=pue,
        usd_per_month=month,
        source=machine.source,
    )


def site_answer(request: Own, groups: tuple[OwnedAnswer, ...], *, additions: Additions) -> SiteAnswer | None:
    """What the site's power feeds of the group that makes the most of it, at the board limit and below."""
    if request.site_power_w is None:
        return None
    able = [one for one in groups if one.rows and one.power_w]
    if not able:
        return None
    best = max(able, key=lambda one: one.rows[0].output_tokens_per_s.value / (one.power_w or 1.0))
    part = catalog.accelerator(best.accelerator, additions)
    row, watts = best.rows[0], best.power_w or 0.0
    pue = catalog.parameter("pue", "office_workstation" if part.segment in AT_HOME else "modern_ai_dc").value
    each = row.output_tokens_per_s.value / best.count
    # What the boards draw of it, which a limit holds; hosts and fans stay as they are.
    boards = min(best.rows[0].board_w or 0.0, part.power_w or 0.0) * pue
    caps = []
    for share in CAPS:
        held = min(boards, share * (part.power_w or 0.0) * pue)
        per_accelerator = watts / best.count - boards + held
        clock = capped_clock(power_share=share)
        rate = each / (row.prompt_share / clock + 1.0 - row.prompt_share)
        fed = int(request.site_power_w // per_accelerator)
        caps.append(
            PowerCap(
                share=share,
                accelerators=fed,
                tokens_per_s=fed * rate,
                tokens_per_s_per_mw=rate / per_accelerator * 1e6,
            )
        )
    return SiteAnswer(
        site_power_w=request.site_power_w,
        owned_power_w=sum(one.power_w or 0.0 for one in groups),
        group=best.name,
        model=row.model,
        caps=tuple(caps),
    )
