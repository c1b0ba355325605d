"""Models over all devices of an inventory: cards of several kinds in one box, or machines joined by a network."""

from __future__ import annotations

from typing import Final

from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.machine import host_of
from tonnage.domain.machine import LocalRow, Machine, Owned
from tonnage.engines.at_home import files_in
from tonnage.questions.own.groups import asked_at_home, part_of
from tonnage.questions.own.local import top_rows
from tonnage.questions.own.question import MixedRow, Own
from tonnage.questions.own.speed import Asked
from tonnage.questions.own.unlike import device_names, spread_out

ROWS: Final = 4


def mixed_rows(request: Own, *, additions: Additions) -> tuple[MixedRow, ...]:
    """
    Models over all devices of all groups as `tonnage local` has them, best first, a few of them; empty unless there are
    two devices, in one box or joined by a stated network.
    """
    if not request.one_box and request.network_bytes_per_s is None:
        return ()
    if request.serve.precisions and not files_in(request.serve.precisions):
        return ()
    groups = [Owned(group.count, part_of(group, additions)) for group in request.own]
    devices = [group for group in groups if group.part is not None and group.part.segment != "cpu"]
    if sum(group.count for group in devices) < 2:
        return ()
    processor = next((group.part.id for group in groups if group.part and group.part.segment == "cpu"), "")
    first, *others = devices
    machine = Machine(
        title="",
        host=host_of(processor=processor, memory_bytes=request.host_bytes, additions=additions),
        device=first.part,
        count=first.count,
        others=tuple(others),
        network_bytes_per_s=None if request.one_box else request.network_bytes_per_s,
    )
    rows = top_rows(asked_at_home(request), machine, most=ROWS, additions=additions)
    return tuple(_row(row, machine, additions) for row in rows)


def _row(row: LocalRow, machine: Machine, additions: Additions) -> MixedRow:
    """The row with what as many requests as devices make."""
    model = resolve(row.model, additions=additions)
    spread = spread_out(Asked(model=model, precision=row.precision, context=row.context), machine)
    assert not isinstance(spread, str), "what has a rate lies somewhere"
    remote = "" if machine.network_bytes_per_s is None else " --rpc HOST:50052,…"  # each runs rpc-server
    return MixedRow(
        model=row.model,
        weights=row.precision.stored,
        layers=spread.row.split,
        devices=device_names(machine),
        host_layers=spread.row.offload.layers,
        decode_per_s=spread.row.decode_per_s,
        pipeline_per_s=spread.pipeline_per_s,
        alone=spread.alone,
        quality=row.quality,
        stands=row.stands,
        command=row.commands[0][1] + remote,
    )
