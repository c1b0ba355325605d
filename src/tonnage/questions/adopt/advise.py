"""
A service that runs, as its metrics show it: each change worth making, with its money, its latencies and its risk.

Every change is one variant of what runs, asked of the same model of the service under the traffic that was seen, with
as many replicas as that then needs. Whoever calls calibrates first (`additions` with the service's own point), so that
today's state is what was measured and only differences are predicted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, accelerators_text, parts_name, provider_name
from tonnage.core.calibration_use import at_once, calibrations_among
from tonnage.core.header import Infeasible
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.diagnosis import Diagnosis
from tonnage.domain.metrics import SPEEDS
from tonnage.domain.plan import Configuration, ServeOption
from tonnage.domain.precision import number_format
from tonnage.domain.requests.common import Filters
from tonnage.domain.requests.serve import Serve
from tonnage.engines.registry import release
from tonnage.errors import BadRequest, echo
from tonnage.questions.adopt.adopt import accelerator_of
from tonnage.questions.adopt.question import ADVICE_SCHEMA, Action, Adopt, Advice, Running, Seen, State
from tonnage.questions.adopt.replayed import (
    ServiceTraffic,
    fewest_replicas,
    hourly_bounds,
    logged_traffic,
    replay,
    traffic_of_service,
)
from tonnage.questions.adopt.serve import Started, option_at, read_server
from tonnage.questions.serve.plan import outcome_of, plan_serve
from tonnage.units import plural, show

WORTH: Final = 0.02
"""A saving below this share of today's money is not told: prices move more. [-]"""
FASTER: Final = 0.1
"""A latency that falls by this share is worth a setting that costs nothing. [-]"""
NEARLY: Final = 0.8
"""Settings that save this share of the best move come before it: they can be undone in a minute. [-]"""
COLD: Final = 3.0
"""First requests this many times slower than later ones are a server that warms up. [-]"""


class _Variant(NamedTuple):
    """A change, with the question and the configuration that it leads to."""

    action: Action
    serve: Serve
    configuration: Configuration


def advise(
    request: Adopt,
    running: Running,
    *,
    diagnosis: Diagnosis,
    seen: Seen,
    calibrated: str = "",
    upgrade: str | None = None,
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
    upgrade : str, optional
        A release to expect a change from: vllm@0.27.
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
    serve = _with_reuse(made, seen)
    traffic = traffic_of_service(serve, logged_traffic(seen.log) if seen.log else None)
    now = _state(serve, made, made.configuration, replicas=made.replicas, traffic=traffic, today=day)
    if now is None:
        raise BadRequest("what the file starts is predicted not to run; tonnage adopt FILE says what stands in the way")
    actions = [
        action
        for variant in _variants(made, serve, seen)
        if (action := _action(variant, made, now, traffic=traffic, today=day)) is not None
    ]
    elsewhere = _other_part(serve, now, request, additions=additions, today=day)
    actions += [] if elsewhere is None else [_move_to(elsewhere, now)]
    actions += _by_evidence(diagnosis, now, seen)
    if traffic is not None:
        base = next((a.state for a in actions if a.name == "replicas" and a.state is not None), now)
        if seen.log:
            actions += hourly_bounds(traffic, base, now=now, headroom=serve.headroom, worth=WORTH)
    if upgrade is not None:
        actions.append(_upgrade(upgrade, serve, made, now, today=day))
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
        replayed="" if traffic is None else traffic.source,
    )


def _with_reuse(made: Started, seen: Seen) -> Serve:
    """The question with the prompts that the cache of today leaves to compute."""
    if not seen.reused_share or made.configuration.engine.prefix_caching is False:
        return made.serve
    return _computing(made.serve, 1.0 - seen.reused_share)


def _computing(serve: Serve, share: float) -> Serve:
    """The question with this share of each prompt's tokens left to compute, one at least."""
    lengths = serve.lengths
    return replace(serve, lengths=replace(lengths, computed_tokens=max(1.0, share * lengths.prompt_tokens)))


