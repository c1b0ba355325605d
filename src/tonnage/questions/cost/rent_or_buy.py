"""Rent or buy: what owning a machine costs in full, what renting the same work costs, where the two meet.

Every number of the machine is an input with a band. The interval of the answer and the tornado both come from moving
one input at a time to the ends of its band; no offer is averaged with another, since which price is compared decides
the answer.
"""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, part_name, parts_name, provider_name
from tonnage.catalog.price_history import price_fall, price_points
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.cost import (
    COST_SCHEMA,
    Claim,
    Input,
    OwnedMachine,
    OwnedServer,
    Rent,
    RentOrBuy,
    RentOrBuyRequest,
    Swing,
    cheapest_steady,
)
from tonnage.errors import BadRequest
from tonnage.pricing.owning import HOURS_PER_YEAR, availability, owned_usd, owned_usd_per_used_hour
from tonnage.questions.cost.inputs import inputs_of, machine_of
from tonnage.questions.cost.rents import listed_rents, meeting_point, one_at_a_time, price_rents, relaxations
from tonnage.units import percent, show
from tonnage.version import __version__

FASTEST_DECLINE: Final = 0.19
"""Yearly fall of a rental price that has been seen: p5.48xlarge on demand cost 98.32 USD/h at its launch in July 2023
and 55.04 in July 2026, ln(98.32 / 55.04) / 3. [1/year]"""


def rent_or_buy(
    request: RentOrBuyRequest, *, additions: Additions = catalog.NOTHING, today: date | None = None
) -> RentOrBuy:
    """
    Owning against every offer of the same accelerator.

    Raises
    ------
    TonnageError
        An unknown server or country, or an input that neither the catalogue nor the request gives. That no offer
        rents the accelerator is an answer: `feasible` is False, and owning is still opened.
    """
    today = today or date.today()
    server = server_of(request)
    inputs = inputs_of(request, server)
    machine = machine_of(inputs)
    _check_power(machine)
    ends = tuple(_ends(inputs, machine))
    rents = price_rents(
        listed_rents(request, additions=additions, today=today),
        machine,
        request=request,
        band=(end for _, *pair in ends for end in pair),
    )
    cost = _per_used_hour(request, machine, ends)
    owning, reference = owned_usd(machine, utilisation=request.utilisation), cheapest_steady(rents)
    return RentOrBuy(
        schema=COST_SCHEMA,
        feasible=bool(rents),
        sentence=_sentence(request, server, cost, rents=rents, reference=reference)
        if rents
        else _nothing_to_compare(server, cost, relaxations(request, additions=additions, today=today)),
        request=request,
        owning=owning,
        owned_usd_per_used_hour=cost,
        owned_usd_per_hour=owning.value / (machine.accelerators * HOURS_PER_YEAR * machine.years),
        inputs=inputs,
        rents=rents,
        tornado=_tornado(request, machine, ends, reference=reference),
        claims=claims(request, machine, rents=rents),
        assumed=_assumptions(request, machine, reference=reference),
        made=today.isoformat(),
        version=__version__,
    )


def server_of(request: RentOrBuyRequest) -> OwnedServer:
    """The machine of a request: a row of the ownership table, or one that only the request describes."""
    known = catalog.servers().get(request.server)
    if known is not None:
        return known
    part = catalog.accelerators().get(request.accelerator)
    office = part is not None and part.segment in {"consumer", "workstation", "edge", "apple"}
    return OwnedServer(
        server="",
        accelerator=request.accelerator,
        count=int(request.given.get("accelerators", 1.0)),
        place="office" if office else "colocation",
        resale="residual_value_consumer_36m" if office else "residual_value_36m",
    )


def _check_power(machine: OwnedMachine) -> None:
    """Refuses a machine that draws more while it waits than while it works."""
    if machine.idle > machine.load:
        raise BadRequest(
            f"idle: {percent(machine.idle)} of the power while it waits exceeds the {percent(machine.load)} while "
            f"it works; "
            f"give --load above --idle"
        )


End = tuple[Input, OwnedMachine, OwnedMachine]


def _ends(inputs: tuple[Input, ...], machine: OwnedMachine) -> list[End]:
    """The machine with one input at the low and at the high end of its band, for every banded input."""
    return [
        (given, replace(machine, **{given.name: given.ends[0]}), replace(machine, **{given.name: given.ends[1]}))
        for given in inputs
        if given.low is not None or given.high is not None
    ]


