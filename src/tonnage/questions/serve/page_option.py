"""
Parts of a serving page: one option opened (memory, capacity, replicas, bill, energy), and what its images cost.
"""

from __future__ import annotations

import math
from typing import Final

from tonnage.catalog import part_name
from tonnage.domain.metrics import OBJECTIVES
from tonnage.domain.plan import PoolWorkers, ServeOption, ServePlan
from tonnage.domain.serve_parts import EncoderWay
from tonnage.engines.registry import engine_title
from tonnage.report.charts.chart import Chart, axis, layer_charts, names, records
from tonnage.report.document import Contents, Note, grid
from tonnage.report.wording import bill_lines, need_text, offer_text, parts_table
from tonnage.units import percent, show

BINDS: Final = {
    "kv": "KV cache",
    **{metric.name.removesuffix("_s"): metric.title for metric in OBJECTIVES},
    "batch": "concurrent sequences",
    "compute": "arithmetic",
}
"""What stops a replica from taking more, in words."""


def option_parts(plan: ServePlan, option: ServeOption) -> dict[str, Contents]:
    """What an option is made of."""
    return {
        "Memory of one accelerator": parts_table(option.memory),
        "Capacity of one replica": _capacity(option),
        "Replicas": _replicas(plan, option),
        "Bill": _bill(option),
        "What the money buys": _delivers(option),
        "Electricity and carbon": _energy(option),
        "What the host must bring": [need_text(need) for need in option.needs],
        "Other offers": [offer_text(bill) for bill in option.other_offers],
    }


def _capacity(option: ServeOption) -> list[str]:
    c = option.capacity
    return [
        f"KV cache capacity: {option.kv_tokens:,.0f} tokens",
        f"at most {c.max_rate_per_s.shown()}; {BINDS.get(c.binds, c.binds)} binds: {c.binds_text}",
        f"at the planned peak {c.concurrency:.1f} requests run at once",
        f"TTFT {c.ttft_s.shown()} (mean {show(c.ttft_mean_s, 's')}), TPOT {c.tpot_s.shown()} "
        f"(mean {show(c.tpot_mean_s, 's')}), basis {option.basis}",
    ]


def workers_text(pools: PoolWorkers) -> str:
    """Workers of a unit, as in "1 encoder + 2 prefill + 3 decode workers"."""
    rest = f"{pools.prefill} prefill + {pools.decode} decode workers" if pools.prefill else f"{pools.decode} workers"
    return f"{pools.encode} encoder{'' if pools.encode == 1 else 's'} + {rest}" if pools.encode else rest


def _replicas(plan: ServePlan, option: ServeOption) -> list[str]:
    """How the number of replicas follows from the peak; of a number in flight only what there is."""
    request = plan.request
    ranks, pools = option.configuration.ranks, option.configuration.pools
    what = f"units of {workers_text(pools)}" if pools else "replicas"
    each = f"{option.replicas} {what} x {ranks} = {option.accelerators} accelerators"
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
        f"headroom {percent(option.headroom)} at the peak",
    ]


def _bill(option: ServeOption) -> list[str]:
    bill = option.bill
    month = f"{show(bill.usd_per_hour, 'USD/h')} x 730 h = ${option.usd_per_month:,.0f} a month"
    return [*bill_lines(bill), month, *([bill.notes] if bill.notes else [])]


def _delivers(option: ServeOption) -> list[str]:
    """Unit costs, idle cost and billing rules of an option, as far as they are known."""
    costs, summary = option.unit_costs, []
    if costs is not None:
        summary += [
            f"${costs.usd_per_request * 1000:,.3f} per thousand requests; {costs.requests_per_usd:,.0f} requests for a "
            f"dollar; {costs.max_requests_per_s_per_usd_hour:.2f} requests/s at most per dollar and hour",
            f"per million tokens, by the time each takes: ${costs.usd_per_million_input_share:,.3g} input, "
            f"${costs.usd_per_million_answer_share:,.3g} output; "
            f"${costs.usd_per_million_blended_tokens:,.3g} over both",
        ]
    if option.idle_usd_per_month is not None:
        summary.append(f"${option.idle_usd_per_month:,.0f} a month pay for capacity that the mean load leaves unused")
    if option.billing is not None:
        egress = option.billing.egress_usd_per_gb
        bytes_out = "egress not published" if egress is None else f"egress ${egress:g}/GB"
        summary.append(f"billed by: {option.billing.stated}; {bytes_out} ({option.billing.source})")
    return summary


