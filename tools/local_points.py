"""
How far off are predictions of models that lie partly in host memory? `python -m tools.local_points`

Reads `measurements/local.csv`: published rates with the device, the host's memory, what was moved (`layers:0` is all
on the device) and the engine where it is not llama.cpp. Where the source
states no memory rate, the host is what `tonnage local` assumes for a machine of which only the card is known, as a
user's question would be. A sweep that states its own rate with everything on the processor (`host_basis` "own run …")
is held against that rate, so that it judges the formula and not the memory of an unknown machine. Nothing is fitted
here; `CROSSING_S` and `LINK_SHARE` of `physics.offload` were chosen by hand once and are the same for every row.

Then models that lie wholly on one device: every llama.cpp row with one request in `measurements/inference*.csv.gz`, by
vendor. A point is one model in one format on one part, the median of its rows. These rows are among those that the
engine's efficiencies were fitted on; what the fit makes of parts it has not seen is in `docs/accuracy.md`.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from statistics import median

import msgspec

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.machine import host_of
from tonnage.domain.case import ServeResult
from tonnage.domain.machine import LocalRow, Machine
from tonnage.domain.precision import Precision
from tonnage.questions.own.speed import Asked, deployment_of, join_sides, place_layers, shares_on, speed_of
from tonnage.questions.predict.predict import predict
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.rows import Row, number, read_rows, text
from tonnage_accuracy.tables import read_table

POINTS = Path(__file__).resolve().parents[1] / "measurements" / "local.csv"
PART_LIMIT = 0.30
"""Median error of one part that is told. [-]"""
_OWN_RATE = re.compile(r"own run with -ngl 0: ([\d.]+)")


def machine_of(row: dict[str, str], *, slower: float = 1.0) -> Machine:
    """The machine of a point; `slower` divides the rates of its processor and memory."""
    host = host_of(
        processor=row["host"],
        bytes_per_s=float(row["host_gb_per_s"]) * 1e9 if row["host_gb_per_s"] else None,
    )
    peaks = {dtype: rate / slower for dtype, rate in host.part.peaks.items()}
    part = msgspec.structs.replace(host.part, memory_bytes_per_s=host.part.memory_bytes_per_s / slower, peaks=peaks)
    device = catalog.accelerator(row["device"]) if row["device"] else None
    return Machine(title=row["id"], host=msgspec.structs.replace(host, part=part, memory_bytes=1e12), device=device)


def asked_of(row: dict[str, str], *, prompt: bool = False) -> Asked:
    """The question behind a point: its decode rate, or its prompt rate."""
    weights = row["weights"]
    formats = (
        Precision(weights="gguf-q8_0", experts=weights, kv="fp16", activations="fp16")
        if weights.startswith("mxfp")
        else Precision(weights=weights, kv="fp16", activations="fp16")
    )
    length = int(row["prompt_tokens"]) if prompt else int(row["depth_tokens"])
    piece = int(row["piece_tokens"]) if row["piece_tokens"] else 512
    return Asked(
        model=resolve(row["model"]),
        precision=formats,
        context=max(4096, length + 256),
        prompt=length,
        piece=piece,
        engine=row["engine"],
        mapped=True,  # the engine's default
    )


def speed_with(asked: Asked, machine: Machine, *, layers: int, expert_layers: int) -> LocalRow:
    """The speed with a placement that is given, whether or not it fits: what a published point is held against."""
    part = machine.device or machine.host.part
    shares = shares_on(asked, deployment_of(asked, part))
    layers = shares.layers if machine.device is None else layers
    return join_sides(asked, machine, offload=place_layers(shares, layers=layers, expert_layers=expert_layers))


def predicted(row: dict[str, str], *, prompt: bool = False) -> LocalRow:
    """What the tool says about a point."""
    asked, machine = asked_of(row, prompt=prompt), machine_of(row)
    own = _OWN_RATE.search(row["host_basis"])
    if own is not None:
        alone = speed_with(asked, msgspec.structs.replace(machine, device=None), layers=0, expert_layers=0)
        machine = machine_of(row, slower=alone.decode_per_s.value / float(own[1]))
    kind, _, count = row["placement"].partition(":")
    if count == "fit":
        found = speed_of(asked, machine)
        assert isinstance(found, LocalRow), found
        return found
    layers = int(count) if kind == "layers" else 0
    return speed_with(asked, machine, layers=layers, expert_layers=int(count) if kind == "experts" else 0)


def errors(*, prompt: bool = False) -> list[tuple[dict[str, str], float, float]]:
    """Row, predicted rate and ln(predicted / published) of every point."""
    column = "prompt_per_s" if prompt else "decode_per_s"
    found = []
    for row in (row for row in read_table(POINTS) if row[column]):
        speed = predicted(row, prompt=prompt)
        value = (speed.prompt_per_s if prompt else speed.decode_per_s).value
        found.append((row, value, math.log(value / float(row[column]))))
    return found


def whole_points() -> list[tuple[str, str, float]]:
    """Vendor, part with model and format, and ln(predicted / published) of one request's rate, a point each."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for file in sorted(POINTS.parent.glob("inference*.csv.gz")):
        for row in read_rows(file):
            alone = text(row, "engine") == "llamacpp" and text(row, "num_accel") == "1"
            if not alone or not row.usable or number(row, "concurrency_or_batch") != 1.0:
                continue
            error = _row_error(row)
            if error is not None:
                key = text(row, "accelerator_id"), text(row, "model_id"), text(row, "weight_precision")
                groups.setdefault(key, []).append(error)
    return [
        (catalog.accelerator(part).vendor, f"{part:18} {model:36} {weights}", median(found))
        for (part, model, weights), found in sorted(groups.items())
    ]


