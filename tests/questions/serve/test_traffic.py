"""Below serving: prompts that wait beside running decodes, adapters, beams and drafts on a replica."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tonnage.core.deployment import Deployment, resolve
from tonnage.core.replica import Replica, concurrency_limit, replica_of, steady_grid
from tonnage.core.serving_traffic import grid_of, under_load, with_prompt_wait
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Engine
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.groups import Adapters
from tonnage.errors import BadRequest, UnknownName
from tonnage.simulation.adapters import busiest_share, merged_replicas, most_sequences
from tonnage.simulation.simulated import Served, step_arrays
from tonnage.simulation.steps import StepTable, step_table

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
    hosts = (msgspec.structs.replace(at.overheads, sequence_s=each) for each in (0.0, 1e-4))
    idle, busy = (
        under_load(msgspec.structs.replace(at, overheads=host), step_table(grid_of(at), host))[0] for host in hosts
    )
    assert (busy.requests_per_s == idle.requests_per_s) is (engine == "trtllm")


def clients(engine: str, **options: object) -> Served:
    case = ServeCase(
        model="llama-3.1-8b",
        accelerator="h200-sxm-141gb",
        engine=engine,
        isl=4000,
        osl=500,
        traffic=Traffic(concurrency=64, start="together"),
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


def test_beams_share_the_prompt_and_hold_an_answer_each() -> None:
    asked = {"model": "llama-3.1-8b", "accelerator": "h100-sxm5-80gb", "isl": 1024, "osl": 256, "engine": "trtllm"}
    at = [resolve(ServeCase(**asked, traffic=Traffic(saturated=True), beams=beams)) for beams in (1, 4)]
    lengths = Lengths(prompt_tokens=20_000.0, output_tokens=2_000.0)
    alone, four = (concurrency_limit(one, lengths) for one in at)
    assert four / alone == pytest.approx((20_000 + 2_000) / (20_000 + 8_000), rel=1e-6)


def replica(adapters: Adapters | None, model: str = "llama-3.1-8b", part: str = "h100-sxm") -> Replica:
    case = ServeCase(
        model=model,
        accelerator=part,
        traffic=Traffic(rate_per_s=1.0),
        isl=512,
        osl=256,
        engine_options={} if adapters is None else {"adapters": adapters},
    )
    return replica_of(resolve(case), Lengths(prompt_tokens=512, output_tokens=256))


def test_merged_adapters_are_the_base() -> None:
    one, none = replica(Adapters(count=4, rank=8, slots=0)), replica(None)
    assert one.times == none.times and one.kv_tokens == none.kv_tokens


@pytest.mark.parametrize("slots", ["all", 8])
@pytest.mark.parametrize("change", [{"count": 128}, {"rank": 64}, {"skew": 0.0}])
def test_more_adapters_higher_rank_and_less_skew_are_never_faster(slots: Any, change: dict[str, Any]) -> None:
    base = Adapters(count=64, rank=16, skew=1.0, slots=64 if slots == "all" else 8)
    worse = msgspec.structs.replace(base, **change)
    worse = msgspec.structs.replace(worse, slots=worse.count if slots == "all" else 8)
    good, bad = replica(base), replica(worse)
    assert bad.kv_tokens <= good.kv_tokens * 1.02  # fewer sequences leave a little more room for the cache
    assert bad.times.prefill_s >= good.times.prefill_s
    steps = [dict(zip(one.times.batches, one.times.decode_s, strict=True)) for one in (good, bad)]
    shared = [size for size in steps[0] if size in steps[1] and size < 0.75 * bad.times.batches[-1]]
    assert len(shared) > 2 and all(steps[1][size] >= steps[0][size] for size in shared)
    assert bad.max_num_seqs <= good.max_num_seqs


def test_punica_adds_about_two_milliseconds_a_token() -> None:
    # arXiv 2310.18547, abstract: 2 ms a token, for batches of 32 on A100, rank 16, every request another adapter.
    for model in ("llama-2-7b", "llama-2-13b"):
        own = replica(Adapters(count=1000, rank=16, slots=32), model, "a100-sxm-80gb").times
        base = replica(None, model, "a100-sxm-80gb").times
        added = own.decode_s[own.batches.index(16.0)] - base.decode_s[base.batches.index(16.0)]
        assert 1e-3 < added < 4e-3


def test_replica_sets_of_merged_adapters_share_nothing() -> None:
    four = Adapters(count=4, rank=8)
    assert merged_replicas(four, needed=0.5, spare=0, zones=1) == 4
    assert merged_replicas(four, needed=0.5, spare=1, zones=1) == 8
    assert merged_replicas(Adapters(count=2, rank=8, skew=1.0), needed=3.0, spare=0, zones=1) == 3
    assert busiest_share(Adapters(count=2, rank=8, skew=1.0), 3.0, replicas=3, spare=0, zones=1) == pytest.approx(1.0)
    assert busiest_share(four, 8.0, replicas=4, spare=0, zones=1) == pytest.approx(2.0)
    assert most_sequences(Adapters(count=64, rank=8, slots=8)) >= 8
    assert most_sequences(Adapters(count=64, rank=8, slots=8, skew=1.5)) > most_sequences(
        Adapters(count=64, rank=8, slots=8)
    )


LLAMA = "meta-llama/Meta-Llama-3.1-8B"
DRAFT = "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3"


def settled(accelerator: str = "H100-SXM", **options: Any) -> Deployment:
    engine_options = options
    return resolve(
        ServeCase(
            model=LLAMA,
            accelerator=accelerator,
            traffic=Traffic(concurrency=1.0),
            isl=1000.0,
            osl=300.0,
            engine="vllm",
            engine_options=engine_options,
        )
    )


def table_of(at: Deployment) -> StepTable:
    return step_table(steady_grid(at, Lengths(prompt_tokens=1000.0, output_tokens=300.0)), at.overheads)


def test_a_draft_takes_memory_for_its_weights_and_for_every_token() -> None:
    plain, drafting = settled(), settled(draft_model=DRAFT, speculative_tokens=3)
    parts = {part.name: part.value for part in drafting.pool.memory.parts}
    assert parts["weights: draft"] == pytest.approx(2 * 0.425e9, rel=0.01)
    assert plain.pool.bytes - drafting.pool.bytes == pytest.approx(parts["weights: draft"], rel=0.01)
    # One layer keeps what each of the target's 32 does.
    each = [at.pool.bytes / at.pool.tokens for at in (plain, drafting)]
    assert each[1] / each[0] == pytest.approx(33 / 32, rel=1e-3)


def test_published_acceptance_fills_what_a_case_leaves_out() -> None:
    kept = settled(draft_model=DRAFT, speculative_tokens=3).engine.speculative_acceptance
    assert kept == pytest.approx(0.648, abs=0.01)
    stated = settled(draft_model=DRAFT, speculative_tokens=3, speculative_acceptance=0.5)
    assert stated.engine.speculative_acceptance == 0.5
    with pytest.raises(BadRequest, match="needs speculative_acceptance"):
        settled(draft_model="yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", speculative_tokens=9)
    with pytest.raises(UnknownName):
        settled(draft_model="yuhuili/EAGLE3", speculative_tokens=3)
    with pytest.raises(BadRequest, match="width 8,192"):
        settled(draft_model="RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3", speculative_tokens=3)


def test_drafts_gain_alone_and_lose_where_verified_tokens_are_computed() -> None:
    plain, drafting = settled("RTX-3090"), settled("RTX-3090", draft_model=DRAFT, speculative_tokens=3)
    without, with_drafts = table_of(plain), table_of(drafting)
    gains = [without.decode_s(n, 1150.0) / with_drafts.decode_s(n, 1150.0) for n in (1, 8, 64, 256)]
    assert gains == sorted(gains, reverse=True) and gains[0] > 1.3 and gains[-1] < 1.0


def test_each_token_more_is_a_pass_more_and_the_simulation_counts_the_same() -> None:
    tables = [
        table_of(settled(draft_model=DRAFT, speculative_tokens=k, speculative_acceptance=0.6)) for k in (1, 2, 3, 4)
    ]
    spent = [one.drafts_s(8) for one in tables]
    further = [later - before for before, later in pairwise(spent[1:])]
    assert all(one > 0.0 for one in further) and further[1] == pytest.approx(further[0], rel=0.1)
    table = tables[2]
    arrays = step_arrays(table, max_num_seqs=64, budget=2048)
    cycle = table.decode_s(16, 500.0) * table.speculation.gained
    o = table.overheads
    host = o.step_s + o.sequence_s * 16
    assert arrays.decode_s[16] + arrays.context_s[16] * 16 * 500.0 + host == pytest.approx(cycle, rel=1e-3)
