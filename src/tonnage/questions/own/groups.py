"""
What does a group of equal accelerators serve best, and what does it draw?

Models are taken in the order of their published score. On accelerators of data centres each is planned as a service:
every format that the engine runs there, every layout inside a machine, as many replicas as the group holds, at the
number of clients, each waiting for its answer, with the most output at the wanted speed of a request (mean); the
configuration with the most is shown. On a
person's own card, or where no serving engine is known to run, it is `tonnage local`: one request, llama.cpp. A card of
a workstation has both: what its serving engine does not run, llama.cpp does where its memory holds the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, model_name
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.standings import best_first, order_of, standing, task_of
from tonnage.core.board_power import SUM, spread, steady_load
from tonnage.core.header import Infeasible
from tonnage.core.host import USUAL_LOAD, LoadShare
from tonnage.core.machine import host_of, is_unified, with_memory
from tonnage.core.quality import weights_change
from tonnage.core.ranking import frontier
from tonnage.core.replica import errors_at
from tonnage.core.sites import OFFER_TESTS, Site
from tonnage.core.stock import GroupPower, power_of, pue_of, tariff
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Quantity
from tonnage.domain.machine import LocalRow, Machine
from tonnage.domain.model import Model
from tonnage.domain.money import Offer, Price
from tonnage.domain.precision import number_format
from tonnage.domain.requests.common import Slo
from tonnage.domain.requests.serve import Serve
from tonnage.engines.at_home import files_in, no_files_in
from tonnage.engines.registry import engine_spec
from tonnage.optimize.largest import largest_whole
from tonnage.physics.power_cap import capped_clock
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.pricing.energy import energy_kwh
from tonnage.questions.own.local import CONTEXT, local, top_rows
from tonnage.questions.own.question import LocalRequest, Own, OwnedAnswer, OwnedGroup, OwnRow, PowerCap, SiteAnswer
from tonnage.questions.serve import limits
from tonnage.questions.serve.option import Candidate
from tonnage.questions.serve.plan import BY_NEARNESS
from tonnage.questions.serve.settings import outcome_of

ROWS: Final = 5
"""Models of a group."""
ONE_CARD: Final = "one card"
"""Layout of a model that lies on a card alone."""
SERVED: Final = frozenset({"datacenter", "cloud-only", "workstation"})
"""Segments of accelerators that people run a serving engine on."""
OWN_TERM: Final = "on-demand"
"""Term under which what is owned is offered to the planner, at the price of its power."""


def part_of(group: OwnedGroup, additions: Additions) -> Accelerator:
    """The accelerator of a group, with the memory that the group states."""
    part = catalog.accelerator(group.accelerator, additions)
    return part if group.memory_bytes is None else with_memory(part, group.memory_bytes)


def site_of(group: OwnedGroup, part: Accelerator) -> Site:
    """The group's machines as an offer that costs nothing: what a replica takes does not depend on its price."""
    offer = Offer(
        provider="own",
        instance_type=group.name,
        accelerator=part.id,
        count=float(group.per_node),
        prices=(Price(term=OWN_TERM, usd_per_hour=0.0),),
        source="yours",
        as_of_kind="exact",
    )
    return Site(accelerator=part, intra_link=None, per_node=group.per_node, offers=(offer,))


