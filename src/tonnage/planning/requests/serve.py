"""
`tonnage plan serve` and `tonnage plan batch`: what people write becomes a `Serve` or a `Batch`.

Lengths, the shape of a load and filters are read here for the other questions as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from tonnage import catalog, units
from tonnage.catalog import Additions, traffic
from tonnage.catalog.traffic import session_profile
from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.requests.adapters import AdapterFields
from tonnage.domain.requests.common import Filters, Lengths, LoadShape
from tonnage.domain.requests.field import fields_of, usual_of
from tonnage.domain.requests.images import pixels_of
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.domain.requests.sessions import SessionFields
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.planning.requests.reading import build, need_model, read_fields


def read_lengths(given: Mapping[str, Any]) -> Lengths:
    """Prompt and answer lengths from fields already read: both, or those of a traffic profile."""
    explicit = [name for name in ("prompt_tokens", "output_tokens") if name in given]
    if "traffic" not in given and len(explicit) == 1:
        missing = "output_tokens" if explicit == ["prompt_tokens"] else "prompt_tokens"
        raise BadRequest(f"{missing} is missing: give both lengths, or a traffic profile such as chat")
    lengths = traffic.profile(given.get("traffic", "chat")).lengths if len(explicit) < 2 else None
    if not explicit and lengths is not None:
        return lengths
    prompt, output = given.get("prompt_tokens"), given.get("output_tokens")
    if min(value for value in (prompt, output, 1.0) if value is not None) < 1:
        raise BadRequest("prompt_tokens and output_tokens must be at least 1")
    if lengths is None:
        assert prompt is not None and output is not None
        return Lengths(prompt_tokens=prompt, output_tokens=output)
    return replace(
        lengths,
        prompt_tokens=prompt or lengths.prompt_tokens,
        output_tokens=output or lengths.output_tokens,
        prompt_p95=None if prompt else lengths.prompt_p95,
        output_p95=None if output else lengths.output_p95,
    )


def read_shape(given: Mapping[str, Any]) -> LoadShape:
    """How the load varies: by the hour, in bursts and pauses, or by its peak alone."""
    measured = traffic.profile(given["traffic"]).dispersion if "traffic" in given else None
    ways = [name for name in ("day", "on_for", "peak_to_mean") if name in given]
    if len(ways) > 1:
        raise BadRequest(f"{' and '.join(ways)} contradict: each says by itself how far the peak is above the mean")
    if ("on_for" in given) != ("off_for" in given):
        raise BadRequest("an intermittent load needs both on_for ('10 min') and off_for ('2 h')")
    if ways and ways[0] != "peak_to_mean" and "concurrency" in given:
        raise BadRequest(f"{ways[0]} needs a rate or users: a fixed concurrency does not rise and fall")
    if "day" in given:
        return _by_the_hour(given["day"], measured or 1.0)
    if "on_for" in given:
        on, off = given["on_for"], given["off_for"]
        return LoadShape(
            kind="intermittent", peak_to_mean=(on + off) / on, dispersion=measured or 1.0, on_s=on, off_s=off
        )
    kind = "bursty" if given.get("peak_to_mean", 0.0) > 1 else "flat"
    return build(LoadShape, given, kind=kind, dispersion=measured or 1.0)


def _by_the_hour(said: tuple[str, ...], dispersion: float) -> LoadShape:
    """A built-in shape by its name, or rates of the hours of a day or a week."""
    if len(said) == 1:
        known = traffic.shape(said[0])
        name, hours = known.name, known.hours
    else:
        name, hours = "", tuple(units.read(x, "count", field="day") for x in said)
    if len(hours) not in {24, 168} or min(hours) < 0 or not max(hours) > 0:
        raise BadRequest(
            f"day: {len(hours)} rates from {min(hours):g} to {max(hours):g}; give a name such as consumer, or 24 "
            f"(a day) or 168 (a week) rates of at least 0, one of them above it"
        )
    mean = sum(hours) / len(hours)
    return LoadShape(
        kind="diurnal" if len(hours) == 24 else "weekly",
        peak_to_mean=max(hours) / mean,
        dispersion=dispersion,
        name=name,
        hours=tuple(hour / mean for hour in hours),
    )


def read_filters(given: Mapping[str, Any], additions: Additions = catalog.NOTHING) -> Filters:
    """
    Constraints on accelerators and offers from fields already read, in the catalogue's own spelling.

    Raises
    ------
    TonnageError
        A name that there is not, or an accelerator that is both wanted and excluded.
    """
    filters = build(Filters, given, additions=additions)
    both = set(filters.accelerators) & set(filters.exclude_accelerators)
    if both:
        raise BadRequest(f"accelerator '{min(both)}' is both wanted and excluded; drop one of the two")
    if filters.owned:
        from tonnage.planning.own.stock import owned_counts

        owned_counts(filters, additions=additions)
    if filters.quotes:
        from tonnage.planning.quotes import CONTRACT, check_quotes

        check_quotes(filters.quotes)
        filters = replace(filters, terms=tuple(dict.fromkeys((*filters.terms, CONTRACT))))
    if not filters.own_prices and not filters.discounts:
        return filters
    priced = (_pair("price", text, "USD/h", example="H100=$2.10/h") for text in filters.own_prices)
    cut = (_pair("discount", text, "fraction", example="aws=30 %") for text in filters.discounts)
    known = catalog.providers()
    return replace(
        filters,
        own_prices=tuple(f"{catalog.accelerator(name, additions).id}={value!r}" for name, value in priced),
        discounts=tuple(f"{_provider(name, known)}={value!r}" for name, value in cut),
    )


def _pair(field: str, text: str, dimension: str, *, example: str) -> tuple[str, float]:
    """A name and its quantity, written "H100=$2.10/h"."""
    name, equals, amount = text.partition("=")
    if not equals or not name.strip():
        raise BadRequest(f"{field}: '{echo(text)}' is no NAME=VALUE; write for example '{example}'")
    bare = amount.strip().removeprefix("$").replace(".", "", 1).isdigit() and dimension == "USD/h"
    value = units.read(f"{amount.strip()}/h" if bare else amount, dimension, field=field)
    if not 0 < value < (1.0 if dimension == "fraction" else 1e5):
        raise BadRequest(f"{field}: '{echo(text)}' is out of range; write for example '{example}'")
    return name.strip(), value


def _provider(name: str, known: Mapping[str, Any]) -> str:
    if name.lower() not in known:
        raise UnknownName("provider", name, known=known)
    return name.lower()


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
    _check_adapters(given, additions)
    if "users" in given:
        given["rate"] = given["users"] / given.get("think_time", SECONDS_BETWEEN_REQUESTS)
    return build(
        Serve,
        given,
        additions=additions,
        **_with_images(given, _sessions(given, additions), additions),
        shape=read_shape(given),
        filters=read_filters(given, additions),
    )


def refuse_adapters(values: Mapping[str, Any], *, what: str) -> None:
    """Refuses fields of LoRA adapters, which are planned for one service, where several share accelerators."""
    known = {field.name for field in fields_of(AdapterFields)}
    stray = next((str(name) for name in values if str(name).replace("-", "_") in known), None)
    if stray is not None:
        raise BadRequest(
            f"{stray}: {what} plans no LoRA adapters; plan that service by itself with `tonnage plan serve MODEL "
            "--adapters N`, and leave it or its adapters out here"
        )


def _check_adapters(given: Mapping[str, Any], additions: Additions) -> None:
    """Whether what is said of adapters goes together, and an engine serves them."""
    fields = build(AdapterFields, given, additions=additions)
    if fields.adapters is None:
        lone = next((name for name in ("adapter_rank", "adapter_skew", "adapter_targets") if name in given), None)
        if lone is not None:
            raise BadRequest(f"{lone} says nothing without adapters: give adapters, how many there are ('64')")
        return
    least = min(("adapters", fields.adapters), ("adapter_rank", fields.adapter_rank), key=lambda each: each[1])
    if least[1] < 1:
        raise BadRequest(f"{least[0]}: {least[1]} must be at least 1; leave adapters out where there are none")
    if given.get("pools"):
        raise BadRequest("pools and adapters contradict: separate workers are not planned with adapters; drop one")
    from tonnage.planning.serve.adapters import check_adapters

    check_adapters(fields, engines=tuple(given.get("engine") or (SERVING_ENGINE,)))


def batch_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Batch:
    """
    A batch request from named texts. Items are independent, so that spot prices are looked at unless terms are named.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, Batch)
    need_model(given)
    if "items" not in given:
        raise BadRequest("items is missing: say how many prompts to answer, for example '50M'")
    if given["items"] < 1:
        raise BadRequest(f"items: {given['items']:g} is less than one item")
    given = {**usual_of(Batch), **given}
    return build(Batch, given, additions=additions, lengths=read_lengths(given), filters=read_filters(given, additions))


