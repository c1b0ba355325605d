"""
One configuration under its traffic, request by request: what people write, and the answer of `tonnage simulate`.

The path: simulation -> deployment -> step arrays and scheduler -> requests
with times and lengths -> the engine's simulator -> percentiles, occupancy, capacity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.calibration_use import calibrations_among
from tonnage.core.cold_start import cold_start
from tonnage.core.deployment import Deployment, resolve
from tonnage.core.reading import build, read_fields
from tonnage.core.replica import replica_arrays
from tonnage.core.serving_traffic import open_load
from tonnage.domain.answer import Basis
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Layout
from tonnage.domain.requests.field import attributes_of, fields_of, groups_of, refuse_unknown_names
from tonnage.domain.simulate import SIMULATE_SCHEMA, Simulated, Simulation
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.physics.memory import weight_bytes
from tonnage.questions.simulate.summary import summary_of
from tonnage.questions.simulate.traffic import Traced, spread_starts, steady_part, traffic_of
from tonnage.simulation.simulated import ReplicaArrays, Requests
from tonnage.units import show

if TYPE_CHECKING:
    from tonnage.simulation.router import Scaling
    from tonnage.simulation.serving import Simulated as Run

S = TypeVar("S", bound=msgspec.Struct)


def simulation_of(fields: Mapping[str, Any]) -> Simulation:
    """
    The simulation that a file or a set of flags asks for.

    Raises
    ------
    BadRequest
        An unknown or missing field, a quantity without its unit, a value of the wrong kind.
    """
    given = dict(fields)
    if isinstance(given.get("traffic"), str):
        given["traffic"] = {"profile": given["traffic"]}
    return _build_struct(Simulation, given, "")


def _build_struct(struct: type[S], values: Mapping[str, Any], under: str) -> S:
    """A struct of the request: its groups, its plain values, and its fields as other questions read them."""
    groups = {group.name: group.of for group in groups_of(struct)}
    plain = {one.name: one.type for one in attributes_of(struct) if not one.fields and not one.groups}
    fields = {field.name for field in fields_of(struct)}
    for name in values:
        if name not in {*fields, *groups, *plain}:
            raise UnknownName("field", f"{under}{name}", known=[f"{under}{one}" for one in (*fields, *groups, *plain)])
    there = {name: value for name, value in values.items() if value is not None}
    chosen = {name: _group(groups[name], value, f"{under}{name}") for name, value in there.items() if name in groups}
    chosen |= {name: _plain(value, plain[name], f"{under}{name}") for name, value in there.items() if name in plain}
    if isinstance(there.get("model"), Mapping):
        chosen["model"] = there.pop("model")  # described in place
    given = read_fields({name: value for name, value in there.items() if name in fields}, struct, under=under)
    for attribute in attributes_of(struct):
        name = attribute.fields[0].name if attribute.fields else attribute.name
        if attribute.required and name not in given and attribute.name not in chosen:
            hint = "" if under else "; a simulation has model, accelerator and traffic"
            raise BadRequest(f"{under}{name} is missing{hint}")
    return build(struct, given, **chosen)


def _group(struct: type[msgspec.Struct], value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        raise BadRequest(f"{name} must hold 'name: value' lines, not '{echo(value)}'")
    return _build_struct(struct, value, f"{name}.")


def _plain(value: Any, kind: Any, name: str) -> Any:
    """A value of the attribute's own type, as JSON has it; refuses another with its place."""
    try:
        read = msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        if not isinstance(value, Mapping) and (lines := _lines_of(kind)):
            raise BadRequest(f"{name} must hold 'name: value' lines ({lines}), not '{echo(value)}'") from None
        message, _, place = str(error).partition(" - at `$")
        raise BadRequest(f"{name}{place.rstrip('`')}: {message[:1].lower()}{message[1:]}") from None
    refuse_unknown_names(value, read, path=name)
    return read


