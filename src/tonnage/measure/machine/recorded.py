"""Which tool printed this file? Its first characters tell; the reader of that tool does the rest."""

from __future__ import annotations

import re
from pathlib import Path

from tonnage.domain.machine import Inventory
from tonnage.errors import BadFact, echo_path
from tonnage.measure.machine import system, vendors
from tonnage.measure.machine.text import MOST_BYTES

__all__ = ["inventory_of", "read_inventory"]


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
        return vendors.nvidia_smi_xml(text)
    if start.startswith(("{", "[")):
        return _json(start, text)
    if re.match(r"GPU \d+: ", start):
        return vendors.nvidia_smi_list(text)
    if "NodeName=" in start:
        return system.slurm_nodes(text)
    first = start.partition("\n")[0]
    if "," in first and re.search(r"\bname\b", first):
        return vendors.nvidia_smi_csv(text)
    if first.startswith(("NODELIST", "HOSTNAMES")) or re.search(r"\bgpu:", first):
        return system.slurm_sinfo(text)
    raise BadFact(
        "this is no output that is known here; give one of: nvidia-smi -q -x, nvidia-smi --query-gpu=name,memory.total "
        "--format=csv, rocm-smi --showallinfo --json, amd-smi static --json, system_profiler … -json, "
        'kubectl get nodes -o json, sinfo -N -o "%N %G %m", scontrol show node'
    )


def _json(start: str, text: str) -> Inventory:
    if '"SPHardwareDataType"' in start:
        return vendors.system_profiler(text)
    if '"items"' in start:
        return system.kubernetes_nodes(text)
    if re.search(r'"card\d+"', start):
        return vendors.rocm_smi(text)
    return vendors.amd_smi(text)
