"""
What a training run needs beside its accelerators (storage, host, network), and what its boards draw.

Power: products run at the rate that the step's time leaves them, element-wise work and the optimizer at the memory
rate that training sustains; exchanges that nothing hides, bubbles and stragglers keep kernels on the board that poll;
what waits for the host or for input leaves it idle. Power was fitted on serving alone (`pricing.energy`). That
training has the same coefficients is an assumption: its interval holds the published runs
(`tests/paper/test_training_power.py`).
"""

from __future__ import annotations

import math
from typing import Final, TypeVar

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import provider_name
from tonnage.catalog.failures import run_fact
from tonnage.catalog.providers import storage_prices
from tonnage.core.board_power import SUM, Used, spread, used_by
from tonnage.core.host import IMAGES_PER_CORE, LoadShare, energy_of_run, energy_use, host_need, offer_of
from tonnage.domain.accelerator import Accelerator, HostNeed
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.plan import Bill
from tonnage.domain.precision import number_format
from tonnage.domain.train_plan import Run, RunOption, TrainOption
from tonnage.domain.training import TrainSetup
from tonnage.physics.training_time import sustained_bytes_per_s, training_peak
from tonnage.physics.training_work import head_work, layer_work
from tonnage.physics.work import Operator
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.pricing.energy import board_share
from tonnage.questions.train.job import Job, TrainContext
from tonnage.simulation.training import model_flop
from tonnage.units import GiB, percent, show

Option = TypeVar("Option", bound=RunOption)
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


def storage_line(job: Job, *, made: Bill, run: Run) -> tuple[Quantity, ...]:
    """
    Cost of checkpoints and dataset for as long as the run takes [USD]; empty where the provider publishes no price or
    the run never ends.
    """
    price = storage_prices().get(made.provider)
    if price is None or not math.isfinite(run.wall_s.value):
        return ()
    kept = KEPT_CHECKPOINTS * run.checkpoint_bytes + dataset_bytes(job)
    months = run.wall_s.value / 3600.0 / HOURS_PER_MONTH
    return (
        Quantity(
            name="storage",
            value=kept / 1e9 * months * price.usd_per_gb_month,
            basis=Basis.MEASURED,
            source=f"{show(kept, 'bytes')} of checkpoints and data for {show(run.wall_s.value, 's')} at "
            f"{price.usd_per_gb_month:.4g} USD/GB and month ({price.tier})",
        ),
    )


def storage_text(option: TrainOption, *, parameters: float) -> str:
    """
    One line: whether storage is in the bill of a run, where transfer never is, and what it would add to take its
    result away: 16 bits for each of the trained `parameters`, at the provider's price for 10^9 bytes.
    """
    name = option.bill.provider
    provider = catalog.providers().get(name)
    egress = provider.egress_usd_per_gb if provider else None
    size = parameters * _RESULT_BYTES
    result = f"{size / 1e9:,.3g} GB"  # as it is charged
    kept = (
        "checkpoints and data are stored at its list price"
        if name in storage_prices()
        else ("storage is not in the bill, as no price of it is known")
    )
    if egress is None:
        out = f"what it charges for taking the result out ({result}) is not known either way"
    elif not egress:
        out = f"taking the result out ({result}) is free"
    else:
        out = f"taking the result out ({result}) would add {show(size / 1e9 * egress, 'USD')}"
    return f"{provider_name(name)}: {kept}; {out}"


_WORKERS: Final = 3
"""Processes per accelerator for text: the trainer and two loaders, as PyTorch recipes start them. Assumed."""
_HOST_BYTES: Final = 16 * GiB
"""System, loaders and libraries of one host. Assumed. [bytes]"""
_STALE: Final = 0.02
"""Share of the time between interruptions that a checkpoint may be old: it loses half of that. Chosen. [-]"""


