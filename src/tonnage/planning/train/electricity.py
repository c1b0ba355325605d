"""What a training run draws: its accelerators, their hosts and the cooling, for as long as it is paid for."""

from __future__ import annotations

from msgspec.structs import replace

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.train_plan import TrainOption
from tonnage.planning.energy import TRAINING_LOAD, energy_use
from tonnage.pricing.energy import carbon_kg, energy_kwh

__all__ = ["with_electricity"]


def with_electricity(option: TrainOption, *, accelerator: Accelerator) -> TrainOption:
    """The option with its electricity and carbon; unchanged where the accelerator's power is not published."""
    use = energy_use(accelerator, count=float(option.accelerators), busy=1.0, bill=option.bill, load=TRAINING_LOAD)
    if use is None:
        return option
    kwh = energy_kwh(power_w=use.power_w, hours=option.run.billed_s / 3600.0)
    grid = use.grams_per_kwh
    return replace(
        option, energy=use, kwh=kwh, kg_co2=carbon_kg(kwh=kwh, grams_per_kwh=grid) if grid is not None else None
    )