def answer_group(request: Own, group: OwnedGroup, *, additions: Additions) -> OwnedAnswer:
    """
    Models that the group serves at the wanted speed, best first, those below it last; why there is none; and what the
    group draws, with its first row or as accelerators usually draw.
    """
    part = part_of(group, additions)
    stated = request.engine_stated and not any(engine_spec(name).layered for name in request.serve.engines)
    by_engine = stated or part.segment in SERVED
    served = list(_best_rows(request, group, part, additions=additions)) if by_engine else []
    home = not request.serve.precisions or bool(files_in(request.serve.precisions))
    rows = served if stated or not home else served or _local_rows(request, group, part, additions=additions)
    if served and home and not stated and part.segment == "workstation":
        # What no serving engine runs there, one request at a time.
        alone = _local_rows(request, group, part, in_host=False, additions=additions)
        rows = [*served, *(row for row in alone if all(row.model != other.model for other in served))]
    rows.sort(key=lambda row: (row.per_request < request.min_speed, order_of(row.stands)))
    power = group_power(request, part, count=group.count)
    watts = rows[0].power_w if rows else power.watts if power else None
    rack = None
    if request.rack_power_w is not None and power is not None:
        rack = int(request.rack_power_w // (power.machine_watts / group.count * group.per_node))
    return OwnedAnswer(
        name=group.name,
        accelerator=part.id,
        count=group.count,
        memory_bytes=part.memory_bytes * group.count,
        rows=tuple(rows[:ROWS]),
        none_because="" if rows else _none_because(request, group, part, stated=stated, additions=additions),
        power_w=watts,
        usd_per_month=None if watts is None else energy_kwh(power_w=watts) * tariff(request.electricity),
        rented_usd_per_month=_rental_price(request, part, group.count, additions),
        nodes_per_rack=rack,
    )


def _best_rows(request: Own, group: OwnedGroup, part: Accelerator, *, additions: Additions) -> Iterator[OwnRow]:
    """
    A row for the best configuration of each model, those with the best published score first, until enough are found;
    of a model that is named, one for each format that no finer one beats in output. Models that do not take the
    lengths, or that nothing there serves, are left out.
    """
    site = site_of(group, part)
    found = 0
    for name in models_of(request):
        model = resolve(name, additions=additions)
        longest = request.serve.lengths.prompt_tokens + request.serve.lengths.output_tokens
        if not model.layers or (model.max_context or longest) < longest:
            continue
        asked = _service_of(request, name)
        best = _most_output(asked, model, site=site, count=group.count, min_speed=request.min_speed)
        found += isinstance(best, tuple)
        for each in best[: None if request.model else 1] if isinstance(best, tuple) else ():
            row = _row(asked, each, model=model, count=group.count)
            used = row.replicas * each.configuration.layout.ranks
            drawn = steady_load(each.replica, each.best)
            yield _with_power(row, request, part, count=group.count, used=used, drawn=drawn)
        if found == ROWS:
            return


def _none_because(request: Own, group: OwnedGroup, part: Accelerator, *, stated: bool, additions: Additions) -> str:
    """Why nothing runs on a group: of a model that is named, what it lacks."""
    names, model = ", ".join(request.serve.engines), request.model
    if stated and model is not None:
        resolved = resolve(model, additions=additions)
        asked, site = _service_of(request, model), site_of(group, part)
        found = _most_output(asked, resolved, site=site, count=group.count, min_speed=request.min_speed)
        why = found.verdict.reason if isinstance(found, Infeasible) else "it has no kernels for it there"
        return f"{names} does not serve {model_name(model)}: {why}; leave out --engine to ask llama.cpp as well"
    if stated:
        return f"{names} serves no model there within its memory; leave out --engine to ask llama.cpp as well"
    if request.serve.precisions and not files_in(request.serve.precisions):
        return f"{no_files_in(request.serve.precisions)}; a serving engine may, with --engine"
    if model is not None:
        machine = _machine_of(request, group, part, additions=additions)
        return local(asked_at_home(request), machine, additions=additions).sentence.rstrip(".")
    return "no downloadable model fits in its memory, or no engine is known to run there"


def _service_of(request: Own, model: str) -> Serve:
    """The service that a model is judged by: of clients, whose number the wanted speed limits, without simulations."""
    return replace(request.serve, model=model, slo=Slo(), rate_per_s=None, concurrency=1.0, quick=True)


def _at_speed(found: Candidate, min_speed: float) -> Candidate | Infeasible:
    """
    The candidate with the clients that make the most output at the wanted speed of a request, one at least; the
    verdict where one alone is slower.
    """
    limit, state = 1.0 / min_speed, found.state
    most = largest_whole(lambda n: state.at(float(n)).tpot_mean_s <= limit, most=max(1, int(state.room)))
    alone = state.at(1.0)
    if not most:
        verdict = limits.misses_objective(Slo(tpot_s=limit), alone, limit="tpot")
        return Infeasible(configuration=found.configuration, verdict=verdict, alone=alone)
    return replace(found, best=max(alone, state.at(float(most)), key=lambda point: point.rate_per_s))


def models_of(request: Own) -> list[str]:
    """The model asked for, or those that people run, those with a score first."""
    if request.model is not None:
        return [request.model]
    return best_first(task_of(request.serve.lengths.profile))


def _most_output(
    request: Serve, model: Model, *, site: Site, count: int, min_speed: float
) -> tuple[Candidate, ...] | Infeasible | None:
    """
    Of all formats and layouts, that with the most output of the whole group, then those of finer formats, else the one
    that came closest; None where the engine has no format there.
    """
    found: list[tuple[float, float, Candidate]] = []
    missed: list[Infeasible] = []
    for startable, engine in itertools.product((True, False), request.engines):
        if not startable and (found or request.precisions):
            break  # what needs another checkpoint is looked at where nothing else runs
        worth = limits.configurations(request, model, site=site, engine=engine, most=count, startable=startable)
        for configuration in itertools.chain.from_iterable(worth):
            outcome = outcome_of(request, model, site=site, configuration=configuration)
            outcome = _at_speed(outcome, min_speed) if isinstance(outcome, Candidate) else outcome
            if isinstance(outcome, Infeasible):
                missed.append(outcome)
                continue
            replicas = replicas_of(count, configuration.layout.ranks, per_node=site.per_node)
            rate = outcome.best.rate_per_s * replicas
            found.append((-rate, -number_format(configuration.precision.stored).bits, outcome))
    if not found:
        return min(missed, key=BY_NEARNESS, default=None)
    kept = frontier(found, objectives=(itemgetter(0), itemgetter(1)))
    return tuple({found[n][1]: found[n][2] for n in sorted(kept, key=lambda n: found[n][0])}.values())


def replicas_of(count: int, ranks: int, *, per_node: int) -> int:
    """
    Replicas that so many accelerators hold: a replica that fits a machine does not reach over two.

    Examples
    --------
    >>> replicas_of(12, 4, per_node=8), replicas_of(12, 8, per_node=8), replicas_of(32, 16, per_node=8)
    (3, 1, 2)
    """
    if ranks > per_node:
        return count // per_node * per_node // ranks
    return count // per_node * (per_node // ranks) + count % per_node // ranks


def _row(request: Serve, found: Candidate, *, model: Model, count: int) -> OwnRow:
    """A candidate as a row: rates and requests in flight are of the whole group, `per_request` of one request."""
    replica, layout = found.replica, found.configuration.layout
    replicas = replicas_of(count, layout.ranks, per_node=found.site.per_node)
    output = found.best.rate_per_s * replicas * request.lengths.output_tokens
    stands = standing(request.model, task_of(request.lengths.profile))
    errors = errors_at(replica, found.best, prompt_tokens=request.lengths.prompt_tokens, state=None)
    total = Quantity(value=output, unit="tokens/s", basis=replica.basis).spread(errors.spread("tpot_s").turned)
    return OwnRow(
        model=request.model,
        engine=found.configuration.engine.name,
        weights=found.configuration.precision.stored,
        layout=" ".join(layout.degrees()) or "tp1",
        replicas=replicas,
        concurrency=found.best.concurrency * replicas,
        output_tokens_per_s=total,
        per_request=1.0 / found.best.tpot_mean_s,
        quality=stands.published if stands else None,
        stands=stands,
        change=weights_change(request.model, model, weights=found.configuration.precision.stored),
        prompt_share=min(1.0, found.best.rate_per_s * replica.times.prefill_work_s) if replica.times else 0.0,
    )


def _with_power(
    row: OwnRow, request: Own, part: Accelerator, *, count: int, used: int, drawn: tuple[LoadShare, float]
) -> OwnRow:
    """
    The row with what the group draws for it, hosts and cooling included: `used` of its accelerators work, the others
    wait. Unchanged where the part's power is not published.
    """
    load, busy = drawn
    power = group_power(request, part, count=count, load=load, busy=busy * min(1.0, used / count))
    one = power_of(part, count=1, usd_per_kwh=0.0, load=load, busy=busy)
    if power is None or one is None:
        return row
    output = row.output_tokens_per_s.value
    return replace(row, power_w=power.watts, board_w=one.board_watts, tokens_per_joule=output / power.watts)


def _local_rows(
    request: Own, group: OwnedGroup, part: Accelerator, *, in_host: bool = True, additions: Additions
) -> list[OwnRow]:
    """
    Models on a person's own machines: spread over the cards of each, or a copy on every card.

    Shown is what makes more output, in the finest format that makes as much. What lies in host memory is read by one
    copy at a time: such a copy is counted once for each machine. With `in_host` false nothing may lie in host memory.
    Behind the row of a model that is named stand those of its other formats.
    """
    machine = _machine_of(request, group, part, additions=additions)
    if not in_host:
        machine = replace(machine, host=replace(machine.host, memory_bytes=0.0))
    asked = asked_at_home(request)
    machines = max(1, group.count // group.per_node)
    places = [(machine, group.per_node), (replace(machine, count=1), 1)][: min(2, group.per_node)]

    def rows_of(found: list[LocalRow], cards: int) -> list[OwnRow]:
        alone = group.count if cards == 1 else machines
        return [_local_row(row, cards=cards, copies=machines if row.offload.moved_bytes else alone) for row in found]

    rows = [
        row for there, cards in places for row in rows_of(top_rows(asked, there, most=ROWS, additions=additions), cards)
    ]
    best: dict[str, OwnRow] = {}
    for row in rows:
        best[row.model] = max(row, best.get(row.model, row), key=_output)
    found = []
    for row in best.values():
        every = [row]
        for there, cards in places if request.model or len(places) > 1 else ():
            formats = local(replace(asked, model=row.model), there, additions=additions).frontier
            every += rows_of([one for one in formats if one.precision.kv == formats[0].precision.kv], cards)
        least = min(row.per_request, request.min_speed)
        as_fast = (one for one in every if _output(one) >= _output(row) and one.per_request >= least)
        first = max(as_fast, key=_bits)
        kept = (every[n] for n in frontier(every, objectives=(lambda one: -_bits(one), lambda one: -_output(one))))
        others = {one.weights: one for one in kept if request.model and one.weights != first.weights}
        found += [first, *sorted(others.values(), key=_bits, reverse=True)]
    return [_with_local_power(row, request, group, part) for row in found]


def asked_at_home(request: Own) -> LocalRequest:
    """The same question of one request at a time, as `tonnage local` asks it."""
    context = request.serve.max_context or CONTEXT
    return LocalRequest(
        context=context,
        min_per_s=request.min_speed,
        model=request.model,
        exact=True,
        task=task_of(request.serve.lengths.profile),
        precisions=request.serve.precisions,
    )


def _with_local_power(row: OwnRow, request: Own, group: OwnedGroup, part: Accelerator) -> OwnRow:
    """The row with what the group draws for it, hosts included, from its device's own draw."""
    if row.board_w is None or not part.power_w:
        return row
    cards = 1 if row.layout == ONE_CARD else group.per_node
    load = spread(row.board_w / part.power_w, SUM)
    return _with_power(row, request, part, count=group.count, used=row.replicas * cards, drawn=(load, 1.0))


def _bits(row: OwnRow) -> float:
    return number_format(row.weights).bits


def _output(row: OwnRow) -> float:
    return row.output_tokens_per_s.value


def _machine_of(request: Own, group: OwnedGroup, part: Accelerator, *, additions: Additions) -> Machine:
    """One machine of a group, with the host memory that the request states."""
    host = host_of(
        processor=part.id if part.segment == "cpu" else "", memory_bytes=request.host_bytes, additions=additions
    )
    if part.segment == "cpu":
        return Machine(title=part.name, host=host, evidence="named")
    if is_unified(part):
        host = replace(host, memory_bytes=0.0, assumed=())
    return Machine(title=group.name, host=host, device=part, count=group.per_node, evidence="named")


def _local_row(row: LocalRow, *, cards: int, copies: int) -> OwnRow:
    """One request on one machine or card as a row of the group: `copies` of it at once."""
    each = row.decode_per_s
    return OwnRow(
        model=row.model,
        engine=row.engine,
        weights=row.precision.stored,
        layout=f"layers over {cards}" if cards > 1 else ONE_CARD,
        replicas=copies,
        concurrency=float(copies),
        output_tokens_per_s=each.scaled(copies),
        per_request=each.value,
        quality=row.quality,
        stands=row.stands,
        change=row.change,
        moved_bytes=row.offload.moved_bytes,
        board_w=None if row.board_w is None else row.board_w.value,
        command=row.commands[0][1] if row.commands else "",
    )


def _rental_price(request: Own, part: Accelerator, count: int, additions: Additions) -> float | None:
    """
    The cheapest on-demand price that a seller states, for as many accelerators; of strangers' hosts only if asked; None
    where nobody rents them. [USD/month]
    """
    providers, filters = catalog.providers(), request.serve.filters
    prices = [
        price / offer.count
        for offer in catalog.offers(additions=additions)
        if offer.accelerator == part.id
        and not offer.history
        and offer.count >= 1
        and OFFER_TESTS["community"](filters, offer, providers)
        and (price := offer.usd_per_hour("on-demand")) is not None
        and offer.trust_of("on-demand") == "primary"
    ]
    return min(prices) * count * HOURS_PER_MONTH if prices else None


CAPS: Final = (1.0, 0.8, 0.6)


def group_power(
    request: Own, part: Accelerator, *, count: int, load: LoadShare = USUAL_LOAD, busy: float = 1.0
) -> GroupPower | None:
    """
    What the group draws at a load, and what that costs at the request's tariff; None where its power is not published.
    """
    return power_of(part, count=count, usd_per_kwh=tariff(request.electricity), load=load, busy=busy)


def site_answer(request: Own, groups: tuple[OwnedAnswer, ...], *, additions: Additions) -> SiteAnswer | None:
    """
    What the site's power feeds of the group that makes the most of it, at the board limit and below; None without a
    site limit, or a group that runs something and whose power is known.
    """
    if request.site_power_w is None:
        return None
    able = [one for one in groups if one.rows and one.power_w]
    if not able:
        return None
    best = max(able, key=lambda one: one.rows[0].output_tokens_per_s.value / (one.power_w or 1.0))
    part = catalog.accelerator(best.accelerator, additions)
    row, watts, limit = best.rows[0], best.power_w or 0.0, part.power_w or 0.0
    pue = pue_of(part)
    each = row.output_tokens_per_s.value / best.count
    # What the boards draw of it, which a limit holds; hosts and fans stay as they are.
    boards = min(row.board_w or 0.0, limit) * pue
    caps = []
    for share in CAPS:
        held = min(boards, share * limit * pue)
        per_accelerator = watts / best.count - boards + held
        clock = capped_clock(power_share=share)
        rate = each / (row.prompt_share / clock + 1.0 - row.prompt_share)
        fed = int(request.site_power_w // per_accelerator)
        caps.append(
            PowerCap(
                share=share,
                accelerators=fed,
                tokens_per_s=fed * rate,
                tokens_per_s_per_mw=rate / per_accelerator * 1e6,
            )
        )
    return SiteAnswer(
        site_power_w=request.site_power_w,
        owned_power_w=sum(one.power_w or 0.0 for one in groups),
        group=best.name,
        model=row.model,
        caps=tuple(caps),
    )
