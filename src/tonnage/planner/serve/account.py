"""What a serving option delivers for its money and its electricity: per request, per token, per month, per watt."""

from __future__ import annotations

from msgspec.structs import replace

from tonnage.catalog import providers
from tonnage.engine.autoscale import carrying
from tonnage.money.energy import busy_share
from tonnage.money.terms import billing_rules, idle_usd, unit_costs
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.plan import ServeOption
from tonnage.nouns.workload import Serve
from tonnage.planner.energy import energy_use
from tonnage.planner.host import offer_of, serving_needs

__all__ = ["accounted"]


def accounted(request: Serve, option: ServeOption, *, accelerator: Accelerator) -> ServeOption:
    """The option with its unit costs, its terms, and its energy at the mean load."""
    capacity, lengths = option.capacity, request.lengths
    working = carrying(option.replicas, spare=request.spare_replicas, zones=request.zones)
    # usd_per_million_output_tokens was made at the mean load, so the mean rate follows from it exactly.
    tokens_per_s = option.cost.value / option.usd_per_million_output_tokens * 1e6 / 3600.0
    mean_in_flight = capacity.concurrency * working / request.shape.peak_to_mean / option.replicas
    largest = capacity.max_rate_per_s.value * working
    return replace(
        option,
        unit_costs=unit_costs(
            usd_per_hour=option.cost.value,
            requests_per_s=tokens_per_s / lengths.output_tokens,
            prompt_tokens=lengths.prompt_tokens,
            output_tokens=lengths.output_tokens,
            prompt_share=capacity.prompt_share,
            max_requests_per_s=largest,
        ),
        idle_usd_per_month=idle_usd(
            usd_per_hour=option.cost.value, busy_share=min(1.0, tokens_per_s / lengths.output_tokens / largest)
        ),
        needs=serving_needs(
            option.configuration.layout, weight_bytes=_weight_bytes(option), offer=offer_of(option.bill)
        ),
        billing=billing_rules(providers().get(option.bill.provider)),
        energy=energy_use(
            accelerator,
            count=float(option.accelerators),
            busy=busy_share(mean_requests=mean_in_flight),
            bill=option.bill,
            output_tokens_per_s=tokens_per_s,
        ),
    )


def _weight_bytes(option: ServeOption) -> float:
    """Of one replica, over all of its accelerators. [bytes]"""
    held = sum(part.value for part in option.memory.parts if part.name.startswith("weights"))
    return held * option.configuration.layout.ranks
