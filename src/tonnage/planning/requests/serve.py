"""`tonnage plan serve`: what people write becomes a `Serve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.sessions import session_profile
from tonnage.domain.requests.serve import Serve
from tonnage.domain.requests.sessions import SessionFields
from tonnage.errors import BadRequest
from tonnage.planning.requests.reading import build, need_model, read_fields
from tonnage.planning.requests.workload import read_filters, read_lengths, read_shape

__all__ = ["serve_request"]

SECONDS_BETWEEN_REQUESTS: Final = 60.0
"""Of one active user, when the request does not say. Assumed, and said so in the plan. [s]"""


def serve_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Serve:
    """
    A serving request from named texts.

    Parameters
    ----------
    values : mapping
        Field name -> what the user wrote; None and absent mean "not given".
    additions : Additions
        The user's own accelerators and offers, whose names are accepted too.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(_flat(values), Serve)
    need_model(given)
    loads = [name for name in ("rate", "concurrency", "users") if name in given]
    if len(loads) != 1:
        what = " and ".join(loads) + " contradict" if loads else "no load is given"
        raise BadRequest(f"{what}: give exactly one of rate ('4/s'), concurrency (64) or users (1000)")
    if "think_time" in given and "users" not in given:
        raise BadRequest("think_time only makes sense with users: give users (1000) instead of " + loads[0])
    if given.get("pools") and ("concurrency" in given or not {"ttft", "tpot", "e2e"} & given.keys()):
        raise BadRequest("pools are looked for at a rate and within an objective: give rate ('4/s') and ttft or tpot")
    if "users" in given:
        given["rate"] = given["users"] / given.get("think_time", SECONDS_BETWEEN_REQUESTS)
    return build(
        Serve,
        given,
        additions=additions,
        **_sessions(given, additions),
        shape=read_shape(given),
        filters=read_filters(given, additions),
    )


def _flat(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of a `traffic:` block beside the others: its profile is the traffic."""
    block = values.get("traffic")
    if not isinstance(block, Mapping):
        return values
    twice = sorted(set(block) & set(values))
    if twice:
        raise BadRequest(f"traffic.{twice[0]} and {twice[0]} contradict; write it once")
    named = {("traffic" if name == "profile" else name): value for name, value in block.items()}
    return {**{name: value for name, value in values.items() if name != "traffic"}, **named}


def _sessions(given: Mapping[str, Any], additions: Additions) -> dict[str, Any]:
    """Lengths and sessions, which depend on each other where the request states turns or what sessions share."""
    lengths, fields = read_lengths(given), build(SessionFields, given, additions=additions)
    if lengths.profile is None and session_profile(given.get("traffic")) is not None:
        fields = msgspec.structs.replace(fields, profile=given["traffic"])
    if fields == SessionFields():
        return {"lengths": lengths, "sessions": fields}
    from tonnage.planning.sessions.reuse import check_sessions, drawn_turns, lengths_of, profile_of

    check_sessions(fields, profile=fields.profile or lengths.profile)
    profile = profile_of(fields, lengths)
    if profile is not None:
        explicit = "prompt_tokens" in given or (fields.turns is None and fields.system_prompt is None)
        lengths = lengths if explicit else lengths_of(profile, lengths)
        drawn_turns(profile, prompt_tokens=lengths.prompt_tokens, output_tokens=lengths.output_tokens)
    return {"lengths": lengths, "sessions": fields}