def _flat(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of a `traffic:` block beside the others: its profile is the traffic."""
    block = values.get("traffic")
    if not isinstance(block, Mapping):
        return values
    if not block:
        raise BadRequest("traffic: it is empty; give a profile such as chat, or leave it out")
    twice = sorted(set(block) & set(values))
    if twice:
        raise BadRequest(f"traffic.{twice[0]} and {twice[0]} contradict; write it once")
    named = {("traffic" if name == "profile" else name): value for name, value in block.items()}
    return {**{name: value for name, value in values.items() if name != "traffic"}, **named}


_OF_IMAGES: Final = ("image_size", "image_hits", "distinct_images")
_OF_SESSIONS: Final = ("turns", "turn_gap", "system_prompt", "branching", "kv_host", "kv_nvme", "kv_store")


def _with_images(given: Mapping[str, Any], read: dict[str, Any], additions: Additions) -> dict[str, Any]:
    """
    Lengths whose prompts hold the tokens of images beside the text, as the model itself cuts images up.

    What sessions find again of prompts with images is not known here: it is taken as stated, or as nothing.
    """
    if "images" not in given:
        lone = next((name for name in _OF_IMAGES if name in given), None)
        if lone is not None:
            raise BadRequest(f"{lone} says nothing without images: give images, of each request ('1')")
        return read
    clash = next((name for name in _OF_SESSIONS if name in given), None)
    if clash is not None:
        raise BadRequest(
            f"images and {clash}: sessions whose prompts hold images are not simulated; leave {clash} out, and state"
            " prefix_hits if you know what prompts find again"
        )
    if "image_hits" in given and "distinct_images" in given:
        raise BadRequest("image_hits and distinct_images contradict: the share found again follows from the second")
    if "image_size" not in given:
        raise BadRequest("image_size is missing: say how large the images are, for example '1024x768'")
    from tonnage.catalog.hub.resolve import resolve
    from tonnage.physics.vision import encoder_of, image_of

    tower = encoder_of(resolve(given["model"], additions=additions))
    width, height = pixels_of(given["image_size"])
    images = replace(
        image_of(tower, width=width, height=height, per_request=given["images"]),
        hits=given.get("image_hits"),
        distinct=given.get("distinct_images"),
    )
    lengths, added = read["lengths"], images.prompt_tokens
    tail = lengths.prompt_p95 + added if lengths.prompt_p95 else None
    lengths = replace(lengths, prompt_tokens=lengths.prompt_tokens + added, prompt_p95=tail, images=images)
    return {"lengths": lengths, "sessions": replace(read["sessions"], reuse=False)}


def _sessions(given: Mapping[str, Any], additions: Additions) -> dict[str, Any]:
    """Lengths and sessions, which depend on each other where the request states turns or what sessions share."""
    lengths, fields = read_lengths(given), build(SessionFields, given, additions=additions)
    if lengths.profile is None and session_profile(given.get("traffic")) is not None:
        fields = replace(fields, profile=given["traffic"])
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
