"""Popular rules about renting and owning, recomputed with the prices and the machine at hand.

Each rule is a row of confidence "claim" in the ownership table: never a default, only something to test. A rule that
holds against one price and fails against another "depends", and the evidence says on whom.
"""

from __future__ import annotations

from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.cost import Claim, OwnedMachine, Rent, RentOrBuyRequest
from tonnage.planning.cost.rents import meeting_point
from tonnage.pricing.owning import owned_usd
from tonnage.units import show

__all__ = ["claims"]


def claims(request: RentOrBuyRequest, machine: OwnedMachine, *, rents: tuple[Rent, ...]) -> tuple[Claim, ...]:
    """The rules that these prices can judge; without prices only what owning alone decides."""
    hourly = tuple(rent for rent in rents if rent.term == "on-demand")
    found = [_purchase_is_half(request, machine)]
    if hourly:
        found = [
            _rent_below(hourly),
            _rent_until_hours(machine, hourly),
            _own_over_three_years(request, machine, hourly),
            *found,
            *_pays_back(machine, hourly, decline=request.rent_decline),
        ]
    return tuple(found)


def _rent_below(hourly: tuple[Rent, ...]) -> Claim:
    row = catalog.parameter("claim", "cloud_wins_below_utilisation")
    points = {rent.provider: rent.break_even_utilisation for rent in hourly}
    higher = [name for name, point in points.items() if point is None or point >= row.value]
    return Claim(
        rule=f"renting is cheaper below {row.value:.0%} utilisation",
        computed=f"owning breaks even {_span(points)}; the rule holds against {_join_names(higher, points)}",
        verdict=_verdict(len(higher), len(points)),
        source=row.source,
        evidence={"break_even_utilisation": points},
    )


def _rent_until_hours(machine: OwnedMachine, hourly: tuple[Rent, ...]) -> Claim:
    row = catalog.parameter("claim", "rent_cheaper_until_gpu_hours_a100")
    hours = {rent.provider: rent.break_even_hours for rent in hourly if rent.break_even_hours is not None}
    each = machine.purchase / machine.accelerators
    ratio = {rent.provider: each / rent.usd_per_accelerator_hour for rent in hourly}
    least, most = min(hours.values(), default=0.0), max(hours.values(), default=0.0)
    holds = least / 1.25 <= row.value <= most * 1.25
    simple = f"{min(ratio.values()):,.0f} to {max(ratio.values()):,.0f} h as price over rent alone"
    return Claim(
        rule=f"renting is cheaper until {row.value:,.0f} accelerator-hours",
        computed=(
            f"owning breaks even after {least:,.0f} to {most:,.0f} h of use ({simple})"
            if hours
            else f"owning never breaks even against these prices ({simple})"
        ),
        verdict="fails" if not holds else "holds" if len(hours) == 1 else "depends",
        source=row.source,
        evidence={"break_even_hours": hours, "price_over_rent_hours": ratio},
    )


def _own_over_three_years(request: RentOrBuyRequest, machine: OwnedMachine, hourly: tuple[Rent, ...]) -> Claim:
    row = catalog.parameter("claim", "own_competitive_from_utilisation")
    three = replace(machine, years=3.0)
    ratios = {}
    for rent in hourly:
        at = meeting_point(three, rent, utilisation=row.value, decline=request.rent_decline)
        ratios[rent.provider] = at.owned_usd / at.rent_usd
    wins = [name for name, ratio in ratios.items() if ratio <= 1.0]
    return Claim(
        rule=f"owning is competitive from {row.value:.0%} utilisation over three years",
        computed=(
            f"it costs {min(ratios.values()):.0%} to {max(ratios.values()):.0%} of renting; "
            f"the rule holds against {_join_names(wins, ratios)}"
        ),
        verdict=_verdict(len(wins), len(ratios)),
        source=f"{row.source}; {row.notes}" if row.notes else row.source,
        evidence={"owned_over_rented": ratios},
    )


def _purchase_is_half(request: RentOrBuyRequest, machine: OwnedMachine) -> Claim:
    row = catalog.parameter("claim", "purchase_share_of_lifetime_cost")
    owned = owned_usd(machine, utilisation=request.utilisation)
    spent = owned.value - owned.part("resale")
    share = machine.purchase / spent
    return Claim(
        rule=f"the purchase is {row.value:.0%} of the lifetime cost",
        computed=f"{share:.0%} of the {show(spent, 'USD')} spent before resale over {machine.years:g} years",
        verdict="holds" if abs(share - row.value) <= 0.1 else "fails",
        source=f"{row.source}; {row.notes}",
        evidence={"purchase_share": share},
    )


def _pays_back(machine: OwnedMachine, hourly: tuple[Rent, ...], *, decline: float) -> list[Claim]:
    row = catalog.parameter("claim", "own_break_even_months_vs_csp")
    clouds = [rent for rent in hourly if rent.kind == "hyperscaler"]
    if not clouds:
        return []
    full = {
        rent.provider: meeting_point(machine, rent, utilisation=1.0, decline=decline).payback_years for rent in clouds
    }
    months = {name: years * 12.0 for name, years in full.items() if years is not None}
    low, high = row.low or row.value, row.high or row.value
    inside = [name for name, value in months.items() if low <= value <= high]
    span = f"{min(months.values()):.0f} to {max(months.values()):.0f} months" if months else "not in its life"
    return [
        Claim(
            rule=f"owning pays back against hyperscalers in {low:.0f} to {high:.0f} months",
            computed=f"working all the time it pays back in {span}; the rule holds against {_join_names(inside, full)}",
            verdict=_verdict(len(inside), len(full)),
            source=row.source,
            evidence={"payback_months": months},
        )
    ]


def _verdict(for_it: int, of: int) -> str:
    return "holds" if for_it == of else "fails" if for_it == 0 else "depends"


def _join_names(names: list[str], of: dict[str, float | None] | dict[str, float]) -> str:
    if not names:
        return f"none of {len(of)} hourly prices"
    return f"{len(names)} of {len(of)} hourly prices ({', '.join(sorted(names))})"


def _span(points: dict[str, float | None]) -> str:
    known = [point for point in points.values() if point is not None]
    if not known:
        return "against none of these prices"
    high = f"{max(known):.0%} use" if len(known) == len(points) else "never"
    return f"from {min(known):.0%} use against the dearest price to {high} against the cheapest"