def _lines_of(kind: Any) -> str:
    """The first fields of a struct among the types that an attribute takes; empty where it takes none."""
    structs = [one for one in get_args(kind) or (kind,) if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    return ", ".join(structs[0].__struct_fields__[:3]) if structs else ""


def scaling_of(asked: Simulation, at: Deployment) -> tuple[Scaling | None, tuple[str, ...]]:
    """The autoscaler as the engine takes it, None without one, and what was taken for granted of a start."""
    from tonnage.simulation.router import Scaling

    given = asked.scaling
    if given is None:
        return None, ()
    start_s = given.cold_start_s
    notes: tuple[str, ...] = ()
    if start_s is None:
        held = weight_bytes(at.placement.model, at.placement.precision, layout=at.memory_layout).value
        found = cold_start(
            weight_bytes=held * at.memory_layout.ranks,
            provider=given.provider or "the provider",
            start_from=given.start_from,
            graphs=at.placement.graphs,
        )
        start_s = found.total_s
        opened = ", ".join(f"{part.name} {show(part.value, 's')}" for part in found.parts)
        notes = (f"a replica starts in {show(start_s, 's')}: {opened} ({found.source})",)
    elif given.provider or given.start_from != "network":
        raise BadRequest("scaling: cold_start is given, so start_from and provider have nothing to say; leave them out")
    scaling = Scaling(
        in_flight=given.in_flight, fewest=given.fewest, cold_start_s=start_s, every_s=given.every_s, keep_s=given.keep_s
    )
    return scaling, notes


MAX_PER_CLIENT: Final = 250
"""Requests of a client of separate pools, at most: the run is simulated anew for each round of its clients."""
USUAL_PER_CLIENT: Final = 40
MAX_NAMES: Final = 12_000_000
"""Blocks of all requests that are told apart, which takes some seconds; a preempted request finds no more. [blocks]"""


def simulate(
    asked: Simulation,
    *,
    additions: Additions = catalog.NOTHING,
    watch: Callable[[int, int], None] | None = None,
    keep: Callable[[Run], None] | None = None,
) -> Simulated:
    """
    What the traffic sees on the configuration.

    Parameters
    ----------
    watch : callable
        Called with requests handed in and requests in all, every so often.
    keep : callable
        Called once with the run itself: a row for each request.

    Raises
    ------
    TonnageError
        Something is unknown, or the traffic cannot be read. That nothing fits is an answer.
    """
    _check_pools(asked)
    traffic = traffic_of(asked.traffic)
    split = asked.disaggregation
    layouts = (asked.layout,) if split is None else (split.prefill, split.decode)
    setups = tuple(resolve(_case(asked, traffic, layout), additions=additions) for layout in layouts)
    at = next((one for one in setups if not one.pool.verdict.ok), setups[-1])
    if not at.pool.verdict.ok:
        why = at.pool.verdict.reason or "it does not fit"
        return Simulated(
            schema=SIMULATE_SCHEMA,
            sentence=f"It does not run: {why}.",
            fits=False,
            basis=Basis.DERIVED,
            why=why,
            assumed=at.notes,
        )
    replicas = [_replica(asked, one, traffic) for one in setups]
    life_s = _life_s(asked, at)
    traffic = replace(traffic, requests=spread_starts(traffic.requests, asked.traffic, life_s=life_s))
    scaling, notes = scaling_of(asked, at)
    if split is None:
        run, copies = _run(asked, replicas[0], requests=traffic.requests, scaling=scaling, watch=watch)
        again = _with_block_names(run, at, replicas[0], requests=traffic.requests)
        if again is not None:
            run, copies = _run(asked, replicas[0], requests=again, scaling=scaling, watch=watch)
    else:
        run, copies = _run_pools(asked, setups[0], replicas, traffic=traffic, watch=watch), 1
    if keep is not None:
        keep(run)
    run = steady_part(run, asked.traffic, life_s=life_s)
    found = summary_of(asked, at, replica=replicas[-1], traffic=traffic, run=run, copies=copies)
    uses = calibrations_among((_as_loaded(asked, one, found) for one in setups), additions=additions)
    return replace(found, assumed=(*found.assumed, *notes), calibrations=uses)


def _life_s(asked: Simulation, at: Deployment) -> float:
    """About how long clients of a service wait for an answer and think; 0 where nobody's start is spread. [s]"""
    clients = asked.traffic.concurrency
    if clients is None or asked.traffic.start == "together":
        return 0.0
    each = clients / (asked.replicas if asked.disaggregation is None else asked.disaggregation.decode_workers)
    return each / open_load(at, in_flight=True).at(each).rate_per_s + asked.traffic.think_s


def _as_loaded(asked: Simulation, at: Deployment, found: Simulated) -> ServeCase:
    """The case of a replica with as many requests in flight as the simulation saw on average."""
    running = found.occupancy.running if found.occupancy is not None else ()
    held = asked.traffic.concurrency or (sum(running) / len(running) if running else 1.0)
    load = Traffic(concurrency=float(max(1, round(held / asked.replicas))))
    return replace(at.case, traffic=load)


def _run(
    asked: Simulation,
    replica: ReplicaArrays,
    *,
    requests: Requests,
    scaling: Scaling | None,
    watch: Callable[[int, int], None] | None,
) -> tuple[Run, int]:
    """
    The run, and how many equal ones the whole is: clients are divided evenly (one replica is simulated for all), a rate
    goes through the router (all are simulated).
    """
    if asked.replicas < 1:
        raise BadRequest(f"replicas: {asked.replicas} must be at least 1")
    clients = asked.traffic.concurrency
    if clients is not None and scaling is not None:
        raise BadRequest("scaling needs a rate: clients who wait for their answers bring the same load at any size")
    if clients is not None or (asked.replicas == 1 and scaling is None):
        from tonnage.simulation.serving import simulate as one

        found = one(
            replica,
            requests=_one_of_replicas(requests, asked.replicas),
            clients=math.ceil(clients / asked.replicas) if clients else None,
            watch=watch,
        )
        return found, asked.replicas
    from tonnage.simulation.router import simulate_fleet

    fleet = simulate_fleet(
        replica,
        requests=requests,
        replicas=asked.replicas,
        rule=asked.router,
        scaling=scaling,
        watch=watch,
    )
    return fleet, 1


def _with_block_names(run: Run, at: Deployment, replica: ReplicaArrays, *, requests: Requests) -> Requests | None:
    """
    The same requests with names for their blocks, where that matters: somebody was preempted under a prefix cache. What
    was computed is found again unless it has been overwritten since, a fifth of the first tokens of a real log.

    None where it does not matter, where requests have names or cached tokens already, or where it would take minutes.
    """
    if run.partial or not run.preempted.any() or not at.engine.prefix_caching or replica.limits.reserve_output:
        return None
    if len(requests.offsets) > 1 or requests.cached.any():
        return None
    if int((requests.prompt + requests.output).sum()) > MAX_NAMES * replica.limits.block_tokens:
        return None
    from tonnage.simulation.serving import with_own_blocks

    return with_own_blocks(requests, replica.limits.block_tokens)


def _one_of_replicas(requests: Requests, replicas: int) -> Requests:
    """What one of several replicas gets when they take turns."""
    import numpy as np

    from tonnage.simulation.serving import select_requests

    return select_requests(requests, np.arange(len(requests.prompt)) % replicas == 0)


def _case(asked: Simulation, traffic: Traced, layout: Layout) -> ServeCase:
    """
    The serving case of one layout at the mean lengths, whose memory and engine the simulation takes; its rate is
    nominal.
    """
    return ServeCase(
        model=asked.model,
        accelerator=asked.accelerator,
        traffic=Traffic(rate_per_s=asked.traffic.rate_per_s or 1.0),
        isl=traffic.prompt_mean,
        osl=traffic.output_mean,
        layout=layout,
        precision=asked.precision,
        engine=asked.engine,
        engine_version=asked.engine_version,
        engine_options=asked.engine_options,
    )


def _replica(asked: Simulation, at: Deployment, traffic: Traced) -> ReplicaArrays:
    """
    A replica as the simulator takes it; its times are for as many requests in flight as clients or, where measurements
    of the stack count, the rate bring.
    """
    options = {**asked.scheduler, "longest": traffic.longest}
    if traffic.hash_tokens:
        options["block_tokens"] = traffic.hash_tokens
    in_flight = asked.traffic.concurrency / asked.replicas if asked.traffic.concurrency else None
    if at.drift is not None and asked.traffic.rate_per_s:
        in_flight = open_load(at).at_rate(asked.traffic.rate_per_s / asked.replicas)[0].concurrency
    return replica_arrays(
        at,
        prompt_tokens=traffic.prompt_mean,
        output_tokens=traffic.output_mean,
        in_flight=in_flight,
        options=options,
    )


def _check_pools(asked: Simulation) -> None:
    """
    Refuses what separate pools cannot be combined with; nothing without them.

    Raises
    ------
    BadRequest
        A field that means one kind of replica, or no workers.
    """
    split = asked.disaggregation
    if split is None:
        return
    clients, requests = asked.traffic.concurrency, asked.traffic.num_requests
    if clients and requests and requests > MAX_PER_CLIENT * clients:
        raise BadRequest(
            f"traffic.requests: {requests} are {requests / clients:.0f} for each of {clients} clients; with"
            f" disaggregation a client sends at most {MAX_PER_CLIENT}"
        )
    for name, given in (("scaling", asked.scaling is not None), ("capacity", asked.capacity)):
        if given:
            raise BadRequest(f"{name} is of one pool; leave it out, or leave out disaggregation")
    if asked.replicas != 1:
        raise BadRequest("replicas: with disaggregation write prefill_workers and decode_workers instead")
    if split.prefill_workers < 1 or split.decode_workers < 1:
        raise BadRequest(
            f"disaggregation: {split.prefill_workers} prefill and {split.decode_workers} decode workers; "
            "each pool needs at least 1"
        )


def _run_pools(
    asked: Simulation,
    at: Deployment,
    replicas: list[ReplicaArrays],
    *,
    traffic: Traced,
    watch: Callable[[int, int], None] | None,
) -> Run:
    """The run of two pools, prefill and decode, each with its own layout and scheduler."""
    import numpy as np

    from tonnage.simulation.disaggregated import cache_transfer_s
    from tonnage.simulation.router import simulate_clients_of_pools, simulate_disaggregated
    from tonnage.simulation.serving import select_requests

    split, clients, requests = asked.disaggregation, asked.traffic.concurrency, traffic.requests
    assert split is not None
    first, second = replicas
    if clients is not None and asked.traffic.num_requests is None:
        requests = select_requests(requests, np.arange(len(requests.prompt)) < USUAL_PER_CLIENT * clients)
    play = partial(simulate_clients_of_pools, clients=clients) if clients is not None else simulate_disaggregated
    return play(
        (first, second),
        requests=requests,
        workers=(split.prefill_workers, split.decode_workers),
        transfer_s=cache_transfer_s(at.placement, requests.prompt),
        watch=watch,
    )
