"""
Several workloads on one fleet: what people write becomes a `Fleet`; how the faces ask it.

A workload has the fields of `plan serve`, and a few that only mean something beside others. Filters at the top hold
for all of them; a workload may narrow them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, part_name
from tonnage.catalog.traffic import session_profile
from tonnage.core.load_fields import read_filters, read_shape
from tonnage.core.reading import build, in_base_units, read_fields
from tonnage.domain.infer_plan import Infer
from tonnage.domain.requests.common import Filters, Lengths
from tonnage.domain.requests.field import fields_of, groups_of, usual_of
from tonnage.domain.requests.groups import SessionFields
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.domain.train_plan import FineTune, Train
from tonnage.errors import BadRequest, UnitError, UnknownName, echo
from tonnage.questions.fleet.answer import (
    MAX_BUCKETS,
    RUN_FIELDS,
    RUNS,
    SAMPLES,
    Bucket,
    FleetPlan,
    FleetQuota,
    FleetRequest,
    FleetWorkload,
    OwnMachine,
)
from tonnage.questions.infer.question import infer_request
from tonnage.questions.question import Form, Question
from tonnage.questions.serve.question import refuse_adapters, serve_request
from tonnage.questions.train.question import finetune_request, train_request
from tonnage.units import percent, show

GROUPS: Final = frozenset(group.name for group in groups_of(FleetRequest))
_LENGTHS: Final = ("share", "prompt_tokens", "output_tokens")
_SHAPED: Final = ("day", "peak_to_mean")
_ALIKE: Final = (Bucket(share=1.0, lengths=Lengths(prompt_tokens=0.0, output_tokens=0.0)),)
"""One bucket: all samples, or all tokens of a run, are alike."""
MAX_WORKLOADS: Final = 40
DAY_S: Final = 86400.0


def fleet_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> FleetRequest:
    """
    A fleet request from named values, as a request file holds them.

    Raises
    ------
    BadRequest
        A list is missing or none, or a field of an entry is unknown, out of range or contradicts another.
    """
    refuse_adapters(values, what="a fleet")
    given = read_fields({name: value for name, value in values.items() if name not in GROUPS}, FleetRequest)
    entries = _entries(values, "workloads")
    if not entries:
        raise BadRequest("workloads is missing: list them, for example workloads: [{model: 8B, rate: 4/s}]")
    if len(entries) > MAX_WORKLOADS:
        raise BadRequest(f"workloads: {len(entries)} are more than {MAX_WORKLOADS}; plan them in groups")
    filtered = {**usual_of(FleetRequest), **given}
    names = {field.name for field in fields_of(Filters)} - {"max_accelerators"}
    shared = in_base_units({name: filtered[name] for name in (*names, "confidence") if name in filtered}, Serve)
    if "slices" in given:
        entries = [{"slices": given["slices"], **entry} for entry in entries]
    usual = {field.name: field.default for field in fields_of(FleetRequest)}
    zones, lost = (given.get(name, usual[name]) for name in ("zones", "lost_zones"))
    if "lost_zones" in given and not lost < zones:
        raise BadRequest(f"lost_zones: {lost} of {zones} zones may not be lost; at least one must be left")
    workloads = tuple(
        _workload(entry, number=i + 1, shared=shared, zones=zones, additions=additions)
        for i, entry in enumerate(entries)
    )
    twice = [name for name, count in Counter(w.name for w in workloads).items() if count > 1]
    if twice:
        raise BadRequest(f"workloads: two are called '{echo(twice[0])}'; give each a name of its own")
    filters = replace(read_filters(filtered, additions), max_count=None)
    own = tuple(_own_machine(entry, i + 1, additions) for i, entry in enumerate(_entries(values, "own")))
    quotas = tuple(_quota(entry, i + 1, additions) for i, entry in enumerate(_entries(values, "quotas")))
    if "max_accelerators" in given:
        quotas = (*quotas, FleetQuota(most=given["max_accelerators"]))
    return build(
        FleetRequest,
        given,
        workloads=workloads,
        filters=filters,
        own=own,
        quotas=quotas,
    )


def _entries(values: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The entries of a list of the request; empty where it is not given."""
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
    """One workload, its name before whatever is wrong with it; filters that all share are in `shared`."""
    said = str(entry.get("name") or f"workload {number}")
    try:
        return _read_workload(entry, said, shared=shared, zones=zones, additions=additions)
    except (BadRequest, UnknownName, UnitError) as error:
        raise BadRequest(f"{echo(said)}: {error}") from None


