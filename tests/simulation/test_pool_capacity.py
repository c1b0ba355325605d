"""Units of prefill and decode workers in the steady state: load grows latency, both sides bind, simulations agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.kept_replicas import build_replica
from tonnage.core.replica import state_of
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import Configuration
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import Slo
from tonnage.questions.serve.capacity_search import arrays_of, draw_requests, front_requests, point_of, unit_player
from tonnage.questions.serve.question import serve_request
from tonnage.simulation.arrivals import at_rate
from tonnage.simulation.capacity import Steady
from tonnage.simulation.disaggregated import Unit
from tonnage.simulation.mean_step import ReplicaLoad, ReplicaTimes

TIMES = ReplicaTimes(
    batches=(1.0, 8.0, 64.0, 256.0),
    decode_s=(0.008, 0.0085, 0.012, 0.025),
    prefill_s=0.05,
    prefill_tail_s=0.12,
    prefill_work_s=0.03,
    step_share=0.2,
)
LOAD = ReplicaLoad(output_tokens=211, output_tail_tokens=451, max_concurrency=200.0)


def unit(prefill: int = 1, decode: int = 1, **limits: float) -> Steady:
    workers = Unit(prefill=prefill, decode=decode, transfer_s=0.002)
    return Steady(TIMES, replace(LOAD, slo=Slo(**limits)), workers)


@given(st.floats(0.05, 100.0), st.floats(1.0, 2.0))
def test_more_load_never_shortens_a_latency(concurrency: float, more: float) -> None:
    one = unit()
    low, high = one.at(min(concurrency, one.most)), one.at(min(concurrency * more, one.most))
    for name in ("rate_per_s", "ttft_mean_s", "ttft_tail_s", "tpot_mean_s", "tpot_tail_s", "e2e_tail_s"):
        assert getattr(high, name) >= getattr(low, name) * (1.0 - 1e-9), name


@pytest.mark.parametrize(("workers", "grows"), [((1, 3), False), ((2, 1), True)])
def test_either_side_may_be_what_is_short(workers: tuple[int, int], grows: bool) -> None:
    """Beyond what the prefill workers take, more decode workers carry nothing; the same the other way round."""
    one = unit(*workers)
    more = unit(workers[0], workers[1] + 1)
    assert (more.at(more.most).rate_per_s > 1.02 * one.at(one.most).rate_per_s) is grows


def test_prompts_do_not_lengthen_the_steps_of_answers() -> None:
    at = unit().at(8.0)
    assert at.tpot_mean_s == pytest.approx(0.0085)


def test_the_largest_load_meets_the_objectives_and_a_little_more_does_not() -> None:
    one = unit(3, 1, ttft_s=0.5, tpot_s=0.011)
    best, binds = one.largest()
    assert binds == "tpot"
    assert best.tpot_tail_s <= 0.011 < one.at(best.concurrency * 1.02).tpot_tail_s
    assert unit(ttft_s=0.03).largest() == (None, "ttft")


@pytest.mark.parametrize(("model", "part", "layout", "traffic"), [
    ("meta-llama/Llama-3.1-70B-Instruct", "H200", Layout(tp=4), "summarise"),
    ("meta-llama/Llama-3.1-8B-Instruct", "H100", Layout(), "chat"),
])  # fmt: skip
def test_the_simulator_says_nearly_the_same(model: str, part: str, layout: Layout, traffic: str) -> None:
    request = serve_request({"model": model, "rate": "1/s", "traffic": traffic, "ttft": "2 s", "accelerator": part})
    accelerator = catalog.accelerator(part)
    configuration = Configuration(
        accelerator=accelerator.id,
        layout=layout,
        precision=Precision(weights="fp8", activations="fp8"),
        engine=Engine(name="vllm"),
    )
    replica = build_replica(
        model=resolve(model), accelerator=accelerator, configuration=configuration, lengths=request.lengths
    )
    assert replica.times is not None
    few = front_requests(request, draw_requests(request), concurrency=50, close=False)
    arrays = arrays_of(request, replica, requests=few)
    ratios = []
    for workers in ((1, 1), (3, 1)):
        both = Unit(*workers, transfer_s=0.0)
        made = state_of(request, replica, unit=both)
        for share in (0.3, 0.6):
            rate = share * made.at(made.most).rate_per_s
            said, over = made.at_rate(rate)
            play = unit_player(both, replica, arrays=arrays)
            run = play(few._replace(sent_s=at_rate(few.sent_s, rate)))
            seen = point_of(run, rate=rate, percentile=95.0)
            assert not over
            ratios.append((said.ttft_mean_s / seen.ttft_mean_s, said.tpot_mean_s / seen.tpot_mean_s))
    ttft, tpot = np.array(ratios).T
    assert np.all((ttft > 0.5) & (ttft < 2.0)), ttft
    assert np.all((tpot > 0.8) & (tpot < 1.2)), tpot
