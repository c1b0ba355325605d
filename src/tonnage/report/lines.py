"""Parts of a plan as single lines: what money buys, what a host must have, what would change the answer."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.domain.accelerator import HostNeed
from tonnage.domain.plan import BreakEven, ServeOption
from tonnage.units import show

__all__ = ["account_texts", "flip_text", "need_text", "starving"]


def account_texts(option: ServeOption) -> list[str]:
    """Month and terms; per million tokens, by each way of counting them; per request; kWh and CO2."""
    return [_month(option), *_units(option), *_energy(option)]


def _month(option: ServeOption) -> str:
    told = f"${option.usd_per_month:,.0f} a month of 730 h, without VAT"
    if option.idle_usd_per_month is not None:
        told += f", ${option.idle_usd_per_month:,.0f} of it for capacity that the mean load leaves unused"
    if option.billing is None:
        return told
    egress = option.billing.egress_usd_per_gb
    out = "egress not published" if egress is None else f"egress ${egress:g}/GB" if egress else "egress free"
    return f"{told}; time billed by: {option.billing.stated}; {out}"


def _units(option: ServeOption) -> list[str]:
    costs = option.unit_costs
    if costs is None:
        return []
    return [
        f"per million tokens: ${costs.usd_per_million_output_tokens:,.3g} all charged to output, "
        f"${costs.usd_per_million_blended_tokens:,.3g} over input and output alike; by the time each takes "
        f"${costs.usd_per_million_input_share:,.3g} input, ${costs.usd_per_million_answer_share:,.3g} output",
        f"${costs.usd_per_request * 1e3:,.3g} per thousand requests at the mean load; at most "
        f"{costs.max_requests_per_s_per_usd_hour:,.3g} requests/s for each dollar an hour",
    ]


def _energy(option: ServeOption) -> list[str]:
    use = option.energy
    if use is None:
        return ["electricity: the accelerator's power is not published"]
    each = "" if use.kwh_per_million_tokens is None else f", {use.kwh_per_million_tokens:.3g} kWh per million output"
    told = f"{use.kwh_per_month:,.0f} kWh a month with cooling{each}"
    if use.kg_co2_per_month is None:
        return [f"{told}; carbon: the grid of this region is not known"]
    return [f"{told}; {use.kg_co2_per_month:,.0f} kg CO2 a month ({use.grid}, {use.grams_per_kwh:g} g/kWh)"]


def need_text(need: HostNeed) -> str:
    """One need, what the offer has, and why."""
    told = f"{need.name}: {show(need.need, need.unit)}"
    if need.has is not None:
        told += f" of {show(need.has, need.unit)}" + ("" if need.enough else " - too little")
    return f"{told} ({need.why})" if need.why else told


def starving(needs: Iterable[HostNeed]) -> str:
    """What the offer has too little of; empty when nothing that it lists is."""
    return "; ".join(
        f"{need.name} {show(need.need, need.unit)}, the offer has {show(need.has or 0.0, need.unit)}"
        for need in needs
        if need.enough is False
    )


def flip_text(flip: BreakEven) -> str:
    """ "deadline below 5.2 h (3.1 h-8 h): 8 x b200 for $90 in 2 h [ties as it is]"."""
    tie = " [ties as it is]" if flip.ties else ""
    return f"{flip.input} {show(flip.value, flip.unit)}{_interval(flip)}: {flip.becomes}{tie}"


def _interval(flip: BreakEven) -> str:
    if flip.low is None and flip.high is None:
        return ""
    low, high = (None if end is None else show(end, flip.unit, digits=2) for end in (flip.low, flip.high))
    if low is not None and high is not None:
        return f" ({low}-{high})" if low != high else ""
    return f" ({low} or more)" if low is not None else f" ({high} or less)"
