"""The words of a serving plan: why it leads, what others cost, what binds, what would change it.

Every sentence is made from the plan"s own numbers; nothing here decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from tonnage.catalog import NOTHING, Additions
from tonnage.catalog import ambiguity as accelerator_ambiguity
from tonnage.domain.answer import Basis, Verdict
from tonnage.domain.fleet import FleetDay
from tonnage.domain.model import Model
from tonnage.domain.plan import Bill, Capacity, Decision, SeparatePools, ServeOption, SimulatedCapacity, Sizing
from tonnage.domain.workload import Serve
from tonnage.physics.parameters import active_parameters, parameters
from tonnage.planning.error_model import Pair, Ratio, correlation, tied, within
from tonnage.planning.replica import Replica
from tonnage.pricing.bills import HOURS_PER_MONTH, usd_per_hour_of
from tonnage.simulation.autoscale import carrying
from tonnage.simulation.capacity import Point
from tonnage.units import show

__all__ = [
    "assumptions",
    "binds_text",
    "catalogue_dates",
    "cheaper_at_risk",
    "following",
    "is_sure",
    "led_by",
    "model_facts",
    "sentence",
    "sizes",
    "trail",
    "why_not_fewer",
    "with_verdicts",
]

LEAST_SAVED: Final = 0.01
"""Of the first option's cost, from which on separate pools are told in the first sentence. [-]"""


def model_facts(model: Model) -> dict[str, Any]:
    """What the plan says of its model."""
    facts: dict[str, Any] = {
        "id": model.id,
        "family": model.family,
        "parameters": parameters(model).value,
        "active_parameters": active_parameters(model).value,
    }
    if model.max_context is not None:
        facts["max_context"] = model.max_context
    if model.source:
        facts["source"] = model.source
    return facts


def is_sure(request: Serve, capacity: Capacity, *, basis: Basis) -> bool:
    """Whether step times rest on measured kernels, or TTFT and TPOT hold at the far end of their intervals too."""
    return basis in {Basis.MEASURED, Basis.CALIBRATED} or _holds_within_error(request, capacity)


def _holds_within_error(request: Serve, capacity: Capacity) -> bool:
    limits = ((capacity.ttft_s, request.slo.ttft_s), (capacity.tpot_s, request.slo.tpot_s))
    return all(limit is None or (latency.high or latency.value) <= limit for latency, limit in limits)


def led_by(option: ServeOption) -> str:
    """An option in a few words."""
    name = f"{option.accelerators} x {option.configuration.accelerator}"
    return f"{name} at {show(option.bill.usd_per_hour, 'USD/h')} ({option.bill.term})"


def with_verdicts(request: Serve, options: tuple[ServeOption, ...]) -> tuple[ServeOption, ...]:
    """Ranked options, each with the reason for its place."""
    if not options:
        return ()
    first = options[0]
    what = "cheapest that meets the objectives and rests on measured kernels, or holds within error"
    lead = what if first.sure else "cheapest by its estimates, which no measured kernels support"
    told = [replace(first, verdict=f"{lead}; {_with_risk(request, first)}{_arithmetic(first)}")]
    for option in options[1:]:
        ratio = option.bill.usd_per_hour / first.bill.usd_per_hour
        tie = _tied(option, first)
        verdict = f"{ratio:.2f}x the first's cost{within(tie)}; {_with_risk(request, option)}{_arithmetic(option)}"
        told.append(replace(option, verdict=verdict, ties=tie is not None))
    return tuple(told)


def _with_risk(request: Serve, option: ServeOption) -> str:
    return "" if _holds_within_error(request, option.capacity) else f"{_risk(request, option)}; "


def _risk(request: Serve, option: ServeOption) -> str:
    """Which latency may miss its objective within error."""
    c, slo = option.capacity, request.slo
    found = [
        f"{name} may reach {show(latency.high or latency.value, 's', digits=2)}"
        for name, latency, limit in (("TTFT", c.ttft_s, slo.ttft_s), ("TPOT", c.tpot_s, slo.tpot_s))
        if limit is not None and (latency.high or latency.value) > limit
    ]
    return f"within error {' and '.join(found)} ({option.basis})"


def cheaper_at_risk(request: Serve, options: tuple[ServeOption, ...]) -> str:
    """The cheapest option that may miss an objective, when it costs less than the first, which will not."""
    if not options or not options[0].sure:
        return ""
    cheaper = [o for o in options if not o.sure and o.bill.usd_per_hour < options[0].bill.usd_per_hour]
    if not cheaper:
        return ""
    best = min(cheaper, key=lambda option: option.bill.usd_per_hour)
    price = show(best.bill.usd_per_hour, "USD/h")
    return f"{best.accelerators} x {best.configuration.accelerator} at {price}: {_risk(request, best)}"


