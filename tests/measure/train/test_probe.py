"""The probe in this process, its records, and traces of a profiler whose parts are known."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tonnage
from tonnage.errors import BadFact, BadRequest
from tonnage.measure.train.kineto import measurement_of_trace
from tonnage.measure.train.launch import measurement_of, ranks_of
from tonnage.measure.train.records import read_rank

torch = pytest.importorskip("torch", reason="the probe watches PyTorch: pip install 'tonnage[torch]'")


def steps(count: int, *, batches: Any = None) -> None:
    layer = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for x in batches or (torch.ones(4, 16) for _ in range(count)):
        layer(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_loop_of_ones_own_is_timed(tmp_path: Path) -> None:
    def slow() -> Any:
        for _ in range(6):
            time.sleep(0.03)
            yield torch.ones(4, 16)

    with tonnage.probe(tmp_path) as probe:
        steps(6, batches=probe.data(slow()))
    run = measurement_of(ranks_of(tmp_path), warmup=1).runs[0]
    assert run.steps == 5 and run.samples_per_step == 4
    # A busy machine makes a wait longer, never shorter.
    assert run.parts.input_s >= 0.03
    assert run.parts.input_s > (run.parts.forward_s or 0.0)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    functions = (torch.save, torch.autograd.backward, torch.optim.Optimizer.zero_grad)
    with tonnage.probe(tmp_path):
        assert torch.save is not functions[0]
        steps(2)
    assert (torch.save, torch.autograd.backward, torch.optim.Optimizer.zero_grad) == functions
    before = (tmp_path / "rank-0.jsonl").stat().st_size
    steps(2)
    assert (tmp_path / "rank-0.jsonl").stat().st_size == before


def test_accumulated_micro_batches_are_one_step(tmp_path: Path) -> None:
    layer = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with tonnage.probe(tmp_path):
        for _ in range(3):
            for _ in range(4):
                layer(torch.ones(2, 16)).sum().backward()
            optimizer.step()
    run = measurement_of(ranks_of(tmp_path), warmup=0).runs[0]
    assert run.steps == 3 and run.micro_batches == 4 and run.samples_per_step == 8


def test_recomputed_forward_is_backward(tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    took: list[float] = []

    def slow(x: Any) -> Any:
        began = time.perf_counter()
        time.sleep(0.02)
        took.append(time.perf_counter() - began)
        return layer(x)

    outer = torch.nn.Module()
    outer.layer = layer
    outer.forward = lambda x: checkpoint(slow, x, use_reentrant=False)
    with tonnage.probe(tmp_path):
        for _ in range(4):
            outer(torch.ones(2, 16, requires_grad=True)).sum().backward()
            optimizer.step()
    parts = measurement_of(ranks_of(tmp_path), warmup=1).runs[0].parts
    first, again = (sum(took[start::2]) / 3 for start in (2, 3))
    assert first <= parts.forward_s < first + again and parts.backward_s >= again


def test_callbacks_of_both_trainers_do(tmp_path: Path) -> None:
    for name, begin, end in (("hf", "on_train_begin", "on_train_end"), ("pl", "on_fit_start", "on_fit_end")):
        callback = tonnage.probe_callback(tmp_path / name)
        getattr(callback, begin)(SimpleNamespace(), SimpleNamespace(), control=None)
        callback.on_step_begin(None, None, None)
        steps(3)
        callback.on_anything_new(1, x=2)
        getattr(callback, end)(SimpleNamespace(), SimpleNamespace())
        assert measurement_of(ranks_of(tmp_path / name), warmup=0).runs[0].steps == 3
        assert callback.state_dict() == {}
        with pytest.raises(AttributeError):
            _ = callback.logger


def test_a_record_that_was_cut_off_is_read(tmp_path: Path) -> None:
    with tonnage.probe(tmp_path):
        steps(4)
    path = tmp_path / "rank-0.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type":"step","phas')
    assert len(read_rank(path).steps) == 4
    path.write_bytes(b"hello\n")
    with pytest.raises(BadFact, match="no record of a training probe"):
        read_rank(path)


def test_a_folder_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TONNAGE_PROBE", raising=False)
    with pytest.raises(BadRequest, match="no folder"), tonnage.probe():
        pass


def event(name: str, begun_ms: float, took_ms: float, cat: str = "cpu_op", **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": begun_ms * 1e3, "dur": took_ms * 1e3, "args": args, "tid": 1}


def test_a_trace_of_an_accelerator_is_cut_from_its_own_timeline(tmp_path: Path) -> None:
    events = []
    for place in range(3):
        at = 100.0 * place
        events += [
            event(f"ProfilerStep#{place}", at, 100, "user_annotation"),
            event("enumerate(DataLoader)#_Next", at, 20, "user_annotation"),
            event("aten::mm", at + 20, 5), event("cudaLaunchKernel", at + 21, 1, "cuda_runtime", correlation=1 + place),
            event("sgemm", at + 22, 28, "kernel", correlation=1 + place),
            event("autograd::engine::evaluate_function: MmBackward0", at + 26, 10),
            event("cudaLaunchKernel", at + 30, 1, "cuda_runtime", correlation=11 + place),
            event("sgemm_bwd", at + 50, 30, "kernel", correlation=11 + place),
            event("ncclDevKernel_AllReduce_Sum", at + 70, 20, "kernel", correlation=99),
            event("Optimizer.step#AdamW.step", at + 40, 5, "user_annotation"),
            event("cudaLaunchKernel", at + 41, 1, "cuda_runtime", correlation=21 + place),
            event("adamw", at + 90, 6, "kernel", correlation=21 + place),
        ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(
        json.dumps(
            {
                "traceEvents": events,
                "deviceProperties": [{"name": "H100"}],
                "distributedInfo": {"world_size": 8, "backend": "nccl"},
            }
        )
    )
    found = measurement_of_trace(path)
    run = found.runs[0]
    assert (run.devices, run.steps, found.device, found.backend) == (8, 3, "H100", "nccl")
    parts = {
        name: round(value * 1e3, 3)
        for name, value in ((n, getattr(run.parts, n)) for n in run.parts.__struct_fields__)
        if value is not None
    }
    assert parts == {
        "input_s": 20.0,
        "forward_s": 28.0,
        "backward_s": 30.0,
        "communication_s": 10.0,
        "optimizer_s": 6.0,
        "other_s": 6.0,
    }
    assert run.parts.sum_s == pytest.approx(run.step_s)
    assert run.activity.busy_s == pytest.approx(0.074)
    assert run.activity.hidden_communication_s == pytest.approx(0.010)


def test_a_real_trace_adds_up(tmp_path: Path) -> None:
    layer = torch.nn.Linear(256, 256)
    optimizer = torch.optim.AdamW(layer.parameters())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(4):
            layer(torch.ones(64, 256)).sum().backward()
            optimizer.step()
            profile.step()
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    run = measurement_of_trace(tmp_path / "trace.json").runs[0]
    assert run.steps >= 3 and run.parts.backward_s and run.parts.optimizer_s
    assert run.parts.sum_s == pytest.approx(run.step_s, rel=0.03)


@pytest.mark.parametrize("text", ["", "{}", '{"traceEvents": []}', "[1]"])
def test_what_is_no_trace_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(BadFact, match=r"trace|step"):
        measurement_of_trace(path)
