"""The words of a serving plan: why it leads, what others cost, what binds, what would change it.

Every sentence is made from the plan"s own numbers; nothing here decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tonnage.catalog import accelerators_text, model_name, part_name, parts_name, seller
from tonnage.core.header import COMMUNITY, Context, names_taken, what_if
from tonnage.core.ranking import at_risk, weighed_usd_per_h
from tonnage.core.replica import Replica
from tonnage.domain.metrics import SPEEDS, objectives
from tonnage.domain.plan import Configuration, Decision, SeparatePools, ServeOption, SimulatedCapacity, Sizing
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.serve import Serve
from tonnage.domain.serve_parts import FleetDay
from tonnage.engines.registry import engine_title
from tonnage.errors import listed
from tonnage.pricing.bills import HOURS_PER_MONTH, usd_per_hour_of
from tonnage.questions.serve.limits import unmade_text
from tonnage.simulation.capacity import Point
from tonnage.simulation.router import working_replicas
from tonnage.units import percent, plural, show, whole_percent

MIN_SAVED: Final = 0.01
"""Of the first option's cost, from which on separate pools are told in the first sentence. [-]"""


def describe_option(option: ServeOption) -> str:
    """An option in a few words."""
    return f"{accelerators_text(option)} at {show(option.bill.usd_per_hour, 'USD/h')} ({option.bill.term})"


def lead_reason(
    first: ServeOption, *, request: Serve, cheapest: ServeOption | None = None, passed: bool = False
) -> str:
    """
    Why the first option leads, also where another is cheaper; `passed`: others as sure, whose checkpoint is not there,
    stand behind it.
    """
    made = " of those whose checkpoint is known" if passed else ""
    if first.chance is None:
        return f"cheapest{made} at this load; no objective was given"
    asked = whole_percent(request.confidence)
    if not first.sure:
        return f"likeliest to meet every objective: {whole_percent(first.chance)}, and none has {asked}"
    met = f"meets every objective with at least {asked} ({whole_percent(first.chance)})"
    if cheapest is None or first is cheapest:
        return f"cheapest{made} that {met}"
    own, other = (show(weighed_usd_per_h(option), "USD/h") for option in (first, cheapest))
    return f"{met} at the least weighed price{made}: {own}, and {other} for the cheapest ({_weighed(cheapest)})"


def _weighed(option: ServeOption) -> str:
    """What an option's weighed price holds beside its price."""
    run = option.configuration
    parts = {
        f"a price of {option.bill.as_of}": option.bill.stale,
        "prefill and decode in pools": run.pools is not None,
        "a replica over several machines": run.layout.ranks > option.bill.accelerators_per_instance,
    }
    return ", ".join(name for name, counts in parts.items() if counts)


def cheaper_at_risk(request: Serve, options: tuple[ServeOption, ...]) -> str:
    """The cheapest option that is less likely to meet the objectives than asked for, when it costs less."""
    best = at_risk(options)
    if best is None:
        return ""
    price = show(best.bill.usd_per_hour, "USD/h")
    return f"{accelerators_text(best)} at {price}: {risk(best, request=request)}"


def risk(option: ServeOption, *, request: Serve, lacks: Callable[[Configuration], bool] | None = None) -> str:
    """
    How likely it is to meet every objective where that is less than asked for, and that its checkpoint has to be made
    first where `lacks` says so; empty otherwise.
    """
    unmade = unmade_text(option.configuration) if lacks and lacks(option.configuration) else ""
    if option.chance is None or option.sure:
        return unmade
    c, slo = option.capacity, request.slo
    found = [
        f"{metric.title} may reach {show(latest, metric.unit, digits=2)}"
        for metric, limit in objectives(slo)
        if metric in SPEEDS
        for latency in (getattr(c, metric.name),)
        if (latest := latency.high or latency.value) > limit
    ]
    far = f": {' and '.join(found)} within error" if found else ""
    odds = f"meets every objective with {whole_percent(option.chance)} only{far} ({option.basis})"
    return "; ".join(filter(None, (unmade, odds)))


def arithmetic(option: ServeOption) -> str:
    """Replicas, accelerators and instances of an option, and what one replica takes."""
    ranks = option.configuration.ranks
    rate = show(option.capacity.max_rate_per_s.value, "1/s")
    each = f"{plural(option.replicas, _one(option))} x {ranks}"
    one = show(option.bill.usd_per_instance_hour, "USD/h")
    return (
        f"{each} {part_name(option.configuration.accelerator)} ({plural(option.bill.instances, 'instance')} at {one}); "
        f"one {_one(option)} takes {rate}, {option.capacity.binds_text}"
    )


