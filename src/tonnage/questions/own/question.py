"""
Accelerators that are there: the questions of `plan own` and `local`, the answer, how it is read, how faces ask it.

`tonnage plan own` returns an `OwnPlan`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.standings import CHAT, Task
from tonnage.core.machine import MOST_GROUPS, USUAL_PROCESSOR, group_title, is_unified, read_owned
from tonnage.core.reading import build, read_fields
from tonnage.core.stock import machine_size
from tonnage.domain.answer import Quantity
from tonnage.domain.machine import Inventory
from tonnage.domain.plan import PlanHeader
from tonnage.domain.published import QualityChange, Standing
from tonnage.domain.requests.common import FORMATS, MODEL
from tonnage.domain.requests.field import (
    MAY_BE_NOTHING,
    Field,
    Group,
    accelerator_field,
    objective_field,
    owning_field,
)
from tonnage.domain.requests.serve import Serve
from tonnage.errors import BadRequest, echo
from tonnage.questions.budget.question import FOUND
from tonnage.questions.fleet.answer import FleetPlan, FleetWorkload
from tonnage.questions.fleet.question import fleet_request
from tonnage.questions.question import Form, Question
from tonnage.questions.serve.question import refuse_adapters, serve_request, service_fields
from tonnage.record import SparseRecord
from tonnage.units import GiB

_BESIDE: Final = FOUND | {
    "ttft", "tpot", "e2e", "peak_to_mean", "own", "adapters", "adapter_rank", "adapter_skew", "adapter_targets",
}  # fmt: skip
"""Fields of a serving request that a group of accelerators has no use for, or that follow from others."""


class OwnedGroup(SparseRecord, kw_only=True):
    """Equal accelerators that are there."""

    name: str
    """As it was written, with the catalogue's name of the part."""
    accelerator: str
    count: int
    per_node: int
    """Of one machine; what is left over sits in smaller ones."""
    memory_bytes: float | None = None
    """Of one, where the part is sold with several sizes. [bytes]"""
    taken: str = ""
    """As which part its name was taken, where it is that of several."""


class Own(SparseRecord, kw_only=True):
    """What accelerators that are there serve best, what they share, and what is missing."""

    own: Annotated[
        tuple[OwnedGroup, ...], accelerator_field("what is there: 8 x A100 80GB, 4 x L40S, M4 Max 64GB", "list")
    ]
    serve: Annotated[Serve, Group(without=_BESIDE)]
    """Lengths of requests, and filters on what may be rented beside."""
    model: Annotated[str | None, MODEL] = None
    """Absent = those that people run, by a published score of the traffic's task (`tonnage.catalog.standings`)."""
    workloads: Annotated[
        tuple[FleetWorkload, ...],
        Group(name="workloads", many=True, help="what they shall carry, with the fields of `plan fleet`"),
    ] = ()
    min_speed: Annotated[float, objective_field("output of one request, in tokens/s: 20", "tokens/s", high=1e4)] = 20.0
    """[tokens/s]"""
    host_bytes: Annotated[
        float | None,
        accelerator_field("of the machine around a consumer's card", "bytes", name="host_memory", high=1e14),
    ] = None
    engine_stated: bool = False
    """The serving engines of `serve` were asked for: they answer on a person's own card, too."""
    one_box: Annotated[bool, accelerator_field("all groups sit in one machine, and may share a model")] = False
    network_bytes_per_s: Annotated[
        float | None,
        accelerator_field(
            "between machines, to run one model over all of them (RPC): 10 Gbit/s", "bytes/s", name="network", high=1e13
        ),
    ] = None
    site_power_w: Annotated[
        float | None, owning_field("what the site may draw: 2 MW", "W", name="site_power", high=1e11)
    ] = None
    rack_power_w: Annotated[
        float | None, owning_field("what one rack may draw: 40 kW", "W", name="rack_power", high=1e7)
    ] = None
    electricity: Annotated[float | None, owning_field("what power costs: $0.15/kWh", "USD/kWh", high=10.0)] = None
    """[USD/kWh]"""