def _energy(option: ServeOption) -> list[str]:
    """Power, energy and carbon of the whole option at the mean load."""
    use = option.energy
    if use is None:
        return ["the accelerator's power is not published"]
    each = "" if use.kwh_per_million_tokens is None else f", {use.kwh_per_million_tokens:.3g} kWh per million tokens"
    watt = "" if use.tokens_per_joule is None else f", {use.tokens_per_joule:.3g} output tokens per joule"
    summary = [
        f"{show(use.power_w, 'W')} ({show(use.power_w_low, 'W')}-{show(use.power_w_high, 'W')}) on average: "
        f"accelerators {show(use.board_w, 'W')} + hosts {show(use.host_w, 'W')}, x PUE {use.pue:g}",
        f"{use.kwh_per_month:,.0f} kWh a month{each}{watt}",
    ]
    if use.kg_co2_per_month is None:
        summary.append("carbon: the grid of this region is not known")
    else:
        grams = "" if use.g_co2_per_million_tokens is None else f", {use.g_co2_per_million_tokens:,.0f} g per million"
        summary.append(f"{use.kg_co2_per_month:,.0f} kg CO2 a month{grams} ({use.grid}, {use.grams_per_kwh:g} g/kWh)")
    return [*summary, *(f"from {source}" for source in use.sources)]


def image_sections(plan: ServePlan) -> dict[str, Contents]:
    """What an image is, and what each place for the encoder costs on the first option's accelerators."""
    found = plan.images
    if found is None:
        return {}
    chosen = plan.options[0].configuration.label(part_name, engine_title) if plan.options else None
    rows = [
        (
            f"{way.name} (this plan)" if way.configuration == chosen else way.name,
            show(way.encode_s, "s"),
            show(way.move_s, "s") if way.move_s else "–",
            percent(way.hits),
            show(way.memory_bytes, "bytes"),
            f"{way.rate_per_s:.3g}" if way.rate_per_s else "misses",
            f"{way.accelerators:,}",
            _price(way),
        )
        for way in found.ways
    ]
    heads = ["encoder", "encodes>", "moves>", "kept>", "holds>", "req/s at most>", "accelerators>", "$/h>"]
    size = (
        f"{found.encoder_parameters / 1e9:.2f} B parameters; a token's encoding is {found.token_bytes:,.0f} bytes, an "
        f"image's {show(found.images.tokens * found.token_bytes, 'bytes')}"
    )
    note = (
        "req/s of one replica or unit, and prices, by averages at the confidence asked for; no instance: none that is"
        " rented holds a unit of so many"
    )
    return {
        "Images": [found.sentence, size],
        "Where images are encoded": [grid(heads, rows), Note(note)],
    }


def _price(way: EncoderWay) -> str:
    if way.usd_per_hour is None:
        return "no instance" if way.rate_per_s else "–"
    return f"{way.usd_per_hour:,.2f}"


def images_chart(plan: ServePlan) -> Chart | None:
    """Price of the fleet by place of the encoder; None where fewer than two serve."""
    found = plan.images
    rows = [(way.configuration, way.usd_per_hour, way.encode_s + way.move_s) for way in found.ways] if found else []
    priced = [(name, usd, taken) for name, usd, taken in rows if usd is not None]
    if len(priced) < 2:
        return None
    columns = ("where", "usd", "encode")
    body = layer_charts(
        records(columns, priced),
        {
            "mark": {"type": "bar"},
            "encoding": {
                "y": names("where", "where images are encoded"),
                "x": axis("usd", "price of the fleet ($/h), less is better"),
            },
        },
    )
    least = min(priced, key=lambda row: row[1])
    return Chart(
        "images",
        "Where images are encoded",
        f"Price of the fleet by place of the vision encoder; the least is {least[0]} at ${least[1]:,.2f}/h.",
        body=body,
        columns=("configuration", "$/h", "encoding"),
        rows=tuple((name, f"{usd:,.2f}", show(taken, "s")) for name, usd, taken in priced),
    )
