"""One placement whoever asks: plans and cases see the same bandwidth, and no more than multiprocessors can ask for."""

from __future__ import annotations

import pytest

from tonnage import catalog
from tonnage.catalog.hub import resolve
from tonnage.engine.overheads import Overheads, ahead
from tonnage.nouns.case import ServeCase, Traffic
from tonnage.nouns.layout import Engine, Layout
from tonnage.nouns.plan import Configuration
from tonnage.physics.memory import checkpoint_precision
from tonnage.planner.placement import overheads_on, place, reachable
from tonnage.planner.predict.predict import predict
from tonnage.planner.serve.setup import setup

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize("accelerator", ["H20", "H100", "H200", "L40S", "B200"])
def test_plans_and_cases_place_alike(accelerator: str) -> None:
    part, model = catalog.accelerator(accelerator), resolve(MODEL)
    configuration = Configuration(
        accelerator=part.id, layout=Layout(), precision=checkpoint_precision(model), engine=Engine(name="vllm")
    )
    planned = place(model, part, configuration=configuration).accelerator
    case = ServeCase(model=MODEL, accelerator=accelerator, traffic=Traffic(concurrency=1), isl=128, osl=128)
    assert planned == setup(case).placement.accelerator


@pytest.mark.parametrize("engine", ["vllm", "llamacpp", "hf", "tensorrt"])
def test_a_plan_and_a_case_take_the_same_kernels(engine: str) -> None:
    part, model = catalog.accelerator("H100"), resolve(MODEL)
    configuration = Configuration(
        accelerator=part.id, layout=Layout(), precision=checkpoint_precision(model), engine=Engine(name=engine)
    )
    planned = place(model, part, configuration=configuration).ladder
    case = ServeCase(model=MODEL, accelerator="H100", traffic=Traffic(concurrency=1), isl=128, osl=128, engine=engine)
    assert planned.family == setup(case).placement.ladder.family


def test_layers_spread_over_devices_run_at_the_speed_of_one() -> None:
    part, model = catalog.accelerator("RTX 4090"), resolve(MODEL)

    def layout(engine: str) -> Layout:
        spread = Configuration(
            accelerator=part.id, layout=Layout(pp=2), precision=checkpoint_precision(model), engine=Engine(name=engine)
        )
        return place(model, part, configuration=spread).layout

    assert layout("llamacpp") == Layout() and layout("vllm") == Layout(pp=2)


def test_few_multiprocessors_cannot_ask_for_all_of_a_fast_memory() -> None:
    part = catalog.accelerator("H20")
    assert reachable(part, 78, reach=0.0).memory_bytes_per_s == pytest.approx(78 * 36.4e9)
    assert reachable(part, 78, reach=0.0).memory_bytes_per_s < 0.75 * part.memory_bytes_per_s
    other = catalog.accelerator("L40S")
    assert reachable(other, 142, reach=0.0) is other
    assert reachable(other, None, reach=1e9) is other
    assert reachable(other, 142, reach=5e9).memory_bytes_per_s < 0.5 * other.memory_bytes_per_s


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp"])
@pytest.mark.parametrize("name", ["H100", "B200", "MI300X", "RTX 4090"])
def test_a_plan_takes_the_overheads_that_a_prediction_takes(engine: str, name: str) -> None:
    part = catalog.accelerator(name)
    case = ServeCase(model=MODEL, accelerator=part.id, traffic=Traffic(concurrency=4), isl=512, osl=64,
                     engine=engine)  # fmt: skip
    assert overheads_on(part, engine) == setup(case).overheads


def test_scheduling_ahead_hides_the_host_and_never_slows() -> None:
    def step_s(ahead: bool) -> float:
        case = ServeCase(model=MODEL, accelerator="H100", traffic=Traffic(concurrency=64), isl=512, osl=64,
                         engine="vllm", engine_options={"async_scheduling": ahead})  # fmt: skip
        found = predict(case)
        assert found.tpot_s is not None
        return found.tpot_s.mean

    assert step_s(True) < step_s(False)
    known = Overheads(step_s=2e-3, sequence_s=1e-5, overlapped=0.75)
    assert ahead(known, None).step_s == ahead(known, False).step_s == known.step_s
    hidden = ahead(known, True)
    assert hidden.step_s + hidden.hidden_s == pytest.approx(known.step_s)
    assert ahead(hidden, True) == hidden, "once settled it stays"
