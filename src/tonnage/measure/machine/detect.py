"""
What is in this machine, or in the file that a tool printed? The reader of each tool does the rest.

Here the tools that are there run, each for a few seconds at most, and their answers are put together; one that is
missing, fails or hangs is passed over: then the processor alone is found, which is an answer too. Of a file the first
characters tell which tool printed it.
"""

from __future__ import annotations

import math
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from tonnage.domain.machine import Inventory
from tonnage.engines.at_home import PROGRAMS
from tonnage.errors import BadFact, echo_path
from tonnage.measure.machine import system
from tonnage.measure.machine.text import MOST_BYTES


def read_inventory(path: str | Path) -> Inventory:
    """
    The inventory in a file that holds one tool's output.

    Raises
    ------
    BadFact
        The file is too large, no text, or of no tool that is known here.
    """
    file = Path(path)
    if file.is_dir() or file.stat().st_size > MOST_BYTES:
        raise BadFact(
            f"{echo_path(path)}: one file of at most {MOST_BYTES // 2**20} MiB with one tool's output is read"
        )
    try:
        return inventory_of(file.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadFact(f"{echo_path(path)}: is no text in UTF-8; keep what the tool prints") from None


def inventory_of(text: str) -> Inventory:
    """
    The inventory in one tool's output.

    Raises
    ------
    BadFact
        No tool that is known here prints such a text, or its reader finds it broken.
    """
    start = text.lstrip()[:200_000]
    if start.startswith("<"):
        return system.nvidia_smi_xml(text)
    if start.startswith(("{", "[")):
        return _json(start, text)
    if re.match(r"GPU \d+: ", start):
        return system.nvidia_smi_list(text)
    if "NodeName=" in start:
        return system.slurm_nodes(text)
    first = start.partition("\n")[0]
    if "," in first and re.search(r"\bname\b", first):
        return system.nvidia_smi_csv(text)
    if first.startswith(("NODELIST", "HOSTNAMES")) or re.search(r"\bgpu:", first):
        return system.slurm_sinfo(text)
    raise BadFact(
        "this is no output that is known here; give one of: nvidia-smi -q -x, nvidia-smi --query-gpu=name,memory.total "
        "--format=csv, rocm-smi --showallinfo --json, amd-smi static --json, system_profiler … -json, "
        'kubectl get nodes -o json, sinfo -N -o "%N %G %m", scontrol show node'
    )


def _json(start: str, text: str) -> Inventory:
    if '"SPHardwareDataType"' in start:
        return system.system_profiler(text)
    if '"items"' in start:
        return system.kubernetes_nodes(text)
    if re.search(r'"card\d+"', start):
        return system.rocm_smi(text)
    return system.amd_smi(text)


PATIENCE_S: Final = 10.0
_TOOLS: Final[tuple[tuple[tuple[str, ...], Callable[[str], Inventory]], ...]] = (
    (("nvidia-smi", "-q", "-x"), system.nvidia_smi_xml),
    (("amd-smi", "static", "--asic", "--vram", "--json"), system.amd_smi),
    (("rocm-smi", "--showallinfo", "--json"), system.rocm_smi),
)
"""Asked in this order; the first that names a device is believed."""
_PROFILER: Final = ("system_profiler", "SPHardwareDataType", "SPDisplaysDataType", "-json")


def inventory_here(*, root: Path = Path("/"), run: Callable[[Sequence[str]], str | None] | None = None) -> Inventory:
    """
    The inventory of this machine; `root` and `run` stand for its file system and for running a tool.

    Raises
    ------
    BadFact
        Not even the memory of this machine can be read.
    """
    ask = run or _tool_output
    if platform.system() == "Darwin" or (run is not None and ask(_PROFILER)):
        printed = ask(_PROFILER)
        if printed:
            return system.system_profiler(printed)
    here = _processor(root)
    for command, reader in _TOOLS:
        printed = ask(command)
        if printed is None:
            continue
        try:
            found = reader(printed)
        except BadFact:
            continue
        if found.devices:
            evidence = f"{found.evidence}, {here.evidence}"
            return msgspec.structs.replace(here, evidence=evidence, devices=found.devices)
    return here


def programs() -> tuple[str, ...]:
    """Engines whose program is on the path of this machine."""
    return tuple(name for name in PROGRAMS if shutil.which(name) is not None)


def _processor(root: Path) -> Inventory:
    """Processor and memory of this machine; where nothing tells how fast that is, a copy is timed."""
    cpuinfo, meminfo = _text(root / "proc/cpuinfo"), _text(root / "proc/meminfo")
    if not meminfo:
        raise BadFact("this system shows no /proc/meminfo; name the machine with --accelerator and --memory")
    found = system.proc(cpuinfo, meminfo)
    tables = [_bytes(path / "raw") for path in sorted((root / "sys/firmware/dmi/entries").glob("17-*"))[:64]]
    rate = system.dmi_bytes_per_s(tables, cpu=found.cpu)
    if rate is None and root == Path("/"):
        rate, evidence = copied_bytes_per_s(threads=found.cores or 1), f"{found.evidence}; a copy through memory"
        return msgspec.structs.replace(found, host_bytes_per_s=rate, evidence=evidence)
    return msgspec.structs.replace(found, host_bytes_per_s=rate)


_COPY_S: Final = 0.3
_COPIED_BYTES: Final = 32 * 2**20
"""Of each thread: beyond the caches of what people own. [bytes]"""


def copied_bytes_per_s(*, threads: int) -> float:
    """
    What this machine's memory reads and writes when so many threads copy, each by its best repetition, for whatever
    else runs can only slow it down. [bytes/s]
    """
    import numpy as np

    end = time.perf_counter() + _COPY_S

    def best_of(_: int) -> float:
        read, written = np.ones(_COPIED_BYTES // 8), np.ones(_COPIED_BYTES // 8)
        best = math.inf
        while (began := time.perf_counter()) < end or best == math.inf:
            np.copyto(written, read)
            best = min(best, time.perf_counter() - began)
        return 2.0 * _COPIED_BYTES / best

    threads = max(1, min(threads, 64))
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(best_of, range(threads)))


def _tool_output(command: Sequence[str]) -> str | None:
    """What a tool prints; None where it is missing, fails or does not come back."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run([program, *command[1:]], capture_output=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", errors="replace") if done.returncode == 0 and done.stdout else None


def _text(path: Path) -> str:
    return _bytes(path).decode("utf-8", errors="replace")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
