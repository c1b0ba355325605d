"""
What the tools of accelerator makers say: nvidia-smi, rocm-smi, amd-smi, system_profiler.

Written after the documented outputs: `nvidia-smi -q -x` (DTD nvsmi_device_v12), `--query-gpu` as CSV and `-L`;
`rocm-smi --showallinfo --json` (a card an object); `amd-smi static --json` (a GPU an object with asic and vram);
`system_profiler SPHardwareDataType SPDisplaysDataType -json`.
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
)
from tonnage.units import GB, GiB, MiB

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
    hardware = _first(read, "SPHardwareDataType")
    chip = str(hardware.get("chip_type") or hardware.get("cpu_type") or "")
    if not chip:
        raise BadFact(f"{tool}: no SPHardwareDataType with a chip_type; run it with SPHardwareDataType -json")
    amount = number_in(hardware.get("physical_memory", ""))
    memory = None if amount is None else amount * (1024 * GiB if "TB" in str(hardware["physical_memory"]) else GiB)
    own = chip.startswith("Apple")
    shown = [str(entry.get("sppci_model", "")) for entry in _all(read, "SPDisplaysDataType")]
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
    """Equal devices together, in the order they come; those without a name are left out."""
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


def _all(read: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = read.get(key)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _first(read: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return next(iter(_all(read, key)), {})