def _read_workload(
    entry: Mapping[str, Any], name: str, *, shared: Mapping[str, Any], zones: int, additions: Additions
) -> FleetWorkload:
    """
    One workload of any kind: what fields its kind needs and refuses, then the fields of the plan it is like. A batch
    may run on spot altogether and need not survive a loss; others survive one where there are several zones.
    """
    refuse_adapters(entry, what="a fleet")
    given = read_fields({key: value for key, value in entry.items() if key != "buckets"}, FleetWorkload)
    kind = given.get("kind", "batch" if "items" in given else "cpu" if "cpu_time" in given else "serve")
    needs = {"batch": "items", "cpu": "cpu_time"}.get(kind, "")
    if needs and needs not in given:
        raise BadRequest(f"{needs} is missing: a workload of kind {kind} needs it")
    if kind in RUNS:
        return _run_workload(entry, name, given=given, shared=shared, additions=additions)
    if stray := [name for name in ("every_run", *sorted(RUN_FIELDS)) if name in given]:
        raise BadRequest(f"{stray[0]} only means something for kind: train or kind: finetune")
    if kind != "infer" and (stray := [name for name in SAMPLES if name in given]):
        raise BadRequest(f"{stray[0]} only means something for kind: infer")
    if kind in {"batch", "cpu"} and given.get("spare_replicas"):
        raise BadRequest("spare_replicas only mean something where somebody waits: kind serve or infer")
    for other, field in (("batch", "items"), ("batch", "window"), ("cpu", "cpu_time")):
        if field in given and kind != other:
            raise BadRequest(f"{field} only means something for kind: {other}")
    if kind == "batch" and (unfit := [n for n in ("rate", "users", "ttft", "tpot", "e2e", "day") if n in given]):
        raise BadRequest(f"{unfit[0]} and items contradict: a batch is worked off, nobody waits for one answer")
    if kind == "infer":
        return _sample_workload(entry, name, given=given, shared=shared, zones=zones, additions=additions)
    asked = {key: value for key, value in given.items() if key in {field.name for field in fields_of(Serve)}}
    if kind == "cpu":
        asked.setdefault("model", "none")
    if kind == "batch":
        asked |= {"rate": "1/s", "headroom": 0.0, "traffic": asked.get("traffic", usual_of(Batch)["traffic"])}
    buckets = entry.get("buckets")
    if isinstance(buckets, (list, tuple)):
        asked |= _mean_lengths(buckets)
    read = serve_request({**shared, **in_base_units(asked, Serve)}, additions=additions)
    if kind == "batch":  # items are independent, as in `plan batch`
        read = replace(read, sessions=SessionFields(reuse=False))
    return build(
        FleetWorkload,
        given,
        name=name,
        kind=kind,
        serve=None if kind == "cpu" else read,
        rate_per_s=0.0 if kind == "batch" else read.rate_per_s or 0.0,
        shape=read.shape,
        buckets=() if kind == "cpu" else _buckets(buckets, read),
        window=_window(given["window"]) if "window" in given else None,
        spot_share=given.get("spot_share", 1.0 if kind == "batch" else 0.0),
        survives=0.0 if kind == "batch" else given.get("survives", 1.0 if zones > 1 else 0.0),
        spare_replicas=given.get("spare_replicas", 0),
        slices=given.get("slices", False) and kind != "cpu",
    )


