"""
A service that runs, as its metrics show it: each change worth making, with its money, its latencies and its risk.

Every change is one variant of what runs, asked of the same model of the service under the traffic that was seen, with
as many replicas as that then needs. Whoever calls calibrates first (`additions` with the service's own point), so that
today's state is what was measured and only differences are predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import date
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, accelerators_text, parts_name, provider_name
from tonnage.core.calibration_use import at_once, calibrations_among
from tonnage.core.header import Infeasible
from tonnage.core.replica import Replica
from tonnage.core.session_reuse import reusing_replica
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.diagnosis import Diagnosis
from tonnage.domain.metrics import SPEEDS
from tonnage.domain.plan import Configuration, ServeOption
from tonnage.domain.precision import number_format
from tonnage.domain.requests.common import Filters, Slo
from tonnage.domain.requests.serve import Serve
from tonnage.errors import BadRequest, echo
from tonnage.questions.adopt.adopt import accelerator_of
from tonnage.questions.adopt.question import ADVICE_SCHEMA, Action, Adopt, Advice, Running, Seen, State
from tonnage.questions.adopt.replayed import (
    AUTOSCALING,
    ServiceTraffic,
    fewest_replicas,
    hourly_bounds,
    logged_traffic,
    replay,
    traffic_of_service,
)
from tonnage.questions.adopt.serve import WIDE, Started, format_named, option_at, read_server
from tonnage.questions.adopt.upgrade import upgraded
from tonnage.questions.serve.decide import closely
from tonnage.questions.serve.option import needed_of
from tonnage.questions.serve.plan import serve_options
from tonnage.questions.serve.settings import outcome_of
from tonnage.units import percent, plural, show

WORTH: Final = 0.02
"""A saving below this share of today's money is not told: prices move more. [-]"""
FASTER: Final = 0.1
"""A latency that falls by this share is worth a setting that costs nothing. [-]"""
NEARLY: Final = 0.8
"""Settings that save this share of the best move come before it: they can be undone in a minute. [-]"""


class Service(NamedTuple):
    """What runs, and the traffic under which it and every change of it is asked."""

    made: Started
    seen: Seen
    traffic: ServiceTraffic | None
    """Played where there is some; averages decide otherwise."""
    today: date


class Change(NamedTuple):
    """A change of what runs: how it is told, what to know before it is made, where it applies, and what it sets."""

    name: str
    change: str
    """Names `own`, the configuration of today, and `seen`, the traffic."""
    risk: str
    check: str
    applies: Callable[[Configuration, Service], object] = lambda own, service: True
    sets: tuple[tuple[str, str, object], ...] = ()
    """Part of the configuration, field of it, and its value."""
    short: str = ""
    """Its name among others; empty = the same."""


CHANGES: Final = (
    Change(
        "replicas",
        "as many replicas as the traffic needs",
        risk="less room for a peak that the window did not see",
        check="look at the busiest hour of a week: tonnage advise FILE http://PROMETHEUS --window 7d",
    ),
    Change(
        "batch limit",
        "let the engine choose its batch ({own.engine.max_num_seqs} now)",
        risk="TPOT rises with the batch, as the prediction says",
        check="tonnage measure serve at the new limit, TPOT at the planned rate",
        applies=lambda own, service: own.engine.max_num_seqs is not None,
        sets=(("engine", "max_num_seqs", None),),
    ),
    Change(
        "prefix cache",
        "turn prefix caching on: {seen.reused_share:.0%} of a prompt was seen before",
        risk="none on answers; hits need requests to come back in time",
        check="watch the engine's prefix hit rate for an hour",
        applies=lambda own, service: own.engine.prefix_caching is False and service.seen.reused_share,
        sets=(("engine", "prefix_caching", True),),
    ),
    Change(
        "number format",
        "run the weights in FP8",
        risk="quality: evaluate your own task before and after",
        check="lm-eval on your tasks with both checkpoints",
        applies=lambda own, service: (
            number_format(own.precision.weights).bits == 16 and "fp8" in service.made.site.accelerator.peaks
        ),
        sets=(("precision", "weights", "fp8"), ("precision", "activations", "fp8")),
        short="FP8",
    ),
)
"""
Each is priced alone, then all that set something together. A setting is changed only where the file has it: a batch
limit, prefix caching off, 16-bit weights on a part with FP8.
"""


