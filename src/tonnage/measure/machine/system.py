"""
What Linux and cluster managers say: /proc/cpuinfo, /proc/meminfo, DMI, a Kubernetes node list, Slurm.

Written after proc(5), SMBIOS 3.7 (type 17, memory device), the labels of NVIDIA's and AMD's device plugins, and the
manual pages of sinfo and scontrol.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tonnage.domain.machine import Inventory
from tonnage.errors import BadFact
from tonnage.measure.machine.text import Device, check_size, counted_devices, json_object, number_in, whole_count
from tonnage.units import GB, GiB, KiB, MiB

_FIELD: Final = re.compile(r"^([\w ()]+?)\s*:\s*(.*)$", re.MULTILINE)
_GPU_LABELS: Final = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "gpu.intel.com/product",
)
"""Labels that name the accelerator of a node, as device plugins and clouds write them."""
_GPU_COUNTS: Final = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "google.com/tpu",
    "aws.amazon.com/neuron",
    "habana.ai/gaudi",
)
_GRES: Final = re.compile(r"gpu(?::([\w.\-/]+?))?:(\d{1,6})(?:\(|,|\s|$)")
_KUBE_UNITS: Final = {"Ki": KiB, "Mi": MiB, "Gi": GiB, "K": 1e3, "M": 1e6, "G": GB, "": 1.0}
_SERVER: Final = re.compile(r"xeon|epyc|threadripper", re.IGNORECASE)
_CLIENT_CHANNELS: Final = 2


def proc(cpuinfo: str, meminfo: str) -> Inventory:
    """
    Processor and memory from the texts of /proc/cpuinfo and /proc/meminfo.

    Raises
    ------
    BadFact
        There is no MemTotal line.

    Examples
    --------
    >>> found = proc("model name\\t: AMD Ryzen 9 9950X\\ncpu cores\\t: 16\\n", "MemTotal: 98304000 kB")
    >>> found.cpu, found.cores, found.host_memory_bytes
    ('AMD Ryzen 9 9950X', 16, 100663296000.0)
    """
    told: dict[str, str] = {}
    for name, value in _FIELD.findall(cpuinfo[: 4 * 1024 * 1024]):
        told.setdefault(name.strip().lower(), value.strip())
    sockets = len(set(re.findall(r"^physical id\s*:\s*(\d+)", cpuinfo, re.MULTILINE))) or 1
    total = re.search(r"^MemTotal:\s*(\d{1,15}) kB", check_size(meminfo, tool="/proc/meminfo"), re.MULTILINE)
    if total is None:
        raise BadFact("/proc/meminfo: no line 'MemTotal: … kB'")
    cores = number_in(told.get("cpu cores", ""))
    return Inventory(
        evidence="/proc/cpuinfo and /proc/meminfo",
        cpu=told.get("model name") or told.get("hardware") or told.get("cpu", ""),
        cores=None if cores is None else int(cores) * sockets,
        host_memory_bytes=float(total[1]) * KiB,
    )


def dmi_bytes_per_s(tables: Iterable[bytes], *, cpu: str) -> float | None:
    """
    Bandwidth of host memory from its raw SMBIOS type-17 tables: modules x 8 bytes x the rate they are set to. [bytes/s]

    Desktop and laptop processors have two channels however many modules there are; of a server each module is taken as
    a channel of its own. Absent where no table states a rate.
    """
    rates = [rate for table in tables if (rate := _module_rate(table))]
    if not rates:
        return None
    channels = len(rates) if _SERVER.search(cpu) else min(len(rates), _CLIENT_CHANNELS)
    return channels * 8.0 * min(rates) * 1e6


def _module_rate(table: bytes) -> int | None:
    """Transfers a second in millions of one module; absent for an empty slot or an unknown rate."""
    if len(table) < 0x17 or table[0] != 17:
        return None
    size = int.from_bytes(table[0x0C:0x0E], "little")
    set_to = int.from_bytes(table[0x20:0x22], "little") if len(table) >= 0x22 else 0
    rate = set_to or int.from_bytes(table[0x15:0x17], "little")
    return rate if size and 0 < rate < 0xFFFF else None


def kubernetes_nodes(text: str) -> Inventory:
    """
    The output of `kubectl get nodes -o json`: accelerators by their labels, one group for each product and node pool.

    Raises
    ------
    BadFact
        It is no node list.
    """
    tool = "kubectl get nodes -o json"
    items = json_object(text, tool=tool).get("items")
    if not isinstance(items, list):
        raise BadFact(f"{tool}: no list 'items'; give the list of nodes, not one node or a table")
    counts: Counter[Device] = Counter()
    notes: list[str] = []
    memory: list[float] = []
    for item in items:
        labels, capacity = _inside(item, "metadata", "labels"), _inside(item, "status", "capacity")
        if (size := _kube_bytes(capacity.get("memory"))) is not None:
            memory.append(size)
        count = sum(whole_count(capacity[key], tool=tool, what=key) for key in _GPU_COUNTS if key in capacity)
        if not count:
            continue
        name = next((str(labels[key]) for key in _GPU_LABELS if labels.get(key)), "")
        if not name:
            notes.append(f"{count} accelerators of a node without a product label are left out")
            continue
        each = number_in(labels.get("nvidia.com/gpu.memory", ""))
        counts[name.replace("-", " "), None if each is None else each * MiB] += count
    return Inventory(
        evidence=tool,
        devices=counted_devices(counts),
        host_memory_bytes=min(memory, default=None),
        notes=tuple(dict.fromkeys(notes)),
    )


def slurm_sinfo(text: str) -> Inventory:
    """
    The output of `sinfo -N -o "%N %G %m"`: a node once however many partitions it is in.

    Raises
    ------
    BadFact
        No line holds a node.
    """
    tool = 'sinfo -N -o "%N %G %m"'
    rows = [line.split() for line in check_size(text, tool=tool).splitlines() if line.strip()]
    if rows and rows[0][0] in {"NODELIST", "HOSTNAMES"}:
        rows = rows[1:]
    if not rows or any(len(row) < 2 for row in rows):
        raise BadFact(f"{tool}: a line is 'node gres memory'; run sinfo with exactly that format")
    nodes = {row[0]: (row[1], number_in(row[2]) if len(row) > 2 else None) for row in rows}
    return _slurm(tool, nodes.items())


def slurm_nodes(text: str) -> Inventory:
    """
    The output of `scontrol show node`.

    Raises
    ------
    BadFact
        No record of it has a NodeName.
    """
    tool = "scontrol show node"
    nodes = []
    for record in re.split(r"(?m)^(?=NodeName=)", check_size(text, tool=tool)):
        name = re.match(r"NodeName=(\S+)", record)
        if name is not None:
            gres, real = re.search(r"\bGres=(\S+)", record), re.search(r"\bRealMemory=(\d{1,12})", record)
            nodes.append((name[1], (gres[1] if gres else "", float(real[1]) if real else None)))
    if not nodes:
        raise BadFact(f"{tool}: no record that begins with NodeName=; keep all that it prints")
    return _slurm(tool, nodes)


def _slurm(tool: str, nodes: Iterable[tuple[str, tuple[str, float | None]]]) -> Inventory:
    counts: Counter[Device] = Counter()
    memory: list[float] = []
    for _, (gres, mebibytes) in nodes:
        for name, count in _GRES.findall(gres):
            counts[name, None] += int(count)
        if mebibytes is not None:
            memory.append(mebibytes * MiB)
    unnamed = counts.pop(("", None), 0)
    notes = () if not unnamed else (f"{unnamed} accelerators whose GRES has no type are left out",)
    return Inventory(
        evidence=tool, devices=counted_devices(counts), host_memory_bytes=min(memory, default=None), notes=notes
    )


def _inside(item: object, *path: str) -> Mapping[str, Any]:
    for key in path:
        item = item.get(key) if isinstance(item, dict) else None
    return item if isinstance(item, dict) else {}


def _kube_bytes(value: object) -> float | None:
    """A quantity as Kubernetes writes it: "1056Gi", "263856012Ki"."""
    found = re.fullmatch(r"(\d{1,18})(Ki|Mi|Gi|K|M|G)?", str(value))
    return None if found is None else float(found[1]) * _KUBE_UNITS[found[2] or ""]