def _row_error(row: Row) -> float | None:
    """ln(predicted / published) of the time between tokens, or of the whole output where that alone is published."""
    found = predict(case_of(row))
    if not isinstance(found, ServeResult) or not found.fits:
        return None
    tpot_ms, rate = number(row, "tpot_mean_ms"), number(row, "output_tokens_per_s_total")
    if tpot_ms and found.tpot_s:
        return math.log(tpot_ms / 1e3 / found.tpot_s.mean)
    return math.log(found.output_tokens_per_s.value / rate) if rate and found.output_tokens_per_s else None


def _kind(row: dict[str, str]) -> str:
    """What a point is a point of."""
    if row["engine"]:
        return "MLX, all on one device"
    if not row["device"]:
        return "llama.cpp, on a processor"
    return "llama.cpp, all on one device" if row["placement"] == "layers:0" else "partly in host memory (llama.cpp)"


def _vendor(row: dict[str, str]) -> str:
    return catalog.accelerator(row["device"]).vendor if row["device"] else "processors"


def alone() -> list[tuple[str, str, float]]:
    """Vendor, part and ln(predicted / published) of every point of one request on one device or a processor."""
    return whole_points() + [
        (_vendor(row), f"{row['device'] or row['host']:18} {row['id']}", error)
        for row, _, error in errors()
        if not _kind(row).startswith("partly")
    ]


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
        print(f"  median {median(misses):.0%} of {len(misses)} points; worst {max(misses):.0%}")
        for kind in dict.fromkeys(map(_kind, (row for row, _, _ in found))):
            mine = [abs(math.expm1(error)) for row, _, error in found if _kind(row) == kind]
            print(f"    {kind:34} {len(mine):4d}   {median(mine):4.0%}   {max(mine):4.0%}")
        print()
    points = alone()
    print("one request, all on one device, llama.cpp and MLX, with those above: points, median error, worst, by vendor")
    for vendor in [*sorted({vendor for vendor, _, _ in points}), ""]:
        misses = [abs(math.expm1(error)) for one, _, error in points if vendor in {"", one}]
        print(f"  {vendor or 'all':8} {len(misses):4d}   {median(misses):4.0%}   {max(misses):4.0%}")
    parts = {what.split()[0] for _, what, _ in points}
    by_part = {
        part: median(abs(math.expm1(error)) for _, what, error in points if what.split()[0] == part) for part in parts
    }
    beyond = sorted(((error, part) for part, error in by_part.items() if error > PART_LIMIT), reverse=True)
    print(f"  parts: {len(parts)}, of which {len(beyond)} have a median above {PART_LIMIT:.0%}")
    for error, part in beyond:
        print(f"    {part:18} {error:.0%}")


if __name__ == "__main__":
    main()
