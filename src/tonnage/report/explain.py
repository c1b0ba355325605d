"""One option of a plan, opened: where each number comes from."""

from __future__ import annotations

import math

from tonnage.domain.answer import Quantity
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.report.console import lines
from tonnage.report.lines import need_text
from tonnage.report.opened import bill_lines, ending, offer_text, opened
from tonnage.units import show

__all__ = ["show_explanation"]


def show_explanation(plan: ServePlan, *, rank: int = 1) -> None:
    """
    Print what the option of that rank is made of.

    Raises
    ------
    BadRequest
        The plan has no option of that rank.
    """
    console, option = opened(plan.sentence, plan.options, rank=rank, label=lambda option: option.configuration.label())
    if option is not None:
        lines(console, "Capacity of one replica", texts=_capacity(option))
        lines(console, "Replicas", texts=_replicas(plan, option))
        lines(console, "Bill", texts=_bill(option))
        lines(console, "What the money buys", texts=_delivers(option))
        lines(console, "Electricity and carbon", texts=_energy(option))
        lines(console, "What the host must bring", texts=[need_text(need) for need in option.needs])
        lines(console, "Other offers", texts=[offer_text(bill) for bill in option.other_offers])
    ending(console, plan, losers="Cannot serve it")


def _capacity(option: ServeOption) -> list[str]:
    c = option.capacity
    return [
        f"cache: {option.kv_tokens:,.0f} tokens",
        f"takes up to {_bounded(c.max_rate_per_s)}: {c.binds_text}",
        f"at the planned peak {c.concurrency:.1f} requests run at once",
        f"TTFT {_bounded(c.ttft_s)} (mean {show(c.ttft_mean_s, 's')}), TPOT {_bounded(c.tpot_s)} "
        f"(mean {show(c.tpot_mean_s, 's')}), basis {option.basis}",
    ]


def _replicas(plan: ServePlan, option: ServeOption) -> list[str]:
    request = plan.request
    layout = option.configuration.layout
    each = f"{option.replicas} replicas x {layout.ranks} = {option.accelerators} accelerators"
    if request.rate_per_s is None:
        return [each]
    peak = request.rate_per_s * request.shape.peak_to_mean
    most = option.capacity.max_rate_per_s.value
    needed = math.ceil(peak / most / (1 - request.headroom) - 1e-9)
    return [
        f"peak {show(request.rate_per_s, '1/s')} x {request.shape.peak_to_mean:g} = {show(peak, '1/s')}",
        f"{show(peak, '1/s')} / ({show(most, '1/s')} x (1 - {request.headroom:g} headroom)) "
        f"= {peak / most / (1 - request.headroom):.2f}, rounded up to {needed}, "
        f"plus {option.replicas - needed} that may fail",
        each,
        f"{option.headroom:.0%} of capacity is free at the peak",
    ]


def _bill(option: ServeOption) -> list[str]:
    bill = option.bill
    month = f"{show(bill.usd_per_hour, 'USD/h')} x 730 h = ${option.usd_per_month:,.0f} a month"
    tokens = f"${option.usd_per_million_output_tokens:,.2f} per million output tokens at the mean load"
    return [*bill_lines(bill), month, tokens, *([bill.notes] if bill.notes else [])]


def _delivers(option: ServeOption) -> list[str]:
    costs, told = option.unit_costs, []
    if costs is not None:
        told += [
            f"${costs.usd_per_request * 1000:,.3f} per thousand requests; {costs.requests_per_usd:,.0f} requests for a "
            f"dollar; {costs.max_requests_per_s_per_usd_hour:.2f} requests/s at most per dollar and hour",
            f"per million tokens: ${costs.usd_per_million_output_tokens:,.2f} all charged to output, "
            f"${costs.usd_per_million_blended_tokens:,.2f} over input and output alike",
            f"by the time each takes: ${costs.usd_per_million_input_share:,.3f} per million input, "
            f"${costs.usd_per_million_answer_share:,.2f} per million output tokens",
        ]
    if option.idle_usd_per_month is not None:
        told.append(f"${option.idle_usd_per_month:,.0f} a month pay for capacity that the mean load leaves unused")
    if option.billing is not None:
        egress = option.billing.egress_usd_per_gb
        bytes_out = "egress not published" if egress is None else f"egress ${egress:g}/GB"
        told.append(f"billed by: {option.billing.stated}; {bytes_out} ({option.billing.source})")
    return told


def _energy(option: ServeOption) -> list[str]:
    use = option.energy
    if use is None:
        return ["the accelerator's power is not published"]
    each = "" if use.kwh_per_million_tokens is None else f", {use.kwh_per_million_tokens:.3g} kWh per million tokens"
    watt = "" if use.tokens_per_joule is None else f", {use.tokens_per_joule:.3g} output tokens per joule"
    told = [
        f"{show(use.power_w, 'W')} ({show(use.power_w_low, 'W')}-{show(use.power_w_high, 'W')}) on average: boards "
        f"{show(use.board_w, 'W')} + hosts {show(use.host_w, 'W')}, x PUE {use.pue:g}",
        f"{use.kwh_per_month:,.0f} kWh a month{each}{watt}",
    ]
    if use.kg_co2_per_month is None:
        told.append("carbon: the grid of this region is not known")
    else:
        grams = "" if use.g_co2_per_million_tokens is None else f", {use.g_co2_per_million_tokens:,.0f} g per million"
        told.append(f"{use.kg_co2_per_month:,.0f} kg CO2 a month{grams} ({use.grid}, {use.grams_per_kwh:g} g/kWh)")
    return [*told, *(f"from {source}" for source in use.sources)]


def _bounded(quantity: Quantity) -> str:
    value = show(quantity.value, quantity.unit)
    if quantity.low is None or quantity.high is None:
        return value
    return f"{value} ({show(quantity.low, quantity.unit)}-{show(quantity.high, quantity.unit)})"
