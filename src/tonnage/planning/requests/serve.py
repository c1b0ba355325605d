"""`tonnage plan serve`: what people write becomes a `Serve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.requests.serve import Serve
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
    given = read_fields(values, Serve)
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
        lengths=read_lengths(given),
        shape=read_shape(given),
        filters=read_filters(given, additions),
    )
