"""What the money of a serving option buys, in a few lines: per month, token, request, and its electricity."""

from __future__ import annotations

from tonnage.nouns.plan import ServeOption

__all__ = ["account_texts"]


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
