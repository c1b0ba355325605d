"""
What tools say of a machine: those of accelerator makers, Linux, Kubernetes, Slurm.

Written after the documented outputs: `nvidia-smi -q -x` (DTD nvsmi_device_v12), `--query-gpu` as CSV and `-L`;
`rocm-smi --showallinfo --json` (a card an object); `amd-smi static --json` (a GPU an object with asic and vram);
`system_profiler SPHardwareDataType SPDisplaysDataType -json`. Written after proc(5), SMBIOS 3.7 (type 17, memory
device), the labels of NVIDIA's and AMD's device plugins, and the manual pages of sinfo and scontrol.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final
from xml.etree import ElementTree

from tonnage.domain.machine import DeviceGroup, Inventory
from tonnage.errors import BadFact, echo
from tonnage.measure.machine.text import (
    MOST_DEVICES,
    Device,
    check_size,
    counted_devices,
    json_object,
    json_value,
    number_in,
    whole_count,
)
from tonnage.units import GB, GiB, KiB, MiB

_LISTED: Final = re.compile(r"^GPU \d+: (.+?) \(UUID: ", re.MULTILINE)
_PLACEHOLDERS: Final = {"", "n/a", "[n/a]", "not supported", "[not supported]", "unknown"}
_VRAM_UNITS: Final = {"mb": MiB, "mib": MiB, "gb": GiB, "gib": GiB, "b": 1.0}
"""amd-smi writes MB and means 2^20 bytes: an MI300X lists 196592 of them."""


def nvidia_smi_xml(text: str) -> Inventory:
    """
    The output of `nvidia-smi -q -x`.

    Raises
    ------
    BadFact
        It is no such XML.
    """
    tool = "nvidia-smi -q -x"
    if "<!ENTITY" in check_size(text, tool=tool):
        raise BadFact(f"{tool}: the XML defines entities, which nvidia-smi never does; keep its own output")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise BadFact(f"{tool}: the output is no XML ({echo(str(error))}); keep all that the tool prints") from None
    if root.tag != "nvidia_smi_log":
        raise BadFact(f"{tool}: <nvidia_smi_log> is expected, the output begins with <{echo(root.tag)}>")
    found = [
        (gpu.findtext("product_name") or "", _mebibytes(gpu.findtext("fb_memory_usage/total")))
        for gpu in root.iter("gpu")
    ]
    return Inventory(evidence=tool, devices=group_devices(found))


def nvidia_smi_csv(text: str) -> Inventory:
    """
    The output of `nvidia-smi --query-gpu=name,memory.total --format=csv`; other columns are passed over.

    Raises
    ------
    BadFact
        There is no column `name`.

    Examples
    --------
    >>> nvidia_smi_csv("name, memory.total [MiB]\\nNVIDIA L4, 23034 MiB\\n").devices[0].name
    'NVIDIA L4'
    """
    tool = "nvidia-smi --query-gpu"
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(check_size(text, tool=tool))) if row]
    except csv.Error as error:
        raise BadFact(f"{tool}: no CSV: {error}") from error
    names = [name.partition(" ")[0] for name in rows[0]] if rows else []
    if "name" not in names:
        raise BadFact(f"{tool}: no column 'name' among {echo(', '.join(names))}; query name,memory.total as csv")
    name, memory = names.index("name"), names.index("memory.total") if "memory.total" in names else None
    found = [
        (row[name], None if memory is None or memory >= len(row) else _mebibytes(row[memory]))
        for row in rows[1:]
        if len(row) > name
    ]
    return Inventory(evidence=tool, devices=group_devices(found))


def nvidia_smi_list(text: str) -> Inventory:
    """
    The output of `nvidia-smi -L`, a line a device; slices below a device are passed over.

    Raises
    ------
    BadFact
        No line of it names a device.
    """
    names = _LISTED.findall(check_size(text, tool="nvidia-smi -L"))
    if not names:
        raise BadFact("nvidia-smi -L: no line such as 'GPU 0: NVIDIA L4 (UUID: …)'")
    return Inventory(evidence="nvidia-smi -L", devices=group_devices((name, None) for name in names))


def rocm_smi(text: str) -> Inventory:
    """
    The output of `rocm-smi --showallinfo --json`.

    Raises
    ------
    BadFact
        It is no JSON, or no card in it has a name.
    """
    tool = "rocm-smi --json"
    cards = [card for key, card in json_object(text, tool=tool).items() if key.startswith("card")]
    found = []
    for card in cards:
        facts = {str(key).lower(): value for key, value in card.items()} if isinstance(card, dict) else {}
        name = next(
            (str(facts[key]) for key in ("card series", "device name", "card model") if _is_told(facts, key)), ""
        )
        total = number_in(facts.get("vram total memory (b)", ""))
        found.append((name, total))
    if not any(name for name, _ in found):
        raise BadFact(f"{tool}: no card has a 'Card Series' or 'Device Name'; run it with --showproductname as well")
    return Inventory(evidence=tool, devices=group_devices(found))


def amd_smi(text: str) -> Inventory:
    """
    The output of `amd-smi static --json`: a list of GPUs, or an object that holds one.

    Raises
    ------
    BadFact
        It is no JSON, or no GPU in it has a market name.
    """
    tool = "amd-smi static --json"
    read = json_value(text, tool=tool, ask="ask for --json")
    gpus = read.get("gpu_data") if isinstance(read, dict) else read
    if not isinstance(gpus, list):
        raise BadFact(f"{tool}: a list of GPUs is expected, the output is a {type(read).__name__}")
    found = []
    for gpu in gpus:
        asic, vram = _object(gpu, "asic"), _object(gpu, "vram")
        size = _object(vram, "size")
        unit = _VRAM_UNITS.get(str(size.get("unit", "MB")).lower(), MiB)
        amount = number_in(size.get("value", ""))
        found.append((str(asic.get("market_name", "")), None if amount is None else amount * unit))
    devices = group_devices(found)
    if not devices:
        raise BadFact(f"{tool}: no GPU has asic.market_name; run `amd-smi static --asic --vram --json`")
    return Inventory(evidence=tool, devices=devices)


def system_profiler(text: str) -> Inventory:
    """
    The output of `system_profiler SPHardwareDataType SPDisplaysDataType -json`.

    Raises
    ------
    BadFact
        It is no JSON or has no hardware in it.
    """
    tool = "system_profiler"
    read = json_object(text, tool=tool)
    hardware = _first_object(read, "SPHardwareDataType")
    chip = str(hardware.get("chip_type") or hardware.get("cpu_type") or "")
    if not chip:
        raise BadFact(f"{tool}: no SPHardwareDataType with a chip_type; run it with SPHardwareDataType -json")
    amount = number_in(hardware.get("physical_memory", ""))
    # macOS writes GB and TB and means 2^30 and 2^40 bytes: "36 GB".
    memory = None if amount is None else amount * (1024 * GiB if "TB" in str(hardware["physical_memory"]) else GiB)
    own = chip.startswith("Apple")
    shown = [str(entry.get("sppci_model", "")) for entry in _objects(read, "SPDisplaysDataType")]
    names = [chip] if own else [name for name in shown if not name.startswith("Intel")]
    processors = str(hardware.get("number_processors", "")).removeprefix("proc ").partition(":")[0]
    cores = number_in(processors)
    return Inventory(
        evidence=tool,
        devices=group_devices((name, memory if own else None) for name in names),
        cpu=chip,
        cores=None if cores is None else int(cores),
        host_memory_bytes=memory,
        unified=own,
    )


def group_devices(found: Iterable[tuple[str, float | None]]) -> tuple[DeviceGroup, ...]:
    """Equal devices together, in the order they come, memory to whole gigabytes; those without a name are left out."""
    counts: Counter[Device] = Counter()
    for number, (name, memory) in enumerate(found):
        if number >= MOST_DEVICES:
            raise BadFact(f"more than {MOST_DEVICES:,} devices are no machine's")
        if name.strip().lower() not in _PLACEHOLDERS:
            # Drivers reserve a little more on a card that drives a display: compare by whole gigabytes.
            counts[" ".join(name.split()), None if memory is None else round(memory / GB) * GB] += 1
    return counted_devices(counts)


def _mebibytes(text: str | None) -> float | None:
    amount = number_in(text or "")
    return None if amount is None else amount * MiB


def _is_told(facts: Mapping[str, Any], key: str) -> bool:
    return str(facts.get(key, "")).strip().lower() not in _PLACEHOLDERS


def _object(value: object, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _objects(read: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The objects of a list under a key; none where it is no list."""
    entries = read.get(key)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _first_object(read: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return next(iter(_objects(read, key)), {})


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
    clocks = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*:\s*(\d{1,6}(?:\.\d{1,6})?)", cpuinfo, re.MULTILINE)]
    flags = frozenset((told.get("flags") or told.get("features") or "").split())
    per_s = (cores or 0.0) * sockets * max(clocks, default=0.0) * 1e6
    return Inventory(
        evidence="/proc/cpuinfo and /proc/meminfo",
        cpu=told.get("model name") or told.get("hardware") or told.get("cpu", ""),
        cores=None if cores is None else int(cores) * sockets,
        peaks={name: per_s * each for name, each in vector_flop(flags).items()} if per_s else {},
        host_memory_bytes=float(total[1]) * KiB,
    )


def vector_flop(flags: frozenset[str]) -> dict[str, float]:
    """
    What a core does in a cycle by number format, as the catalogue counts its processors: two units of multiply and add
    (AVX2: 8 numbers of 32 bits each), twice as many with AVX-512, half with 128 bits; and matrix tiles (AMX). [FLOP]

    Examples
    --------
    >>> vector_flop(frozenset({"avx2", "fma"})), vector_flop(frozenset({"avx512f", "avx512_bf16"}))
    ({'fp32': 32.0}, {'fp32': 64.0, 'bf16': 128.0})
    """
    wide = 64.0 if "avx512f" in flags else 32.0 if "avx2" in flags else 16.0
    found = {"fp32": wide}
    if "amx_bf16" in flags or "avx512_bf16" in flags:
        found["bf16"] = 2048.0 if "amx_bf16" in flags else 2.0 * wide
    if flags & {"amx_int8", "avx512_vnni", "avx_vnni"}:
        found["int8"] = 4096.0 if "amx_int8" in flags else 4.0 * wide
    return found


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
    The output of `kubectl get nodes -o json`: accelerators by their labels, one group for each product and memory; host
    memory is the smallest node's.

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
    """Accelerators of all nodes by the type that GRES gives them, and memory of the smallest node."""
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
