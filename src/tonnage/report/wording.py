"""Words that several reports share: intervals, bills, what money buys, what a host must have, break-even points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.catalog import provider_name, rejected_name, seller
from tonnage.catalog.spreads import chance_within
from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Quantity, doubt
from tonnage.domain.money import Commitment
from tonnage.domain.plan import Bill, BreakEven, Configuration, Decision, Provenance, Rejection, ServeOption
from tonnage.report.document import Contents, Meter, Note, Table, grid
from tonnage.units import percent, plural, show, whole_percent

__all__ = ["plural"]

MOST_REJECTIONS: Final = 12
"""Losers named one by one before the rest is counted."""
ACRONYMS: Final = frozenset({"ttft", "tpot", "itl", "e2e", "mfu"})
"""Written small in figures' names."""
ALIKE: Final = 3
"""Losers with the same reason from which on they stand in one line."""


# Quantities


def interval(quantity: Quantity) -> str:
    """A value and, where it is known, its interval: "374 ms (200-700 ms)"."""
    value = show(quantity.value, quantity.unit)
    return f"{value} ({limits(quantity)})" if limits(quantity) else value


def money(value: float, *, digits: int = 3) -> str:
    """
    Dollars with so many digits that mean something; prices as listed are shown whole elsewhere.

    Examples
    --------
    >>> money(417.54), money(1118.2), money(2_345_678), money(0.2853)
    ('$418', '$1,120', '$2.35M', '$0.29')
    """
    if abs(value) >= 1e6:
        return f"${show(float(f'{value / 1e6:.{digits}g}'), 'count', digits=digits)}M"
    rounded = float(f"{value:.{digits}g}") if abs(value) >= 1.0 else value  # never rounded twice
    return f"${rounded:,.0f}" if abs(rounded) >= 100 or rounded == int(rounded) else f"${rounded:,.2f}"


def spread_usd(quantity: Quantity) -> str:
    """A cost and its interval: "$418 (230-760)"; from a million on in millions."""
    value = money(quantity.value)
    return f"{value} ({limits(quantity)})" if limits(quantity) else value


def limits(quantity: Quantity) -> str:
    """
    The interval alone, its unit said once: "200-700 ms"; with the digits of the value where fewer would leave it
    outside; empty where it is not known.
    """
    low, high = quantity.low, quantity.high
    if low is None or high is None or low == high:
        return ""
    held = float(f"{low:.2g}") <= quantity.value <= float(f"{high:.2g}")
    return span(low, high, unit=quantity.unit, digits=2 if held else 3) + doubt(quantity.certified)


def meter(
    name: str, quantity: Quantity, *, limit: float | None = None, of: str = "", joint: float | None = None
) -> Meter:
    """
    A quantity against its limit, in the quantity's unit; without one, the quantity alone.

    `of` is the limit in other words. `joint` is the chance that all limits of an answer are kept together: the chance
    of one is never said to be less.
    """
    said = money(quantity.value) if quantity.unit == "USD" else show(quantity.value, quantity.unit)
    if not limit:
        return Meter(name, said, interval=limits(quantity))
    low, high, alone = quantity.low, quantity.high, chance(quantity, limit)
    return Meter(
        name,
        said,
        interval=limits(quantity),
        limit=of or show(limit, quantity.unit),
        chance=chance_text(alone if alone is None or joint is None else max(alone, joint)),
        share=quantity.value / limit,
        low=None if low is None else low / limit,
        high=None if high is None else high / limit,
    )