def _state(
    serve: Serve,
    made: Started,
    configuration: Configuration,
    *,
    replicas: int | None = None,
    traffic: ServiceTraffic | None = None,
    today: date,
) -> State | None:
    """
    The service under its traffic with so many replicas, or the fewest that carry it; None = it cannot run, or no offer
    holds them.

    `traffic` is replayed and decides; without it, averages do.
    """
    outcome = outcome_of(serve, made.model, site=made.site, configuration=configuration)
    if isinstance(outcome, Infeasible):
        return None
    rate, each = serve.rate_per_s or 0.0, outcome.best.rate_per_s
    fewest = max(1, math.ceil(rate / (each * (1.0 - serve.headroom)) - 1e-9))
    if traffic is not None and replicas is None:
        fewest = fewest_replicas(serve, outcome, traffic=traffic, start=fewest)
    count = fewest if replicas is None else replicas
    found = option_at(serve, outcome, replicas=count, today=today)
    if found is None:
        return None
    state = _state_of(found[1], keeps=found[2])
    if traffic is None:
        return state
    played = replay(serve, outcome, traffic=traffic, replicas=count)
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
    )


def _variants(made: Started, serve: Serve, seen: Seen) -> Iterator[_Variant]:
    """
    Changes of what runs, one at a time, then the settings together. A setting is changed only where the file has it: a
    batch limit, prefix caching off, 16-bit weights on a part with FP8.
    """
    own = made.configuration
    words: list[str] = []
    better, asked = own, serve
    yield _Variant(
        Action(
            name="replicas",
            change="as many replicas as the traffic needs",
            risk="less room for a peak that the window did not see",
            check="look at the busiest hour of a week: tonnage advise FILE http://PROMETHEUS --window 7d",
        ),
        serve,
        own,
    )
    if own.engine.max_num_seqs is not None:
        better = replace(own, engine=replace(own.engine, max_num_seqs=None))
        yield _Variant(
            Action(
                name="batch limit",
                change=f"let the engine choose its batch ({own.engine.max_num_seqs} now)",
                risk="TPOT rises with the batch, as the prediction says",
                check="tonnage measure serve at the new limit, TPOT at the planned rate",
            ),
            serve,
            better,
        )
        words.append("batch limit")
    if own.engine.prefix_caching is False and seen.reused_share:
        asked = _computing(serve, 1.0 - seen.reused_share)
        yield _Variant(
            Action(
                name="prefix cache",
                change=f"turn prefix caching on: {seen.reused_share:.0%} of a prompt was seen before",
                risk="none on answers; hits need requests to come back in time",
                check="watch the engine's prefix hit rate for an hour",
            ),
            asked,
            replace(own, engine=replace(own.engine, prefix_caching=True)),
        )
        better = replace(better, engine=replace(better.engine, prefix_caching=True))
        words.append("prefix cache")
    weights = number_format(own.precision.weights)
    if weights.bits == 16 and "fp8" in made.site.accelerator.peaks:
        precision = replace(own.precision, weights="fp8", activations="fp8")
        yield _Variant(
            Action(
                name="number format",
                change="run the weights in FP8",
                risk="quality: evaluate your own task before and after",
                check="lm-eval on your tasks with both checkpoints",
            ),
            serve,
            replace(own, precision=precision),
        )
        better = replace(better, precision=precision)
        words.append("FP8")
    if len(words) > 1:
        yield _Variant(
            Action(
                name="all settings",
                change="together: " + ", ".join(words),
                risk="those of its parts",
                check="one at a time, in this order, each measured",
            ),
            asked,
            better,
        )


def _action(
    variant: _Variant, made: Started, now: State, *, traffic: ServiceTraffic | None, today: date
) -> Action | None:
    """
    The variant with what it brings, where that is money, capacity that is missing, or latency for nothing; else None.
    """
    after = _state(variant.serve, made, variant.configuration, traffic=traffic, today=today)
    if after is None:
        return None
    saved = now.usd_per_month - after.usd_per_month
    same = after.replicas == now.replicas
    quicker = same and min(after.ttft_s / now.ttft_s, after.tpot_s / now.tpot_s) < 1.0 - FASTER
    action = variant.action
    if action.name == "replicas" and same:
        return None
    if not (saved > WORTH * now.usd_per_month or not now.keeps or quicker):
        return None
    change = action.change
    if after.replicas != now.replicas:
        change += f"; {plural(after.replicas, 'replica')} instead of {now.replicas}"
    return replace(action, change=change, state=after, usd_per_month=saved)


