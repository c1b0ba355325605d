"""The words of an inference plan: why it leads, how much of it is used, what smaller part would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import model_name, part_name, parts_name, provider_name
from tonnage.core.header import Context
from tonnage.domain.answer import Verdict
from tonnage.domain.infer_plan import Infer, InferOption
from tonnage.domain.model import Model
from tonnage.domain.plan import Rejection
from tonnage.domain.refusal import refusal
from tonnage.units import percent, show, whole_percent

_SELDOM = 0.1
"""Rates below are said by the hour. [1/s]"""
_MANY = 1000.0
IDLE_FROM = 0.25
"""A part that is used less than this is said to be too large. [-]"""


def is_audio(model: Model) -> bool:
    """Whether its samples are seconds of sound."""
    return model.kind == "asr" or bool(model.network is not None and model.network.sample_s)


def _load_text(request: Infer, model: Model) -> str:
    """
    The load in words: streams, hours of audio an hour, or samples by the second or, where they are seldom, by the hour.
    """
    video = request.video
    if video is not None:
        looked = f", one frame in {video.every}" if video.every > 1 else ""
        return f"{video.streams:,} streams at {video.frames_per_s:g} frames/s{looked}"
    if is_audio(model):
        return f"{request.rate_per_s:,.4g} hours of audio an hour"
    if request.rate_per_s < _SELDOM:
        return f"{3600.0 * request.rate_per_s:,.4g} samples an hour"
    if request.rate_per_s >= _MANY:
        return f"{request.rate_per_s:,.0f} samples/s"
    return f"{request.rate_per_s:.4g} samples/s"


def purpose(asked: Context[Infer]) -> str:
    """What is asked for."""
    return f"for {_load_text(asked.request, asked.model)} of {model_name(asked.model.id)}"


def sentence(asked: Context[Infer], options: tuple[InferOption, ...]) -> str:
    """The answer in one sentence."""
    model, load = asked.model, _load_text(asked.request, asked.model)
    best = options[0]
    verb, cost = "Take", ""
    if best.bill is not None and best.battery_h is None:
        verb = "Rent"
        cost = f" at {provider_name(best.bill.provider)} for {show(best.bill.usd_per_hour, 'USD/h')}"
    elif best.price_usd is not None:
        cost = f", about {show(best.price_usd, 'USD')}"
    lasts = f"; the battery lasts {best.battery_h:.1f} h at {best.power_w:.1f} W" if best.battery_h else ""
    return (
        f"{verb} {parts_name(best.count, best.accelerator)} in {best.precision}{cost}: {load} of "
        f"{model_name(model.id)} take {percent(best.used)} of it (batches of {best.batch}, latency "
        f"{show(best.latency_s.value, 's')}){lasts}."
    )


def describe_option(option: InferOption) -> str:
    """An option in a few words."""
    cost = show(option.bill.usd_per_hour, "USD/h") if option.bill is not None else "a price to ask for"
    return f"{parts_name(option.count, option.accelerator)} in {option.precision} at {cost}"


def with_verdicts(options: tuple[InferOption, ...], request: Infer) -> tuple[InferOption, ...]:
    """Ranked options, each with the reason for its place."""
    told = []
    for place, option in enumerate(options):
        each = ""
        if option.streams_per_accelerator is not None:
            each = f"; one carries {option.streams_per_accelerator:,.0f} streams"
            if option.decode_used is not None:
                each += f", decoders {percent(option.decode_used)} busy"
        idle = f"; {percent(option.arithmetic_used, 1)} of its peak arithmetic"
        best = "likeliest" if not option.sure else "lightest" if request.battery_wh else "cheapest"
        lead = f"{best} that carries the load" if not place else ""
        likely = "" if option.chance is None else f" with a chance of {whole_percent(option.chance)}"
        told.append(replace(option, verdict=f"{lead or 'carries it too'}{likely}{each}{idle}"))
    return tuple(told)


def smaller_part_text(options: tuple[InferOption, ...], everything: Sequence[InferOption]) -> str:
    """
    Beside an option that is hardly used: the part with the least power that would do alone (B11); empty where the first
    is used enough.
    """
    if options[0].used >= IDLE_FROM:
        return ""
    best = options[0]
    parts = catalog.accelerators()
    alone = [
        o for o in everything if o.count == 1 and o.accelerator in parts and parts[o.accelerator].power_w is not None
    ]
    least = min(alone, key=lambda o: (parts[o.accelerator].power_w or 0.0, -o.used), default=None)
    used = f"{part_name(best.accelerator)} is used to {percent(best.used)}"
    if least is None or least.accelerator == best.accelerator:
        return f"{used}; nothing smaller of the parts looked at does it alone"
    cost = f" at {show(least.bill.usd_per_hour, 'USD/h')}" if least.bill is not None else ""
    return (
        f"{used}; {part_name(least.accelerator)} ({parts[least.accelerator].power_w:.0f} W)"
        f"{cost} would do alone, used to {percent(least.used)}"
    )


def binding_limit(rejected: tuple[Rejection, ...]) -> Verdict:
    """The limit that most parts fail on, at the one that came closest."""
    if not rejected:
        return refusal("filter", "no accelerator passes the filters", nearest="widen them")
    counts = Counter(loser.verdict.limit or "" for loser in rejected)
    limit = counts.most_common(1)[0][0]
    among = [loser for loser in rejected if loser.verdict.limit == limit]
    nearest = min(among, key=lambda loser: loser.verdict.short_by or 0.0)
    return replace(nearest.verdict, reason=f"{nearest.what}: {nearest.verdict.reason}")


def assumptions(asked: Context[Infer], options: tuple[InferOption, ...]) -> tuple[str, ...]:
    """
    What the answer takes as given of its model, headroom, confidence, video, speech, detection and batteries.

    The same whatever the `options` are, which other kinds look at.
    """
    request, model = asked.request, asked.model
    said = [
        *model.assumed,
        f"{percent(request.headroom)} of every accelerator is kept free, or more where a chance of "
        f"{whole_percent(request.confidence)} of carrying the load takes more",
    ]
    video = request.video
    if video is not None and video.decode == "accelerator":
        said.append(
            "streams are decoded by the accelerator's own decoders; where their rate is not in the catalogue "
            "they are taken to keep up: check them"
        )
    if video is not None and video.decode == "host":
        said.append("processors of the host decode the streams; they are not counted here")
    if model.kind == "asr" and model.encoder:
        said.append("audio is transcribed window by window: 30 s are spoken before the latency begins")
    if model.kind == "cnn-detect":
        said.append("the network alone: choosing among overlapping boxes is not counted")
    if request.battery_wh is not None:
        said.append(
            "the battery feeds the module alone, at its draw for this load; cameras and carrier board come on top"
        )
    return tuple(said)
