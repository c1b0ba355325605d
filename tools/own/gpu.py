"""
One NVIDIA accelerator, nine minutes, no network: what its software allows is measured, kept and scored (`make gpu`).

PyTorch gives the device (products, copies, attention), networks traced and run, and training steps; without it, CUDA's
compiler gives products and copies; vLLM, where it is installed, serves models of random weights. Each part says what it
did or what it lacks. Rows are dated and go to measurements/own; then the device's file predicts them.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

from tonnage.domain.machine import Inventory
from tonnage.domain.measurement import DEVICE_SCHEMA, DeviceMeasurement, Rate
from tonnage.measure.device import device_toml, measure_device
from tonnage.measure.machine.detect import inventory_here

KERNELS = Path(__file__).with_name("kernels.cu")


class Software(NamedTuple):
    """What a machine can be measured with."""

    gpu: str
    """Name of the first NVIDIA device; empty = there is none."""
    memory_bytes: float
    torch: str
    """Release of PyTorch that sees the device; empty = none does."""
    nvcc: str
    """Path of CUDA's compiler."""
    vllm: bool

    def told(self) -> Iterator[str]:
        """A line for each."""
        yield f"device    {self.gpu or 'no NVIDIA accelerator'}"
        yield f"PyTorch   {self.torch or 'none that sees the device'}"
        yield f"nvcc      {self.nvcc or 'not installed'}"
        yield f"vLLM      {'installed' if self.vllm else 'not installed'}"


def look(inventory: Inventory | None = None) -> Software:
    """What is here; `inventory` stands for what nvidia-smi says."""
    found = inventory or inventory_here()
    first = next((group for group in found.devices if _nvidia(group.name)), None)
    torch = ""
    if first is not None and importlib.util.find_spec("torch"):
        import torch as library

        torch = library.__version__ if library.cuda.is_available() and not library.version.hip else ""
    memory = first.memory_bytes if first is not None and first.memory_bytes else 0.0
    nvcc = shutil.which("nvcc") or ""
    return Software(first.name if first else "", memory, torch, nvcc, importlib.util.find_spec("vllm") is not None)


def _nvidia(name: str) -> bool:
    return not any(word in name.lower() for word in ("amd", "radeon", "instinct", "apple", "intel"))


def measured_device(found: Software, *, seconds: float) -> DeviceMeasurement | str:
    """The device by PyTorch, else by CUDA's compiler; or what is missing for both."""
    if found.torch:
        return measure_device("cuda", seconds=seconds)
    if not found.nvcc:
        return "neither PyTorch with CUDA nor nvcc is installed here: nothing can be measured"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "kernels"
        built = subprocess.run(
            [found.nvcc, "-O3", "-o", str(program), str(KERNELS), "-lcublas"],
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            return f"nvcc did not build {KERNELS.name}: {built.stderr.strip().splitlines()[0]}"
        run = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=max(60.0, seconds))
        if run.returncode:
            return f"{KERNELS.name} ended with code {run.returncode}: {run.stderr.strip()}"
    return device_of_cuda(run.stdout, found)


def device_of_cuda(printed: str, found: Software) -> DeviceMeasurement:
    """What the program printed, as a measured device."""
    plain = "-".join(found.gpu.lower().replace("nvidia", "").split())
    return DeviceMeasurement(
        schema=DEVICE_SCHEMA,
        id=f"own-{plain}",
        name=found.gpu,
        kind="cuda",
        rates=rates_of(printed),
        memory_bytes=found.memory_bytes,
        library="cuBLAS by nvcc",
        date=date.today().isoformat(),
    )


def rates_of(printed: str) -> tuple[Rate, ...]:
    """
    Lines of the program: name, format, shape, rate, unit.

    Examples
    --------
    >>> rates_of("copy - 16_MB 3.1e12 bytes/s")[0].shape
    '16 MB'
    """
    found = []
    for line in printed.splitlines():
        name, dtype, shape, value, unit = line.split()
        told = "" if dtype == "-" else dtype
        found.append(Rate(name=name, dtype=told, shape=shape.replace("_", " "), value=float(value), unit=unit))
    return tuple(found)


def write_device(found: DeviceMeasurement, folder: Path) -> Path:
    """Its file, named by its id."""
    path = folder / f"{found.id.removeprefix('own-')}.toml"
    path.write_text(device_toml(found), encoding="utf-8")
    print(f"device    {path.name}: {len(found.rates)} rates by {found.library}")
    return path