class LocalRequest(SparseRecord, kw_only=True):
    """What is asked about a machine."""

    accelerator: Annotated[
        str | None,
        accelerator_field(
            'a machine: "RTX 4090", "M4 Max 64GB", "2 x RTX 3090", "Ryzen AI Max 395", "CPU"', short="-a"
        ),
    ] = None
    """The machine; absent = the one that this runs on."""
    beside: Annotated[
        tuple[str, ...],
        accelerator_field("other machines to compare it with: RTX 5090, M4 Max 64GB", "list"),
    ] = ()
    memory_bytes: Annotated[
        float | None,
        accelerator_field("of the host, or the one that both share", "bytes", name="memory", low=1e9, high=1e14),
    ] = None
    host_bytes_per_s: Annotated[
        float | None, accelerator_field("of host memory", "bytes/s", name="host_bandwidth", low=1e9, high=1e14)
    ] = None
    context: Annotated[
        int, Field("prompt and output of one request: 32k; 8192 unless said", "tokens", low=255, high=10_000_000)
    ] = 8192
    """[tokens]"""
    min_per_s: Annotated[
        float,
        Field(
            "output wanted of one request, in tokens/s; 10 unless said",
            "tokens/s",
            name="min_speed",
            low=MAY_BE_NOTHING,
            high=1e5,
        ),
    ] = 10.0
    """By default what keeps ahead of a reader. [tokens/s]"""
    task: Annotated[
        Task,
        Field("what for: chat, code, agent or reasoning; models stand by a published score of it"),
    ] = CHAT
    model: Annotated[str | None, Field("a model, or a word that names hold")] = None
    """The model that is named; a word that names none: models whose name holds it."""
    exact: bool = False
    """`model` is a name, whatever it looks like."""
    every_format: Annotated[bool, Field("every format of every model")] = False
    precisions: Annotated[tuple[str, ...], FORMATS] = ()
    """Formats of the weights to try; empty = those that publishers of files offer."""


class OwnRow(SparseRecord, kw_only=True):
    """One model on a group: the format and layout with the most output at the wanted speed."""

    model: str
    engine: str
    weights: str
    layout: str
    replicas: int
    concurrency: float
    """Requests in flight on the whole group at that output."""
    output_tokens_per_s: Quantity
    """Of the whole group. [tokens/s]"""
    per_request: float
    """Output of one request there. [tokens/s]"""
    quality: float | None = None
    """Published score of the released weights; absent = none in the catalogue."""
    stands: Standing | None = None
    """By which score it is ranked; absent = none places it."""
    change: QualityChange | None = None
    """What the format keeps of it by published figures; absent = the weights are as released."""
    moved_bytes: float = 0.0
    """Weights in host memory. [bytes]"""
    command: str = ""
    prompt_share: float = 0.0
    """Of the time at work, what prompts take. [-]"""
    tokens_per_joule: float | None = None
    """Output over `power_w`. [tokens/J]"""
    power_w: float | None = None
    """Of the whole group at that output, hosts and cooling included; absent = the part's power is not published. [W]"""
    board_w: float | None = None
    """Of that, one accelerator alone. [W]"""


class OwnedAnswer(SparseRecord, kw_only=True):
    """One group: what it serves best, what it draws and costs."""

    name: str
    accelerator: str
    count: int
    memory_bytes: float
    """Of all. [bytes]"""
    rows: tuple[OwnRow, ...] = ()
    """Those at the wanted speed first, by published score."""
    none_because: str = ""
    """Why there are no rows."""
    power_w: float | None = None
    """
    Of its first row, hosts and cooling included; without a row as accelerators usually draw at work; absent = the
    part's power is not published. [W]
    """
    usd_per_month: float | None = None
    """Electricity, working all the time. [USD/month]"""
    rented_usd_per_month: float | None = None
    """What the cheapest offers of primary sources ask for as many; absent = nobody rents it. [USD/month]"""
    nodes_per_rack: int | None = None
    """That one rack can feed; absent = its power is not stated. [machines]"""


class MixedRow(SparseRecord, kw_only=True):
    """One model over all groups, by layers."""

    model: str
    weights: str
    layers: tuple[int, ...]
    """Of each device, in the order of `devices`; what is left lies in host memory."""
    devices: tuple[str, ...]
    host_layers: int
    decode_per_s: Quantity
    """One request, filled from the fastest device on. [tokens/s]"""
    pipeline_per_s: float
    """Output with as many requests in flight as devices, layers dealt out by speed. [tokens/s]"""
    alone: str = ""
    """The group that holds it by itself; empty = none does."""
    quality: float | None = None
    stands: Standing | None = None
    """By which score it is ranked; absent = none places it."""
    command: str = ""


class PowerCap(SparseRecord, kw_only=True):
    """All accelerators held below their limit, within the site's envelope."""

    share: float
    """Of the board limit. [-]"""
    accelerators: int
    """Of this kind that the site feeds."""
    tokens_per_s: float
    tokens_per_s_per_mw: float


class SiteAnswer(SparseRecord, kw_only=True):
    """The site's envelope, for the group with the most output."""

    site_power_w: float
    owned_power_w: float
    """Of everything owned, at work, hosts and cooling included. [W]"""
    group: str
    model: str
    caps: tuple[PowerCap, ...] = ()