def _one(option: ServeOption) -> str:
    """What its load is divided over: replicas, or units of prefill and decode workers."""
    return "unit" if option.configuration.pools else "replica"


def purpose(asked: Context[Serve]) -> str:
    """What is asked for."""
    return f"to serve {model_name(asked.request.model)}"


def sentence(asked: Context[Serve], options: tuple[ServeOption, ...]) -> str:
    """The answer in one sentence."""
    request = asked.request
    best = options[0]
    p = f"p{request.slo.percentile:g}"
    ttft, tpot = (latency.shown(digits=2) for latency in (best.capacity.ttft_s, best.capacity.tpot_s))
    copies = f"{plural(best.replicas, _one(best))} of {_degrees(best)}"
    run = best.configuration
    old = ", an old price: check it" if best.bill.stale else ""
    return (
        f"Rent {parts_name(best.accelerators, run.accelerator)} ({copies}, {run.precision.stored.upper()} weights, "
        f"{engine_title(run.engine.name)}): {show(best.bill.usd_per_hour, 'USD/h')} at {seller(best.bill)} "
        f"({best.bill.term}, {best.bill.as_of}{old}), "
        f"{p} TTFT {ttft}, {p} TPOT {tpot}."
    )


def following_text(day: FleetDay | None, apart: SeparatePools | None = None) -> str:
    """The rest of the sentence: what following the load or separate pools would save; empty where neither does."""
    saved = ""
    if apart is not None and apart.saves >= MIN_SAVED and apart.rate_per_s > apart.together_per_s:
        how = "Disaggregated (prefill and decode on workers of their own)"
        saved = f" {how} it is ${apart.bill.usd_per_hour:,.2f}/h, {percent(apart.saves)} less."
    return _over_the_day(day) + saved


def _over_the_day(day: FleetDay | None) -> str:
    """What the cheapest way of following the load costs a month; empty where the fleet for the peak costs no more."""
    if day is None:
        return ""
    ways = {way.name: way for way in day.ways}
    best, peak = ways[day.best], ways["peak"]
    if best.usd_per_month >= peak.usd_per_month:
        return ""
    how = {
        "scale-to-zero": "Switched off between requests",
        "autoscaled": "Following the load",
        "base and burst": f"With {best.committed} replicas committed ({best.base}) and the rest on demand",
    }.get(best.name, "Sized for the mean")
    return f" {how} ({best.name}) it is ${best.usd_per_month:,.0f} a month, not ${peak.usd_per_month:,.0f}."


def _degrees(option: ServeOption) -> str:
    each = " ".join(option.configuration.layout.degrees()).upper() or "TP1"
    pools = option.configuration.pools
    if pools is None:
        return each
    parts = [plural(pools.encode, "encoder")] if pools.encode else []
    parts += [plural(pools.prefill, "prefill worker")] if pools.prefill else []
    parts.append(plural(pools.decode, "decode worker" if pools.prefill else "worker"))
    said = listed(parts)
    return f"{said}, each {each}" if not pools.encode else f"{said} of {each}"


def why_not_fewer(request: Serve, best: ServeOption, *, chance: float | None) -> str:
    """
    What one working replica fewer would mean at the peak, where it meets every objective with a `chance` (None =
    without objectives); where one is the least, what a replica is.
    """
    working = working_replicas(request, best.replicas)
    used = (1.0 - best.headroom) * working
    most = show(best.capacity.max_rate_per_s.value, "1/s")
    if working == 1:
        smaller = f"a {_one(best)} needs {best.configuration.ranks} accelerators in this layout"
        return f"one {_one(best)} is the least; {smaller}, and it takes up to {most}"
    share = used / (working - 1)
    verb = f"would leave headroom {percent(1 - share)}, and {percent(request.headroom)} is asked for"
    if share > 1:
        verb = "would be overloaded"
    elif 1 - share >= request.headroom and chance is not None:
        asked = whole_percent(request.confidence)
        verb = f"would meet every objective with {whole_percent(chance)}, and {asked} is asked for,"
    fewer = f"{working - 1} x {_degrees(best)} {part_name(best.configuration.accelerator)}"
    return f"{fewer}, each up to {most}, {verb} at the peak"


