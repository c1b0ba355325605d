"""This machine is found from what its tools print; a tool that fails is passed over."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tonnage.errors import BadFact
from tonnage.measure.machine.detect import inventory_here

DATA = Path(__file__).parents[2] / "data" / "machine"


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("model name\t: AMD Ryzen 9 9950X 16-Core Processor\ncpu cores\t: 16\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal: 98304000 kB\n")
    return tmp_path


def printing(**outputs: str) -> object:
    def run(command: Sequence[str]) -> str | None:
        return outputs.get(command[0].replace("-", "_"))

    return run


def test_a_card_and_the_processor_beside_it(linux: Path) -> None:
    run = printing(nvidia_smi=(DATA / "nvidia-smi.xml").read_text())
    found = inventory_here(root=linux, run=run)  # type: ignore[arg-type]
    assert found.devices[0].count == 2
    assert found.cpu.startswith("AMD Ryzen 9 9950X")
    assert "nvidia-smi" in found.evidence


def test_a_tool_that_prints_an_error_is_passed_over(linux: Path) -> None:
    run = printing(nvidia_smi="NVIDIA-SMI has failed", rocm_smi=(DATA / "rocm-smi.json").read_text())
    found = inventory_here(root=linux, run=run)  # type: ignore[arg-type]
    assert found.devices[0].name == "AMD Instinct MI300X"


def test_without_tools_the_processor_alone(linux: Path) -> None:
    assert inventory_here(root=linux, run=printing()).devices == ()  # type: ignore[arg-type]


def test_a_mac(linux: Path) -> None:
    run = printing(system_profiler=(DATA / "system_profiler.json").read_text())
    assert inventory_here(root=linux, run=run).unified  # type: ignore[arg-type]


def test_a_system_that_shows_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadFact, match="--accelerator"):
        inventory_here(root=tmp_path, run=printing())  # type: ignore[arg-type]