def _sample_workload(
    entry: Mapping[str, Any],
    name: str,
    *,
    given: Mapping[str, Any],
    shared: Mapping[str, Any],
    zones: int,
    additions: Additions,
) -> FleetWorkload:
    """
    Samples through a network that decodes no text, from the fields of `plan infer`; refuses fields of other kinds of
    workload.
    """
    own = {field.name for field in fields_of(Infer)}
    known = own | {*_SHAPED, "name", "kind", "spot_share", "survives", "spare_replicas", "slices"}
    if stray := [key for key in given if key not in known]:
        raise BadRequest(f"{stray[0]} means nothing for kind: infer")
    read = infer_request({**shared, **{key: value for key, value in entry.items() if key in own}}, additions=additions)
    return build(
        FleetWorkload,
        given,
        name=name,
        infer=read,
        rate_per_s=read.rate_per_s,
        shape=read_shape({key: given[key] for key in _SHAPED if key in given}),
        buckets=_ALIKE,
        survives=given.get("survives", 1.0 if zones > 1 else 0.0),
        spare_replicas=given.get("spare_replicas", 0),
    )


def _run_workload(
    entry: Mapping[str, Any],
    name: str,
    *,
    given: Mapping[str, Any],
    shared: Mapping[str, Any],
    additions: Additions,
) -> FleetWorkload:
    """
    Runs of training, from the fields of `plan train` or `plan finetune`, how often and in which hours; without
    `every_run` one follows the other at its deadline.
    """
    struct, read = (Train, train_request) if given["kind"] == "train" else (FineTune, finetune_request)
    own = {field.name for field in fields_of(struct)} & {field.name for field in fields_of(FleetWorkload)}
    known = own | {"name", "kind", "every_run", "window"}
    if stray := [key for key in given if key not in known]:
        why = ": how a run loses work on spot capacity is what plan train counts" * (stray[0] == "spot_share")
        raise BadRequest(f"{stray[0]} means nothing for kind: {given['kind']}{why}")
    run = read({**shared, **{key: value for key, value in entry.items() if key in own}}, additions=additions)
    every = given.get("every_run", run.deadline_s)
    if every is None:
        raise BadRequest("every_run is missing: say how often a run is made, for example 7 days, or give a deadline")
    if run.deadline_s is not None and run.deadline_s > every:
        raise BadRequest(
            f"deadline: a run of {show(run.deadline_s, 's')} every {show(every, 's')} overlaps with the next; give a "
            f"deadline of at most {show(every, 's')}"
        )
    if run.deadline_s is not None and run.deadline_s < min(every, DAY_S):
        raise BadRequest(
            f"deadline: {show(run.deadline_s, 's')} of runs every {show(every, 's')} is less than a day; say which "
            "hours of the day they have, such as window: 22-6"
        )
    return FleetWorkload(
        name=name,
        kind=given["kind"],
        run=run,
        every_s=every,
        window=_window(given["window"]) if "window" in given else None,
        buckets=_ALIKE,
    )


def _read_buckets(buckets: Any) -> list[dict[str, Any]]:
    """Fields of listed buckets; their shares, which must sum to 100 % within a point, are scaled to do so exactly."""
    if not 1 <= len(buckets) <= MAX_BUCKETS:
        raise BadRequest(f"buckets: {len(buckets)} given; expected 1 to {MAX_BUCKETS}")
    read = []
    for bucket in buckets:
        if not isinstance(bucket, Mapping):
            raise BadRequest(
                f"buckets: an entry is a group such as {{share: 60 %, prompt_tokens: 200, "
                f"output_tokens: 150}}, not {echo(bucket)}"
            )
        found = read_fields(bucket, Bucket)
        if missing := [name for name in _LENGTHS if name not in found]:
            raise BadRequest(f"buckets: {missing[0]} is missing in one of them")
        if min(found["prompt_tokens"], found["output_tokens"]) < 1:
            raise BadRequest("buckets: prompt_tokens and output_tokens must be at least 1")
        read.append(found)
    total = sum(found["share"] for found in read)
    if abs(total - 1.0) > 0.01:
        raise BadRequest(f"buckets: the shares sum to {percent(total)}; they must sum to 100 %")
    return [{**found, "share": found["share"] / total} for found in read]


