"""A measured step moves what is near it, of its own model alone, and an impossible one is refused."""

from pathlib import Path

import pytest

import tonnage
from tonnage.catalog import Additions, gather
from tonnage.core.train_estimate import exact_bytes
from tonnage.domain.case import TrainResult
from tonnage.errors import BadRequest
from tonnage.measure.points import is_training_row, read_pasted_training, read_training
from tonnage.physics.training_memory import EXACT

MODEL, ROW = "llama-3.1-8b", "step 4.2 s at batch 16 seq 8192 on 8 H100"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A calibration from one pasted row."""
    path = tmp_path_factory.mktemp("own") / "own.toml"
    found = tonnage.calibrate(points=(ROW,), model=MODEL, engine="torchtitan", machine="a rack", save=str(path))
    assert found.after < 0.05 < found.before and found.calibration.engine == "fsdp-training"
    return str(path)


def predicted(file: str | None = None, **changes: object) -> TrainResult:
    """The step of such a run."""
    case = {"kind": "train", "model": MODEL, "accelerator": "H100", "count": 8, "framework": "torchtitan"}
    own = None if file is None else Additions(paths=(file,))
    return tonnage.predict(case | {"global_batch": 16, "seq_len": 8192} | changes, additions=own)


def test_the_measured_run_is_met_and_a_larger_one_moved_and_less_sure(file: str) -> None:
    plain, own = predicted(), predicted(file)
    assert own.step_s.value == pytest.approx(4.2, rel=0.05) and own.step_s.value > 1.5 * plain.step_s.value
    (use,) = own.calibrations
    assert use.training and use.machine == "a rack" and use.engine == "fsdp" and use.points == 1
    assert own.step_s.value / plain.step_s.value == pytest.approx(use.moved[0].factor)
    larger = {"count": 64, "global_batch": 128}
    far, before = predicted(file, **larger), predicted(**larger)
    assert 1.2 * before.step_s.value < far.step_s.value
    assert own.step_s.high / own.step_s.value < far.step_s.high / far.step_s.value
    assert own.tokens_per_s_per_accelerator.value == pytest.approx(16 * 8192 / 8 / own.step_s.value)


def test_another_model_learns_nothing_and_none_leaves_it_out(file: str) -> None:
    assert predicted(file, model="Qwen/Qwen3-8B").step_s == predicted(model="Qwen/Qwen3-8B").step_s
    case = {"kind": "train", "model": MODEL, "accelerator": "H100", "count": 8, "framework": "torchtitan"}
    left_out = tonnage.predict(case | {"global_batch": 16, "seq_len": 8192}, additions=gather(paths=(file, "none")))
    assert left_out.step_s == predicted().step_s


def test_a_measured_peak_moves_what_is_no_weight_or_state(tmp_path: Path) -> None:
    path, row = tmp_path / "own.toml", "step 4.2 s, peak 50 GB at batch 16 seq 8192 on 8 H100"
    found = tonnage.calibrate(points=(row,), model=MODEL, engine="torchtitan", machine="a rack", save=str(path))
    assert {one.quantity: one.part > 0.5 for one in found.calibration.learnt} == {
        "step_s": False,
        "memory_peak_bytes": True,
    }
    own, plain = predicted(str(path)).memory_peak_bytes, predicted().memory_peak_bytes
    assert own is not None and plain is not None
    for part in plain.parts:
        moved = own.part(part.name) / part.value if part.value else 1.0
        assert moved == pytest.approx(1.0) if part.name in EXACT else moved < 0.97
    assert own.value == pytest.approx(sum(part.value for part in own.parts)) and own.value < 0.97 * plain.value
    assert exact_bytes(own) <= own.low < own.high < plain.high
    other = [predicted(file, model="Qwen/Qwen3-8B").memory_peak_bytes for file in (str(path), None)]
    assert other[0] == other[1]


def test_a_plan_takes_it_and_says_so(file: str) -> None:
    fields = {"tokens": "10e9", "accelerator": ["H100"], "framework": "torchtitan", "count": 8}
    plain, own = (tonnage.plan_train(MODEL, additions=x, **fields) for x in (None, Additions(paths=(file,))))
    assert own.options[0].run.wall_s.value > 1.2 * plain.options[0].run.wall_s.value
    (use,) = own.calibrations
    assert use.training and use.model == own.model["id"] and not plain.calibrations


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("step 0.2 s at batch 16 seq 8192 on 8 H100", "contradicts H100 SXM5 80GB: the model's FLOP alone take"),
        ("step 3 s at batch 16 seq 8192 frob on 8 H100", "'frob' is not understood"),
        ("step 3 s, peak 610 GB at batch 16 seq 8192 on 8 H100", "a peak of 610 GB contradicts H100"),
        ("step 3 s, peak 6.1 GB at batch 16 seq 8192 on 8 H100", "a peak of 6.1 GB contradicts the settings"),
        ("step 3 s seq 8192 on 8 H100", "the batch of a step is missing"),
        ("step 3 s at batch 16 seq 8192", "the number of accelerators is missing"),
    ],
)
def test_a_row_that_cannot_be_is_refused(row: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        tonnage.calibrate(points=(row,), model=MODEL, engine="torchtitan")


def test_rows_of_training_and_of_serving_are_told_apart(tmp_path: Path) -> None:
    assert is_training_row(ROW) and not is_training_row("TPOT 21 ms at 32 clients")
    assert read_training((), ("TPOT 21 ms at 32 clients",)) is None
    with pytest.raises(BadRequest, match="one at a time"):
        read_training((), (ROW, "TPOT 21 ms at 32 clients"))
    run = read_pasted_training("step time 850 ms with batch 64 on 4 GPUs").runs[0]
    assert (run.step_s, run.devices, run.samples_per_step, run.tokens_per_step) == (0.85, 4, 64.0, None)
    with pytest.raises(BadRequest, match="--option 'batchsize=8'"):
        tonnage.calibrate(points=(ROW,), model=MODEL, engine="torchtitan", options={"batchsize": 8})
