"""Another release of the engine that runs: what it is expected to change, and the canary that tests it."""

from __future__ import annotations

from datetime import date
from typing import Final

from msgspec.structs import replace

from tonnage.core.header import Infeasible
from tonnage.domain.metrics import SPEEDS
from tonnage.domain.requests.serve import Serve
from tonnage.engines.registry import release
from tonnage.errors import BadRequest, echo
from tonnage.questions.adopt.question import Action
from tonnage.questions.adopt.serve import Started, option_at
from tonnage.questions.serve.settings import outcome_of
from tonnage.units import percent

RELEASES: Final = {"ttft_s": 2.6, "tpot_s": 1.33, "max_rate_per_s": 1.31}
"""
What a release changes of a service, and the factor within which nine of ten measured changes lie of the predicted: 65,
67 and 122 pairs of one configuration under two releases, predicted without their source (tools/calibration/shared.py).
"""


def upgraded(made: Started, serve: Serve, *, upgrade: str, today: date) -> Action:
    """
    What a release ("vllm@0.27") is expected to change under the load of `serve`, by averages and without the service's
    own calibration, and a canary that tests it.

    Raises
    ------
    BadRequest
        It is no known release of the engine that runs, or what the file starts cannot run on it.
    """
    own, replicas = made.configuration.engine, made.replicas
    name, _, version = upgrade.partition("@")
    newer = replace(own, version=version)
    if name != own.name or not version or release(newer) is None:
        raise BadRequest(
            f"upgrade: '{echo(upgrade)}' is no release of the engine that runs; write {own.name}@0.27, say"
        )
    # A calibration holds host times of the release it was taken on, which the other release may have changed.
    site = replace(made.site, accelerator=replace(made.site.accelerator, calibrations={}))
    states = []
    for engine in (own, newer):
        configuration = replace(made.configuration, engine=engine)
        found = outcome_of(serve, made.model, site=site, configuration=configuration)
        at = None if isinstance(found, Infeasible) else option_at(serve, found, replicas=replicas, today=today)
        if at is None:
            raise BadRequest(f"upgrade: what the file starts is predicted not to run on {name}@{version}")
        states.append(at[1].capacity)
    told, titles = list[str](), {metric.name: f"p{serve.slo.percentile:g} {metric.title}" for metric in SPEEDS}
    for name_of, within in RELEASES.items():
        before, after = (getattr(state, name_of).value for state in states)
        what, moved = titles.get(name_of, "most requests"), after / before
        told.append(
            f"{what} {percent(moved - 1.0, sign='+')} ({percent(moved / within - 1.0, sign='+')} to "
            f"{percent(moved * within - 1.0, sign='+')})"
        )
    canary = f"one replica of {replicas} on {version}" if replicas > 1 else f"a second replica on {version}"
    return Action(
        name="upgrade",
        change=f"{name} {version} instead of {own.version or 'the one that runs'}: {', '.join(told)}",
        risk="defaults, kernels and numerics change between releases: measure again, calibrations are of the old one",
        check=f"canary: {canary}, under the same traffic for an hour; tonnage measure serve on both, then "
        "tonnage diagnose NEW --baseline OLD; go back where TPOT or failures are worse than told here",
    )
