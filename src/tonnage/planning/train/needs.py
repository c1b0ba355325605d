"""What host, network and storage must bring so that the accelerators do not starve, beside what the offer has (C7)."""

from __future__ import annotations

from typing import Final

from tonnage.catalog.failures import run_fact
from tonnage.domain.accelerator import HostNeed
from tonnage.domain.train_plan import TrainOption
from tonnage.planning.host import IMAGES_PER_CORE, need, offer_of
from tonnage.planning.train.option import TrainContext
from tonnage.planning.train.stored import KEPT_CHECKPOINTS, dataset_bytes, item_bytes
from tonnage.units import GiB, show

__all__ = ["host_needs"]

_WORKERS: Final = 3
"""Processes per accelerator for text: the trainer and two loaders, as PyTorch recipes start them. Assumed."""
_HOST_BYTES: Final = 16 * GiB
"""System, loaders and libraries of one host. Assumed. [bytes]"""
_STALE: Final = 0.02
"""Share of the time between interruptions that a checkpoint may be old: it loses half of that. Chosen. [-]"""


def host_needs(asked: TrainContext, option: TrainOption) -> tuple[HostNeed, ...]:
    """Each need of one instance (or of the run's storage) with what the offer lists."""
    offer = offer_of(option.bill, additions=asked.additions)
    instances = max(1, option.bill.instances - option.run.spares)
    per = option.accelerators / instances
    images = asked.job.seq_len == 1
    rate = option.tokens_per_s_per_accelerator.value * per
    item = item_bytes(asked.job)
    workers = rate / IMAGES_PER_CORE + per if images else _WORKERS * per
    staged = option.run.checkpoint_bytes / instances
    burst = option.run.checkpoint_bytes / max(60.0, _STALE * option.run.between_s)
    network = offer.network_bytes_per_s if offer else None
    used = min(1.0, per / offer.count) if offer else 1.0
    vcpus = offer.vcpus if offer else None
    ram = offer.ram_bytes if offer else None
    return (
        need("CPU workers per instance", workers, unit="count", has=vcpus * used if vcpus else None,
              why="loaders and trainers" + (", decoding images" if images else "")),
        need("RAM per instance", _HOST_BYTES + staged, unit="bytes", has=ram * used if ram else None,
              why="system, and its share of the checkpoint before it is written"),
        need("dataset read per instance", rate * item, unit="bytes/s", has=network,
              why=f"{show(item, 'bytes')} an item"),
        need("dataset storage", dataset_bytes(asked.job), unit="bytes", has=None,
              why="every item once; repeated epochs read it again"),
        need("checkpoint burst per instance", burst / instances, unit="bytes/s", has=network,
              why=f"so that a checkpoint is never older than {_STALE:.0%} of the time between interruptions"),
        need("checkpoint storage", KEPT_CHECKPOINTS * option.run.checkpoint_bytes, unit="bytes",
              has=offer.local_nvme_bytes if offer and instances == 1 else None,
              why=f"the newest {KEPT_CHECKPOINTS}, {run_fact('state_per_parameter').value:g} bytes a parameter"),
    )  # fmt: skip
