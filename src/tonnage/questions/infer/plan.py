"""Plan inference: which accelerators carry a load of frames, images, texts or audio, and how much of them it uses.

Every part that passes the filters is tried in every format it multiplies. The batch is the smallest that carries the
load on the fewest accelerators within the latency; capacity is what `tonnage predict` gives for a saturated server.
Video is decoded by the part's own decoders where their rate is published. Parts that nobody rents are answered too,
with their price: an edge module is bought. Whole replicas alone: a model that needs several accelerators is not split.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, part_name
from tonnage.catalog.hardware import Decoder, decoder
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.spreads import end_at
from tonnage.core.board_power import work_load
from tonnage.core.driver import Found, Kind, plan_or_relax
from tonnage.core.error_model import joint_chance
from tonnage.core.header import Context
from tonnage.core.host import LoadShare, energy_use, offer_of, sampling_needs
from tonnage.core.ranking import unlikely
from tonnage.core.sites import ACCELERATOR_TESTS, sites
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Quantity, Verdict
from tonnage.domain.case import InferCase
from tonnage.domain.cost import SampleCosts
from tonnage.domain.infer_plan import Infer, InferOption, InferPlan
from tonnage.domain.layout import NETWORK_ENGINE
from tonnage.domain.model import Model
from tonnage.domain.plan import Bill, Rejection
from tonnage.domain.precision import number_format
from tonnage.domain.refusal import refusal
from tonnage.engines.registry import engines
from tonnage.errors import BadRequest, TonnageError
from tonnage.pricing.bills import HOURS_PER_MONTH, bill, primary_first, with_instances
from tonnage.pricing.energy import IDLE_DRAW, mean_power_w
from tonnage.questions.infer import narrative
from tonnage.questions.predict.case_lines import refuse_misspelt
from tonnage.questions.predict.infer_work import precision_of, stages_of
from tonnage.questions.predict.inference import (
    Setup,
    Times,
    arithmetic_s,
    batch_times,
    errors_of,
    memory_of,
    not_run,
    setup_of,
)

SECONDS_PER_HOUR = 3600.0


def add_costs(request: Infer, option: InferOption, *, audio: bool) -> InferOption:
    """The option with its unit costs; unchanged where nobody rents it. `audio`: samples are seconds of sound."""
    if option.bill is None:
        return option
    hourly, capacity = option.bill.usd_per_hour, option.capacity_per_s.value * option.count
    month = hourly * HOURS_PER_MONTH
    if audio:
        # Seconds of sound a second are hours of it an hour.
        costs = SampleCosts(
            usd_per_month=month,
            usd_per_audio_hour=hourly / request.rate_per_s,
            usd_per_audio_hour_full=hourly / capacity,
            per_s_per_usd_hour=capacity / hourly,
        )
    else:
        costs = SampleCosts(
            usd_per_month=month,
            usd_per_thousand=hourly / (request.rate_per_s * SECONDS_PER_HOUR) * 1e3,
            usd_per_thousand_full=hourly / (capacity * SECONDS_PER_HOUR) * 1e3,
            usd_per_stream_month=month / request.video.streams if request.video is not None else None,
            per_s_per_usd_hour=capacity / hourly,
        )
    return replace(option, costs=costs)


BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LARGEST_FLEET: Final = 4096
TEXT: Final = frozenset({"llm", "llm-moe", "hybrid-moe", "hybrid", "ssm", "vlm"})
VISION: Final = ("cnn", "vision", "diffusion")
MORE: Final = 0.5
"""Of the accelerators that the load needs, how many more are tried for the latency. [-]"""


def plan_infer(request: Infer, *, additions: Additions = catalog.NOTHING, today: date | None = None) -> InferPlan:
    """
    Options that carry the load, cheapest first; what is used of them; the smallest part that would do.

    Raises
    ------
    TonnageError
        The model or an accelerator is unknown, or the request contradicts itself. That nothing carries the load is an
        answer: `feasible` is False and `binding` says what would.
    """
    return plan_or_relax(INFER, request, additions=additions, today=today)


def _ask(request: Infer, additions: Additions, today: date) -> Context[Infer]:
    model = resolve(request.model, additions=additions)
    refuse_text_models(request, model)
    # What the model cannot be asked is said once, not for each part.
    engine = request.engine or NETWORK_ENGINE
    case = case_of(request, model, part="", precision=request.precisions[0], engine=engine)
    refuse_misspelt(case)
    stages_of(model, case, batch=1)
    return Context(request=request, model=model, today=today, additions=additions)


def _look(asked: Context[Infer]) -> Found[Infer, InferOption, InferPlan]:
    """Every part in every format; parts beside those named are tried for `smaller`, and neither options nor refused."""
    request, bills = asked.request, _bills(asked)
    outcomes = [
        (part, precision, _option(asked, part, precision=precision, made=bills.get(part.id, [])))
        for part in _parts(asked, bills)
        for precision in request.precisions
    ]
    wanted = set(request.filters.accelerators)
    every = primary_first(sorted((one for *_, one in outcomes if isinstance(one, InferOption)), key=_order))
    audio = narrative.is_audio(asked.model)
    kept = (o for o in every if not wanted or o.accelerator in wanted)
    ranked = narrative.with_verdicts(
        tuple(_with_host(asked, add_costs(request, option, audio=audio)) for option in kept), request
    )
    rejected = tuple(
        Rejection(what=f"{part_name(part.id)} {precision}", verdict=one)
        for part, precision, one in outcomes
        if isinstance(one, Verdict) and (not wanted or part.id in wanted)
    )
    return Found(
        options=ranked,
        excluded=rejected,
        binding=None if ranked else narrative.binding_limit(rejected),
        evaluated=len(outcomes),
        plan=InferPlan,
        sections=lambda plan: replace(plan, smaller=narrative.smaller_part_text(plan.options, every)),
    )


def refuse_text_models(request: Infer, model: Model) -> None:
    """Raises where a model decodes text: that is another question."""
    seen = model.kind == "vlm" and request.resolution is not None
    if model.layers and model.has_head and model.kind in TEXT and not seen:
        images = "; for images give resolution" if model.kind == "vlm" else ""
        raise BadRequest(f"model: {model.id} decodes text; ask `tonnage plan serve {model.id}`{images}")


def _bills(asked: Context[Infer]) -> dict[str, list[Bill]]:
    """
    Bills of one instance of every offer, by the part it rents; those named are no filter here, for a smaller part may
    do.
    """
    request = asked.request
    open_sites, _ = sites(replace(request.filters, accelerators=()), additions=asked.additions)
    found: dict[str, list[Bill]] = {}
    for site in open_sites:
        for offer in site.offers:
            for term in request.filters.terms:
                made = bill(offer, replicas=1, ranks=1, term=term, today=asked.today)
                if isinstance(made, Bill):
                    found.setdefault(site.accelerator.id, []).append(made)
    return found


def _parts(asked: Context[Infer], bills: dict[str, list[Bill]]) -> Iterator[Accelerator]:
    """Parts to try: those rented, those named, and where edge or power is asked for, those bought."""
    request = asked.request
    bought = request.battery_wh is not None or "edge" in request.filters.segments or bool(request.filters.max_power_w)
    filters = replace(request.filters, accelerators=())
    for part in catalog.accelerators(asked.additions).values():
        named = part.id in request.filters.accelerators
        if (request.filters.owned and part.id not in bills) or not (
            named or part.id in bills or (bought and part.segment in {"edge", "workstation", "consumer"})
        ):
            continue
        if request.battery_wh is not None and part.power_w is None and not named:
            continue
        if named or all(test(filters, part) for test in ACCELERATOR_TESTS.values()):
            yield part


def case_of(request: Infer, model: Model, *, part: str, precision: str, engine: str = NETWORK_ENGINE) -> InferCase:
    """The case that `predict` would be asked of one saturated accelerator."""
    return InferCase(
        model=model, accelerator=part, precision=precision, engine=engine, saturated=True,
        resolution=request.resolution, seq_len=request.seq_len, steps=request.steps, frames=request.frames,
        beams=request.beams,
    )  # fmt: skip


def _option(asked: Context[Infer], part: Accelerator, *, precision: str, made: list[Bill]) -> InferOption | Verdict:
    """A part in one format, or the limit that stops it; of a named part, what is not measured raises."""
    request, model = asked.request, asked.model
    if (missing := no_unit(part, precision)) is not None:
        return refusal("precision", missing)
    engine = engine_on(request, model, part=part)
    if (missing := not_run(engine, part)) is not None:
        return refusal("engine", missing)
    setup = setup_of(case_of(request, model, part=part.id, precision=precision, engine=engine), asked.additions)
    try:
        return _sized_option(request, setup, made)
    except TonnageError as problem:
        if part.id in request.filters.accelerators:
            raise
        return refusal("unmeasured", str(problem))


def no_unit(part: Accelerator, precision: str) -> str | None:
    """Why a part cannot multiply in a format; absent where it can."""
    compute = number_format(precision_of(precision).activations).compute
    if compute in {"fp8", "int8", "fp4"} and part.peak(compute) is None:
        return f"{part.name} has no {compute} unit"
    return None


def engine_on(request: Infer, model: Model, *, part: Accelerator) -> str:
    """The engine asked for; else one that compiles vision for NVIDIA parts that its releases know, or the usual one."""
    if request.engine:
        return request.engine
    if part.vendor != "NVIDIA" or not model.kind.startswith(VISION):
        return NETWORK_ENGINE
    capability = math.inf if part.segment == "edge" else float(part.compute_capability or 0.0)
    knowing = (e.name for e in engines().values() if e.vision_from is not None and capability >= e.vision_from)
    return next(knowing, NETWORK_ENGINE)


def _sized_option(request: Infer, setup: Setup, made: list[Bill]) -> InferOption | Verdict:
    """
    The fewest accelerators for the load, and the smallest batch that carries it there in time; else the limit that
    stops it: memory, latency, how many there are of those that `made` bills, or the battery.
    """
    driver_bytes = setup.accelerator.driver_memory_bytes
    tried = [times for size in BATCHES if memory_of(setup, times := batch_times(setup, size)).value <= driver_bytes]
    if not tried:
        need = memory_of(setup, batch_times(setup, 1)).value
        needs = f"a batch of 1 needs {need / 2**30:.1f} GiB of {driver_bytes / 2**30:.1f}"
        return refusal("memory", needs, short_by=need - driver_bytes)
    decoded, decode_used = _decode(request, setup.accelerator)
    best: _Sized | None = None
    quickest = math.inf
    for times in tried:
        for sized in _counts(request, setup, times, least=max(decoded, 1)):
            quickest = min(quickest, sized.waits)
            in_time = request.latency_s is None or sized.waits <= request.latency_s
            if in_time and (best is None or sized.rank(request) < best.rank(request)):
                best = sized
    if best is None:
        late = quickest - (request.latency_s or 0.0)
        return refusal("latency", f"answers take {quickest * 1e3:,.0f} ms at best", short_by=late)
    owned = min((one.stock for one in made if one.stock is not None), default=LARGEST_FLEET)
    most = min(request.filters.max_count or LARGEST_FLEET, LARGEST_FLEET, owned)
    if best.number > most:
        return refusal("count", f"needs {best.number} accelerators", short_by=float(best.number - most))
    option = _build_option(request, setup, best, decoded=(decoded, decode_used), made=made)
    if request.hours is not None and option.battery_h is not None and option.battery_h < request.hours:
        lasts = f"the battery lasts {option.battery_h:.1f} h"
        return refusal("battery", lasts, short_by=request.hours - option.battery_h)
    return option


class _Sized(NamedTuple):
    """So many accelerators with one batch size, how long samples wait, and the chance that load and latency hold."""

    number: int
    times: Times
    waits: float
    chance: float

    def rank(self, request: Infer) -> tuple[bool, int]:
        """Those with the confidence asked for first, then the fewest."""
        return self.chance < request.confidence, self.number


def _counts(request: Infer, setup: Setup, times: Times, *, least: int) -> Iterator[_Sized]:
    """
    The count that the load needs, with the headroom kept and surely enough, and a few more where latency asks for them.
    """
    first = max(math.ceil(request.rate_per_s / firm_per_s(request, setup, times=times) - 1e-9), least)
    for count in range(first, first + 1 + math.ceil(first * MORE)):
        each = request.rate_per_s / count
        waits = mean_latency_s(times, each_per_s=each)
        sized = _Sized(count, times, waits, chance_of_load(request, setup, times=times, each=each, waits=waits))
        yield sized
        if sized.chance >= request.confidence:
            break


def firm_per_s(request: Infer, setup: Setup, *, times: Times) -> float:
    """
    What one accelerator carries with the headroom kept and with the confidence asked for, whichever is less, whatever
    its latency. [1/s]
    """
    firm = errors_of(setup).spread("samples_per_s").at(-end_at(request.confidence))
    return times.samples_per_s * min(1.0 - request.headroom, firm)


def chance_of_load(request: Infer, setup: Setup, *, times: Times, each: float, waits: float) -> float:
    """
    The chance that one accelerator carries `each` samples per second, and answers within the latency, of which it takes
    `waits` [s]. [-]
    """
    errors = errors_of(setup)
    carried, late = (errors.spread(name) for name in ("samples_per_s", "latency_s"))
    ends = [carried.turned.reach(math.log(times.samples_per_s / each))]
    if request.latency_s is not None:
        ends.append(late.reach(math.log(request.latency_s / waits)))
    return joint_chance(ends)


def mean_latency_s(times: Times, *, each_per_s: float) -> float:
    """
    Mean time to an answer where one accelerator takes so many samples per second: filling the batch, the batch before
    it as often as it is there, and its own time. [s]
    """
    each = each_per_s / times.stages.per_sample
    load = min(each * times.interval_s / times.batch, 1.0)
    return (times.batch - 1) / (2.0 * each) + load * times.interval_s + times.latency_s


def _decoder(request: Infer, part: Accelerator) -> Decoder | None:
    """The part's own decoders, where they decode the streams and their rate is published."""
    video = request.video
    return decoder(part.id, codec=video.codec) if video is not None and video.decode == "accelerator" else None


