"""Below a replica: start, classes of lengths, steady state beside the simulator, and what is kept between questions."""

import math
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

import tonnage
from tonnage.catalog.traffic import profile
from tonnage.core import kept_replicas
from tonnage.core.cold_start import STARTS, TIMED_WEIGHT_BYTES, UNKNOWN_PROVISIONING_S, cold_start
from tonnage.core.error_model import ErrorModel
from tonnage.core.length_spread import (
    Beside,
    answer_classes,
    lasting_answer,
    later_tokens,
    long_answer,
    prompt_classes,
    prompt_work,
)
from tonnage.core.replica import with_queueing
from tonnage.core.serving_traffic import open_load
from tonnage.domain.case import ServeCase
from tonnage.domain.requests.common import Lengths
from tonnage.questions.predict.predict import predict
from tonnage.questions.predict.serving import Additions, resolve
from tonnage.report.document import as_json
from tonnage.simulation import arrivals
from tonnage.simulation.capacity import Steady
from tonnage.simulation.mean_step import ReplicaLoad, ReplicaTimes, mean_step


def test_the_published_starts_add_up() -> None:
    cold, cached = (
        cold_start(weight_bytes=TIMED_WEIGHT_BYTES, provider="nobody", start_from=place)
        for place in ("network", "cached")
    )  # type: ignore[arg-type]
    assert cold.total_s - UNKNOWN_PROVISIONING_S == pytest.approx(294.0)
    assert cached.total_s - UNKNOWN_PROVISIONING_S == pytest.approx(82.0)


@pytest.mark.parametrize("place", STARTS)
def test_parts_sum_and_grow_with_the_weights(place: str) -> None:
    small, large = (cold_start(weight_bytes=size, provider="lambda", start_from=place) for size in (8e9, 140e9))  # type: ignore[arg-type]
    for found in (small, large):
        assert sum(part.value for part in found.parts) == pytest.approx(found.total_s)
    assert large.weights_s > small.weights_s and large.warm_up_s == small.warm_up_s


def test_an_engine_without_graphs_captures_none() -> None:
    with_graphs, without = (cold_start(weight_bytes=8e9, provider="lambda", graphs=graphs) for graphs in (True, False))
    assert with_graphs.total_s - without.total_s == pytest.approx(54.0)
    assert "graph capture" not in {part.name for part in without.parts}


NAMES = ("chat", "code", "rag", "long-chat", "summarise", "reasoning", "batch")


@pytest.mark.parametrize("name", NAMES)
def test_classes_are_those_of_the_drawn_lengths(name: str) -> None:
    known = profile(name)
    quantiles = arrivals.Quantiles(*zip(*known.output_quantiles, strict=True), known.lengths.output_tokens)
    drawn = arrivals.draw_lengths(arrivals.random(0), 20_000, quantiles=quantiles).astype(float)
    found = answer_classes(known.lengths)
    assert sum(share for share, _ in found) == pytest.approx(1.0)
    mean = sum(share * tokens for share, tokens in found)
    assert mean == pytest.approx(known.lengths.output_tokens, rel=0.001)
    assert lasting_answer(known.lengths) == pytest.approx(float(np.mean(drawn**2) / np.mean(drawn)), rel=0.1)
    assert sum(share * tokens for share, tokens in later_tokens(known.lengths)) == pytest.approx(mean - 1.0, rel=0.01)


def test_answers_of_sessions_have_their_own_percentile() -> None:
    assert long_answer(profile("agent").lengths) == pytest.approx(493.0, rel=0.1)


def test_equal_lengths_have_no_classes_and_a_percentile_alone_gives_some() -> None:
    plain = Lengths(prompt_tokens=1000.0, output_tokens=200.0)
    assert prompt_classes(plain) == answer_classes(plain) == () and lasting_answer(plain) == 200.0
    wide = Lengths(prompt_tokens=1000.0, output_tokens=200.0, prompt_p95=3000.0)
    found = prompt_classes(wide)
    assert sum(share * tokens for share, tokens, _ in found) == pytest.approx(1000.0, rel=0.01)
    assert max(tokens for _, tokens, _ in found) > 3000.0


def test_long_prompts_take_more_than_their_share() -> None:
    mean = Beside(first_s=0.1, each_s=0.1)
    equal = prompt_work(Lengths(prompt_tokens=4000.0, output_tokens=1.0), mean, alone=0.11, tail=0.11, budget=2000.0)
    assert (equal.each_s, equal.uneven) == (0.1, 0.0) and equal.piece_s == pytest.approx(0.05)
    lengths = Lengths(prompt_tokens=4000.0, output_tokens=1.0, prompt_p95=12000.0)
    straight, steep = (prompt_work(lengths, mean, alone=0.1, tail=tail, budget=1e9) for tail in (0.3, 0.6))
    assert straight.each_s == pytest.approx(0.1, rel=0.01)
    assert steep.each_s > 1.2 * straight.each_s and steep.uneven > straight.uneven > 0.5


