"""The door of `tonnage plan fleet`: a list of workloads, and what may be had for them.

A workload has the fields of `plan serve`, and a few that only mean something beside others. Filters at the top hold
for all of them; a workload may narrow them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.fleet_plan import Bucket, FleetQuota, FleetRequest, FleetWorkload, OwnMachine
from tonnage.domain.workload import Lengths, Serve
from tonnage.errors import BadRequest, UnitError, UnknownName, echo
from tonnage.planning.door import (
    FILTER_FIELDS,
    SERVE_FIELDS,
    TERMS,
    Field,
    read_fields,
    read_filters,
    read_shape,
    serve_request,
)
from tonnage.planning.infer.door import INFER_FIELDS, infer_request

__all__ = ["BUCKET_FIELDS", "FLEET_FIELDS", "FLEET_GROUPS", "fleet_request"]

FLEET_FIELDS: Final[tuple[Field, ...]] = (
    *FILTER_FIELDS,
    Field(name="zones", reads="integer", help="failure domains of a region, any one of which may be lost", high=16),
    Field(name="lost_zones", reads="integer", help="zones that may be lost at once, if more than one", high=8),
    Field(name="slices", reads="flag", help="replicas may run on slices of an accelerator (MIG)"),
    Field(name="budget", reads="USD/h", help="most to spend, on average over the hours", high=1e7),
    Field(name="quick", reads="flag", help="by averages alone: nothing is simulated, other fleets are not looked for"),
)
"""Fields beside the groups."""

_ALONE: Final = frozenset({"concurrency", "zones", "budget", "quick", "max_accelerators", "term", "on_for", "off_for",
                           "idle_timeout", "start_from", "cold_start"})  # fmt: skip
"""Fields of a serving request that say nothing about one workload among others."""
_LENGTHS: Final = ("share", "prompt_tokens", "output_tokens")
_SAMPLES: Final = ("streams", "fps", "every", "frame", "codec", "decode", "audio", "latency", "resolution", "seq_len",
                   "steps", "frames", "beams")  # fmt: skip
"""Fields that mean something for networks that decode no text."""
_SHAPED: Final = ("day", "peak_to_mean")
_WORKLOAD: Final[tuple[Field, ...]] = (
    Field(name="name", reads="text", help="what the answer calls it"),
    Field(name="kind", reads="text", choices=("serve", "batch", "infer", "cpu"),
          help="serve: within objectives; batch: so many items a day; infer: samples through a network that decodes "
          "no text; cpu: work for host cores"),
    *(field for field in SERVE_FIELDS if field.name not in _ALONE),
    *(field for field in INFER_FIELDS if field.name in _SAMPLES),
    Field(name="items", reads="count", help="batch: to be done every day", high=1e13),
    Field(name="window", reads="text", help="batch: hours of the day it may run in, 22-6"),
    Field(name="cpu_time", reads="s", help="cpu: time of one virtual core that a request takes", high=1e5),
    Field(name="spot_share", reads="fraction", help="share that may run on spot capacity", low=-1e-9, high=1.0),
    Field(name="survives", reads="fraction", help="share still carried when one failure domain is lost", low=-1e-9,
          high=1.0),
    Field(name="slices", reads="flag", help="replicas may run on slices of an accelerator (MIG)"),
)  # fmt: skip
BUCKET_FIELDS: Final[tuple[Field, ...]] = (
    Field(name="share", reads="fraction", help="of the requests", high=1.0),
    Field(name="prompt_tokens", reads="tokens", help="prompt length", high=1e8),
    Field(name="output_tokens", reads="tokens", help="answer length", high=1e8),
)
_OWN: Final[tuple[Field, ...]] = (
    Field(name="name", reads="text", help="what the answer calls it"),
    Field(name="accelerator", reads="text", help="kind of accelerator that is there"),
    Field(name="count", reads="integer", help="how many", high=1e6),
    Field(name="per_node", reads="integer", help="of one machine: 1, 2, 4, 8 or 16", high=16),
    Field(name="usd_per_hour", reads="USD/h", help="what one machine costs; 0 = it is paid for", low=-1e-9, high=1e5),
    Field(name="vcpus", reads="count", help="virtual cores of one machine", high=1e5),
)
_QUOTA: Final[tuple[Field, ...]] = (
    Field(name="most", reads="integer", help="accelerators at once; 0 = none", low=-1.0, high=1e7),
    Field(name="accelerator", reads="text", help="only of this kind"),
    Field(name="provider", reads="text", help="only at this provider"),
    Field(name="region", reads="text", help="only in this region"),
    Field(name="term", reads="text", help="only on this term", choices=TERMS),
)
FLEET_GROUPS: Final[dict[str, tuple[Field, ...]]] = {"workloads": _WORKLOAD, "own": _OWN, "quotas": _QUOTA}
"""Lists of a request, and the fields of their entries; a workload's `buckets` are a list or a number."""
USUAL_TERMS: Final = ("on-demand", "spot", "reserved-1y")
MOST_WORKLOADS: Final = 40
MOST_BUCKETS: Final = 8