def _arithmetic(option: ServeOption) -> str:
    ranks = option.configuration.layout.ranks
    rate = show(option.capacity.max_rate_per_s.value, "1/s")
    each = f"{_count(option.replicas, 'replica')} x {ranks}"
    one = show(option.bill.usd_per_instance_hour, "USD/h")
    return (
        f"{each} {option.configuration.accelerator} ({_count(option.bill.instances, 'instance')} at {one}); "
        f"one replica takes {rate}, {option.capacity.binds_text}"
    )


def _tied(option: ServeOption, first: ServeOption) -> Ratio | None:
    """The ratio of both costs where it might be no more than the first's; what is less sure ties with nothing."""
    if option.sure is not first.sure:
        return None
    return tied(Pair(option.cost, first.cost, correlation(option.configuration, first.configuration)))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def sentence(request: Serve, options: tuple[ServeOption, ...], *, binding: Verdict) -> str:
    """The answer in one sentence."""
    if not options:
        nearest = f" Nearest: {binding.nearest}." if binding.nearest else ""
        return f"No configuration serves {request.model} so: {binding.reason}.{nearest}"
    best = options[0]
    p = f"p{request.slo.percentile:g}"
    ttft, tpot = best.capacity.ttft_s, best.capacity.tpot_s
    bounds = f"({show(ttft.low or ttft.value, 's', digits=2)}-{show(ttft.high or ttft.value, 's', digits=2)})"
    limits = f"({show(tpot.low or tpot.value, 's', digits=2)}-{show(tpot.high or tpot.value, 's', digits=2)})"
    copies = f"{_count(best.replicas, 'replica')} of {_degrees(best)}"
    run = best.configuration
    old = ", an old price: check it" if best.bill.stale else ""
    return (
        f"Rent {best.accelerators} x {run.accelerator} ({copies}, {run.precision.weights} weights, "
        f"{run.engine.name}): {show(best.bill.usd_per_hour, 'USD/h')} at {best.bill.provider} "
        f"{best.bill.region} ({best.bill.term}, {best.bill.as_of}{old}), "
        f"{p} TTFT {show(ttft.value, 's', digits=2)} {bounds}, {p} TPOT {show(tpot.value, 's', digits=2)} {limits}."
    )


def following(day: FleetDay | None, apart: SeparatePools | None = None) -> str:
    """The rest of the sentence: what following the load or separate pools would save; empty where neither does."""
    saved = ""
    if apart is not None and apart.saves >= LEAST_SAVED and apart.rate_per_s > apart.together_per_s:
        saved = f" Prefill and decode apart it is ${apart.bill.usd_per_hour:,.2f}/h, {apart.saves:.0%} less."
    return _over_the_day(day) + saved


def _over_the_day(day: FleetDay | None) -> str:
    if day is None:
        return ""
    ways = {way.name: way for way in day.ways}
    best, peak = ways[day.best], ways["peak"]
    if best.usd_per_month >= peak.usd_per_month:
        return ""
    how = {"scale-to-zero": "Switched off between requests", "autoscaled": "Following the load"}.get(
        best.name, "Sized for the mean"
    )
    return f" {how} ({best.name}) it is ${best.usd_per_month:,.0f} a month, not ${peak.usd_per_month:,.0f}."


def _degrees(option: ServeOption) -> str:
    layout = option.configuration.layout
    named = [f"{name} {n}" for name in ("tp", "pp", "dp", "ep") if (n := getattr(layout, name)) > 1]
    return " ".join(named) or "tp 1"


def why_not_fewer(request: Serve, options: tuple[ServeOption, ...]) -> str:
    """What one replica fewer would mean at the peak."""
    if not options:
        return ""
    best = options[0]
    working = _working(request, best)
    used = (1.0 - best.headroom) * working
    most = show(best.capacity.max_rate_per_s.value, "1/s")
    if working == 1:
        smaller = f"a replica needs {best.configuration.layout.ranks} accelerators in this layout"
        return f"one replica is the least; {smaller}, and it takes up to {most}"
    share = used / (working - 1)
    free = "nothing" if share >= 1 else f"{1 - share:.0%}"
    verb = "would be overloaded" if share > 1 else f"would leave {free} free, and {request.headroom:.0%} is asked for"
    return f"{working - 1} x {_degrees(best)} {best.configuration.accelerator}, each up to {most}, {verb} at the peak"


def _working(request: Serve, option: ServeOption) -> int:
    """Replicas that carry the load when what may fail has failed."""
    return carrying(option.replicas, spare=request.spare_replicas, zones=request.zones)


