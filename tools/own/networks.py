"""Networks on the device at hand: traced, run and trained; rows of measurements/own/runs.csv."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests import networks
from tools.own.table import Row

from tonnage.domain.measurement import DeviceMeasurement
from tonnage.measure.trace import trace_module
from tonnage.report.document import as_json

WARMUP: Final = 3
"""Passes that do not count."""
MOST: Final = 200
"""Passes timed at most."""


class Network(NamedTuple):
    """A network in the size for a device."""

    name: str
    make: Callable[[int], Any]
    """By batch: the module and its input."""
    per_sample: int
    unit: str


SMALL: Final = (
    Network("small-cnn", lambda batch: networks.resnet((1, 2, 2, 1), 64, 160, batch=batch), 1, "images"),
    Network("small-transformer", lambda batch: networks.bert(384, 6, 6, batch=batch), 128, "tokens"),
)
LARGE: Final = (
    Network("resnet50", lambda batch: networks.resnet(batch=batch), 1, "images"),
    Network("bert-base", lambda batch: networks.bert(batch=batch), 128, "tokens"),
)


def network_rows(device: str, found: DeviceMeasurement, folder: Path, *, seconds: float) -> Iterator[Row]:
    """
    Seconds of each network's passes and training steps, the best of those that fit into its share of the time.

    Passes are in 32 bits and, on an accelerator, in bfloat16; products of 32 bits are not rounded to TF32.
    """
    import torch

    cpu = device == "cpu"
    chosen = SMALL if cpu else LARGE
    batches, formats = ((1, 4), ("fp32",)) if cpu else ((1, 8, 64), ("fp32", "bf16"))
    told = "one thread, its own seconds, " if cpu else ""
    share = seconds / (len(chosen) * len(batches) * len(formats) * 2)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for network in chosen:
        profile = folder / f"{network.name}.profile.json"
        if not profile.exists():
            traced = trace_module(lambda network=network: network.make(1), name=network.name, training=True)
            profile.write_text(as_json(traced), encoding="utf-8")
        for batch in batches:
            for precision in formats:
                for work in ("inference", "training"):
                    try:
                        took = _best(network, work, device, batch=batch, precision=precision, seconds=share)
                    except torch.OutOfMemoryError:
                        continue  # a row of what ran; that it does not fit is no time
                    yield {
                        "profile": profile.name, "device": f"{found.id.removeprefix('own-')}.toml",
                        "accelerator_id": found.id, "batch": batch, "precision": precision, "engine": "pytorch",
                        "per_sample": network.per_sample, "unit": network.unit, "seconds": f"{took.best_s:.5g}",
                        "date": date.today().isoformat(), "machine": found.name, "work": work,
                        "how": f"best of {took.runs} runs, {told}{found.library}",
                    }  # fmt: skip


class Took(NamedTuple):
    """The best of some runs."""

    best_s: float
    runs: int


def _best(network: Network, work: str, device: str, *, batch: int, precision: str, seconds: float) -> Took:
    """Of passes, or of whole training steps with AdamW."""
    import torch

    with torch.device(device):
        module, given = network.make(batch)
    if precision == "bf16":
        module = module.to(torch.bfloat16)
        given = given.to(torch.bfloat16) if given.is_floating_point() else given
    step = _step(module, given) if work == "training" else _pass(module, given)
    clock = time.thread_time if device == "cpu" else time.perf_counter
    begun, times = time.monotonic(), []
    while len(times) < WARMUP + MOST and (time.monotonic() - begun < seconds or len(times) < WARMUP + 2):
        start = clock()
        step()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(clock() - start)
    return Took(min(times[WARMUP:]), len(times) - WARMUP)


def _pass(module: Any, given: Any) -> Callable[[], object]:
    import torch

    module.eval()

    def run() -> object:
        with torch.no_grad():
            return module(given)

    return run


def _step(module: Any, given: Any) -> Callable[[], object]:
    import torch

    module.train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)

    def run() -> object:
        optimizer.zero_grad(set_to_none=True)
        module(given).float().square().mean().backward()
        return optimizer.step()

    return run
