"""Would another count, or spot, do better than the chosen place (B3, D2)? The same job at other counts and terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import accelerators_text, seller
from tonnage.catalog.failures import spot_uptime
from tonnage.core import train_estimate as estimate
from tonnage.core.sites import Site
from tonnage.domain.money import Offer
from tonnage.domain.train_plan import PAYS, ScalingPoint, TrainOption
from tonnage.domain.training import TrainSetup
from tonnage.engines.registry import software_spec, training_families
from tonnage.errors import UnknownName
from tonnage.optimize.train_layouts import Arrangement
from tonnage.pricing.bills import instances_needed
from tonnage.questions.train.job import Job, TrainContext
from tonnage.questions.train.option import run_of
from tonnage.questions.train.places import MAX_ACCELERATORS, rentals
from tonnage.questions.train.search import Place, fastest_arrangements, runs_on, templates
from tonnage.simulation.run import spot_mix
from tonnage.simulation.training import step_time
from tonnage.units import percent, show

DOWN: Final = 2
UP: Final = 3
"""Halvings and doublings of the chosen count that the curves show at least."""
FARTHEST: Final = 10
"""Doublings after which no end is sought any more."""


def scaling_curves(asked: TrainContext, best: TrainOption, *, sites: tuple[Site, ...]) -> tuple[ScalingPoint, ...]:
    """
    Points of both curves (same batch, growing batch) that fit in memory, smallest count first, up to the first doubling
    that does not pay; empty where the option's site is no longer among `sites`.
    """
    site = next((s for s in sites if _is_site(s, best)), None)
    if site is None:
        return ()
    base = best.accelerators
    counts = [base // 2**k for k in range(DOWN, 0, -1) if base % 2**k == 0]
    counts += [base * 2**k for k in range(FARTHEST + 1) if base * 2**k <= MAX_ACCELERATORS]
    places = {
        r.place.count: r.place
        for r in rentals(site, counts=tuple(counts), terms=asked.request.filters.terms, today=asked.today)
    }
    strong = tuple(_to_the_end(_curve(asked, best, _strong(asked, best, places)), least=base * 2**UP))
    most = max((point.count for point in strong), default=base * 2**UP)
    shown = {count: place for count, place in places.items() if count <= most}
    return (*strong, *_curve(asked, best, _weak(asked, best, shown)))


def _to_the_end(points: Iterable[ScalingPoint], *, least: int) -> Iterator[ScalingPoint]:
    """Points up to a count, and on from there while doublings pay."""
    before: ScalingPoint | None = None
    ended = False
    for point in points:
        ended = ended or (before is not None and before.step_s / point.step_s < PAYS)
        yield point
        before = point
        if ended and point.count >= least:
            return


def stops_paying(points: tuple[ScalingPoint, ...]) -> str:
    """
    The first doubling that brings too little, or that none does; empty with fewer than two points of the same batch.
    """
    strong = [point for point in points if point.kind == "strong"]
    for before, after in pairwise(strong):
        speedup = before.step_s / after.step_s
        per = after.count / before.count
        if per == 2 and speedup < PAYS:
            more = per / speedup - 1.0
            return (
                f"beyond {before.count} accelerator{'' if before.count == 1 else 's'}: {after.count} step "
                f"{speedup:.2f}x as fast and cost {percent(more)} more ({after.layout})"
            )
    if len(strong) < 2:
        return ""
    return f"up to {strong[-1].count}, the most looked at, each doubling is {PAYS:g}x as fast or more"


def fastest_likely(asked: TrainContext, place: Place, *, job: Job, framework: str | None) -> Arrangement | None:
    """
    The fastest arrangement of a job that fits with the confidence asked for, else the surest to fit; None where none
    fits.
    """
    found = fastest_arrangements(asked.model, place, job=job, known=asked.known, framework=framework)
    return found.likely(asked.request.confidence)


Step = tuple[str, int, TrainSetup, float]
"""Kind of curve, count, arrangement, seconds."""


def _strong(asked: TrainContext, best: TrainOption, places: dict[int, Place]) -> Iterable[Step]:
    """The same global batch, arranged anew at each count."""
    own = software_spec(best.configuration.software).example
    name = own if asked.job.kind == "finetune" else asked.request.framework
    job = replace(asked.job, global_batch=best.configuration.global_batch, largest_batch=None)
    for count, place in sorted(places.items()):
        fastest = fastest_likely(asked, place, job=job, framework=name)
        if fastest is not None:
            yield "strong", count, fastest.setup, fastest.step_s * estimate.pace(fastest.setup)


def _weak(asked: TrainContext, best: TrainOption, places: dict[int, Place]) -> Iterable[Step]:
    """The same arrangement with more or fewer data-parallel ranks: the batch grows with the count."""
    base = setup_of(asked, best)
    for count, place in sorted(places.items()):
        dp, rest = divmod(base.layout.dp * count, best.accelerators)
        if rest or not dp:
            continue
        joined = {"inter_bytes_per_s": place.inter_bytes_per_s, "accelerators_per_node": min(place.per_node, count)}
        setup = replace(base, layout=replace(base.layout, dp=dp), **joined)
        yield "weak", count, setup, step_time(setup).value * estimate.pace(setup)


def _curve(asked: TrainContext, best: TrainOption, steps: Iterable[Step]) -> Iterable[ScalingPoint]:
    """
    Steps as points: tokens/s of the whole job, efficiency per accelerator over the first point's; time and cost by the
    option's own overhead over bare steps and its price per accelerator.
    """
    first: float | None = None
    over = best.run.billed_s / (best.run.steps * best.step_s.value)  # run over bare steps
    price = best.bill.usd_per_instance_hour / best.bill.accelerators_per_instance
    for kind, count, setup, step_s in steps:
        rate = setup.global_batch * setup.seq_len / step_s
        first = first or rate / count
        wall = asked.job.sequences / setup.global_batch * step_s * over
        yield ScalingPoint(
            kind=kind,  # type: ignore[arg-type]
            count=count,
            step_s=step_s,
            tokens_per_s=rate,
            efficiency=rate / count / first,
            wall_s=wall,
            usd=wall / 3600 * price * count,
            layout=setup.layout.label,
        )


def place_of(asked: TrainContext, option: TrainOption) -> Place:
    """The accelerators of an option as they are joined."""
    c = option.configuration
    return Place(
        accelerator=catalog.accelerator(c.accelerator, asked.additions),
        count=c.count,
        per_node=int(option.bill.accelerators_per_instance),
        intra_link=c.intra_link,
        inter_bytes_per_s=c.inter_bytes_per_s,
    )


def setup_of(asked: TrainContext, option: TrainOption, *, framework: str | None = None) -> TrainSetup:
    """
    The setup of an option, rebuilt from its configuration with the habits of its software, or of the framework named.
    """
    c = option.configuration
    if c.software not in training_families():
        raise UnknownName("training software", c.software, known=training_families())
    names = (framework or software_spec(c.software).example,)
    kinds = templates(asked.model, place_of(asked, option), job=asked.job, frameworks=names)
    return replace(
        kinds[0],
        layout=c.layout,
        micro_batch=c.micro_batch,
        num_micro_batches=c.num_micro_batches,
        recompute=c.recompute,
        recompute_share=c.recompute_share,
    )


def _is_site(site: Site, option: TrainOption) -> bool:
    c = option.configuration
    return site.accelerator.id == c.accelerator and site.intra_link == c.intra_link


NOWHERE: Final = 0.05
"""Useful share of the time below which spot is no way to run a job: at least twenty times the bill. Chosen. [-]"""


def spot_against_on_demand(asked: TrainContext, best: TrainOption, *, sites: tuple[Site, ...]) -> str:
    """
    One or two sentences on the option's count at the cheapest spot price; empty when nobody lists one for this
    accelerator.
    """
    if not asked.request.restartable:
        return "Spot is no choice: the job is said not to restart."
    priced = _cheapest_spot(best, sites)
    if priced is None:
        return ""
    offer, usd_per_h = priced
    instances = instances_needed(replicas=1, ranks=best.accelerators, per_instance=offer.count)
    up = spot_uptime(instances=instances)
    setup = setup_of(asked, best)
    run = run_of(
        asked.request,
        setup,
        step=best.step_s,
        steps=best.run.steps,
        instances=instances,
        instance_size=offer.count,
        term="spot",
    )
    name = f"{accelerators_text(best)} on spot at {seller(offer)}"
    notice = catalog.providers()[offer.provider].spot_notice_s if offer.provider in catalog.providers() else None
    told = f" ({notice:.0f} s notice)" if notice else ""
    between, down = show(run.between_s, "s", digits=2), show(up.mean_down_s, "s", digits=2)
    each = f"a stop every {between} on traces of older parts, {down} until back"
    useful = run.useful_time_fraction.value
    if useful < NOWHERE:
        return f"{name}: {each}{told}; it would get nowhere."
    usd = instances * usd_per_h * run.billed_s / 3600
    ratio = usd / best.cost.value
    wall = show(run.wall_s.value, "s")
    told = f"{name}: {each}{told}, {percent(useful)} useful; {show(usd, 'USD')} ({ratio:.2f}x on-demand) in {wall}"
    deadline = asked.request.deadline_s
    if deadline is None or run.wall_s.value <= deadline:
        return told + "."
    mix = spot_mix(
        work_s=best.run.billed_s,
        deadline_s=deadline,
        spot_share=up.availability * useful,
        up_share=up.availability,
        spot_usd_per_h=instances * usd_per_h,
        on_demand_usd_per_h=best.bill.usd_per_hour,
    )
    if mix is None:
        return told + f", beyond the {show(deadline, 's')} allowed."
    return (
        f"{told}, beyond the {show(deadline, 's')} allowed; with a switch to on-demand in time "
        f"({show(mix.on_demand_s, 's')} of it) about {show(mix.usd, 'USD')}."
    )


def _cheapest_spot(best: TrainOption, sites: tuple[Site, ...]) -> tuple[Offer, float] | None:
    """
    The offer of the same accelerator that holds the job cheapest on spot, and its price per instance; None where nobody
    lists one that does. [USD/h]
    """
    found: list[tuple[float, Offer, float]] = []
    for site in sites:
        same = (
            site.accelerator.id == best.configuration.accelerator and site.intra_link == best.configuration.intra_link
        )
        for offer in site.offers if same else ():
            price = offer.usd_per_hour("spot")
            holds = best.accelerators <= offer.count or (
                best.accelerators % offer.count == 0 and bool(offer.network_bytes_per_s)
            )
            if price is not None and holds:
                instances = instances_needed(replicas=1, ranks=best.accelerators, per_instance=offer.count)
                found.append((instances * price, offer, price))
    if not found:
        return None
    _, offer, price = min(found, key=lambda entry: entry[0])
    return offer, price


WORTH_NAMING: Final = 1.2
"""Times as fast, from which another stack is named. [-]"""


def faster_stack(asked: TrainContext, best: TrainOption) -> str:
    """The fastest other stack for an option, in a sentence; empty where none is much faster."""
    now = best.step_s.value / best.configuration.global_batch
    tried = ((_per_sequence(found), name, found) for name, found in _other_stacks(asked, best))
    least = min(tried, key=lambda entry: entry[0], default=None)
    if least is None or now / least[0] < WORTH_NAMING:
        return ""
    each, name, found = least
    times = now / each
    eight = name.endswith("FP8") and asked.job.case.precision != "fp8"
    rest = " (8-bit matrix products: watch the loss)" if eight else ""
    return (
        f"{name} on the same accelerators: {times:.2g}x as fast ({found.setup.layout.label}), about "
        f"{show(best.run.wall_s.value / times, 's')}{rest}"
    )


def _per_sequence(found: Arrangement) -> float:
    return found.step_s / found.setup.global_batch


def _other_stacks(asked: TrainContext, best: TrainOption) -> Iterator[tuple[str, Arrangement]]:
    """
    Name and fastest arrangement of software that splits layers by habit, in the option's format and in 8 bits where the
    part computes in them; those that run or fit nothing there are left out.
    """
    card, case = catalog.accelerators(asked.additions)[best.configuration.accelerator], asked.job.case
    place = place_of(asked, best)
    qlora = case.method == "qlora"
    eight_bits = "fp8" in card.peaks and case.precision == "bf16" and not qlora
    formats = [case.precision, *(["fp8"] if eight_bits else [])]
    names = [asked.request.framework] if asked.request.framework else []
    able = (spec for spec in training_families().values() if spec.model_parallel and (spec.four_bit_base or not qlora))
    names += [spec.example for spec in able if not names]
    for name in names:
        if not runs_on(name, card):
            continue
        for precision in formats:
            job = replace(asked.job, case=replace(case, precision=precision))
            fastest = fastest_likely(asked, place, job=job, framework=name)
            if fastest is not None:
                yield f"{name}, {precision.upper()}", fastest