def sizes(request: Serve, options: tuple[ServeOption, ...]) -> tuple[Sizing, ...]:
    """Minimum (peak load, nothing free), recommended (the plan), comfortable (one replica may fail at peak)."""
    if not options:
        return ()
    best = options[0]
    ranks = best.configuration.layout.ranks
    used = (1.0 - best.headroom) * _working(request, best)
    minimum = max(1, math.ceil(used - 1e-9))

    def sized(name: str, replicas: int, covers: str) -> Sizing:
        return Sizing(
            name=name,
            replicas=replicas,
            accelerators=replicas * ranks,
            usd_per_hour=usd_per_hour_of(best.bill, replicas=replicas, ranks=ranks),
            covers=covers,
        )

    return (
        sized("minimum", minimum, "the peak load with nothing to spare"),
        sized("recommended", best.replicas, f"the peak load with {best.headroom:.0%} of capacity free"),
        sized("comfortable", best.replicas + 1, "the same after any one replica fails"),
    )


def trail(request: Serve, options: tuple[ServeOption, ...], *, missed_memory: bool) -> tuple[Decision, ...]:
    """The four questions (C2): one accelerator? latency target? how does load vary? restartable?"""
    if not options:
        return ()
    single = [option for option in options if option.configuration.layout.ranks == 1]
    best = options[0]
    if single:
        fits = Decision(
            question="Does it fit one accelerator?",
            answer="yes",
            because=f"for example {single[0].configuration.label()} keeps {single[0].kv_tokens:,.0f} tokens of cache",
        )
    else:
        reason = "weights and cache need more memory" if missed_memory else "the objectives need more bandwidth"
        fits = Decision(question="Does it fit one accelerator?", answer="no", because=reason)
    slo = request.slo
    named = [f"{n} {show(v, 's')}" for n, v in (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s), ("E2E", slo.e2e_s)) if v]
    target = Decision(
        question="Is there a latency target?",
        answer=", ".join(named) or "no",
        because=f"at p{slo.percentile:g}; {best.capacity.binds_text}" if named else "throughput decides alone",
    )
    ratio = request.shape.peak_to_mean
    stand = "1 replica stands" if best.replicas == 1 else f"{best.replicas} replicas stand"
    varies = Decision(
        question="How does the load vary?",
        answer=f"{_shape(request)}peak {ratio:.3g}x the mean" if ratio > 1 else "flat",
        because=f"{stand} for the peak; {best.headroom:.0%} is free then",
    )
    spot = any(term == "spot" for term in request.filters.terms)
    restartable = Decision(
        question="Can it be interrupted?",
        answer="yes" if spot else "no",
        because="spot prices are allowed" if spot else "requests in flight would be lost: only on-demand or reserved",
    )
    return fits, target, varies, restartable


def _shape(request: Serve) -> str:
    kind = request.shape.kind
    return f"{kind}, " if kind in {"diurnal", "weekly", "intermittent"} else ""


def binds_text(binds: str, best: Point, *, replica: Replica, seen: SimulatedCapacity | None) -> str:
    """What stops one replica from taking more."""
    at = f"at {best.concurrency:.0f} concurrent requests"
    if seen is not None:
        what = f"{binds.upper()} reaches its objective" if binds in {"ttft", "tpot", "e2e"} else "it is full"
        return f"{what} {at}, where {seen.cause}"
    if binds == "kv":
        full = best.concurrency >= replica.deployment.max_num_seqs * 0.999
        return f"limited by max_num_seqs {replica.engine.max_num_seqs}" if full else f"the KV cache is full {at}"
    return f"{binds.upper()} reaches its objective {at}"


def catalogue_dates(bills: Iterable[Bill]) -> dict[str, str]:
    """Oldest and newest price date among the options."""
    dates = sorted(bill.as_of for bill in bills if bill.as_of)
    return {"oldest price": dates[0], "newest price": dates[-1]} if dates else {}


def assumptions(request: Serve, model: Model, *, additions: Additions = NOTHING) -> tuple[str, ...]:
    """Everything the answer takes as given that the user did not say."""
    lengths = request.lengths
    said = list(model.assumed)
    if lengths.profile:
        said.append(
            f"traffic '{lengths.profile}': {lengths.prompt_tokens:,.0f} prompt and {lengths.output_tokens:,.0f} output "
            f"tokens on average"
        )
    if request.users is not None and request.rate_per_s is not None:
        gap = request.users / request.rate_per_s
        said.append(f"{request.users:,.0f} users send a request every {show(gap, 's')} each")
    if request.slo.ttft_s is None and request.slo.tpot_s is None and request.slo.e2e_s is None:
        said.append("no latency objective: replicas run as full as memory allows")
    for name in request.filters.accelerators:
        taken = accelerator_ambiguity(name)
        if taken:
            said.append(taken)
    said += [f"what-if: {text}" for text in getattr(additions, "overrides", ())]
    if not request.precisions and model.quantization is None and model.experts_dtype is None:
        own = model.native_dtype
        said.append(
            f"FP8 weights are weighed beside the checkpoint's own {own}: validate their answers on your own tasks"
        )
    if not request.filters.community:
        said.append("community marketplaces and brokers are left out (--community includes them)")
    said.append(f"prices exclude VAT; a month is {HOURS_PER_MONTH:.0f} hours; list prices, not stock")
    return tuple(said)