def advise(
    request: Adopt,
    running: Running,
    *,
    diagnosis: Diagnosis,
    seen: Seen,
    calibrated: str = "",
    additions: Additions = catalog.NOTHING,
    today: date | None = None,
) -> Advice:
    """
    What to change in a service, the most money first.

    Parameters
    ----------
    request : Adopt
        Objectives and what the file does not say.
    running : Running
        What the file starts.
    diagnosis : Diagnosis
        What limits the service, with its evidence.
    seen : Seen
        The traffic.
    calibrated : str
        What the answer says of the calibration in `additions`.
    additions : Additions
        The user's own facts, and the calibration of this service.
    today : date, optional
        The day prices are aged from.

    Raises
    ------
    TonnageError
        The file starts no server, or model or accelerator are not known.
    """
    if running.kind != "serve":
        raise BadRequest(f"the {running.format} starts a training job; advice is for servers: tonnage adopt takes it")
    day = today or date.today()
    accelerator = accelerator_of(request, running.machine, additions=additions)
    asked = replace(
        request, rate_per_s=seen.rate_per_s, prompt_tokens=seen.prompt_tokens, output_tokens=seen.output_tokens
    )
    made = read_server(asked, running, accelerator=accelerator, additions=additions)
    serve = _question(made, made.configuration, seen)
    traffic = traffic_of_service(serve, logged_traffic(seen.log) if seen.log else None)
    service = Service(made, seen, traffic, day)
    now = _state(service, made.configuration, replicas=made.replicas)
    if now is None:
        raise BadRequest("what the file starts is predicted not to run; tonnage adopt FILE says what stands in the way")
    actions = [action for change in _changes(service) if (action := _action(service, now, change)) is not None]
    elsewhere, found = None, _other_part(service, serve, now, request, additions=additions)
    if found is not None:
        elsewhere, there = found
        actions.append(
            Action(
                name="accelerator",
                change=f"move to {accelerators_text(elsewhere)} at {provider_name(elsewhere.bill.provider)}",
                state=there,
                usd_per_month=now.usd_per_month - elsewhere.usd_per_month,
                risk="another accelerator is predicted without the calibration of this service",
                check="rent one replica for an hour and send it the recorded traffic: tonnage measure serve",
            )
        )
    actions += _by_evidence(diagnosis, now, seen)
    if traffic is not None and seen.log:
        base = next((a.state for a in actions if a.name == "replicas" and a.state is not None), now)
        actions += hourly_bounds(traffic, base, now=now, headroom=serve.headroom, worth=WORTH)
    if request.upgrade is not None:
        actions.append(upgraded(made, replace(serve, quick=True), upgrade=request.upgrade, today=day))
    ranked = _rank_actions(actions, now)
    return Advice(
        schema=ADVICE_SCHEMA,
        sentence=_sentence(now, ranked, seen),
        running=running,
        seen=seen,
        today=now,
        verdicts=diagnosis.verdicts,
        actions=ranked,
        calibrated=calibrated,
        calibrations=_calibrations(serve, made, now, elsewhere, additions=additions),
        assumed=made.assumed,
        findings=made.findings,
        unexplained=(*_unexplained(now, seen, serve.slo), *_contradicted(diagnosis.evidence.kv, made.configuration)),
        replayed="" if traffic is None else traffic.source,
        percentile=serve.slo.percentile,
    )


def _unexplained(now: State, seen: Seen, slo: Slo) -> Iterator[str]:
    """Means that were seen beyond an objective which the prediction keeps: what makes them is in no number here."""
    for metric in SPEEDS:
        found, limit = getattr(seen, metric.name), getattr(slo, metric.name)
        said = getattr(now.replayed or now, metric.name)
        if found is not None and limit is not None and found > limit >= said:
            yield (
                f"{metric.title} of {show(found, 's')} on average was seen, beyond the {show(limit, 's')} asked for, "
                f"where a p{slo.percentile:g} of {show(said, 's')} is predicted: find what delays requests before you "
                "act on this"
            )


def _contradicted(kv: str | None, file: Configuration) -> Iterator[str]:
    """A cache that the engine says is of other bits than what its file starts."""
    runs, says = file.precision.kv, format_named(kv or "")
    if kv is not None and says != runs and (runs not in WIDE or says not in {"", *WIDE}):
        yield f"the metrics page shows a cache in {echo(kv)}, the file starts {runs}: predictions are of the file"