def _decode(request: Infer, part: Accelerator) -> tuple[int, float | None]:
    """
    Accelerators that the decoders alone call for, headroom kept; and the share [-] of one accelerator's decoders that
    all streams take (above 1 where one is too few). 0 and None where it decodes nothing or its rate is not known.
    """
    video, known = request.video, _decoder(request, part)
    if video is None or known is None:
        return 0, None
    pixels = video.streams * video.frames_per_s * video.frame_px[0] * video.frame_px[1]
    share = pixels / known.pixels_per_s
    return math.ceil(share / (1.0 - request.headroom) - 1e-9), share


def _build_option(
    request: Infer, setup: Setup, best: _Sized, *, decoded: tuple[int, float | None], made: list[Bill]
) -> InferOption:
    """
    A count and batch as an option; power and energy are of all accelerators, arithmetic in use a share of their peak,
    streams what one carries with the headroom kept.
    """
    (count, times, waits, chance), (decoders, decode_used) = best, decoded
    capacity, errors = times.samples_per_s, errors_of(setup)
    used = request.rate_per_s / (capacity * count)
    load = _load_of(setup, times)
    part = setup.accelerator
    samples = request.rate_per_s / times.stages.per_sample
    power = None
    if part.power_w is not None:
        power = count * mean_power_w(
            power_w=part.power_w, utilisation=used, load_share=load.value, idle_share=IDLE_DRAW
        )
    bill = _cheapest(made, count)
    video = request.video
    streams = None
    if video is not None:
        streams = capacity * (1.0 - request.headroom) * video.every / video.frames_per_s
        if decode_used:
            streams = min(streams, video.streams / decode_used * (1.0 - request.headroom))
    price = part.street_price_usd or part.launch_price_usd
    return InferOption(
        accelerator=part.id,
        count=count,
        precision=setup.case.precision,
        engine=setup.runtime.engine,
        batch=times.batch,
        capacity_per_s=Quantity(value=capacity, unit="1/s", basis=setup.basis).spread(errors.spread("samples_per_s")),
        latency_s=Quantity(value=waits, unit="s", basis=setup.basis).spread(errors.spread("latency_s")),
        chance=chance,
        sure=chance >= request.confidence,
        used=used,
        arithmetic_used=samples * arithmetic_s(setup, times) / (times.batch * count),
        memory=memory_of(setup, times),
        limit_bytes=part.driver_memory_bytes,
        basis=setup.basis.value,
        binds="decode" if decoders == count and decoders > 1 else "inference" if count > 1 else "one is enough",
        streams_per_accelerator=streams,
        decode_used=None if decode_used is None else decode_used / count,
        bill=bill,
        energy=energy_use(part, count=float(count), busy=min(1.0, used), bill=bill, load=load) if bill else None,
        source=known.source if (known := _decoder(request, part)) is not None else "",
        price_usd=None if price is None else price * count,
        power_w=power,
        battery_h=request.battery_wh / power if request.battery_wh and power else None,
    )


