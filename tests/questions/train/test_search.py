"""The search with its functions filled in: quick enough, never cut short by its bounds, plainest software first."""

import time

import pytest
from tests.patience import assert_quick

from tonnage import catalog
from tonnage.domain.case import TrainCase
from tonnage.questions.train.job import Job
from tonnage.questions.train.search import Place, fastest_arrangements, floor, precision_on, templates
from tonnage.simulation.training import step_time

H100 = catalog.accelerator("h100-sxm5-80gb")


def job(batch: int, seq_len: int = 4096) -> Job:
    return Job(
        kind="train",
        case=TrainCase(model="8B", accelerator=""),
        sequences=1e6,
        seq_len=seq_len,
        global_batch=batch,
    )


@pytest.mark.parametrize(
    ("model", "count", "batch", "seq_len", "limit_s"),
    [("meta-llama/Meta-Llama-3.1-405B", 16384, 2048, 8192, 5.0), ("meta-llama/Meta-Llama-3.1-70B", 64, 256, 4096, 0.5)],
)
def test_large_jobs_are_arranged_in_time(model: str, count: int, batch: int, seq_len: int, limit_s: float) -> None:
    nouns = catalog.model(model), Place(accelerator=H100, count=count, per_node=8)
    start = time.process_time()
    found = fastest_arrangements(*nouns, job=job(batch, seq_len))
    assert_quick(time.process_time() - start, limit_s)
    layout = found.best[0].setup.layout
    assert layout.ranks == count and layout.tp <= 8


@pytest.mark.parametrize("model", ["meta-llama/Meta-Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1"])
def test_bounds_never_cut_off_the_best(model: str) -> None:
    noun = catalog.model(model)
    place = Place(accelerator=H100, count=16, per_node=8)
    few = fastest_arrangements(noun, place, job=job(64), keep=1)
    many = fastest_arrangements(noun, place, job=job(64), keep=200)
    assert few.best[0].step_s <= many.best[0].step_s * 1.005


def test_no_arrangement_is_faster_than_the_floor() -> None:
    model = catalog.model("meta-llama/Meta-Llama-3.1-8B")
    place = Place(accelerator=H100, count=64, per_node=8)
    kinds = templates(model, place, job=job(256))
    least = floor(kinds).least * 256 / 64
    for arrangement in fastest_arrangements(model, place, job=job(256), keep=50).best:
        assert arrangement.step_s >= least
        assert step_time(arrangement.setup).value == arrangement.step_s


def test_volta_and_turing_train_in_fp16() -> None:
    assert precision_on(catalog.accelerator("v100-sxm2-16gb"), "bf16") == "fp16"
    assert precision_on(H100, "bf16") == "bf16"


def test_fine_tuning_stays_with_plain_scripts_while_they_fit() -> None:
    model = catalog.model("meta-llama/Llama-2-13b-hf")
    full = Job(
        kind="finetune",
        case=TrainCase(model=model.id, accelerator="", method="full"),
        sequences=1e4,
        seq_len=2048,
        global_batch=32,
    )
    found = fastest_arrangements(model, Place(accelerator=H100, count=8, per_node=8), job=full)
    assert found.best[0].setup.software.name == "eager"
