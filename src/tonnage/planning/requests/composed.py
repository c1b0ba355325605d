"""
`tonnage plan own`, `budget` and `lifecycle`: questions that hold the fields of others.

An inventory or an amount of money is judged by a service whose model and load are found later; a lifecycle has one
group of fields for the plan that makes a model and one for the plan that serves it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tonnage import catalog, units
from tonnage.catalog import Additions
from tonnage.domain.machine import Inventory
from tonnage.domain.requests.composed import Budget, LifecycleRequest, Own, OwnedGroup
from tonnage.domain.requests.field import fields_of, groups_of
from tonnage.domain.requests.serve import Serve
from tonnage.errors import BadRequest, echo
from tonnage.planning.own.machine import MOST_GROUPS, read_owned
from tonnage.planning.own.stock import machine_size
from tonnage.planning.requests.fleet import fleet_request
from tonnage.planning.requests.jobs import finetune_request, train_request
from tonnage.planning.requests.reading import build, read_fields
from tonnage.planning.requests.serve import refuse_adapters, serve_request

UNNAMED: Final = "8B"
NOMINAL: Final = "1/s"
"""Model and load that a service is read with before its own are found."""
OF_ONE_MACHINE: Final = ("nvidia-smi", "rocm-smi", "amd-smi", "system_profiler")
"""Tools that list what sits in one machine."""


def own_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Own:
    """
    An inventory with what it is judged by, from named values.

    Raises
    ------
    TonnageError
        Nothing is owned, a name is unknown, or a field is out of range or contradicts another.
    """
    refuse_adapters(values, what="an inventory")
    plain = {name: value for name, value in values.items() if name not in {"own", "workloads"}}
    given = read_fields(plain, Own)
    groups = tuple(_groups(values.get("own"), additions))
    asked = _service_fields(plain, model=given.get("model"))
    serve = serve_request({**asked, "headroom": 0.0}, additions=additions)
    workloads = values.get("workloads")
    filters = {name: value for name, value in asked.items() if name not in _OF_REQUESTS}
    shared = fleet_request({**filters, "workloads": workloads}, additions=additions).workloads if workloads else ()
    stated = "engine" in asked and asked["engine"] is not None
    return build(Own, given, additions=additions, own=groups, serve=serve, workloads=shared, engine_stated=stated)


def _service_fields(values: Mapping[str, Any], *, model: str | None) -> dict[str, Any]:
    """Those of a service among the values, with a model and a load where they are found later."""
    known = {field.name for field in fields_of(Serve)}
    asked = {name: value for name, value in values.items() if name in known}
    return {**asked, "model": model or UNNAMED, "rate": NOMINAL}


_OF_REQUESTS: Final = frozenset({
    "traffic", "prompt_tokens", "output_tokens", "context", "precision", "quality", "kv_precision", "engine",
    "headroom", "confidence", "model", "rate",
})  # fmt: skip
"""Fields that a fleet states for each workload."""


def inventory_fields(found: Inventory) -> dict[str, Any]:
    """
    What a tool's output lists, as it is written: equal devices of several machines are one group.

    Raises
    ------
    BadRequest
        It lists no accelerator.
    """
    counts: Counter[str] = Counter()
    for group in found.devices:
        counts[group.name] += group.count
    if not counts:
        raise BadRequest(f"{found.evidence} lists no accelerator; name what is there: '8 x A100 80GB, 4 x L40S'")
    fields: dict[str, Any] = {"own": [f"{count} x {name}" for name, count in counts.items()]}
    if found.host_memory_bytes is not None:
        fields["host_memory"] = f"{found.host_memory_bytes:.0f} B"
    if len(counts) > 1 and found.evidence.startswith(OF_ONE_MACHINE):
        fields["one_box"] = True
    return fields


def _groups(said: Any, additions: Additions) -> Iterator[OwnedGroup]:
    """Groups from a text or a list of texts."""
    if not said:
        raise BadRequest("own is missing: say what is there, such as '8 x A100 80GB, 4 x L40S'")
    entries = [said] if isinstance(said, str) else said
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, str) for entry in entries):
        raise BadRequest(f"own: write groups such as '8 x A100 80GB, 4 x L40S', or a list of them, not {echo(said)}")
    found = [group for entry in entries[: MOST_GROUPS + 1] for group in read_owned(entry, additions=additions)]
    if len(found) > MOST_GROUPS:
        raise BadRequest(f"own: {len(entries)} entries are more than {MOST_GROUPS} groups; plan them in parts")
    for group in found:
        if group.part is None:
            raise BadRequest("own: name the processor, such as 'Ryzen 9 9950X'; 'CPU' alone is none")
        whole = catalog.accelerator(group.part.id, additions)
        other = group.part.memory_bytes if group.part.memory_bytes != whole.memory_bytes else None
        yield OwnedGroup(
            name=f"{group.count} x {group.part.name}" if group.count > 1 else group.part.name,
            accelerator=group.part.id,
            count=group.count,
            per_node=machine_size(group.count, whole.max_per_node or 1),
            memory_bytes=other,
        )


_PER_TIME: Final = re.compile(r"/\s*[a-z]+|\bper\s+[a-z]+|\ba\s+(?:month|day|hour|year|week)\b", re.IGNORECASE)
_OF_TIME: Final = re.compile(r"\s*(?:/|\bper\b|\ba\b)\s*", re.IGNORECASE)
_HOURS: Final = {"h": 1.0, "hr": 1.0, "hour": 1.0, "d": 24.0, "day": 24.0, "week": 168.0, "mo": 730.0, "month": 730.0,
                 "yr": 8760.0, "year": 8760.0}  # fmt: skip
MOST_USD: Final = 1e12


def budget_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Budget:
    """
    A budget from named values.

    Raises
    ------
    BadRequest
        The amount is missing or none, or a field is unknown, out of range or contradicts another.
    """
    given = read_fields(values, Budget)
    if "amount" not in given:
        raise BadRequest('amount is missing: give what may be spent, such as "$3,000/month" or "$50,000"')
    per_h, usd = read_amount(given["amount"])
    purpose = given.get("purpose") or ("serving" if per_h is not None else "training")
    if purpose == "serving" and per_h is None:
        raise BadRequest(f"amount: '{echo(given['amount'])}' names no time; a service costs by the month: $3,000/month")
    if purpose != "serving" and usd is None:
        raise BadRequest(f"amount: '{echo(given['amount'])}' is by time; a run costs a sum, such as $50,000")
    if purpose == "serving" and (stray := [name for name in ("tokens", "deadline") if name in given]):
        raise BadRequest(f"{stray[0]} only means something for --purpose training or finetuning")
    if purpose == "serving" and "model" not in given and "rate" not in given:
        raise BadRequest("name a model for its largest rate, or a rate (2/s) for the best model that carries it")
    if purpose != "serving" and "rate" in given:
        raise BadRequest("rate only means something for --purpose serving")
    if purpose == "training" and "model" in given:
        raise BadRequest("model: training finds the size itself; for a given model ask `tonnage plan train --budget`")
    serve = serve_request(_service_fields(values, model=given.get("model")), additions=additions)
    return build(
        Budget,
        given,
        additions=additions,
        purpose=purpose,
        serve=serve,
        usd_per_h=per_h,
        usd=usd,
    )


def read_amount(text: str) -> tuple[float | None, float | None]:
    """
    USD an hour, or USD, whichever the text names.

    Raises
    ------
    BadRequest
        It is no amount of money.

    Examples
    --------
    >>> read_amount("$3,650/month"), read_amount("$50,000"), read_amount("$48/day")
    ((5.0, None), (None, 50000.0), (2.0, None))
    """
    if not _PER_TIME.search(text):
        usd = units.read(text, "USD", field="amount")
        if not 1.0 <= usd <= MOST_USD:
            raise BadRequest(f"amount: '{echo(text)}' is out of range; give $1 to $1,000,000,000,000")
        return None, usd
    money, time = _OF_TIME.split(text.strip(), maxsplit=1)
    hours = _HOURS.get(time.strip().lower().removesuffix("s"))
    if hours is None:
        raise BadRequest(f"amount: '{echo(text)}' is by no time that is known; write /month, /h, /day or /year")
    per_h = units.read(money, "USD", field="amount") / hours
    if not 1e-4 <= per_h <= 1e7:
        raise BadRequest(f"amount: '{echo(text)}' is out of range; give $0.0001/h to $10,000,000/h")
    return per_h, None


GROUPS: Final = tuple(group.name for group in groups_of(LifecycleRequest))


def lifecycle_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> LifecycleRequest:
    """
    A lifecycle request: `serve` and one of `train` and `finetune` hold the fields of those plans.

    A group is a mapping, or texts "name=value" as the command line gives them.

    Raises
    ------
    BadRequest
        A group is missing or contradicts, or a field of either is wrong.
    """
    groups = {name: _group(name, values[name]) for name in GROUPS if values.get(name)}
    given = read_fields({name: value for name, value in values.items() if name not in GROUPS}, LifecycleRequest)
    made = [name for name in ("train", "finetune") if name in groups]
    if len(made) != 1:
        what = "train and finetune contradict" if made else "nothing says how the model is made"
        raise BadRequest(f"{what}: give one of them, for example finetune: {{method: lora, tokens: 40M}}")
    if "serve" not in groups:
        raise BadRequest("nothing says how the model is served: give serve: {rate: 4/s, traffic: chat}")
    if "months" not in given:
        raise BadRequest("months is missing: say how long it serves, for example 12")
    model = {"model": given["model"]} if "model" in given else {}
    quick = {"quick": True} if given.get("quick") else {}
    read = train_request if made == ["train"] else finetune_request
    return build(
        LifecycleRequest,
        given,
        make=read({**model, **groups[made[0]]}, additions=additions),
        serve=serve_request({**model, **groups["serve"], **quick}, additions=additions),
    )


def _group(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if not isinstance(value, (list, tuple)):
        value = [value]
    found: dict[str, Any] = {}
    for text in value:
        key, equals, item = (part.strip() for part in str(text).partition("="))
        if not equals:
            raise BadRequest(f"{name}: '{echo(text)}' is not a field; write name=value, for example rate=4/s")
        if key in found:
            raise BadRequest(f"{name}: '{echo(key)}' is given twice; keep one")
        found[key] = item
    return found
