"""Keep what is there, or get another? Machines side by side: what each runs, how fast, what it draws and costs."""

from __future__ import annotations

from typing import Final

from tonnage.catalog import Additions, model_name
from tonnage.core.board_power import SUM, spread
from tonnage.core.machine import is_unified, machine_named
from tonnage.core.quality import quality_kept
from tonnage.core.stock import power_of, tariff
from tonnage.domain.machine import LocalAnswer, LocalRow, Machine, MachineRow
from tonnage.pricing.energy import energy_kwh
from tonnage.questions.own.question import LocalRequest
from tonnage.questions.own.speed import PROMPT
from tonnage.report.document import UNKNOWN, Document, Headline, Note, document, grid
from tonnage.units import show

MILLION: Final = 1e6
SECONDS_PER_HOUR: Final = 3600.0


def another_machine(name: str, request: LocalRequest, *, additions: Additions) -> Machine:
    """A machine beside the one asked about: host memory is as stated, where it has one of its own."""
    machine = machine_named(name, additions=additions)
    if machine.device is not None and is_unified(machine.device):
        return machine
    memory, rate = request.memory_bytes, request.host_bytes_per_s
    return machine_named(name, memory_bytes=memory, host_bytes_per_s=rate, additions=additions)


def machine_row(answer: LocalAnswer, machine: Machine) -> MachineRow:
    """The first row of an answer with what its machine draws for it, and what its accelerators cost."""
    row = answer.rows[0] if answer.rows else None
    part = machine.device
    price = None if part is None or machine.others else part.street_price_usd
    watts = _watts(row, machine)
    return MachineRow(
        machine=machine.title,
        row=row,
        why="" if row else answer.sentence,
        price_usd=None if price is None else price * machine.count,
        whole=part is not None and is_unified(part),
        watts=watts,
        usd_per_million=None if watts is None or row is None else _energy_usd(watts, row),
    )


def _watts(row: LocalRow | None, machine: Machine) -> float | None:
    """
    Of equal cards and their waiting host while one request is answered; None where the host works too, or a limit is
    not published. [W]
    """
    part = machine.device
    if row is None or row.board_w is None or row.offload.read_share or part is None or machine.others:
        return None
    if not part.power_w:
        return None
    load = spread(row.board_w.value / part.power_w, SUM)
    power = power_of(part, count=machine.count, usd_per_kwh=0.0, load=load)
    return None if power is None else power.watts


def _energy_usd(watts: float, row: LocalRow) -> float:
    """Electricity of a million tokens, one after another. [USD]"""
    return energy_kwh(power_w=watts, hours=MILLION / row.decode_per_s.value / SECONDS_PER_HOUR) * tariff()


def beside_document(answer: LocalAnswer) -> Document:
    """The machines in a table, the one that was asked about first, and what of them is estimated."""
    rows = [
        (
            found.machine,
            *(_cells(found.row) if found.row else [UNKNOWN] * 6),
            UNKNOWN if found.watts is None else f"{found.watts:.0f}",
            UNKNOWN if found.usd_per_million is None else f"{found.usd_per_million:.2f}",
            UNKNOWN if found.price_usd is None else f"{found.price_usd:,.0f}{'*' if found.whole else ''}",
        )
        for found in answer.beside
    ]
    heads = ["machine~", "format", "quality<5", "tokens/s>", "prompt/s>", "context>1"]
    heads += ["in host memory<2", "W>3", "$/M tokens>4", "$>"]
    return document(
        Headline(_lead(answer), good=any(found.row for found in answer.beside)),
        grid(heads, rows),
        [Note(found.why) for found in answer.beside if found.row is None],
        Note(
            f"One request behind {PROMPT:,} tokens; in brackets 90 % of measurements of such cases. Each in the finest "
            f"format that makes the wanted speed."
        ),
        Note(
            "$: estimated street prices of the accelerators alone, * = of the whole machine. W: while it answers, host "
            f"included; electricity at ${tariff():.3g}/kWh."
        ),
        Note(hint="what starts it on one of them: without --beside."),
        why={"Assumptions": answer.assumed, "Notes": answer.notes},
    )


def _cells(row: LocalRow) -> list[str]:
    """What a machine does with the model."""
    rate = row.decode_per_s
    low, high = rate.low or rate.value, rate.high or rate.value
    return [
        row.format.upper(),
        quality_kept(row.change),
        f"{rate.value:.0f} ({low:.0f}-{high:.0f})",
        f"{row.prompt_per_s.value:,.0f}",
        f"{row.most_context // 1024}k",
        f"{row.offload.moved_bytes / 1e9:.0f} GB" if row.offload.moved_bytes else "",
    ]


def _lead(answer: LocalAnswer) -> str:
    """The fastest, and by how much it is faster than the machine that was asked about."""
    able = [found for found in answer.beside if found.row]
    if not able:
        return answer.sentence
    first, best = answer.beside[0], max(able, key=lambda found: found.row.decode_per_s.value if found.row else 0.0)
    assert best.row is not None
    what = f"{model_name(best.row.model)} in {best.row.format.upper()}, {best.row.decode_per_s.value:.0f} tokens/s"
    if best is first:
        return f"None of these is faster than {first.machine}: {what}."
    if first.row is None:
        return f"Fastest: {best.machine} ({what}); {first.why}"
    times = best.row.decode_per_s.value / first.row.decode_per_s.value
    cost = "" if best.price_usd is None else f" for {show(best.price_usd, 'USD')}"
    return f"Fastest: {best.machine}{cost} ({what}), {times:.2g} times {first.machine}."