def _per_used_hour(request: RentOrBuyRequest, machine: OwnedMachine, ends: tuple[End, ...]) -> Quantity:
    """Cost of an accelerator's useful hour, with the interval that moving one input at a time gives. [USD/h]"""
    per_hour = partial(owned_usd_per_used_hour, utilisation=request.utilisation)
    middle = per_hour(machine)
    low, high = one_at_a_time(middle, (per_hour(end) for _, *pair in ends for end in pair))
    return Quantity(value=middle, unit="USD/h", low=low, high=high, basis=Basis.ASSUMED)


def _tornado(
    request: RentOrBuyRequest, machine: OwnedMachine, ends: tuple[End, ...], *, reference: Rent | None
) -> tuple[Swing, ...]:
    """
    What each input does alone to the cost of a used hour and to the break-even with `reference`, the widest first; then
    what a fall of rents does.
    """

    def at(end: OwnedMachine, decline: float | None = None) -> tuple[float, float | None]:
        fall = request.rent_decline if decline is None else decline
        cost = owned_usd_per_used_hour(end, utilisation=request.utilisation)
        if reference is None:
            return cost, None
        return cost, meeting_point(end, reference, utilisation=request.utilisation, decline=fall).break_even

    swings = []
    for given, low_end, high_end in ends:
        (low, even_low), (high, even_high) = at(low_end), at(high_end)
        swings.append(
            Swing(
                name=given.name,
                low=given.ends[0],
                high=given.ends[1],
                unit=given.unit,
                usd_per_used_hour_at_low=low,
                usd_per_used_hour_at_high=high,
                break_even_at_low=even_low,
                break_even_at_high=even_high,
            )
        )
    swings.sort(key=lambda swing: -swing.width)
    if reference is not None:
        fastest = _seen_decline(request)[0]
        (cost, still), (_, falling) = at(machine, 0.0), at(machine, fastest)
        swings.append(
            Swing(
                name="rent_decline",
                low=0.0,
                high=fastest,
                unit="fraction",
                usd_per_used_hour_at_low=cost,
                usd_per_used_hour_at_high=cost,
                break_even_at_low=still,
                break_even_at_high=falling,
            )
        )
    return tuple(swings)


def _sentence(
    request: RentOrBuyRequest, server: OwnedServer, cost: Quantity, *, rents: tuple[Rent, ...], reference: Rent | None
) -> str:
    """Whether to rent or to own against the cheapest steady price, and where both meet; there is one price at least."""
    assert reference is not None
    what = _name(server)
    use = f"in {percent(request.utilisation)} of its hours"
    owned = _show_bounds(cost)
    wins = sum(rent.owning_wins for rent in rents)
    price = show(reference.usd_per_accelerator_hour, "USD/h")
    where = f"{provider_name(reference.provider)} at {price} ({reference.as_of})"
    best = f"against the cheapest {reference.term} price"
    even = reference.break_even_utilisation
    meets = (
        f"owning never breaks even {best}"
        if even is None
        else f"owning breaks even {best}, {where}, from {percent(even)} use"
        if even <= 1
        else f"{best}, {where}, owning would need {percent(even)} use, more than there is"
    )
    return (
        f"{reference.advice}: owning {what} used {use} costs {owned} per accelerator-hour of work, and beats {wins} of "
        f"{len(rents)} rental prices; {meets}."
    )


def _nothing_to_compare(server: OwnedServer, cost: Quantity, wider: tuple[str, ...]) -> str:
    """What owning costs, and what would bring prices to compare it with."""
    hint = "; ".join(wider) or f"nobody in the catalogue rents {part_name(server.accelerator)}, give --rent '$2.50/h'"
    return (
        f"Owning {_name(server)} costs {_show_bounds(cost)} per accelerator-hour of work; no price to compare: {hint}."
    )


def _name(server: OwnedServer) -> str:
    return f"a machine with {parts_name(server.count, server.accelerator)}"


def _show_bounds(cost: Quantity) -> str:
    return f"${cost.value:,.2f} ({cost.low or 0.0:,.2f}-{cost.high or 0.0:,.2f})"


def _seen_decline(request: RentOrBuyRequest) -> tuple[float, str]:
    """
    The yearly fall of rents that was seen, as a share, and whose: of this accelerator where enough sellers have dated
    prices, else of all, else of one instance type.
    """
    points = price_points()
    for part, whose in ((request.accelerator, request.accelerator), (None, "all accelerators")):
        fall = price_fall(points, part)
        if fall is not None and fall.per_year > 0:
            return fall.per_year, f"the middle of {fall.pairs} sellers of {whose} fell {percent(fall.per_year)} a year"
    return FASTEST_DECLINE, f"p5.48xlarge fell {percent(FASTEST_DECLINE)} a year from July 2023 to July 2026"


