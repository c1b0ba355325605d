"""Real traces: what was injected is what is named. Runs over gloo are named where they are measured (train/)."""

import gzip
import json
import time
from pathlib import Path

import pytest

import tonnage
from tests.command import told

torch = pytest.importorskip("torch", reason="the runs are PyTorch's: pip install 'tonnage[torch]'")


def trace(path: Path, *, stall_s: float) -> None:
    """Four steps of a small model whose loader takes its time, as torch.profiler records them."""

    class Slow(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> object:
            time.sleep(stall_s)
            return torch.ones(64)

    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for batch in torch.utils.data.DataLoader(Slow(), batch_size=2):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    profiler.export_chrome_trace(str(path))


def test_a_trace_with_a_slow_loader_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    trace(path, stall_s=0.02)
    assert tonnage.diagnose(str(path)).verdicts[0].name == "input-bound"
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    result = told("diagnose", str(packed), "--json")
    assert json.loads(result.stdout)["verdicts"][0]["name"] == "input-bound", result.stderr


@pytest.mark.parametrize(
    "data", [b'{"traceEvents": []}', b'{"traceEvents": 3}', b"\x1f\x8bnothing", gzip.compress(b"{}", mtime=0)]
)
def test_a_trace_without_steps_is_one_sentence(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(data)
    result = told("diagnose", str(path))
    assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.stderr