def sizes(request: Serve, best: ServeOption) -> tuple[Sizing, ...]:
    """
    Minimum (peak load, no headroom), recommended (the plan), comfortable (one replica more than the plan), each with
    its price; spares are in the last two alone.
    """
    ranks = best.configuration.ranks
    used = (1.0 - best.headroom) * working_replicas(request, best.replicas)
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
        sized("recommended", best.replicas, f"the peak load with headroom {percent(best.headroom)}"),
        sized("comfortable", best.replicas + 1, f"the same after any one {_one(best)} fails"),
    )


def trail(request: Serve, options: tuple[ServeOption, ...], *, missed_memory: bool) -> tuple[Decision, ...]:
    """The four questions (C2): one accelerator? latency target? how does load vary? restartable?"""
    single = [option for option in options if option.configuration.ranks == 1]
    best = options[0]
    if single:
        fits = Decision(
            question="Does it fit one accelerator?",
            answer="yes",
            because=f"{single[0].configuration.label(part_name, engine_title)} has a KV cache capacity of "
            f"{single[0].kv_tokens:,.0f} tokens",
        )
    else:
        reason = "weights and cache need more memory" if missed_memory else "the objectives need more bandwidth"
        fits = Decision(question="Does it fit one accelerator?", answer="no", because=reason)
    slo = request.slo
    named = [f"{metric.title} {show(limit, metric.unit)}" for metric, limit in objectives(slo)]
    target = Decision(
        question="Is there a latency target?",
        answer=", ".join(named) or "no",
        because=f"at p{slo.percentile:g}; {best.capacity.binds_text}" if named else "throughput decides alone",
    )
    ratio = request.shape.peak_to_mean
    stand = f"1 {_one(best)} stands" if best.replicas == 1 else f"{best.replicas} {_one(best)}s stand"
    varies = Decision(
        question="How does the load vary?",
        answer=f"{_shape(request)}peak {ratio:.3g}x the mean" if ratio > 1 else "flat",
        because=f"{stand} for the peak; headroom {percent(best.headroom)} then",
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
    """
    What stops one replica from taking more: the simulation's cause where it was simulated, else what `binds` names.
    """
    at = f"at {best.concurrency:.0f} concurrent requests"
    if seen is not None:
        within = f"max concurrency within the SLO: {best.concurrency:.0f} ({binds.upper()} binds)"
        what = within if binds in {"ttft", "tpot", "e2e"} else f"at most {best.concurrency:.0f} concurrent requests"
        return f"{what}, where {seen.cause}"
    if binds == "kv":
        full = best.concurrency >= replica.max_num_seqs * 0.999
        limit = f"limited by {replica.engine.max_num_seqs} concurrent sequences (the engine's setting)"
        return limit if full else f"the KV cache is full {at}"
    return f"max concurrency within the SLO: {best.concurrency:.0f} ({binds.upper()} binds)"


def assumptions(asked: Context[Serve], options: tuple[ServeOption, ...]) -> tuple[str, ...]:
    """Everything the answer takes as given that the user did not say."""
    request, model = asked.request, asked.model
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
    said += [*names_taken(request.filters, asked.additions), *what_if(asked.additions)]
    if not request.precisions and model.quantization is None and model.experts_dtype is None:
        own = model.native_dtype
        said.append(
            f"weights in formats that the engine makes of the checkpoint's own {own} while loading (FP8) are weighed "
            "beside it: validate their answers on your own tasks; others, such as NVFP4, are planned where --precision "
            "names them or the model is a checkpoint stored so"
        )
    said += _images_assumed(lengths)
    if not request.filters.community:
        said.append(COMMUNITY)
    said.append(f"prices exclude VAT; a month is {HOURS_PER_MONTH:.0f} hours; list prices, not stock")
    return tuple(said)


def _images_assumed(lengths: Lengths) -> list[str]:
    """What is taken as given of images; empty without."""
    images = lengths.images
    if images is None:
        return []
    text = lengths.prompt_tokens - images.prompt_tokens
    said = [
        f"{images.per_request:g} images of {images.tokens:,.0f} tokens a request, beside {text:,.0f} tokens of text; "
        "prompts find nothing again but what prefix_hits states",
        "reading and resizing images on the host is not counted",
    ]
    if images.distinct is not None:
        said.append(f"{images.distinct:,.0f} different images, each sent as often: the least that a cache gives")
    return said