def _load_of(setup: Setup, times: Times) -> LoadShare:
    """What an accelerator draws of its limit while it computes one batch after another."""
    work = (replace(op, count=op.count * stage.times) for stage in times.stages.stages for op in stage.work)
    return work_load(work, seconds=times.interval_s, accelerator=setup.accelerator)


def _with_host(asked: Context[Infer], option: InferOption) -> InferOption:
    """The option with what one of its instances must bring; unchanged where nobody rents it."""
    request, bill, additions = asked.request, option.bill, asked.additions
    if bill is None:
        return option
    per = min(float(option.count), bill.accelerators_per_instance)
    needs = sampling_needs(
        request, per=per, rate_per_s=request.rate_per_s * per / option.count,
        weight_bytes=option.memory.weights,
        link_bytes_per_s=catalog.accelerators(additions)[option.accelerator].host_link.bytes_per_s,
        offer=offer_of(bill, additions=additions),
    )  # fmt: skip
    return replace(option, needs=needs)


def _cheapest(made: list[Bill], count: int) -> Bill | None:
    """
    The least that so many accelerators cost, on whole instances of one offer; sellers' own prices first; None where
    nobody rents them.
    """
    grown = [with_instances(one, math.ceil(count / one.accelerators_per_instance)) for one in made]
    return min(grown, key=lambda one: (one.trust != "primary", one.compared_usd_per_hour), default=None)


def _order(option: InferOption) -> tuple[bool, float, bool, float, float]:
    """
    Those likely enough first, or the likeliest. From a battery the lightest; else rented before bought, the cheapest,
    then the lightest.
    """
    draw, behind = option.power_w or math.inf, unlikely(option.chance, sure=option.sure)
    if option.battery_h is not None:
        return not option.sure, behind, False, draw, 0.0
    cost = option.bill.compared_usd_per_hour if option.bill is not None else option.price_usd or math.inf
    return not option.sure, behind, option.bill is None, cost, draw


INFER: Final[Kind[Infer, Context[Infer], InferOption, InferPlan]] = Kind(
    ask=_ask,
    look=_look,
    purpose=narrative.purpose,
    sentence=narrative.sentence,
    describe=narrative.describe_option,
    assumed=narrative.assumptions,
)