def span(low: float, high: float, *, unit: str, digits: int = 2) -> str:
    """
    A range with two digits, prices of an hour in cents, its unit said once where both ends have the same.

    Examples
    --------
    >>> span(0.2, 0.7, unit="s"), span(0.3, 2.0, unit="s"), span(230, 760, unit="USD"), span(0.6, 14, unit="1/s")
    ('200-700 ms', '300 ms-2 s', '$230-760', '0.6-14/s')
    >>> span(0.2, float("inf"), unit="s"), span(16.36, 32.72, unit="USD/h")
    ('200 ms and more', '$16.36-32.72/h')
    """
    if high == float("inf"):
        return f"{show(low, unit, digits=digits)} and more"
    if unit.startswith("USD"):
        per, millions = unit.removeprefix("USD"), high >= 1e6 and low >= 1e5
        ends = [
            f"{show(float(f'{each / 1e6:.{digits}g}'), 'count')}M"
            if millions
            else (show(each, "USD") if per else money(each, digits=digits))[1:]
            for each in (low, high)
        ]
        ends = [end.removesuffix(".00") for end in ends]
        return f"${ends[0]}-{ends[1]}{per}" if ends[0] != ends[1] else f"${ends[1]}{per}"
    first, last = (show(each, unit, digits=digits) for each in (low, high))
    if first == last:
        return last
    if unit == "1/s" and high >= 1.0:
        return f"{low:.{digits}g}-{high:.{digits}g}/s" if high < 100.0 else f"{low:,.0f}-{high:,.0f}/s"
    said = last.partition(" ")[2]
    return f"{first.removesuffix(f' {said}') if said else first}-{last}"


def chance(quantity: Quantity, limit: float) -> float | None:
    """Probability that a quantity turns out at most `limit`, from its 90 % interval; None where it has none. [-]"""
    return None if quantity.low is None or quantity.high is None else chance_within(quantity, limit)


def chance_text(probability: float | None) -> str:
    """A chance in percent that never claims certainty; empty for none."""
    return "" if probability is None else whole_percent(probability)


def figure_name(what: str) -> str:
    """
    The name of a figure as the field writes it.

    Examples
    --------
    >>> figure_name("p95 ttft"), figure_name("cost")
    ('p95 TTFT', 'cost')
    """
    return " ".join(word.upper() if word in ACRONYMS else word for word in what.split())


def parts_table(quantity: Quantity, *, title: str = "") -> Table:
    """A sum with its parts: each with its share, its basis, and where it comes from."""
    rows = [
        (
            part.name,
            show(part.value, quantity.unit),
            percent(part.value / quantity.value, 1) if quantity.value else "",
            str(part.basis),
            part.source,
        )
        for part in quantity.parts
    ]
    total = ("total", interval(quantity), "", str(quantity.basis), "")
    return grid(["part~", f"{quantity.unit}>", "share>", "basis", "from~"], [*rows, total], title=title, total=True)


# Configurations and bills


def degrees(configuration: Configuration) -> str:
    """Parallel degrees as the field writes them: "TP2", "TP8 EP8"."""
    return " ".join(configuration.layout.degrees()).upper() or "TP1"


def rental_text(bill: Bill) -> str:
    """Whose, where, on which term: "Verda FIN-03, on-demand"."""
    return f"{seller(bill)}, {bill.term}"


def commitment_text(held: Commitment | None, *, run: bool = False) -> str:
    """
    What a committed term means: how far on-demand prices are expected to fall until its end, and which fall ends it.

    A run is charged for the whole term, which its price holds already.
    """
    if held is None:
        return ""
    if run:
        return f"Commitment: {held.term} is paid in every hour of its term, which is in the price of the run."
    expected = expected_text(held)
    if held.stops_paying is None or held.on_demand_usd_per_hour is None:
        return f"Commitment: {held.term}; no on-demand price is known to hold it against ({expected})."
    against = f" at {provider_name(held.against)}" if held.against else ""
    stops = (
        f"stops paying if on-demand prices fall by over {percent(held.stops_paying)}"
        if held.stops_paying >= 0
        else f"pays only if on-demand prices rise by over {percent(-held.stops_paying)}"
    )
    return (
        f"Commitment: {held.term}, ${held.usd_per_hour:,.2f}/h against ${held.on_demand_usd_per_hour:,.2f} on demand"
        f"{against}; {stops} until it ends ({expected})."
    )


