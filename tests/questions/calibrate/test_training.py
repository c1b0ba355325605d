"""A measured step moves what is near it, of its own model alone, and an impossible one is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.command import answered, told

import tonnage
from tonnage.errors import BadRequest

EXACT = {"weights", "frozen weights", "master weights", "optimizer"}
MODEL, ROW = "llama-3.1-8b", "step 4.2 s at batch 16 seq 8192 on 8 H100"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A calibration from one pasted row."""
    path = tmp_path_factory.mktemp("own") / "own.toml"
    found = tonnage.calibrate(points=(ROW,), model=MODEL, engine="torchtitan", machine="a rack", save=str(path))
    assert found.after < 0.05 < found.before and found.calibration.engine == "fsdp-training"
    return str(path)


def predicted(*files: str, **changes: object) -> Any:
    """The step of such a run as the command answers it, with calibrations."""
    case = {"kind": "train", "model": MODEL, "accelerator": "H100", "count": 8, "framework": "torchtitan"}
    own = [word for file in files for word in ("--calibration", file)]
    given = json.dumps(case | {"global_batch": 16, "seq_len": 8192} | changes)
    return json.loads(told("predict", "--json", *own, given=given).stdout)


def test_the_measured_run_is_met_and_a_larger_one_moved_and_less_sure(file: str) -> None:
    plain, own = predicted()["step_s"], predicted(file)
    step = own["step_s"]
    assert step["value"] == pytest.approx(4.2, rel=0.05) and step["value"] > 1.5 * plain["value"]
    (use,) = own["calibrations"]
    assert use["training"] and use["machine"] == "a rack" and use["engine"] == "fsdp" and use["points"] == 1
    assert step["value"] / plain["value"] == pytest.approx(use["moved"][0]["factor"])
    larger = {"count": 64, "global_batch": 128}
    far, before = predicted(file, **larger)["step_s"], predicted(**larger)["step_s"]
    assert 1.2 * before["value"] < far["value"]
    assert step["high"] / step["value"] < far["high"] / far["value"]
    assert own["tokens_per_s_per_accelerator"]["value"] == pytest.approx(16 * 8192 / 8 / step["value"])


def test_another_model_learns_nothing_and_none_leaves_it_out(file: str) -> None:
    other = {"model": "Qwen/Qwen3-8B"}
    assert predicted(file, **other)["step_s"] == predicted(**other)["step_s"]
    assert predicted(file, "none")["step_s"] == predicted()["step_s"]


def test_a_measured_peak_moves_what_is_no_weight_or_state(tmp_path: Path) -> None:
    path, row = str(tmp_path / "own.toml"), "step 4.2 s, peak 50 GB at batch 16 seq 8192 on 8 H100"
    found = tonnage.calibrate(points=(row,), model=MODEL, engine="torchtitan", machine="a rack", save=path)
    assert {one.quantity: one.part > 0.5 for one in found.calibration.learnt} == {
        "step_s": False,
        "memory_peak_bytes": True,
    }
    answer, before = predicted(path), predicted()
    told_moved = {one["quantity"]: one["factor"] for one in answer["calibrations"][0]["moved"]}
    own, plain = answer["memory_peak_bytes"], before["memory_peak_bytes"]
    parts = {part["name"]: part["value"] for part in own["parts"]}
    for part in plain["parts"]:
        moved = parts[part["name"]] / part["value"] if part["value"] else 1.0
        assert moved == pytest.approx(1.0) if part["name"] in EXACT else moved < 0.97
        if part["value"] and part["name"] not in EXACT:
            assert moved == pytest.approx(told_moved["memory_beside_states_bytes"])
    assert told_moved.keys() == {"step_s", "memory_beside_states_bytes"}
    assert own["value"] == pytest.approx(sum(parts.values())) and own["value"] < 0.97 * plain["value"]
    exact = sum(value for name, value in parts.items() if name in EXACT)
    assert exact <= own["low"] < own["high"] < plain["high"]
    other = [predicted(*files, model="Qwen/Qwen3-8B")["memory_peak_bytes"] for files in ((path,), ())]
    assert other[0] == other[1]


def test_a_plan_takes_it_and_says_so(file: str) -> None:
    asked = ("plan", "train", MODEL, "--tokens", "10B", "-a", "H100", "--framework", "torchtitan", "--count", 8)
    plain, own = answered(*asked), answered(*asked, "--calibration", file)
    walls = [plan["options"][0]["run"]["wall_s"]["value"] for plan in (plain, own)]
    assert walls[1] > 1.2 * walls[0]
    (use,) = own["calibrations"]
    assert use["training"] and use["model"] == own["model"]["id"] and not plain.get("calibrations")


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


def test_rows_of_training_and_of_serving_are_told_apart() -> None:
    asked = {"model": MODEL, "engine": "torchtitan"}
    with pytest.raises(BadRequest, match="one at a time"):
        tonnage.calibrate(points=(ROW, "TPOT 21 ms at 32 clients"), **asked)
    with pytest.raises(BadRequest, match="--option 'batchsize=8'"):
        tonnage.calibrate(points=(ROW,), **asked, options={"batchsize": 8})
    same = ("step time 4.2 s with batch 16 on 8 GPUs, seq 8192", "step 4200 ms at batch 16 seq 8192 on 8 H100")
    found = [tonnage.calibrate(points=(row,), accelerator="H100", **asked) for row in (ROW, *same)]
    assert len({(one.before, one.after) for one in found}) == 1
