"""Outputs of drivers, systems and cluster managers become inventories; broken ones get one sentence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tonnage.domain.machine import Inventory
from tonnage.errors import BadFact, TonnageError
from tonnage.measure.machine import system
from tonnage.measure.machine.detect import inventory_of, read_inventory
from tonnage.measure.machine.text import MOST_BYTES
from tonnage.units import GiB, KiB, MiB

DATA = Path(__file__).parents[2] / "data" / "machine"


def counted(found: Inventory) -> dict[str, int]:
    return {group.name: group.count for group in found.devices}


@pytest.mark.parametrize(
    ("file", "devices"),
    [
        ("nvidia-smi.xml", {"NVIDIA GeForce RTX 3090": 2, "NVIDIA RTX A4000": 1}),
        ("nvidia-smi.csv", {"NVIDIA A100-SXM4-80GB": 2, "NVIDIA L40S": 1}),
        ("nvidia-smi-list.txt", {"NVIDIA H100 80GB HBM3": 2}),
        ("rocm-smi.json", {"AMD Instinct MI300X": 2}),
        ("amd-smi.json", {"AMD Radeon RX 7900 XTX": 1}),
        ("system_profiler.json", {"Apple M4 Max": 1}),
        ("nodes.json", {"NVIDIA A100 SXM4 80GB": 8, "NVIDIA L40S": 4}),
        ("sinfo.txt", {"a100": 16, "l40s": 4}),
        ("scontrol.txt", {"h100": 8}),
    ],
)
def test_each_tool_is_told_by_its_output(file: str, devices: dict[str, int]) -> None:
    assert counted(read_inventory(DATA / file)) == devices


def test_memory_is_read_where_it_is_stated() -> None:
    found = read_inventory(DATA / "nvidia-smi.xml")
    assert found.devices[0].memory_bytes == pytest.approx(24576 * MiB, rel=0.03)
    amd = read_inventory(DATA / "amd-smi.json").devices[0].memory_bytes
    assert amd == pytest.approx(24560 * MiB, rel=0.03)


def test_a_mac_has_one_memory() -> None:
    found = read_inventory(DATA / "system_profiler.json")
    assert found.unified
    assert found.host_memory_bytes == 64 * GiB
    assert found.cores == 16


def test_a_node_in_two_partitions_counts_once_and_untyped_devices_are_said() -> None:
    found = read_inventory(DATA / "sinfo.txt")
    assert counted(found)["a100"] == 16
    assert any("2 accelerators" in note for note in found.notes)


def test_kubernetes_says_which_nodes_have_no_product() -> None:
    found = read_inventory(DATA / "nodes.json")
    assert any("2 accelerators" in note for note in found.notes)
    assert found.host_memory_bytes == 131072 * MiB


def test_processor_and_memory_of_a_linux_machine() -> None:
    cpuinfo = "".join(
        f"processor\t: {n}\nmodel name\t: AMD EPYC 9654 96-Core Processor\nphysical id\t: {n % 2}\ncpu cores\t: 96\n\n"
        for n in range(4)
    )
    found = system.proc(cpuinfo, "MemTotal:       1056480012 kB\nMemFree: 1 kB\n")
    assert (found.cpu, found.cores) == ("AMD EPYC 9654 96-Core Processor", 192)
    assert found.host_memory_bytes == 1056480012 * KiB


def module(*, rate: int, size: int = 16384) -> bytes:
    """A memory device as SMBIOS writes it: size at 0x0C, rate at 0x15, the rate it is set to at 0x20."""
    table = bytearray(0x28)
    table[0], table[1] = 17, 0x28
    table[0x0C:0x0E] = size.to_bytes(2, "little")
    table[0x15:0x17] = rate.to_bytes(2, "little")
    table[0x20:0x22] = rate.to_bytes(2, "little")
    return bytes(table)


@pytest.mark.parametrize(
    ("modules", "cpu", "gigabytes"),
    [
        ([module(rate=6000)] * 2, "AMD Ryzen 9 9950X", 96.0),
        ([module(rate=5600)] * 4, "Intel(R) Core(TM) i9-14900K", 89.6),
        ([module(rate=4800)] * 12, "AMD EPYC 9654 96-Core Processor", 460.8),
        ([module(rate=6000), module(rate=0, size=0)], "AMD Ryzen 9 9950X", 48.0),
    ],
)
def test_memory_modules_tell_the_bandwidth(modules: list[bytes], cpu: str, gigabytes: float) -> None:
    assert system.dmi_bytes_per_s(modules, cpu=cpu) == pytest.approx(gigabytes * 1e9)


def test_no_modules_no_bandwidth() -> None:
    assert system.dmi_bytes_per_s([b"", b"\x11", bytes(300)], cpu="x") is None


READERS: tuple[Callable[[str], Inventory], ...] = (
    system.nvidia_smi_xml,
    system.nvidia_smi_csv,
    system.nvidia_smi_list,
    system.rocm_smi,
    system.amd_smi,
    system.system_profiler,
    system.kubernetes_nodes,
    system.slurm_sinfo,
    system.slurm_nodes,
    inventory_of,
)

BROKEN = (
    "", "   \n", "<", "<a/>", "{", "[]", "{}", "[1, 2]", "null", '{"items": 3}', '{"items": [{"status": 3}, 7]}',
    '{"card0": 3}', '{"SPHardwareDataType": [{}]}', "name\n", "a,b\n1,2\n", "one\n", "NodeName=", "\x00" * 100,
    '<!DOCTYPE a [<!ENTITY b "c">]><nvidia_smi_log>&b;</nvidia_smi_log>', "[" * 100_000,
    '{"items": [{"status": {"capacity": {"nvidia.com/gpu": "-3"}}}]}',
    '{"items": [{"status": {"capacity": {"nvidia.com/gpu": "9999999999"}}}]}',
)  # fmt: skip


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize("text", BROKEN, ids=lambda text: repr(text[:24]))
def test_a_broken_output_is_one_sentence_or_empty(reader: Callable[[str], Inventory], text: str) -> None:
    try:
        found = reader(text)
    except TonnageError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 700
    else:
        assert found.devices == ()


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_a_huge_output_is_refused(reader: Callable[[str], Inventory]) -> None:
    with pytest.raises(BadFact):
        reader("<{[" + " " * MOST_BYTES)


def test_what_no_tool_prints_names_the_tools(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_text("hello\n", encoding="utf-8")
    with pytest.raises(BadFact, match="nvidia-smi -q -x"):
        read_inventory(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadFact, match="UTF-8"):
        read_inventory(file)
    with pytest.raises(BadFact):
        read_inventory(tmp_path)
