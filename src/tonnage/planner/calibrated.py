"""What the user's own measurements change in a prediction: an engine's overheads, what it rests on, how sure it is."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tonnage.catalog import Additions, accelerators
from tonnage.catalog.intervals import factor
from tonnage.engine.overheads import Overheads
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.answer import Basis
from tonnage.nouns.calibration import Calibration, Stretch
from tonnage.nouns.plan import Configuration

__all__ = ["basis_under", "calibration_of", "note_of", "notes_among", "overheads_under", "width"]


def calibration_of(accelerator: Accelerator, engine: str) -> Calibration | None:
    """The user's own calibration of an engine on an accelerator; absent where there is none."""
    return accelerator.calibrations.get(engine)


def overheads_under(base: Overheads, stretch: Stretch | None) -> Overheads:
    """The catalogue's overheads with the user's factors on them; host times replace the catalogue's."""
    if stretch is None:
        return base
    return msgspec.structs.replace(
        base,
        memory=base.memory * stretch.memory,
        attention=base.attention * stretch.memory,
        touch=base.touch * stretch.memory,
        compute=base.compute * stretch.compute,
        prefill_attention=base.prefill_attention * stretch.compute,
        step_s=stretch.step_s,
        request_s=stretch.request_s,
    )


def basis_under(basis: Basis, own: Calibration | None) -> Basis:
    """What the user's own engine was measured to do is calibrated, whatever the catalogue knows."""
    return basis if own is None else Basis.CALIBRATED


def width(quantity: str, own: Calibration | None, *, level: str) -> float:
    """The 90 % factor of a served quantity: of the user's calibration, else of the level. [-]"""
    known = None if own is None else own.factors.get(quantity)
    return factor("serve", quantity, rung=level) if known is None else known


def note_of(own: Calibration | None) -> tuple[str, ...]:
    """The sentence that tells whose measurements a number rests on."""
    if own is None:
        return ()
    s = own.stretch
    where = f" on {own.machine}" if own.machine else ""
    return (
        f"{own.engine} on {own.accelerator} as calibrated {own.date}{where} from {own.points} loads of "
        f"{', '.join(own.models) or 'own models'}: x{s.memory:.3g} what memory bounds, x{s.compute:.3g} what "
        f"arithmetic bounds, {s.step_s * 1e3:.3g} ms of host a step ({own.source or 'not stored'})",
    )


def notes_among(configurations: Iterable[Configuration], *, additions: Additions) -> tuple[str, ...]:
    """The same for every stack among some configurations."""
    known = accelerators(additions)
    stacks = dict.fromkeys((c.accelerator, c.engine.name) for c in configurations)
    return tuple(
        note
        for part, engine in stacks
        if part in known and known[part].calibrations
        for note in note_of(known[part].calibrations.get(engine))
    )