def _other_part(serve: Serve, now: State, request: Adopt, *, additions: Additions, today: date) -> ServeOption | None:
    """
    The cheapest plan on another accelerator, where it saves enough to move; None where today's kind is the cheapest.
    """
    wanted = replace(serve, filters=Filters(providers=request.providers, terms=serve.filters.terms))
    plan = plan_serve(wanted, additions=additions, today=today)
    option = plan.options[0] if plan.options else None
    if option is None or option.configuration.accelerator == now.accelerator:
        return None
    return option if now.usd_per_month - option.usd_per_month > WORTH * now.usd_per_month else None


def _move_to(option: ServeOption, now: State) -> Action:
    """The move to another accelerator, with its saving in a month."""
    return Action(
        name="accelerator",
        change=f"move to {accelerators_text(option)} at {provider_name(option.bill.provider)}",
        state=_state_of(option),
        usd_per_month=now.usd_per_month - option.usd_per_month,
        risk="another accelerator is predicted without the calibration of this service",
        check="rent one replica for an hour and send it the recorded traffic: tonnage measure serve",
    )


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


def _upgrade(upgrade: str, serve: Serve, made: Started, now: State, *, today: date) -> Action:
    """
    What another release of the engine is expected to change, without the service's own calibration, and a canary that
    tests it; refuses a release that is not known.
    """
    engine = made.configuration.engine
    name, _, version = upgrade.partition("@")
    newer = replace(engine, version=version)
    if name != engine.name or not version or release(newer) is None:
        raise BadRequest(
            f"upgrade: '{echo(upgrade)}' is no release of the engine that runs; write {engine.name}@0.27, say"
        )
    # A calibration holds host times of the release it was taken on, which the other release may have changed.
    card = replace(made.site.accelerator, calibrations={})
    plain = made._replace(site=replace(made.site, accelerator=card))
    before, after = (
        _state(serve, plain, replace(made.configuration, engine=one), replicas=made.replicas, today=today)
        for one in (engine, newer)
    )
    if before is None or after is None:
        raise BadRequest(f"upgrade: what the file starts is predicted not to run on {echo(upgrade)}")
    told = ", ".join(
        f"{what} {getattr(after, field) / getattr(before, field) - 1.0:+.0%}"
        for field, what in (*((metric.name, metric.title) for metric in SPEEDS), ("most_per_s", "most requests"))
    )
    canary = f"one replica of {now.replicas} on {version}" if now.replicas > 1 else f"a second replica on {version}"
    return Action(
        name="upgrade",
        change=f"{engine.name} {version} instead of {engine.version or 'the one that runs'}: {told}",
        risk="defaults, kernels and numerics change between releases; what was calibrated is the old one",
        check=f"canary: {canary}, under the same traffic for an hour; tonnage measure serve on both, then "
        "tonnage diagnose NEW --baseline OLD; go back where TPOT or failures are worse than told here",
    )


def _by_evidence(diagnosis: Diagnosis, now: State, seen: Seen) -> list[Action]:
    """What the metrics show and no prediction is needed for: slow first requests, replicas that are often idle."""
    evidence, found = diagnosis.evidence, []
    if evidence.first_s and evidence.later_s and evidence.first_s > COLD * evidence.later_s:
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
            Action(
                name="autoscaling",
                change=(
                    f"scale between {least} and {now.replicas} replicas: nothing ran in {evidence.idle_share:.0%} "
                    "of the readings"
                ),
                risk="a replica takes its cold start to come back",
                check="tonnage plan serve with --shape says what following the load saves",
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
        worth = f"saves ${first.usd_per_month:,.0f} a month ({first.usd_per_month / now.usd_per_month:.0%})"
    elif first.state is not None and _restores_objectives(first, now):
        worth = f"keeps them for ${-first.usd_per_month:,.0f} a month more"
    else:
        worth = "costs nothing"
    return f"{have} {state}. First: {first.change} ({worth})."