def fleet_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> FleetRequest:
    """
    A fleet request from named values, as a request file holds them.

    Raises
    ------
    BadRequest
        A list is missing or none, or a field of an entry is unknown, out of range or contradicts another.
    """
    rest = {name: value for name, value in values.items() if name not in FLEET_GROUPS}
    given = read_fields(rest, FLEET_FIELDS)
    entries = _entries(values, "workloads")
    if not entries:
        raise BadRequest("workloads is missing: list them, for example workloads: [{model: 8B, rate: 4/s}]")
    if len(entries) > MOST_WORKLOADS:
        raise BadRequest(f"workloads: {len(entries)} are more than {MOST_WORKLOADS}; plan them in groups")
    terms = {"term": given.get("term", USUAL_TERMS)}
    names = {field.name for field in FILTER_FIELDS} - {"max_accelerators"}
    shared = {**{name: given[name] for name in names if name in given}, **terms}
    if "slices" in given:
        entries = [{"slices": given["slices"], **entry} for entry in entries]
    zones, lost = given.get("zones", 1), given.get("lost_zones", 1)
    if "lost_zones" in given and not lost < zones:
        raise BadRequest(f"lost_zones: {lost} of {zones} zones may not be lost; at least one must be left")
    workloads = tuple(
        _workload(entry, number=i + 1, shared=shared, zones=zones, additions=additions)
        for i, entry in enumerate(entries)
    )
    twice = [name for name, count in Counter(w.name for w in workloads).items() if count > 1]
    if twice:
        raise BadRequest(f"workloads: two are called '{echo(twice[0])}'; give each a name of its own")
    own = tuple(_own(entry, i + 1, additions) for i, entry in enumerate(_entries(values, "own")))
    quotas = tuple(_quota(entry, i + 1, additions) for i, entry in enumerate(_entries(values, "quotas")))
    if "max_accelerators" in given:
        quotas = (*quotas, FleetQuota(most=given["max_accelerators"]))
    return FleetRequest(
        workloads=workloads,
        filters=msgspec.structs.replace(read_filters({**given, **terms}, additions), max_count=None),
        own=own,
        quotas=quotas,
        zones=zones,
        lost_zones=lost,
        budget_usd_per_h=given.get("budget"),
        quick=given.get("quick", False),
    )


