"""The closed form that plans use, against the request-level simulator on the same step times."""

import msgspec
import pytest

import tonnage
from tonnage.core.error_model import ErrorModel
from tonnage.core.replica import with_queueing
from tonnage.core.serving_traffic import open_load
from tonnage.domain.case import ServeCase
from tonnage.questions.predict.predict import predict
from tonnage.questions.predict.serving import Additions, resolve
from tonnage.simulation.capacity import ReplicaLoad, ReplicaTimes, Steady, mean_step

STACKS = {
    "short prompts, launches of TensorRT-LLM": ("meta-llama/Llama-2-70b-hf", "h200-sxm-141gb", "trtllm", 2, 220, 290),
    "prompts that ride for free, vLLM": ("meta-llama/Llama-3.1-8B-Instruct", "h100-sxm5-80gb", "vllm", 1, 1000, 300),
    "steps of prompts alone, SGLang": ("meta-llama/Llama-3.1-70B-Instruct", "h100-sxm5-80gb", "sglang", 4, 1000, 200),
}


@pytest.mark.parametrize("name", STACKS)
def test_latencies_at_half_of_capacity_are_those_of_the_simulator(name: str) -> None:
    model, accelerator, engine, tp, prompt, output = STACKS[name]
    asked = {"model": model, "accelerator": accelerator, "engine": engine, "layout": {"tp": tp}}
    state = opened({**asked, "isl": prompt, "osl": output, "traffic": {"rate_per_s": 1.0}})
    rate = 0.5 * state.at(state.most).rate_per_s
    point, _ = state.at_rate(rate)
    lengths = {"prompt_tokens": prompt, "output_tokens": output, "length_spread": [1.0, 1.0]}
    seen = tonnage.simulate(
        **asked, traffic={**lengths, "rate": f"{rate:.6f}/s", "requests": 2000, "process": "poisson"}
    )
    assert point.ttft_mean_s == pytest.approx(seen.ttft_s.mean, rel=0.15)
    assert point.tpot_mean_s == pytest.approx(seen.tpot_s.mean, rel=0.2)


def test_prompts_of_a_step_share_what_one_alone_takes() -> None:
    """Few prompts cost what one costs at least; what a small decode step leaves over is free until decodes use it."""
    times = ReplicaTimes(
        batches=(1.0, 256.0),
        decode_s=(0.01, 0.01),
        prefill_s=0.03,
        prefill_tail_s=0.03,
        prefill_work_s=0.01,
        prefill_first_s=0.02,
    )
    load = ReplicaLoad(output_tokens=101, output_tail_tokens=101)
    few, many = (mean_step(times, load, concurrency=n) for n in (1.0, 1000.0))
    assert few.total_s - few.decode_s == pytest.approx(0.01 * 0.02, rel=0.02)
    assert (many.total_s - many.decode_s) / 10.0 == pytest.approx(0.01, rel=0.01)
    free = msgspec.structs.replace(times, prefill_first_s=0.0, free_s=0.008, free_batch=100.0)
    idle, busy = (mean_step(free, load, concurrency=n) for n in (1.0, 100.0))
    assert (idle.total_s - idle.decode_s) / 0.01 == pytest.approx(0.002, rel=0.1)
    assert busy.total_s - busy.decode_s == pytest.approx(0.01)


def test_beyond_capacity_a_first_token_has_no_latest_time() -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B-Instruct", "accelerator": "h100-sxm5-80gb", "isl": 1024, "osl": 256}
    calm, over = (predict(msgspec.convert({**asked, "traffic": {"rate_per_s": r}}, ServeCase)) for r in (3.0, 300.0))
    assert calm.ttft_s.high < 1.0 and not any("without end" in note for note in calm.notes)
    assert over.saturated and over.ttft_s.high == float("inf") > over.tpot_s.high
    assert any("300 requests/s arrive" in note and "without end" in note for note in over.notes)
    state = opened({**asked, "traffic": {"rate_per_s": 3.0}})
    errors = ErrorModel(kind="serve", level="known-host:steady:dense:calibrated:vllm")
    near = with_queueing(errors, state, rate_per_s=0.9 * state.at(state.most).rate_per_s).queueing
    assert near["tpot_s"][1] < near["ttft_s"][1] < float("inf"), "overload is possible there, not predicted"


def opened(case: dict[str, object]) -> Steady:
    return open_load(resolve(msgspec.convert(case, ServeCase), additions=Additions()))