def _question(made: Started, configuration: Configuration, seen: Seen) -> Serve:
    """The question with what the cache of a configuration finds again of a prompt."""
    if not seen.reused_share or configuration.engine.prefix_caching is False:
        return made.serve
    return replace(made.serve, sessions=replace(made.serve.sessions, prefix_hits=seen.reused_share))


def _state(service: Service, configuration: Configuration, *, replicas: int | None = None) -> State | None:
    """
    The service under its traffic with so many replicas, or the fewest that carry it as surely as asked; None = it
    cannot run, or no offer holds them.
    """
    made, traffic = service.made, service.traffic
    serve = _question(made, configuration, service.seen)
    outcome = outcome_of(serve, made.model, site=made.site, configuration=configuration)
    if isinstance(outcome, Infeasible) or isinstance(outcome := closely(serve, outcome), Infeasible):
        return None
    if replicas is None:
        if traffic is None:
            replicas = needed_of(serve, outcome)
        else:
            surely = needed_of(replace(serve, headroom=0.0), outcome)  # the traffic says what headroom asks for
            replicas = fewest_replicas(serve, outcome.replica, traffic=traffic, start=surely)
    found = option_at(serve, outcome, replicas=replicas, today=service.today)
    if found is None:
        return None
    state = _state_of(found[1], keeps=found[2])
    if traffic is None:
        return state
    return _as_played(state, serve, outcome.replica, traffic=traffic)


def _as_played(state: State, serve: Serve, replica: Replica, *, traffic: ServiceTraffic) -> State:
    """A state under the traffic, played on its replicas."""
    played = replay(serve, replica, traffic=traffic, replicas=state.replicas)
    return replace(state, keeps=played.keeps, replayed=played)


def _state_of(option: ServeOption, *, keeps: bool = True) -> State:
    """An option as a state, its capacity that of all replicas; `keeps` is the caller's to know."""
    configuration, capacity = option.configuration, option.capacity
    return State(
        accelerator=configuration.accelerator,
        layout=configuration.layout,
        precision=configuration.precision,
        replicas=option.replicas,
        accelerators=option.accelerators,
        usd_per_month=option.usd_per_month,
        most_per_s=option.replicas * capacity.max_rate_per_s.value,
        ttft_s=capacity.ttft_s.value,
        tpot_s=capacity.tpot_s.value,
        keeps=keeps,
        chance=option.chance,
    )


def _changes(service: Service) -> Iterator[Change]:
    """Changes that apply, then their settings together."""
    found = [change for change in CHANGES if change.applies(service.made.configuration, service)]
    yield from found
    settings = [change for change in found if change.sets]
    if len(settings) > 1:
        yield Change(
            "all settings",
            "together: " + ", ".join(change.short or change.name for change in settings),
            risk="those of its parts",
            check="one at a time, in this order, each measured",
            sets=tuple(setting for change in settings for setting in change.sets),
        )


def _action(service: Service, now: State, change: Change) -> Action | None:
    """
    A change with what it brings, where that is money, capacity that is missing, or latency for nothing; else None.
    """
    own = changed = service.made.configuration
    for part, field, value in change.sets:
        changed = replace(changed, **{part: replace(getattr(changed, part), **{field: value})})
    after = _state(service, changed)
    if after is None:
        return None
    saved = now.usd_per_month - after.usd_per_month
    same = after.replicas == now.replicas
    quicker = same and min(after.ttft_s / now.ttft_s, after.tpot_s / now.tpot_s) < 1.0 - FASTER
    if (same and not change.sets) or not (saved > WORTH * now.usd_per_month or not now.keeps or quicker):
        return None
    count = "" if same else f"; {plural(after.replicas, 'replica')} instead of {now.replicas}"
    return Action(
        name=change.name,
        change=change.change.format(own=own, seen=service.seen).replace("%", " %") + count,
        state=after,
        usd_per_month=saved,
        risk=change.risk,
        check=change.check,
    )