def _entries(values: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    said = values.get(name) or []
    if isinstance(said, Mapping) or not isinstance(said, (list, tuple)):
        raise BadRequest(f"{name}: a list is expected, not {echo(said)}; start each entry with a dash")
    for entry in said:
        if not isinstance(entry, Mapping):
            raise BadRequest(f"{name}: an entry is a group of fields, not {echo(entry)}")
    return list(said)


def _workload(
    entry: Mapping[str, Any], *, number: int, shared: Mapping[str, Any], zones: int, additions: Additions
) -> FleetWorkload:
    said = str(entry.get("name") or f"workload {number}")
    try:
        return _read_workload(entry, said, shared=shared, zones=zones, additions=additions)
    except (BadRequest, UnknownName, UnitError) as error:
        raise BadRequest(f"{echo(said)}: {error}") from None


def _read_workload(
    entry: Mapping[str, Any], name: str, *, shared: Mapping[str, Any], zones: int, additions: Additions
) -> FleetWorkload:
    given = read_fields({key: value for key, value in entry.items() if key != "buckets"}, _WORKLOAD)
    kind = given.get("kind", "batch" if "items" in given else "cpu" if "cpu_time" in given else "serve")
    needs = {"batch": "items", "cpu": "cpu_time"}.get(kind, "")
    if needs and needs not in given:
        raise BadRequest(f"{needs} is missing: a workload of kind {kind} needs it")
    if kind != "infer" and (stray := [name for name in _SAMPLES if name in given]):
        raise BadRequest(f"{stray[0]} only means something for kind: infer")
    if kind in {"batch", "cpu"} and given.get("spare_replicas"):
        raise BadRequest("spare_replicas only mean something where somebody waits: kind serve or infer")
    for other, field in (("batch", "items"), ("batch", "window"), ("cpu", "cpu_time")):
        if field in given and kind != other:
            raise BadRequest(f"{field} only means something for kind: {other}")
    if kind == "batch" and (unfit := [n for n in ("rate", "users", "ttft", "tpot", "e2e", "day") if n in given]):
        raise BadRequest(f"{unfit[0]} and items contradict: a batch is worked off, nobody waits for one answer")
    if kind == "infer":
        return _sampled(entry, name, given=given, shared=shared, zones=zones, additions=additions)
    asked = {key: value for key, value in given.items() if key in {field.name for field in SERVE_FIELDS}}
    if kind == "cpu":
        asked.setdefault("model", "none")
    if kind == "batch":
        asked |= {"rate": "1/s", "headroom": 0.0, "traffic": asked.get("traffic", "batch")}
    buckets = entry.get("buckets")
    if isinstance(buckets, (list, tuple)):
        asked |= _mean_lengths(buckets)
    read = serve_request(_texts({**shared, **asked}), additions=additions)
    return FleetWorkload(
        name=name,
        kind=kind,
        serve=None if kind == "cpu" else read,
        rate_per_s=0.0 if kind == "batch" else read.rate_per_s or 0.0,
        shape=read.shape,
        buckets=() if kind == "cpu" else _buckets(buckets, read),
        items_per_day=given.get("items"),
        window=_window(given["window"]) if "window" in given else None,
        cpu_s=given.get("cpu_time"),
        spot_share=given.get("spot_share", 1.0 if kind == "batch" else 0.0),
        survives=0.0 if kind == "batch" else given.get("survives", 1.0 if zones > 1 else 0.0),
        spare_replicas=given.get("spare_replicas", 0),
        slices=given.get("slices", False) and kind != "cpu",
    )


def _sampled(
    entry: Mapping[str, Any], name: str, *, given: Mapping[str, Any], shared: Mapping[str, Any], zones: int,
    additions: Additions,
) -> FleetWorkload:  # fmt: skip
    """Samples through a network that decodes no text, from the fields of `plan infer`."""
    own = {field.name for field in INFER_FIELDS}
    known = own | {*_SHAPED, "name", "kind", "spot_share", "survives", "spare_replicas", "slices"}
    if stray := [key for key in given if key not in known]:
        raise BadRequest(f"{stray[0]} means nothing for kind: infer")
    read = infer_request(
        {**_texts(shared), **{key: value for key, value in entry.items() if key in own}}, additions=additions
    )
    return FleetWorkload(
        name=name,
        kind="infer",
        infer=read,
        rate_per_s=read.rate_per_s,
        shape=read_shape({key: given[key] for key in _SHAPED if key in given}),
        # One bucket: all samples are alike.
        buckets=(Bucket(share=1.0, lengths=Lengths(prompt_tokens=0.0, output_tokens=0.0)),),
        spot_share=given.get("spot_share", 0.0),
        survives=given.get("survives", 1.0 if zones > 1 else 0.0),
        spare_replicas=given.get("spare_replicas", 0),
        slices=given.get("slices", False),
    )


def _texts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values already read, in base units, as the door of `plan serve` takes them once more."""
    units = {field.name: field.reads for field in SERVE_FIELDS}
    plain = {"text", "list", "flag", "integer", "count", "tokens", "fraction"}
    return {
        name: value
        if units[name] in plain or isinstance(value, str)
        else f"{value!r} {units[name]}" if units[name] != "1/s" else f"{value!r}/s"
        for name, value in values.items()
    }  # fmt: skip


def _shares(buckets: Any) -> list[dict[str, Any]]:
    if not 1 <= len(buckets) <= MOST_BUCKETS:
        raise BadRequest(f"buckets: {len(buckets)} given; expected 1 to {MOST_BUCKETS}")
    read = []
    for bucket in buckets:
        if not isinstance(bucket, Mapping):
            raise BadRequest(f"buckets: an entry is a group such as {{share: 60 %, prompt_tokens: 200, "
                             f"output_tokens: 150}}, not {echo(bucket)}")  # fmt: skip
        found = read_fields(bucket, BUCKET_FIELDS)
        if missing := [name for name in _LENGTHS if name not in found]:
            raise BadRequest(f"buckets: {missing[0]} is missing in one of them")
        if min(found["prompt_tokens"], found["output_tokens"]) < 1:
            raise BadRequest("buckets: prompt_tokens and output_tokens must be at least 1")
        read.append(found)
    total = sum(found["share"] for found in read)
    if abs(total - 1.0) > 0.01:
        raise BadRequest(f"buckets: the shares sum to {total:.0%}; they must sum to 100 %")
    return [{**found, "share": found["share"] / total} for found in read]


def _mean_lengths(buckets: Any) -> dict[str, Any]:
    read = _shares(buckets)
    return {name: sum(found["share"] * found[name] for found in read) for name in _LENGTHS[1:]}


def _buckets(said: Any, read: Serve) -> tuple[Bucket, ...]:
    """As listed; as many of equal work as asked for, cut from the profile; or one."""
    if isinstance(said, (list, tuple)):
        return tuple(
            Bucket(
                share=found["share"],
                lengths=Lengths(prompt_tokens=found["prompt_tokens"], output_tokens=found["output_tokens"]),
            )
            for found in _shares(said)
        )
    number = read_fields({"buckets": said}, (Field(name="buckets", reads="integer", help="", high=MOST_BUCKETS),))
    if number.get("buckets", 1) == 1:
        return (Bucket(share=1.0, lengths=read.lengths),)
    if read.lengths.profile is None:
        raise BadRequest("buckets: a number cuts a traffic profile; list them where lengths are given")
    from tonnage.planning.fleet.requests import cut

    return cut(read, number["buckets"])


def _window(text: str) -> tuple[int, int]:
    start, dash, stop = text.partition("-")
    hours = tuple(int(part) for part in (start.strip(), stop.strip()) if part.isdigit())
    if not dash or len(hours) != 2 or max(hours) > 24 or hours[0] % 24 == hours[1] % 24:
        raise BadRequest(f"window: '{echo(text)}' is not two different hours of the day, such as 22-6")
    return hours[0] % 24, hours[1]


def _own(entry: Mapping[str, Any], number: int, additions: Additions) -> OwnMachine:
    given = read_fields(entry, _OWN)
    for name in ("accelerator", "count"):
        if name not in given:
            raise BadRequest(f"own: {name} is missing in entry {number}")
    part = catalog.predictable(given["accelerator"], additions)
    count: int = given["count"]
    per_node = given.get("per_node", next(size for size in (8, 4, 2, 1) if count % size == 0))
    if per_node not in {1, 2, 4, 8, 16} or count % per_node:
        raise BadRequest(f"own: {count} accelerators do not come in machines of {per_node}; give per_node 1, 2, 4, 8")
    return OwnMachine(
        name=given.get("name", f"own {part.id}"),
        accelerator=part.id,
        count=count,
        per_node=per_node,
        usd_per_hour=given.get("usd_per_hour", 0.0),
        vcpus=given.get("vcpus"),
    )


def _quota(entry: Mapping[str, Any], number: int, additions: Additions) -> FleetQuota:
    given = read_fields(entry, _QUOTA)
    if "most" not in given:
        raise BadRequest(f"quotas: most is missing in entry {number}: say how many accelerators")
    if "accelerator" in given:
        given["accelerator"] = catalog.accelerator(given["accelerator"], additions).id
    named: dict[str, Any] = {name: (given[name],) for name in ("provider", "region") if name in given}
    filters = read_filters(named, additions)  # refuses names that no offer has, and spells them as the catalogue does
    given |= {"provider": filters.providers[0]} if "provider" in given else {}
    given |= {"region": filters.regions[0]} if "region" in given else {}
    return FleetQuota(**given)
