"""What a person's own machines draw, and what the power of their site feeds."""

from __future__ import annotations

from typing import Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.host import USUAL_LOAD, LoadShare
from tonnage.core.stock import GroupPower, power_of, pue_of, tariff
from tonnage.domain.accelerator import Accelerator
from tonnage.physics.power_cap import capped_clock
from tonnage.questions.own.answer import OwnedAnswer, PowerCap, SiteAnswer
from tonnage.questions.own.request import Own

CAPS: Final = (1.0, 0.8, 0.6)


def group_power(
    request: Own, part: Accelerator, *, count: int, load: LoadShare = USUAL_LOAD, busy: float = 1.0
) -> GroupPower | None:
    """The same at what the request's power costs."""
    return power_of(part, count=count, usd_per_kwh=tariff(request.electricity), load=load, busy=busy)


def site_answer(request: Own, groups: tuple[OwnedAnswer, ...], *, additions: Additions) -> SiteAnswer | None:
    """What the site's power feeds of the group that makes the most of it, at the board limit and below."""
    if request.site_power_w is None:
        return None
    able = [one for one in groups if one.rows and one.power_w]
    if not able:
        return None
    best = max(able, key=lambda one: one.rows[0].output_tokens_per_s.value / (one.power_w or 1.0))
    part = catalog.accelerator(best.accelerator, additions)
    row, watts, limit = best.rows[0], best.power_w or 0.0, part.power_w or 0.0
    pue = pue_of(part)
    each = row.output_tokens_per_s.value / best.count
    # What the boards draw of it, which a limit holds; hosts and fans stay as they are.
    boards = min(row.board_w or 0.0, limit) * pue
    caps = []
    for share in CAPS:
        held = min(boards, share * limit * pue)
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
