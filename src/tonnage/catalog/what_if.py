"""
How does a person write an accelerator, or change one fact of it?

One vocabulary for both: the fields of a [[accelerator]] table in a TOML file are the fields of
`--set ID.FIELD=VALUE`. Quantities carry units; rates of links are of one direction. A changed accelerator says
so in its notes, and so does everything that shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from tonnage.domain.accelerator import Accelerator, Fact, Link
from tonnage.errors import BadFact, BadRequest, UnitError, UnknownName, echo
from tonnage.units import read

DTYPES: Final = ("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "fp16_accum16", "bf16", "fp8", "fp4", "int8", "int4")

FIELDS: Final[dict[str, tuple[str, str]]] = {
    "memory": ("memory_bytes", "bytes"),
    "usable_memory": ("usable_memory_bytes", "bytes"),
    "memory_bw": ("memory_bytes_per_s", "bytes/s"),
    "power": ("power_w", "W"),
    "link_kind": ("link.kind", "text"),
    "link_bw": ("link.bytes_per_s", "bytes/s"),
    "link_domain": ("link.domain", "whole"),
    "host_kind": ("host_link.kind", "text"),
    "host_bw": ("host_link.bytes_per_s", "bytes/s"),
    "ecc": ("ecc", "yes or no"),
    "mig_slices": ("mig_slices", "whole"),
    "max_per_node": ("max_per_node", "whole"),
    "launch_price": ("launch_price_usd", "USD"),
    "street_price": ("street_price_usd", "USD"),
    **{
        f"measured.{name}": (f"measured.{field}", unit)
        for name, field, unit in (
            ("product", "product", "fraction"),
            ("convolution", "convolution", "fraction"),
            ("depthwise", "depthwise", "fraction"),
            ("attention", "attention", "fraction"),
            ("start", "start_s", "s"),
            ("cache", "cache_bytes", "bytes"),
            ("functions", "functions", "bytes/s"),
            ("pooling", "pooling", "bytes/s"),
            ("passes", "passes", "rates by size"),
        )
    },
    **{f"peak.{dtype}": (f"peaks.{dtype}", "FLOP/s") for dtype in DTYPES},
}
"""Human name -> where it goes in Accelerator, and what kind of value it takes."""

TEXTS: Final = ("id", "name", "vendor", "architecture", "segment", "memory_type", "form_factor", "compute_capability")
NEEDED: Final = ("id", "memory", "memory_bw", "source")
OTHERS: Final = ("aliases", "year", "source", "notes", "checked")
SEGMENTS: Final = ("datacenter", "cloud-only", "workstation", "consumer", "edge", "apple", "cpu")

_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
_YES: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def from_table(given: Mapping[str, Any], *, where: str) -> Accelerator:
    """
    The accelerator that one [[accelerator]] table describes.

    Raises
    ------
    BadFact
        A field is missing, unknown, without unit or impossible; the message names file, field and value.
    """
    fields = {**given, **_group(given, "peak", where=where), **_group(given, "measured", where=where)}
    fields.pop("peak", None)
    fields.pop("measured", None)
    allowed = (*TEXTS, *OTHERS, *FIELDS)
    for field in fields:
        if field not in allowed:
            raise BadFact(f"{where}: {UnknownName('field', field, known=allowed)}")
    for field in NEEDED:
        if field not in fields:
            raise BadFact(f"{where}: {field} is missing; `tonnage catalog accelerators --template` shows a whole file")
    texts = {field: _text(field, fields[field], where=where) for field in TEXTS if field in fields}
    if not _ID.fullmatch(texts["id"]):
        raise BadFact(
            f"{where}: id '{echo(texts['id'])}' must be lower-case letters, digits and hyphens: 'my-card-48gb'"
        )
    if texts.get("segment", SEGMENTS[0]) not in SEGMENTS:
        raise BadFact(f"{where}: {UnknownName('segment', texts['segment'], known=SEGMENTS)}")
    if not any(field.startswith("peak.") for field in fields):
        raise BadFact(f'{where}: no peak is given; write at least one, such as peak.bf16 = "180 TFLOP/s"')
    blank = Accelerator(
        id=texts["id"],
        name=texts.get("name", texts["id"]),
        vendor=texts.get("vendor", "own"),
        architecture=texts.get("architecture", ""),
        segment=texts.get("segment", SEGMENTS[0]),
        memory_bytes=0,
        memory_bytes_per_s=0,
        peaks={},
        link=Link(kind="none"),
        host_link=Link(kind="none"),
        fact=Fact(
            source=_text("source", fields["source"], where=where),
            notes=str(fields.get("notes", "")),
            checked=str(fields.get("checked", "")),
        ),
        aliases=_aliases(fields.get("aliases", []), where=where),
        memory_type=texts.get("memory_type", ""),
        compute_capability=texts.get("compute_capability"),
        form_factor=texts.get("form_factor", ""),
        year=_year(fields.get("year"), where=where),
    )
    try:
        quantities = {field: _value(field, fields[field]) for field in fields if field in FIELDS}
        return _check_consistency(_place_values(blank, quantities))
    except (BadRequest, UnitError) as error:
        raise BadFact(f"{where}: {error}") from None


def override(accelerator: Accelerator, changes: Mapping[str, str]) -> Accelerator:
    """
    A what-if: the accelerator with some fields changed and a note that says which.

    A new `memory` without a new `usable_memory` keeps the share that the driver leaves usable.

    Raises
    ------
    BadRequest
        An unknown field, a value without unit, or a link without a domain.
    """
    name = accelerator.id
    values = {field: _value(field, text, prefix=f"--set {name}.") for field, text in changes.items()}
    if "memory" in values and "usable_memory" not in values and accelerator.usable_memory_bytes is not None:
        values["usable_memory"] = values["memory"] * accelerator.usable_memory_bytes / accelerator.memory_bytes
    note = "what-if: " + ", ".join(f"{field} = {text}" for field, text in changes.items())
    notes = "; ".join(filter(None, (note, accelerator.fact.notes)))
    return _check_consistency(replace(_place_values(accelerator, values), fact=replace(accelerator.fact, notes=notes)))


def parse_overrides(overrides: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Overrides by accelerator name, fields in the order given: "h100-sxm5-80gb.memory_bw=4.8TB/s"."""
    changes: dict[str, dict[str, str]] = {}
    for text in overrides:
        path, equals, value = text.partition("=")
        name, dot, field = path.strip().partition(".")
        if not (equals and dot and name.strip() and field.strip() and value.strip()):
            raise BadRequest(
                f"--set '{echo(text)}' is not ID.FIELD=VALUE; write for example 'h100-sxm5-80gb.memory_bw=4.8TB/s'"
            )
        changes.setdefault(name.strip(), {})[field.strip()] = value.strip()
    return changes