QUESTION = {"model": "8B", "rate": "2/s", "traffic": "chat", "ttft": "1 s", "accelerator": "L40S", "quick": True}


@pytest.fixture
def kept() -> Iterator[None]:
    kept_replicas.keep_replicas(64)
    yield
    kept_replicas._BUILD[1:] = []


def answer(**changes: object) -> str:
    return as_json(tonnage.plan_serve(**{**QUESTION, **changes}))


def test_an_edit_of_the_load_builds_nothing_anew_and_answers_the_same(kept: None) -> None:
    first = answer()
    info = kept_replicas._BUILD[-1].cache_info  # type: ignore[attr-defined]
    built = info().misses
    edited = answer(rate="3/s", ttft="2 s")
    assert info().misses == built > 0 and info().hits > 0
    # Other lengths are other replicas.
    longer = answer(prompt_tokens="2000")
    assert info().misses > built
    kept_replicas._BUILD[1:] = []
    assert (first, edited, longer) == (answer(), answer(rate="3/s", ttft="2 s"), answer(prompt_tokens="2000"))


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


def test_prompts_of_a_run_share_what_one_alone_takes() -> None:
    """One prompt costs its launch; those that come while a run lasts are carried by the next and share another."""
    times = ReplicaTimes(
        batches=(1.0, 256.0),
        decode_s=(0.01, 0.01),
        prefill_s=0.12,
        prefill_tail_s=0.12,
        prefill_work_s=0.01,
        first_s=(0.1, 0.1),
        together=((1.0, 0.0, 1.0), (100.0, 0.99, 1.0)),
        step_share=0.01,
    )
    load = ReplicaLoad(output_tokens=101, output_tail_tokens=101)
    few, many = (mean_step(times, load, concurrency=n) for n in (0.1, 200.0))
    assert few.total_s - few.decode_s == pytest.approx(few.rate_per_s * few.total_s * 0.1, rel=0.02)
    # Most steps carry prompts, those that came in the step before.
    prompts = many.rate_per_s * many.total_s
    carrying = (many.total_s - 0.01 - 0.01 * prompts) / 0.09
    run_s = 0.11 + 0.01 * (prompts / carrying - 1.0)
    begins, ends = 1.0 - math.exp(-many.rate_per_s * 0.01), math.exp(-many.rate_per_s * run_s)
    assert carrying == pytest.approx(begins / (begins + ends), rel=0.03)


def test_beyond_capacity_a_first_token_has_no_latest_time() -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B-Instruct", "accelerator": "h100-sxm5-80gb", "isl": 1024, "osl": 256}
    calm, over = (predict(msgspec.convert({**asked, "traffic": {"rate_per_s": r}}, ServeCase)) for r in (3.0, 300.0))
    assert calm.ttft_s.high < 1.0 and not any("without end" in note for note in calm.notes)
    assert over.saturated and over.ttft_s.high == float("inf") > over.tpot_s.high
    assert any("300 requests/s arrive" in note and "without end" in note for note in over.notes)
    state = opened({**asked, "traffic": {"rate_per_s": 3.0}})
    errors = ErrorModel(kind="serve", level="known-host:steady:dense:calibrated:vllm")
    near = with_queueing(errors, state, rate_per_s=0.9 * state.at(state.most).rate_per_s, seen=state.means).queueing
    assert near["tpot_s"][1] < near["ttft_s"][1] < float("inf"), "overload is possible there, not predicted"


def opened(case: dict[str, object]) -> Steady:
    return open_load(resolve(msgspec.convert(case, ServeCase), additions=Additions()))


def test_a_prompt_alone_on_data_parallel_ranks_takes_one_pass() -> None:
    """Ranks share the budget of a step, and one of them reads a whole prompt."""
    asked = {"model": "deepseek-ai/DeepSeek-R1", "accelerator": "h200-sxm-141gb", "layout": {"dp": 8, "ep": 8}}
    case = {**asked, "isl": 8192, "osl": 64, "traffic": {"concurrency": 1}}
    seen = tonnage.simulate(
        **asked, traffic={"prompt_tokens": 8192, "output_tokens": 64, "concurrency": 1, "requests": 4}
    )
    assert predict(msgspec.convert(case, ServeCase)).ttft_s.mean == pytest.approx(seen.ttft_s.mean, rel=0.05)