def host_needs(asked: TrainContext, option: TrainOption) -> tuple[HostNeed, ...]:
    """
    Each need of one instance, or of the run's storage, with what the offer lists: its share of the instance where the
    job takes a part of it, nothing where it lists none.
    """
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
        host_need("CPU workers per instance", workers, unit="count", has=vcpus * used if vcpus else None,
              why="loaders and trainers" + (", decoding images" if images else "")),
        host_need("RAM per instance", _HOST_BYTES + staged, unit="bytes", has=ram * used if ram else None,
              why="system, and its share of the checkpoint before it is written"),
        host_need("dataset read per instance", rate * item, unit="bytes/s", has=network,
              why=f"{show(item, 'bytes')} an item"),
        host_need("dataset storage", dataset_bytes(asked.job), unit="bytes", has=None,
              why="every item once; repeated epochs read it again"),
        host_need("checkpoint burst per instance", burst / instances, unit="bytes/s", has=network,
              why=f"so that a checkpoint is never older than {percent(_STALE)} of the time between interruptions"),
        host_need("checkpoint storage", KEPT_CHECKPOINTS * option.run.checkpoint_bytes, unit="bytes",
              has=offer.local_nvme_bytes if offer and instances == 1 else None,
              why=f"the newest {KEPT_CHECKPOINTS}, {run_fact('state_per_parameter').value:g} bytes a parameter"),
    )  # fmt: skip


def with_electricity(option: Option, *, accelerator: Accelerator, load: LoadShare) -> Option:
    """
    The option with its electricity and carbon; unchanged where the accelerator's power is not published.

    Parameters
    ----------
    load : LoadShare
        What its boards draw of their limit in its steps.
    """
    use = energy_use(accelerator, count=float(option.accelerators), busy=1.0, bill=option.bill, load=load)
    if use is None:
        return option
    seconds = option.run.billed_s
    kwh, kg = energy_of_run(use, seconds=seconds)
    if isinstance(option, TrainOption):
        option = replace(option, energy_wh=use.board_w * seconds / 3600.0)
    return replace(option, energy=use, kwh=kwh, kg_co2=kg)


PRODUCTS: Final = "compute"
STREAMED: Final = frozenset({"element-wise", "optimizer"})
"""Parts of a step that run at the rate of memory."""
WAITING: Final = frozenset({"host", "input"})
"""Parts in which nothing runs on the board."""


def training_load(setup: TrainSetup, step: Quantity) -> LoadShare:
    """
    Mean draw of a board over its limit while steps follow each other.

    Parameters
    ----------
    setup : TrainSetup
        What runs where.
    step : Quantity
        One optimizer step, opened into its parts as `estimate.step` does. [s]
    """
    seconds = {part.name: part.value for part in step.parts}
    computing = seconds.get(PRODUCTS, 0.0)
    streamed = sustained_bytes_per_s(setup) / setup.accelerator.memory_bytes_per_s
    used = _products(setup).times(1.0 / computing) if computing > 0.0 else Used()
    on_host = frozenset({"optimizer"}) if setup.offload != "none" else frozenset()
    drawn = 0.0
    for name, spent in seconds.items():
        if name == PRODUCTS:
            share = board_share(weights=used.weights, others=used.others, products=used.products)
        elif name in STREAMED - on_host:
            share = board_share(weights=0.0, others=streamed, products=0.0)
        else:
            share = board_share(weights=0.0, others=0.0, products=0.0, busy=float(name not in WAITING | on_host))
        drawn += spent * share
    phases = ", ".join(
        f"{name} {percent(spent / step.value)}" for name, spent in sorted(seconds.items(), key=lambda one: -one[1])[:3]
    )
    return spread(drawn / step.value, f"by phases of the step ({phases}), not measured in training: {SUM}")


def _products(setup: TrainSetup) -> Used:
    """What the products of one optimizer step take of the mean board's peaks. [s]"""
    part, ranks = setup.accelerator, setup.layout.ranks
    if not setup.model.groups:
        return Used(products=model_flop(setup) / ranks / training_peak(part, number_format(setup.precision).compute))
    return used_by(_of_passes(setup), part).times(setup.num_micro_batches / setup.layout.pp)


def _of_passes(setup: TrainSetup) -> list[Operator]:
    """Products of one micro-batch through all layers and the head, as often as each pass runs; cut by no pipeline."""
    model = setup.model
    forwards = 1.0 + setup.further_passes + (setup.recompute_share if setup.recompute == "full" else 0.0)
    layers = [(float(g.count), layer_work(g, model.hidden_size, setup=setup)) for g in model.groups]
    found = []
    for count, work in (*layers, (1.0, head_work(setup))):
        for times, ops in ((count * forwards, work.forward), (count, work.backward)):
            found += [replace(op, count=op.count * times) for op in ops if op.kind != "elementwise"]
    return found