def _assumptions(request: RentOrBuyRequest, machine: OwnedMachine, *, reference: Rent | None) -> tuple[str, ...]:
    """Everything the answer takes as given."""
    said = [
        f"the machine works {percent(request.utilisation)} of its {machine.years:g} years, repairs take "
        f"{percent(1 - availability(machine), 2)} of them, and it is sold at the end",
        "bands of inputs count as 90 % intervals, independent of each other",
        "prices exclude VAT; rented prices hold for the whole time"
        if request.rent_decline == 0
        else f"prices exclude VAT; rents fall by {percent(request.rent_decline)} a year",
        "spot loses a restart and half of a quarter of an hour's work at each reclaim",
        f"rent_decline in the sensitivities: {_seen_decline(request)[1]}",
    ]
    if reference is not None and reference.stale:
        said.append(f"the cheapest price is of {reference.as_of}, older than 90 days: ask again before deciding")
    if not request.community and request.rent_usd_per_hour is None:
        said.append("community marketplaces and brokers are left out (--community includes them)")
    return tuple(said)


# Popular rules about renting and owning, recomputed with the prices and the machine at hand. Each is a row of
# confidence "claim" in the ownership table: never a default, only something to test. A rule that holds against one
# price and fails against another "depends", and the evidence says on whom.


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
    """
    That renting is cheaper below a utilisation, against each hourly price; one that never breaks even counts for it.
    """
    row = catalog.parameter("claim", "cloud_wins_below_utilisation")
    points = {rent.provider: rent.break_even_utilisation for rent in hourly}
    higher = [name for name, point in points.items() if point is None or point >= row.value]
    return Claim(
        rule=f"renting is cheaper below {percent(row.value)} utilisation",
        computed=f"owning breaks even {_span_text(points)}; the rule holds against {_join_names(higher, points)}",
        verdict=_verdict(len(higher), len(points)),
        source=row.source,
        evidence={"break_even_utilisation": points},
    )


def _rent_until_hours(machine: OwnedMachine, hourly: tuple[Rent, ...]) -> Claim:
    """That renting is cheaper until so many hours of use, within a quarter of the break-even hours."""
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
    """That owning is competitive from a utilisation, kept for three years."""
    row = catalog.parameter("claim", "own_competitive_from_utilisation")
    three = replace(machine, years=3.0)
    ratios = {}
    for rent in hourly:
        at = meeting_point(three, rent, utilisation=row.value, decline=request.rent_decline)
        ratios[rent.provider] = at.owned_usd / at.rent_usd
    wins = [name for name, ratio in ratios.items() if ratio <= 1.0]
    return Claim(
        rule=f"owning is competitive from {percent(row.value)} utilisation over three years",
        computed=(
            f"it costs {percent(min(ratios.values()))} to {percent(max(ratios.values()))} of renting; "
            f"the rule holds against {_join_names(wins, ratios)}"
        ),
        verdict=_verdict(len(wins), len(ratios)),
        source=f"{row.source}; {row.notes}" if row.notes else row.source,
        evidence={"owned_over_rented": ratios},
    )


def _purchase_is_half(request: RentOrBuyRequest, machine: OwnedMachine) -> Claim:
    """Which share of what owning costs before resale the purchase is; within ten points the rule holds."""
    row = catalog.parameter("claim", "purchase_share_of_lifetime_cost")
    owned = owned_usd(machine, utilisation=request.utilisation)
    spent = owned.value - owned.part("resale")
    share = machine.purchase / spent
    return Claim(
        rule=f"the purchase is {percent(row.value)} of the lifetime cost",
        computed=f"{percent(share)} of the {show(spent, 'USD')} spent before resale over {machine.years:g} years",
        verdict="holds" if abs(share - row.value) <= 0.1 else "fails",
        source=f"{row.source}; {row.notes}",
        evidence={"purchase_share": share},
    )


def _pays_back(machine: OwnedMachine, hourly: tuple[Rent, ...], *, decline: float) -> list[Claim]:
    """
    That owning pays back against hyperscalers within so many months of work all the time; empty without their prices.
    """
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
    """ "holds" against all prices, "fails" against all, or "depends"."""
    return "holds" if for_it == of else "fails" if for_it == 0 else "depends"


def _join_names(names: list[str], of: dict[str, float | None] | dict[str, float]) -> str:
    if not names:
        return f"none of {len(of)} hourly prices"
    return f"{len(names)} of {len(of)} hourly prices ({', '.join(sorted(names))})"


def _span_text(points: dict[str, float | None]) -> str:
    known = [point for point in points.values() if point is not None]
    if not known:
        return "against none of these prices"
    high = f"{percent(max(known))} use" if len(known) == len(points) else "never"
    return f"from {percent(min(known))} use against the dearest price to {high} against the cheapest"