def _value(field: str, text: Any, prefix: str = "") -> Any:
    """The value of a field, in the unit of FIELDS; a quantity is above zero."""
    if field not in FIELDS:
        raise BadRequest(f"{prefix}{field}: {UnknownName('field', field, known=FIELDS)}")
    kind = FIELDS[field][1]
    label = prefix + field
    if kind == "text":
        return str(text).strip().lower()
    if kind == "yes or no":
        if str(text).strip().lower() not in _YES:
            raise BadRequest(f"{label}: '{echo(text)}' is neither yes nor no")
        return _YES[str(text).strip().lower()]
    if kind == "rates by size":
        return _rates(text, label)
    value = read(text, "count" if kind == "whole" else kind, field=label)
    if value <= 0 and not (field == "mig_slices" and value == 0):
        raise BadRequest(f"{label}: '{echo(text)}' must be above zero; leave out what is not known")
    if kind == "whole":
        if value != int(value):
            raise BadRequest(f"{label}: '{echo(text)}' must be a whole number")
        return int(value)
    return value


def _rates(text: Any, label: str) -> tuple[tuple[float, float], ...]:
    """Sizes with their rates: "1 MB at 44 GB/s, 4 MB at 29 GB/s"."""
    found = []
    for part in str(text).split(","):
        size, at, rate = part.partition(" at ")
        if not at:
            raise BadRequest(f"{label}: '{echo(part)}' is no size with its rate; write '1 MB at 44 GB/s, 4 MB at …'")
        found.append((read(size, "bytes", field=label), read(rate, "bytes/s", field=label)))
    return tuple(sorted(found))


def _place_values(accelerator: Accelerator, values: Mapping[str, Any]) -> Accelerator:
    """The accelerator with these values, by the names of FIELDS, in the fields that they go to."""
    changed: dict[str, Any] = {}
    for field, value in values.items():
        owner, dot, part = FIELDS[field][0].partition(".")
        if not dot:
            changed[owner] = value
        elif owner == "peaks":
            changed[owner] = {**changed.get(owner, accelerator.peaks), part: value}
        else:
            changed[owner] = replace(changed.get(owner, getattr(accelerator, owner)), **{part: value})
    return replace(accelerator, **changed)


def _check_consistency(accelerator: Accelerator) -> Accelerator:
    """What no single field can say: usable memory lies inside memory, and a link has somewhere to lead."""
    usable = accelerator.usable_memory_bytes
    if usable is not None and usable > accelerator.memory_bytes * 1.01:
        raise BadRequest(
            f"{accelerator.id}: usable_memory {usable / 2**30:.1f} GiB exceeds memory "
            f"{accelerator.memory_bytes / 2**30:.1f} GiB"
        )
    if accelerator.link.bytes_per_s is not None and accelerator.link.domain < 2:
        raise BadRequest(
            f"{accelerator.id}: link_bw is given, but link_domain is 1, so no other accelerator shares the link; "
            "add link_domain, such as 8"
        )
    if accelerator.link.kind == "none" and accelerator.link.bytes_per_s is not None:
        return replace(accelerator, link=replace(accelerator.link, kind="unnamed"))
    return accelerator


def _group(given: Mapping[str, Any], name: str, *, where: str) -> dict[str, Any]:
    """Dotted fields, which TOML reads as a table of their own."""
    shown = {"peak": 'peak.bf16 = "180 TFLOP/s"', "measured": 'measured.product = "100 %"'}[name]
    values = given.get(name, {})
    if not isinstance(values, Mapping):
        raise BadFact(f"{where}: {name} is '{echo(values)}'; write one line each, such as {shown}")
    return {f"{name}.{field}": value for field, value in values.items()}


def _year(value: Any, *, where: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise BadFact(f"{where}: year is '{echo(value)}', but a whole number is expected: 2026")
    return value


def _text(field: str, value: Any, *, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadFact(f"{where}: {field} is '{echo(value)}', but a text is expected")
    return value.strip()


def _aliases(value: Any, *, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(alias, str) for alias in value):
        raise BadFact(f"{where}: aliases is '{echo(value)}', but a list of texts is expected: [\"MyCard\"]")
    return tuple(value)
