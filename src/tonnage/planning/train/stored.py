"""What a run keeps in storage beside its instances, and what that and taking the result out are charged."""

from __future__ import annotations

import math
from typing import Final

from tonnage import catalog
from tonnage.catalog.providers import storage_prices
from tonnage.domain.answer import Basis, Part
from tonnage.domain.plan import Bill
from tonnage.domain.train_plan import Run, TrainOption
from tonnage.planning.train.job import Job
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.units import show

__all__ = ["KEPT_CHECKPOINTS", "dataset_bytes", "item_bytes", "storage_line", "stored_told"]

KEPT_CHECKPOINTS: Final = 3
_TOKEN_BYTES: Final = 4.0
"""One 32-bit token id."""
_IMAGE_BYTES: Final = 110e3
"""Mean JPEG of ImageNet: 1.28 million in 140 GB."""
_RESULT_BYTES: Final = 2.0
"""Of one trained weight as it is taken away: 16 bits."""


def item_bytes(job: Job) -> float:
    """One token, or one image. [bytes]"""
    return _IMAGE_BYTES if job.seq_len == 1 else _TOKEN_BYTES


def dataset_bytes(job: Job) -> float:
    """Every item once; repeated epochs count as new ones where the request gives no more than a total. [bytes]"""
    return job.sequences * job.seq_len * item_bytes(job)


def storage_line(job: Job, *, made: Bill, run: Run) -> tuple[Part, ...]:
    """Checkpoints and dataset for as long as the run takes; nothing where the provider publishes no price."""
    price = storage_prices().get(made.provider)
    if price is None or not math.isfinite(run.wall_s.value):
        return ()
    kept = KEPT_CHECKPOINTS * run.checkpoint_bytes + dataset_bytes(job)
    months = run.wall_s.value / 3600.0 / HOURS_PER_MONTH
    return (
        Part(
            name="storage",
            value=kept / 1e9 * months * price.usd_per_gb_month,
            basis=Basis.MEASURED,
            source=f"{show(kept, 'bytes')} of checkpoints and data for {show(run.wall_s.value, 's')} at "
            f"{price.usd_per_gb_month:.4g} USD/GB and month ({price.tier})",
        ),
    )


def stored_told(option: TrainOption, *, parameters: float) -> str:
    """What of storage and transfer is in the bill, and what it would add to take the result away."""
    name = option.bill.provider
    provider = catalog.providers().get(name)
    egress = provider.egress_usd_per_gb if provider else None
    size = parameters * _RESULT_BYTES
    kept = "checkpoints and data are stored at its list price" if name in storage_prices() else (
        "storage is not in the bill, as no price of it is known"
    )  # fmt: skip
    if egress is None:
        out = f"what it charges for taking the result out ({show(size, 'bytes')}) is not known either way"
    elif not egress:
        out = f"taking the result out ({show(size, 'bytes')}) is free"
    else:
        out = f"taking the result out ({show(size, 'bytes')}) would add {show(size / 1e9 * egress, 'USD')}"
    return f"{name}: {kept}; {out}"
