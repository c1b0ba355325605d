"""`tonnage plan rl`: what people write becomes an `Rl`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.load_fields import read_filters
from tonnage.core.reading import build, need_model, read_fields
from tonnage.errors import BadRequest
from tonnage.questions.rl.request import Rl
from tonnage.questions.train.reading import check_count


def rl_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Rl:
    """
    A request for reinforcement learning from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, Rl)
    need_model(given)
    if "steps" not in given:
        raise BadRequest("steps is missing: say how many steps of rollout and training to run, for example 200")
    if "response_tokens" not in given:
        raise BadRequest("response_tokens is missing: say how long a response is on average, for example 2000")
    longest = given.get("max_response_tokens")
    if longest is not None and longest <= given["response_tokens"]:
        raise BadRequest(
            f"max_response_tokens: {longest:,.0f} is not above the mean of {given['response_tokens']:,.0f}; "
            "raise it, or lower response_tokens"
        )
    request = build(Rl, given, additions=additions, filters=read_filters(given, additions))
    stale, count, rollout = request.staleness, request.count, request.rollout_count
    if rollout is not None and not stale:
        raise BadRequest(
            f"rollout_count: {rollout} accelerators that only generate need staleness 1 or more; on policy they would "
            "wait while the others train"
        )
    if rollout is not None and count is not None and rollout >= count:
        raise BadRequest(f"rollout_count: {rollout} of {count} leave none to train; give less than {count}")
    most = request.filters.max_count
    if rollout is not None and most is not None and rollout >= most:
        raise BadRequest(f"rollout_count: {rollout} of at most {most} (max_accelerators) leave none to train")
    if request.partial_rollouts and not stale:
        raise BadRequest("partial_rollouts: on policy every response ends before the update; give staleness 1 or more")
    if request.algorithm != "ppo" and request.responses_per_prompt < 2:
        raise BadRequest("responses_per_prompt: a group needs 2 or more to compare; give 2 or more, or algorithm ppo")
    if request.turns <= 1.0 and (lone := next((n for n in ("environment", "observation_tokens") if given.get(n)), "")):
        raise BadRequest(f"{lone}: a response of one turn has no environment; give turns above 1, or leave {lone} out")
    responses = request.prompts_per_step * request.responses_per_prompt
    if request.train_batch is not None and request.train_batch > responses:
        raise BadRequest(f"train_batch: {request.train_batch} is more than the {responses} responses of a step")
    check_count(request)
    return request