def expected_text(held: Commitment) -> str:
    """How on-demand prices are expected to move until a term ends, and how many sellers' past prices let it pay."""
    low, high = sorted((-held.falls_high, -held.falls_low))
    spread = f", {_change(low)} to {_change(high)}" if round(low, 2) != round(high, 2) else ""
    pays = f"; pays with {held.pays_with[0]} of {held.pays_with[1]} sellers' past" if held.pays_with else ""
    return f"expected {_change(-held.falls)}{spread}{pays}"


def contract_text(bill: Bill) -> str:
    """What the user's own quote binds to, beside its price; empty for other offers."""
    held = bill.contract
    if held is None:
        return ""
    each = bill.usd_per_instance_hour / bill.accelerators_per_instance
    committed = max(held.minimum, held.ramp[-1][1] if held.ramp else 0, bill.accelerators)
    whole = each * committed * held.hours
    unused = next((line for line in bill.lines if line.name.endswith("paid unused")), None)
    lacking = next((line for line in bill.lines if line.name.endswith("until then")), None)
    steps = ", ".join(f"{count} from month {at}" for at, count in held.ramp)
    parts = (
        f"Quote {held.name}: {show(held.hours * 3600.0, 's')}" + (f" from {held.start}" if held.start else ""),
        f"at least {held.minimum} accelerators" if held.minimum else "",
        f"there are {steps}" if steps else "",
        f"{percent(held.take_or_pay)} of it paid, used or not" if held.minimum or held.ramp else "",
        f"{money(whole * held.upfront)} at signing" if held.upfront else "",
        f"{money(unused.value * 730.0)}/month for what is not used" if unused else "",
        f"{lacking.name}: {money(lacking.value * 730.0)}/month ({lacking.source})" if lacking else "",
    )
    return ", ".join(filter(None, parts)) + "."


def _change(share: float) -> str:
    return percent(share, sign="+") if round(share, 2) else "0 %"


def bill_lines(bill: Bill) -> list[str]:
    """What the hourly price is made of."""
    return [
        f"{line.name} at {show(bill.usd_per_instance_hour, 'USD/h')} = {show(line.value, 'USD/h')} ({line.source})"
        for line in bill.lines
    ]


def offer_text(bill: Bill) -> str:
    """Another way to rent the same."""
    old = " (old price)" if bill.stale else ""
    where = f"{provider_name(bill.provider)} {bill.instances} x {bill.instance_type} {bill.region}".strip()
    return f"{where}: {show(bill.usd_per_hour, 'USD/h')} {bill.term}, {bill.as_of}{old}"


def account_texts(option: ServeOption) -> list[str]:
    """Month and terms; per million tokens, by each way of counting them; per request; kWh and CO2."""
    return [_month(option), *_units(option), *_energy(option)]


def _month(option: ServeOption) -> str:
    summary = f"${option.usd_per_month:,.0f} a month of 730 h, without VAT"
    if option.idle_usd_per_month is not None:
        summary += f", ${option.idle_usd_per_month:,.0f} of it for capacity that the mean load leaves unused"
    if option.billing is None:
        return summary
    egress = option.billing.egress_usd_per_gb
    out = "egress not published" if egress is None else f"egress ${egress:g}/GB" if egress else "egress free"
    return f"{summary}; time billed by: {option.billing.stated}; {out}"


def _units(option: ServeOption) -> list[str]:
    costs = option.unit_costs
    if costs is None:
        return []
    return [
        f"per million tokens, by the time each takes: ${costs.usd_per_million_input_share:,.3g} input, "
        f"${costs.usd_per_million_answer_share:,.3g} output; ${costs.usd_per_million_blended_tokens:,.3g} over both",
        f"${costs.usd_per_request * 1e3:,.3g} per thousand requests at the mean load; at most "
        f"{costs.max_requests_per_s_per_usd_hour:,.3g} requests/s for each dollar an hour",
    ]


