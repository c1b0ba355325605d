"""Settings that make prompts wait beside running decodes."""

import msgspec
import pytest

from tonnage.core.deployment import resolve
from tonnage.core.serving_traffic import grid_of, under_load, with_prompt_wait
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Engine
from tonnage.simulation.simulated import Served
from tonnage.simulation.steps import step_table

STEP = 0.02
FOUND = Served(ttft_s=0.1, tpot_s=STEP, e2e_s=20.1, requests_per_s=0.2, running=4.0)


def test_an_interval_of_looks_costs_half_of_itself() -> None:
    later = with_prompt_wait(FOUND, Engine(name="sglang", receive_interval=30))
    assert later.ttft_s == pytest.approx(0.1 + 15 * STEP)
    assert later.tpot_s == STEP
    # Clients in a closed loop: the same number of them are on a longer way.
    assert later.requests_per_s * later.e2e_s == pytest.approx(FOUND.requests_per_s * FOUND.e2e_s)


def test_who_waits_for_company_alone_waits_the_whole_time() -> None:
    # Llama-3.1-70B under TensorRT-LLM with batch_wait_timeout_iters 20, 4 clients of one H200 (measured 2025-10-29):
    # 562 ms beside 176 ms where the setting is off, with steps of 20.1 ms: 19.2 steps.
    alone = with_prompt_wait(FOUND, Engine(name="trtllm", batch_wait_steps=20))
    assert (alone.ttft_s - 0.1) / STEP == pytest.approx(19.2, abs=0.5)
    crowd = Served(ttft_s=0.1, tpot_s=STEP, e2e_s=20.1, requests_per_s=20.0, running=400.0)
    assert (with_prompt_wait(crowd, Engine(name="trtllm", batch_wait_steps=20)).ttft_s - 0.1) / STEP == pytest.approx(
        11, abs=0.5
    )


def test_nobody_waits_without_a_setting() -> None:
    assert with_prompt_wait(FOUND, Engine()) is FOUND


@pytest.mark.parametrize("engine", ["trtllm", "vllm"])
def test_the_host_of_an_offline_run_works_beside_the_accelerator_where_its_scheduler_is_compiled(engine) -> None:
    case = ServeCase(
        model="llama-3.1-8b",
        accelerator="h100-sxm5-80gb",
        engine=engine,
        isl=1000,
        osl=1000,
        length_spread=(1.0, 1.0),
        traffic=Traffic(saturated=True),
    )
    at = resolve(case)
    idle, busy = (
        under_load(at, step_table(grid_of(at), msgspec.structs.replace(at.overheads, sequence_s=each)))[0]
        for each in (0.0, 1e-4)
    )
    assert (busy.requests_per_s == idle.requests_per_s) is (engine == "trtllm")


def clients(engine: str, **options: object) -> Served:
    case = ServeCase(
        model="llama-3.1-8b",
        accelerator="h200-sxm-141gb",
        engine=engine,
        isl=4000,
        osl=500,
        traffic=Traffic(concurrency=64),
        engine_options=options,
    )
    at = resolve(case)
    return under_load(at, step_table(grid_of(at), at.overheads))[0]


def test_clients_of_one_length_drift_apart_where_prompts_share_steps_with_decodes() -> None:
    apart, shared = clients("sglang"), clients("sglang", mixed_chunk=True)
    assert shared.ttft_s < 0.6 * apart.ttft_s
    assert shared.tpot_s > apart.tpot_s
    assert shared.e2e_s == pytest.approx(apart.e2e_s, rel=0.15)


def test_clients_stay_nearer_together_where_prompts_are_not_cut() -> None:
    cut, whole = (clients("trtllm", chunked_prefill=cut, max_num_batched_tokens=6016) for cut in (True, False))
    assert whole.ttft_s > 1.05 * cut.ttft_s
