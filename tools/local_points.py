"""
How far off are predictions of models that lie partly in host memory? `python -m tools.local_points`

Reads `measurements/local.csv`: published rates with the device, the host's memory and what was moved. Where the source
states no memory rate, the host is what `tonnage local` assumes for a machine of which only the card is known, as a
user's question would be. A sweep that states its own rate with everything on the processor (`host_basis` "own run …")
is held against that rate, so that it judges the formula and not the memory of an unknown machine. Nothing is fitted
here; `CROSSING_S` and `LINK_SHARE` of `physics.offload` were chosen by hand once and are the same for every row.
"""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from statistics import median

import msgspec

from tonnage import catalog
from tonnage.catalog.hub import resolve
from tonnage.domain.machine import Machine
from tonnage.domain.precision import Precision
from tonnage.planning.own.machine import host_of
from tonnage.planning.own.speed import Asked, Speed, speed_of, speed_with

__all__ = ["POINTS", "errors", "main"]

POINTS = Path(__file__).resolve().parents[1] / "measurements" / "local.csv"
_OWN_RATE = re.compile(r"own run with -ngl 0: ([\d.]+)")


def machine_of(row: dict[str, str], *, slower: float = 1.0) -> Machine:
    """The machine of a point; `slower` divides the rates of its processor and memory."""
    host = host_of(
        processor=row["host"], bytes_per_s=float(row["host_gb_per_s"]) * 1e9 if row["host_gb_per_s"] else None,
        memory_bytes=1e12,
    )  # fmt: skip
    peaks = {dtype: rate / slower for dtype, rate in host.part.peaks.items()}
    part = msgspec.structs.replace(host.part, memory_bytes_per_s=host.part.memory_bytes_per_s / slower, peaks=peaks)
    device = catalog.accelerator(row["device"]) if row["device"] else None
    return Machine(title=row["id"], host=msgspec.structs.replace(host, part=part), device=device)


def asked_of(row: dict[str, str], *, prompt: bool = False) -> Asked:
    """The question behind a point: its decode rate, or its prompt rate."""
    weights = row["weights"]
    formats = (
        Precision(weights="bf16", experts=weights, kv="fp16", activations="fp16")
        if not weights.startswith("gguf-")
        else Precision(weights=weights, kv="fp16", activations="fp16")
    )
    length = int(row["prompt_tokens"]) if prompt else int(row["depth_tokens"])
    piece = int(row["piece_tokens"]) if row["piece_tokens"] else 512
    return Asked(
        model=resolve(row["model"]), precision=formats, context=max(4096, length + 256), prompt=length, piece=piece
    )


def predicted(row: dict[str, str], *, prompt: bool = False) -> Speed:
    """What the tool says about a point."""
    asked, machine = asked_of(row, prompt=prompt), machine_of(row)
    own = _OWN_RATE.search(row["host_basis"])
    if own is not None:
        alone = speed_with(asked, msgspec.structs.replace(machine, device=None), layers=0, expert_layers=0)
        machine = machine_of(row, slower=alone.decode_per_s.value / float(own[1]))
    kind, _, count = row["placement"].partition(":")
    if count == "fit":
        found = speed_of(asked, machine)
        assert isinstance(found, Speed), found
        return found
    layers = int(count) if kind == "layers" else 0
    return speed_with(asked, machine, layers=layers, expert_layers=int(count) if kind == "experts" else 0)


def errors(*, prompt: bool = False) -> list[tuple[dict[str, str], float, float]]:
    """Row, predicted rate and ln(predicted / published) of every point."""
    column = "prompt_per_s" if prompt else "decode_per_s"
    with POINTS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row[column]]
    found = []
    for row in rows:
        speed = predicted(row, prompt=prompt)
        value = (speed.prompt_per_s if prompt else speed.decode_per_s).value
        found.append((row, value, math.log(value / float(row[column]))))
    return found


def main() -> None:
    """Print every point and the median error of each kind."""
    for prompt, title in ((False, "decode"), (True, "prompt")):
        found = errors(prompt=prompt)
        column = "prompt_per_s" if prompt else "decode_per_s"
        print(f"{title}, tokens/s: published, predicted, error")
        for row, value, error in found:
            what = f"{row['device'] or row['host']:18} {row['model']:36} {row['weights']:12} {row['placement']:11}"
            print(f"  {row['id']:14} {what} {float(row[column]):8.1f} {value:8.1f} {math.expm1(error):+7.0%}")
        misses = [abs(math.expm1(error)) for _, _, error in found]
        print(f"  median {median(misses):.0%} of {len(misses)} points; worst {max(misses):.0%}\n")


if __name__ == "__main__":
    main()