def _energy(option: ServeOption) -> list[str]:
    use = option.energy
    if use is None:
        return ["electricity: the accelerator's power is not published"]
    each = "" if use.kwh_per_million_tokens is None else f", {use.kwh_per_million_tokens:.3g} kWh per million output"
    summary = f"{use.kwh_per_month:,.0f} kWh a month with cooling{each}"
    if use.kg_co2_per_month is None:
        return [f"{summary}; carbon: the grid of this region is not known"]
    return [f"{summary}; {use.kg_co2_per_month:,.0f} kg CO2 a month ({use.grid}, {use.grams_per_kwh:g} g/kWh)"]


# Hosts


def need_text(need: HostNeed) -> str:
    """One need, what the offer has, and why."""
    summary = f"{need.name}: {show(need.need, need.unit)}"
    if need.has is not None:
        summary += f" of {show(need.has, need.unit)}" + ("" if need.enough else " - too little")
    return f"{summary} ({need.why})" if need.why else summary


def shortages_text(needs: Iterable[HostNeed]) -> str:
    """What the offer has too little of; empty when nothing that it lists is."""
    return "; ".join(
        f"{need.name} {show(need.need, need.unit)}, the offer has {show(need.has or 0.0, need.unit)}"
        for need in needs
        if need.enough is False
    )


# What would change the answer


def break_even_text(flip: BreakEven) -> str:
    """ "deadline below 5.2 h (3.1 h-8 h): 8 x b200 for $90 in 2 h [not distinguishable as it is]"."""
    tie = " [not distinguishable as it is]" if flip.ties else ""
    return f"{break_even_at(flip)}: {flip.becomes}{tie}"


def break_even_at(flip: BreakEven) -> str:
    """ "deadline below 5.2 h (3.1 h-8 h)"."""
    return f"{flip.input} {show(flip.value, flip.unit)}{_break_even_interval(flip)}"


def _break_even_interval(flip: BreakEven) -> str:
    if flip.low is None and flip.high is None:
        return ""
    if flip.low is not None and flip.high is not None:
        return f" ({span(flip.low, flip.high, unit=flip.unit)})" if flip.low != flip.high else ""
    low, high = (None if end is None else show(end, flip.unit, digits=2) for end in (flip.low, flip.high))
    return f" ({low} or more)" if low is not None else f" ({high} or less)"


# How an opened option and a plan end


def decisions(trail: Iterable[Decision]) -> list[str]:
    """The decision trail, a line each."""
    return [f"{d.question} {d.answer}: {d.because}" for d in trail]


def rejections(title: str, rejected: Sequence[Rejection], *, most: int | None = MOST_REJECTIONS) -> dict[str, Contents]:
    """
    A section, under its title and the number of losers: each with its reason, or one line for those that share it.

    At most `most` lines, and as many names in a line; None = all.
    """
    by_reason: dict[str, list[str]] = {}
    for loser in rejected:
        by_reason.setdefault(loser.verdict.reason or "", []).append(rejected_name(loser.what))
    lines: list[str] = []
    for reason, losers in by_reason.items():
        alike = len(losers) >= ALIKE
        lines += [f"{reason}: {', '.join(_first(losers, most))}"] if alike else [f"{what}: {reason}" for what in losers]
    return {f"{title} ({len(rejected)})": _first(lines, most, hint=" (all in --json)")}


def _first(texts: Sequence[str], most: int | None, *, hint: str = "") -> list[str]:
    """The first few texts where not all are asked for, and how many more there are."""
    rest = len(texts) - len(texts[:most])
    return [*texts[:most], *([f"… and {rest} more{hint}"] if rest else [])]


def made_note(made: Provenance) -> Note:
    """When it was made, by which version, from which data."""
    dates = ", ".join(f"{name} {date}" for name, date in sorted(made.catalogue.items()))
    return Note(f"Made {made.made} by tonnage {made.version}{f'; {dates}' if dates else ''}.")
