"""What any question says of its load and its market: lengths, how a load varies, filters on accelerators and offers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tonnage import catalog, units
from tonnage.catalog import Additions, traffic
from tonnage.core.reading import build
from tonnage.domain.requests.common import Filters, Lengths, LoadShape
from tonnage.errors import BadRequest, UnknownName, echo


def read_lengths(given: Mapping[str, Any]) -> Lengths:
    """
    Prompt and answer lengths from fields already read: both as stated, or those of a traffic profile (absent = chat).

    One length beside a profile replaces the profile's, whose 95th percentile then no longer counts; one alone, without
    a profile, is refused.
    """
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
    """
    How the load varies: by the hour, in bursts and pauses, or by its peak alone; flat where nothing is said.

    How uneven arrivals are within a second is the traffic profile's; without one they are Poisson.
    """
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
    if len(hours) not in {24, 168} or min(hours) < 0 or not 0 < sum(hours) < math.inf:
        raise BadRequest(
            f"day: {len(hours)} rates from {min(hours):g} to {max(hours):g}; give a name such as consumer, or 24 "
            f"(a day) or 168 (a week) rates of at least 0, one of them above it, that have a sum"
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
        from tonnage.core.stock import owned_counts

        owned_counts(filters, additions=additions)
    if filters.quotes:
        from tonnage.core.quotes import CONTRACT, check_quotes

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
    """A name and its quantity, written "H100=$2.10/h"; a bare price is by the hour."""
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