class Beside(SparseRecord, kw_only=True):
    """What is rented beside, and what buying it instead would take."""

    accelerator: str
    accelerators: float
    provider: str
    term: str
    usd_per_month: float
    purchase_usd: float | None = None
    """Of as many, machines included where their price is known; absent = not known. [USD]"""
    months: float | None = None
    """Of rent, less the power of owning, that pay for the purchase. [months]"""


class OwnPlan(PlanHeader[Own], kw_only=True, tag_field="kind", tag="own"):
    """The answer to an inventory."""

    groups: tuple[OwnedAnswer, ...] = ()
    benchmark: str = ""
    mixed: tuple[MixedRow, ...] = ()
    """Models over all groups at once; empty = not asked for, or one group."""
    shared: FleetPlan | None = None
    """All workloads on what is owned, and on what is rented beside it."""
    rented: tuple[Beside, ...] = ()
    """Empty = what is owned carries everything."""
    site: SiteAnswer | None = None
    electricity: Quantity | None = None
    """Of all groups, working all the time, a part for each; absent = a part's power is not published. [USD/month]"""

    @property
    def able(self) -> tuple[OwnedAnswer, ...]:
        """Groups on which some model runs."""
        return tuple(group for group in self.groups if group.rows)


OF_PEOPLE: Final = frozenset({"consumer", "workstation"})
"""Segments of cards that people put into one box."""
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
    if "one_box" not in given:
        given["one_box"] = given.get("network") is None and _sit_in_one_box(groups, additions)
    return build(Own, given, additions=additions, own=groups, serve=serve, workloads=shared, engine_stated=stated)


def _sit_in_one_box(groups: tuple[OwnedGroup, ...], additions: Additions) -> bool:
    """Whether people mean one machine: several kinds of card, none of a data centre or with its own processor."""
    parts = [catalog.accelerator(group.accelerator, additions) for group in groups]
    cards = [part for part in parts if part.segment != "cpu"]
    return len(cards) > 1 and all(part.segment in OF_PEOPLE and not is_unified(part) for part in cards)


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
        size = f" {group.memory_bytes / GiB:.0f}GB" if found.unified and group.memory_bytes else ""
        counts[group.name + size] += group.count
    if not counts:
        raise BadRequest(f"{found.evidence} lists no accelerator; name what is there: '8 x A100 80GB, 4 x L40S'")
    fields: dict[str, Any] = {"own": [f"{count} x {name}" for name, count in counts.items()]}
    if found.host_memory_bytes is not None:
        fields["host_memory"] = f"{found.host_memory_bytes:.0f} B"
    if len(counts) > 1 and found.evidence.startswith(OF_ONE_MACHINE):
        fields["one_box"] = True
    return fields


def _groups(said: Any, additions: Additions) -> Iterator[OwnedGroup]:
    """Groups from a text or a list of texts; what the catalogue's part has another memory size of is stated with it."""
    if not said:
        raise BadRequest("own is missing: say what is there, such as '8 x A100 80GB, 4 x L40S'")
    entries = [said] if isinstance(said, str) else said
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, str) for entry in entries):
        raise BadRequest(f"own: write groups such as '8 x A100 80GB, 4 x L40S', or a list of them, not {echo(said)}")
    found = [group for entry in entries[: MOST_GROUPS + 1] for group in read_owned(entry, additions=additions)]
    if len(found) > MOST_GROUPS:
        raise BadRequest(f"own: {len(entries)} entries are more than {MOST_GROUPS} groups; plan them in parts")
    for group in found:
        whole = catalog.accelerator(group.part.id if group.part else USUAL_PROCESSOR, additions)
        other = group.part.memory_bytes if group.part and group.part.memory_bytes != whole.memory_bytes else None
        yield OwnedGroup(
            name=group_title(group),
            accelerator=whole.id,
            count=group.count,
            per_node=machine_size(group.count, whole.max_per_node or 1),
            memory_bytes=other,
            taken=group.taken,
        )


QUESTIONS = (
    Question(
        name="own",
        room="own",
        request=Own,
        answer=OwnPlan,
        needs=("own",),
        tool="plan_owned_accelerators",
        form=Form(
            title="My accelerators",
            button="See what they serve",
            about="What each group of accelerators you own serves best, what is missing, and what power it draws.",
            written=("workloads",),
            essentials=(
                "own",
                "workloads",
                "traffic",
                "min_speed",
                "one_box",
                "host_memory",
                "site_power",
                "electricity",
            ),
            example={"own": "8 x A100 80GB, 4 x L40S", "traffic": "chat", "min_speed": "20"},
        ),
    ),
)
