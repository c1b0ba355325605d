"""`tonnage plan own`: an inventory, judged by a service whose model and load may be found later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.machine import MOST_GROUPS, read_owned
from tonnage.core.reading import build, read_fields
from tonnage.core.stock import machine_size
from tonnage.domain.machine import Inventory
from tonnage.errors import BadRequest, echo
from tonnage.questions.fleet.reading import fleet_request
from tonnage.questions.own.request import Own, OwnedGroup
from tonnage.questions.serve.reading import refuse_adapters, serve_request, service_fields

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
    asked = service_fields(plain, model=given.get("model"))
    serve = serve_request({**asked, "headroom": 0.0}, additions=additions)
    workloads = values.get("workloads")
    filters = {name: value for name, value in asked.items() if name not in _OF_REQUESTS}
    shared = fleet_request({**filters, "workloads": workloads}, additions=additions).workloads if workloads else ()
    stated = "engine" in asked and asked["engine"] is not None
    return build(Own, given, additions=additions, own=groups, serve=serve, workloads=shared, engine_stated=stated)


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
