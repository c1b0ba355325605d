"""Runs kept under measurements/own: what a machine has, a device without PyTorch, and the tables."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tools.own import __main__ as own
from tools.own.gpu import Software, device_of_cuda, look, measured_device, write_device
from tools.own.table import append

from tests.asked import told

PRINTED = """product fp32 2048^3 4.1e13 FLOP/s
product fp32 4096^3 5.2e13 FLOP/s
product bf16 8192^3 7.4e14 FLOP/s
copy - 16_MB 6.0e12 bytes/s
copy - 1024_MB 3.0e12 bytes/s
start - 100_empty_kernels 2.3e-06 s
"""


def test_without_an_accelerator_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory: Any = SimpleNamespace(devices=(SimpleNamespace(name="AMD Instinct MI300X"),))
    none = look(inventory)
    assert not none.gpu and not none.torch
    monkeypatch.setattr(own, "look", lambda: none)
    assert own.on_gpu(60.0) == 3
    assert "no accelerator here" in capsys.readouterr().err


def test_without_pytorch_or_a_compiler_it_says_so() -> None:
    bare = Software("NVIDIA H100 80GB HBM3", 80e9, torch="", nvcc="", vllm=False)
    assert "neither PyTorch with CUDA nor nvcc" in str(measured_device(bare, seconds=1.0))


def test_what_cuda_prints_is_a_device_that_predicts(tmp_path: Path) -> None:
    here = Software("NVIDIA H100 80GB HBM3", 80e9, torch="", nvcc="nvcc", vllm=False)
    path = write_device(device_of_cuda(PRINTED, here), tmp_path)
    device = told("catalog", "accelerators", "own-h100-80gb-hbm3", "--additions", str(path)).accelerator
    assert device.memory_bytes_per_s == pytest.approx(3.0e12) and device.peaks["bf16"] == pytest.approx(7.4e14)


def test_rows_of_the_same_run_replace_each_other(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("model,date,x\na,1,1\na,2,2\nb,1,3\n")
    append(table, [{"model": "a", "date": "1", "x": 9}], of=("model", "date"))
    assert table.read_text() == "model,date,x\na,2,2\nb,1,3\na,1,9\n"