def _mean_lengths(buckets: Any) -> dict[str, Any]:
    """Mean prompt and output tokens over listed buckets, by their shares."""
    read = _read_buckets(buckets)
    return {name: sum(found["share"] * found[name] for found in read) for name in _LENGTHS[1:]}


def _buckets(said: Any, read: Serve) -> tuple[Bucket, ...]:
    """
    As listed; as many of equal token shares as asked for, cut from the profile; or one with the request's lengths.
    """
    if isinstance(said, (list, tuple)):
        return tuple(
            Bucket(
                share=found["share"],
                lengths=Lengths(prompt_tokens=found["prompt_tokens"], output_tokens=found["output_tokens"]),
            )
            for found in _read_buckets(said)
        )
    number = read_fields({"buckets": said}, FleetWorkload)
    if number.get("buckets", 1) == 1:
        return (Bucket(share=1.0, lengths=read.lengths),)
    if read.lengths.profile is None:
        raise BadRequest("buckets: a number cuts a traffic profile; list them where lengths are given")
    if read.sessions.reuse and session_profile(read.lengths.profile) is not None:
        raise BadRequest(
            f"buckets: {number['buckets']} cut requests by length, and each session of '{read.lengths.profile}' grows"
            " through all of them, away from its cache; leave buckets out, or say reuse: no"
        )
    from tonnage.questions.fleet.hours import cut

    return cut(read, number["buckets"])


def _window(text: str) -> tuple[int, int]:
    """Hours of the day from (0 to 23) and until (1 to 24, or 0)."""
    start, dash, stop = text.partition("-")
    hours = tuple(int(part) for part in (start.strip(), stop.strip()) if part.isdecimal() and len(part) < 3)
    if not dash or len(hours) != 2 or max(hours) > 24 or hours[0] % 24 == hours[1] % 24:
        raise BadRequest(f"window: '{echo(text)}' is not two different hours of the day, such as 22-6")
    return hours[0] % 24, hours[1]


def _own_machine(entry: Mapping[str, Any], number: int, additions: Additions) -> OwnMachine:
    """
    Own accelerators of one kind; without `per_node` in the largest machines of 8, 4, 2 or 1 that divide the count.
    """
    given = read_fields(entry, OwnMachine)
    for name in ("accelerator", "count"):
        if name not in given:
            raise BadRequest(f"own: {name} is missing in entry {number}")
    part = catalog.predictable_accelerator(given["accelerator"], additions).id
    count: int = given["count"]
    per_node = given.get("per_node", next(size for size in (8, 4, 2, 1) if count % size == 0))
    if per_node not in {1, 2, 4, 8, 16} or count % per_node:
        raise BadRequest(f"own: {count} accelerators do not come in machines of {per_node}; give per_node 1, 2, 4, 8")
    named = {"name": f"own {part_name(part)}", **given, "per_node": per_node}
    return build(OwnMachine, named, additions=additions)


def _quota(entry: Mapping[str, Any], number: int, additions: Additions) -> FleetQuota:
    given = read_fields(entry, FleetQuota)
    if "most" not in given:
        raise BadRequest(f"quotas: most is missing in entry {number}: say how many accelerators")
    return build(FleetQuota, given, additions=additions)


_WORKLOADS: Final = """\
- name: assistant
  model: 8B
  rate: 8/s
  traffic: chat
  ttft: 1 s
  tpot: 60 ms
- name: nightly summaries
  kind: batch
  model: 8B
  items: 1M
  window: 22-6
"""

QUESTIONS = (
    Question(
        name="fleet",
        room="fleet",
        request=FleetRequest,
        answer=FleetPlan,
        needs=("workloads",),
        form=Form(
            title="Several workloads, one fleet",
            about="Which instances, in which hours and on which terms, carry all your services and batches.",
            at_first="quick",
            written=("workloads", "own", "quotas"),
            essentials=("workloads", "provider", "region", "term", "zones", "budget", "eu", "quotas", "own"),
            example={"workloads": _WORKLOADS, "provider": "gcp"},
            instead="ask with quick: true (averages), for fewer workloads or accelerators, or on the command line, "
            "which has no limit",
        ),
    ),
)
