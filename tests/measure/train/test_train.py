"""Real training over gloo: the parts add up to the step that the script times itself, and name what was injected."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from tests.command import told as answer_of
from tonnage.domain.train_measurement import TrainMeasurement
from tonnage.errors import BadFact, BadRequest
from tonnage.measure.diagnose.sources import evidence_of_training, judge
from tonnage.measure.train.launch import Bounds, measure_train

pytest.importorskip("torch", reason="the probe watches PyTorch: pip install 'tonnage[torch]'")

SCRIPT = str(Path(__file__).parent / "training.py")
STALL_S = SLOW_S = 0.4


def trained(mark: Path, monkeypatch: pytest.MonkeyPatch, *, devices: int = 2, **given: str) -> TrainMeasurement:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return measure_train([sys.executable, SCRIPT, str(mark)], devices=[devices])


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run on one device and on two, from the command line: the folder of its files, and what was printed."""
    folder = tmp_path_factory.mktemp("scaled")
    told = answer_of(
        "measure",
        "train",
        "--devices",
        "1,2",
        "--output",
        str(folder / "m.json"),
        "--",
        sys.executable,
        SCRIPT,
        str(folder / "mark"),
    )
    assert told.exit_code == 0, told.output
    return folder, told.output


@pytest.fixture(scope="module")
def stalled(tmp_path_factory: pytest.TempPathFactory) -> TrainMeasurement:
    """A sharded run on two devices that waits for its input."""
    with pytest.MonkeyPatch.context() as patch:
        return trained(tmp_path_factory.mktemp("stalled") / "mark", patch, STALL_S=str(STALL_S), SHARDED="1")


def test_the_parts_add_up_to_the_step_that_the_script_times(scaled: tuple[Path, str]) -> None:
    folder, _ = scaled
    found = msgspec.json.decode((folder / "m.json").read_bytes(), type=TrainMeasurement)
    run = found.runs[1]
    own = max(json.loads((folder / f"mark.{rank}.json").read_text()) for rank in (0, 1))
    assert run.devices == 2 and run.steps >= 10
    assert run.parts.sum_s == pytest.approx(run.step_s, rel=1e-6)
    for rank in run.ranks:
        theirs = json.loads((folder / f"mark.{rank.rank}.json").read_text())
        assert rank.parts.sum_s == pytest.approx(theirs, rel=0.03)
    assert run.step_s == pytest.approx(own, rel=0.1)
    assert run.parts.forward_s and run.parts.backward_s and run.parts.optimizer_s and run.parts.communication_s
    assert run.hidden_communication_s is not None
    assert (found.parallel, found.backend, found.model) == ("DDP", "gloo", "Net")
    assert run.samples_per_step == 8 and run.tokens_per_step == 8 * 64
    assert found.checkpoint.writes == 1
    assert found.checkpoint.size_bytes == (folder / "mark.pt").stat().st_size
    assert found.checkpoint.restore_s and found.checkpoint.write_s
    parameters = found.parameters
    assert run.memory.weights_bytes == run.memory.gradients_bytes == 4 * parameters
    assert run.memory.optimizer_bytes == pytest.approx(8 * parameters, rel=0.01)


def test_an_input_stall_is_input(stalled: TrainMeasurement) -> None:
    run = stalled.runs[0]
    assert run.parts.input_s == pytest.approx(STALL_S, rel=0.35)
    assert run.parts.input_s > 0.9 * STALL_S
    assert run.parts.input_s > 1.5 * (run.parts.communication_s or 0.0)
    named = judge(evidence_of_training(stalled)).verdicts[0]
    assert (named.name, named.remedy) == ("input-bound", "code")


def test_a_slow_link_is_communication(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for attempt in range(6):  # another program on one of the cores makes its rank a straggler, and rightly named
        found = trained(tmp_path / f"mark-{attempt}", monkeypatch, SLOW_S=str(SLOW_S))
        run, named = found.runs[0], judge(evidence_of_training(found)).verdicts[0]
        if named.name != "straggler":
            break
    assert (named.name, named.remedy) == ("communication-bound", "accelerator")
    # The rest of the backward pass hides some of the first bucket's delay; what is hidden is known to a tenth of it.
    assert run.parts.communication_s + (run.hidden_communication_s or 0.0) > 0.9 * SLOW_S
    assert run.parts.communication_s > 0.5 * SLOW_S
    assert run.parts.communication_s > 3 * (run.parts.input_s or 0.0)


def test_sharding_divides_weights_gradients_and_states(stalled: TrainMeasurement) -> None:
    run, parameters = stalled.runs[0], stalled.parameters
    assert stalled.parallel == "FSDP"
    assert run.memory.weights_bytes == pytest.approx(4 * parameters / 2, rel=0.01)
    assert run.memory.gradients_bytes == pytest.approx(4 * parameters / 2, rel=0.01)
    assert run.memory.optimizer_bytes == pytest.approx(8 * parameters / 2, rel=0.01)
    assert run.parts.communication_s


def test_scaling_over_devices_from_the_command_line(scaled: tuple[Path, str]) -> None:
    folder, printed = scaled
    found = json.loads((folder / "m.json").read_text())
    assert found["schema"] == "tonnage.train_measurement/1"
    assert [run["devices"] for run in found["runs"]] == [1, 2]
    first, second = found["runs"]
    rates = [run["samples_per_step"] / run["step_s"] / run["devices"] for run in (first, second)]
    assert second["efficiency"] == pytest.approx(rates[1] / rates[0]) and first["efficiency"] == 1.0
    assert "A step takes" in printed and "efficiency" in printed


def test_a_run_is_ended_at_its_bound(tmp_path: Path) -> None:
    script = tmp_path / "forever.py"
    script.write_text(
        "import torch, time\n"
        "w = torch.nn.Linear(8, 8)\no = torch.optim.SGD(w.parameters(), lr=0.1)\n"
        "while True:\n    w(torch.ones(4, 8)).sum().backward(); o.step(); o.zero_grad(); time.sleep(0.02)\n"
    )
    found = measure_train([sys.executable, str(script)], bounds=Bounds(steps=5, warmup=1))
    assert found.runs[0].steps >= 5 and found.stopped is None
    assert found.runs[0].parts.other_s == pytest.approx(0.02, rel=0.5)


@pytest.mark.parametrize(
    ("command", "devices", "said"),
    [
        (["no-such-program"], (), "cannot be started"),
        (["torchrun", "x.py"], (2,), "starts torchrun itself"),
        (["bash", "x.sh"], (2,), "starts Python scripts"),
        ([], (), "no command"),
    ],
)
def test_what_cannot_be_measured_is_said(command: list[str], devices: tuple[int, ...], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        measure_train(command, devices=devices)


def test_a_command_that_does_not_train_is_said() -> None:
    with pytest.raises(BadFact, match="made no training step"):
        measure_train([sys.executable, "-c", "print(1)"])