def _other_part(
    service: Service, serve: Serve, now: State, request: Adopt, *, additions: Additions
) -> tuple[ServeOption, State] | None:
    """
    The cheapest option on another accelerator, where it saves enough to move and carries the traffic too; None where
    today's kind is the cheapest.
    """
    wanted = replace(serve, filters=Filters(providers=request.providers, terms=serve.filters.terms))
    options = serve_options(wanted, additions=additions, today=service.today, first_only=True)
    option = options[0] if options else None
    if option is None or option.configuration.accelerator == now.accelerator:
        return None
    state, run = _state_of(option), option.configuration
    if service.traffic is not None and run.pools is None:
        part = catalog.accelerator(run.accelerator, additions)
        replica = reusing_replica(wanted, run, model=service.made.model, accelerator=part)
        state = _as_played(state, wanted, replica, traffic=service.traffic)
    worth = now.usd_per_month - state.usd_per_month > WORTH * now.usd_per_month
    return (option, state) if worth and state.keeps else None


def _calibrations(
    serve: Serve, made: Started, now: State, elsewhere: ServeOption | None, *, additions: Additions
) -> tuple[CalibrationUse, ...]:
    """What moved today's state, and that of another accelerator where one is proposed."""
    e2e = now.ttft_s + max(0.0, serve.lengths.output_tokens - 1.0) * now.tpot_s
    load = (serve.rate_per_s or 0.0) / now.replicas * e2e
    runs = [at_once(made.configuration, model=serve.model, lengths=serve.lengths, concurrency=load)]
    if elsewhere is not None:
        held = elsewhere.capacity.concurrency
        runs.append(at_once(elsewhere.configuration, model=serve.model, lengths=serve.lengths, concurrency=held))
    return calibrations_among(runs, additions=additions)


def _by_evidence(diagnosis: Diagnosis, now: State, seen: Seen) -> list[Action]:
    """What the metrics show and no prediction is needed for: slow first requests, replicas that are often idle."""
    evidence, found = diagnosis.evidence, []
    cold = any(verdict.name == "cold start" for verdict in diagnosis.verdicts)
    if cold and evidence.first_s and evidence.later_s:
        found.append(
            Action(
                name="warm-up",
                change=(
                    f"send requests before a replica takes traffic: the first took {show(evidence.first_s, 's')}, "
                    f"later ones {show(evidence.later_s, 's')}"
                ),
                risk="none",
                check="readiness probe on a generated token, not on /health",
            )
        )
    if now.replicas > 1 and evidence.idle_share and evidence.idle_share > 0.2:
        least = max(1, math.ceil(now.replicas * seen.rate_per_s / now.most_per_s))
        found.append(
            replace(
                AUTOSCALING,
                change=f"scale between {least} and {now.replicas} replicas: nothing ran in "
                f"{percent(evidence.idle_share)} "
                "of the readings",
            )
        )
    return found


def _rank_actions(actions: list[Action], now: State) -> tuple[Action, ...]:
    """What repairs the service first, then money; settings before a move that brings little more."""
    most = max((action.usd_per_month for action in actions), default=0.0)

    def place(action: Action) -> tuple[bool, bool, float]:
        here = action.name != "accelerator" and action.usd_per_month >= NEARLY * most > 0.0
        return not _restores_objectives(action, now), not here, -action.usd_per_month

    return tuple(sorted(actions, key=place))


def _restores_objectives(action: Action, now: State) -> bool:
    """Whether it makes a service that fails its objectives keep them."""
    return not now.keeps and action.state is not None and action.state.keeps


def _sentence(now: State, actions: tuple[Action, ...], seen: Seen) -> str:
    """What runs, whether it carries the load seen, and the first change with its worth."""
    rate = show(seen.rate_per_s, "1/s")
    have = f"{plural(now.replicas, 'replica')} on {parts_name(now.accelerators, now.accelerator)}"
    carry, do = ("carry", "do") if now.replicas > 1 else ("carries", "does")
    state = (
        f"{carry} {rate} within the objectives"
        if now.keeps
        else f"{do} not carry {rate} within the objectives (at most {show(now.most_per_s, '1/s')})"
    )
    if not actions:
        return f"{have} {state}, and no change looked at is worth making."
    first = actions[0]
    if first.usd_per_month > 0:
        worth = f"saves ${first.usd_per_month:,.0f} a month ({percent(first.usd_per_month / now.usd_per_month)})"
    elif _restores_objectives(first, now):
        worth = f"keeps them for ${-first.usd_per_month:,.0f} a month more"
    else:
        worth = "costs nothing"
    return f"{have} {state}. First: {first.change} ({worth})."
