"""What an option for images, texts or audio delivers for its money: per thousand, per hour of sound, per camera."""

from __future__ import annotations

from msgspec.structs import replace

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.cost import SampleCosts
from tonnage.domain.infer_plan import Infer, InferOption
from tonnage.planning.energy import energy_use
from tonnage.pricing.bills import HOURS_PER_MONTH

__all__ = ["accounted"]

SECONDS_PER_HOUR = 3600.0


def accounted(request: Infer, option: InferOption, *, accelerator: Accelerator, audio: bool) -> InferOption:
    """The option with its unit costs and its electricity; unchanged where nobody rents it."""
    if option.bill is None:
        return option
    hourly, capacity = option.bill.usd_per_hour, option.capacity_per_s.value * option.count
    month = hourly * HOURS_PER_MONTH
    if audio:
        # Seconds of sound a second are hours of it an hour.
        costs = SampleCosts(
            usd_per_month=month,
            usd_per_audio_hour=hourly / request.rate_per_s,
            usd_per_audio_hour_full=hourly / capacity,
            per_s_per_usd_hour=capacity / hourly,
        )
    else:
        costs = SampleCosts(
            usd_per_month=month,
            usd_per_thousand=hourly / (request.rate_per_s * SECONDS_PER_HOUR) * 1e3,
            usd_per_thousand_full=hourly / (capacity * SECONDS_PER_HOUR) * 1e3,
            usd_per_stream_month=month / request.video.streams if request.video is not None else None,
            per_s_per_usd_hour=capacity / hourly,
        )
    energy = energy_use(accelerator, count=float(option.count), busy=min(1.0, option.used), bill=option.bill)
    return replace(option, costs=costs, energy=energy)
