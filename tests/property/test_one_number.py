"""
One configuration has one number: plan, predict, simulate, batch and fleet give the same, to the digit where the method
is the same, inside the stated interval where one simulates. Over 10 models x 12 accelerators x 4 engines x loads.
"""

import random
from datetime import date
from typing import Any

import msgspec
import pytest
from tests.sweeps import FULL

from tonnage.catalog import NOTHING
from tonnage.core.deployment import resolve
from tonnage.core.replica import with_queueing
from tonnage.core.serving_traffic import open_load, served_latency
from tonnage.domain.case import Links, ServeCase, ServeResult, Traffic, TrainCase, TrainCaseLayout, TrainResult
from tonnage.domain.plan import Configuration, ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.domain.simulate import Simulation, SimulationTraffic
from tonnage.domain.train_plan import TrainPlan
from tonnage.errors import TonnageError
from tonnage.questions.ask import answer
from tonnage.questions.predict.predict import predict
from tonnage.questions.predict.serving import _errors
from tonnage.questions.serve.option import share_of
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.question import serve_request
from tonnage.questions.simulate.simulate import simulate
from tonnage.simulation.capacity import Point

TODAY = date(2026, 11, 22)
MODELS = (
    "llama-3.1-8b", "llama-3.1-70b", "mistral-7b", "qwen3-32b", "qwen3-30b-a3b", "mixtral-8x7b", "gpt-oss-20b",
    "gpt-oss-120b", "gemma-2-9b", "phi-4",
)  # fmt: skip
ACCELERATORS = (
    "H100", "H200", "B200", "A100 80GB", "L40S", "L4", "A10G", "RTX 4090", "MI300X", "RTX PRO 6000", "H20", "MI325X",
)  # fmt: skip
ENGINES = ("vllm", "sglang", "trtllm", "llamacpp")
LOADS = ((256, 128), (1024, 256), (4096, 512), (512, 1024))
SAMPLE, SIMULATED = (40, 12) if FULL else (20, 6)


def questions(count: int, seed: int) -> list[dict[str, Any]]:
    """A seeded sample of the product: every model, accelerator and engine comes about equally often."""
    draw = random.Random(seed)
    found = []
    for i in range(count):
        prompt, output = LOADS[draw.randrange(len(LOADS))]
        found.append(
            {
                "model": MODELS[i % len(MODELS)],
                "accelerator": ACCELERATORS[draw.randrange(len(ACCELERATORS))],
                "engine": ENGINES[draw.randrange(len(ENGINES))],
                "prompt_tokens": str(prompt),
                "output_tokens": str(output),
                "rate": f"{draw.choice((0.05, 0.5, 3, 20))}/s",
                "quick": True,
            }
        )
    return found


def planned(question: dict[str, Any]) -> tuple[Serve, tuple[ServeOption, ...]]:
    """The request and the options of its plan; none where nothing serves it, or where the engine does not run."""
    try:
        request = serve_request(question)
        return request, plan_serve(request, today=TODAY).options
    except TonnageError:
        return serve_request({**question, "engine": "vllm"}), ()


DRAFT = ("draft_model", "speculative_tokens", "speculative_acceptance")
"""What a plan may add beside layout and formats, and a user would state: the plan names its draft."""
SLOTS = ("max_num_seqs", "max_model_len", "kv_unified")
"""What it chooses where an engine's slots are counted at its start: the exported command has them."""


def case_of(request: Serve, configuration: Configuration, traffic: Traffic) -> ServeCase:
    """The configuration as a user of `tonnage predict` would write it."""
    layered = configuration.engine.name == "llamacpp" and configuration.layout.ranks > 1
    given = msgspec.structs.asdict(configuration.engine)
    named = DRAFT + SLOTS * (configuration.engine.name == "llamacpp")
    return ServeCase(
        model=request.model,
        accelerator=configuration.accelerator,
        traffic=traffic,
        isl=request.lengths.prompt_tokens,
        osl=request.lengths.output_tokens,
        layout=configuration.layout,
        precision=configuration.precision,
        engine=configuration.engine.name,
        engine_options={name: given[name] for name in named if given[name] is not None},
        split_mode="layer" if layered else "tensor",
    )


@pytest.mark.parametrize(
    "question", questions(SAMPLE, seed=1), ids=lambda q: f"{q['model']} {q['accelerator']} {q['engine']}"
)
def test_a_plan_and_a_prediction_give_the_same_numbers(question: dict[str, Any]) -> None:
    request, options = planned(question)
    for option in options[:2]:
        if option.configuration.intra_link is not None:
            continue
        share = share_of(request, option.replicas)
        case = case_of(request, option.configuration, Traffic(rate_per_s=share))
        found = predict(case)
        assert isinstance(found, ServeResult)
        capacity = option.capacity
        assert found.basis == option.basis
        assert found.tpot_s.mean == capacity.tpot_mean_s
        assert found.ttft_s.mean == capacity.ttft_mean_s
        assert found.tpot_s.p95 == capacity.tpot_s.value
        assert found.memory["total_bytes"] == option.memory.value
        # The same errors; a plan states tails, and what a queue makes of those.
        at = resolve(case)
        served, tier = served_latency(at)
        errors = _errors(at, served, at.basis_on(tier))
        tails = with_queueing(errors, open_load(at), rate_per_s=share, seen=Point.tails)
        # A case leaves open what a plan sets (a release, the budget of a step): only what it names widens its interval.
        opened = {name for one in found.assumed for name in one.numbers}
        for name in ("tpot_s", "ttft_s"):
            mine, theirs = getattr(found, name), getattr(capacity, name)
            assert (theirs.low, theirs.high) == pytest.approx(tails.bounds(name, theirs.value), rel=1e-9)
            low, high = errors.bounds(name, mine.mean)
            if name in opened:
                assert mine.low <= low * (1 + 1e-9) and mine.high >= high * (1 - 1e-9)
            else:
                assert (mine.low, mine.high) == pytest.approx((low, high), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "question", questions(SIMULATED, seed=2), ids=lambda q: f"{q['model']} {q['accelerator']} {q['engine']}"
)
def test_a_simulation_lies_within_what_a_plan_states(question: dict[str, Any]) -> None:
    request, options = planned(question)
    for option in options[:1]:
        configuration, share = option.configuration, share_of(request, option.replicas)
        if configuration.intra_link is not None:
            continue
        asked = Simulation(
            model=request.model,
            accelerator=configuration.accelerator,
            layout=configuration.layout,
            precision=configuration.precision,
            engine=configuration.engine.name,
            traffic=SimulationTraffic(
                prompt_tokens=request.lengths.prompt_tokens,
                output_tokens=request.lengths.output_tokens,
                rate_per_s=share,
                num_requests=1500,
                seed=1,
            ),
            capacity=False,
        )
        if configuration.engine.name == "llamacpp" and configuration.layout.ranks > 1:
            continue
        seen = simulate(asked)
        assert seen.basis.value == option.basis
        tpot = option.capacity.tpot_s
        ratio = seen.tpot_s.mean / option.capacity.tpot_mean_s
        assert tpot.low / tpot.value <= ratio <= tpot.high / tpot.value


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("name", ["H100", "L40S", "MI300X"])
def test_a_batch_takes_what_a_saturated_case_takes(engine: str, name: str) -> None:
    fields = {
        "model": "llama-3.1-8b",
        "accelerator": name,
        "engine": engine,
        "items": "100000",
        "prompt_tokens": "1024",
        "output_tokens": "256",
    }
    try:
        plan = answer("batch", fields, today=TODAY)
    except TonnageError:
        pytest.skip(f"{engine} does not run on {name}")
    for option in plan.options[:2]:
        if option.configuration.intra_link is not None:
            continue
        request = serve_request(
            {"model": "llama-3.1-8b", "prompt_tokens": "1024", "output_tokens": "256", "rate": "1/s"}
        )
        found = predict(case_of(request, option.configuration, Traffic(saturated=True)))
        assert isinstance(found, ServeResult)
        assert found.requests_per_s.value == pytest.approx(option.items_per_s.value, rel=1e-9)


def test_a_fleet_takes_what_a_plan_takes() -> None:
    """A fleet of one workload starts from the same capacities as the plan of that workload."""
    from tonnage.catalog.hub.resolve import resolve as model_of
    from tonnage.core.deployment import resolve
    from tonnage.core.kept_replicas import build_replica
    from tonnage.core.replica import replica_of, state_of
    from tonnage.core.sites import sites

    request, options = planned(
        {
            "model": "llama-3.1-8b",
            "accelerator": "H100,L40S,MI300X",
            "prompt_tokens": "1024",
            "output_tokens": "256",
            "rate": "30/s",
            "ttft": "1s",
            "tpot": "50ms",
            "quick": True,
        }
    )
    model = model_of(request.model)
    places = {(s.accelerator.id, s.intra_link): s.accelerator for s in sites(request.filters, additions=NOTHING)[0]}
    for option in options[:6]:
        c = option.configuration
        replica = build_replica(
            model=model, accelerator=places[c.accelerator, c.intra_link], configuration=c, lengths=request.lengths
        )
        assert replica.times is not None
        best, _ = state_of(request, replica).largest()
        assert best.rate_per_s == option.capacity.max_rate_per_s.value
        if c.intra_link is None:
            at = resolve(case_of(request, c, Traffic(rate_per_s=1.0)))
            assert replica_of(at, request.lengths).times == replica.times


@pytest.mark.parametrize("name", ["H100", "A100 80GB", "MI300X"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
def test_a_training_plan_and_a_prediction_give_the_same_step(model: str, name: str) -> None:
    fields = {"model": model, "accelerator": name, "tokens": "10B", "max_accelerators": "64", "framework": "megatron"}
    plan = answer("train", fields, today=TODAY)
    assert isinstance(plan, TrainPlan)
    for option in plan.options[:3]:
        c = option.configuration
        layout = TrainCaseLayout(
            tp=c.layout.tp,
            pp=c.layout.pp,
            vpp=c.layout.vpp,
            cp=c.layout.cp,
            ep=c.layout.ep,
            dp=c.layout.dp,
            sharding=c.layout.sharding,
            schedule=c.layout.schedule,
        )
        found = predict(
            TrainCase(
                model=model,
                accelerator=c.accelerator,
                count=option.accelerators,
                layout=layout,
                links=Links(intra=c.intra_link, inter_bytes_per_s=c.inter_bytes_per_s),
                precision=c.precision,
                weight_precision=c.weights,
                micro_batch=c.micro_batch,
                global_batch=c.global_batch,
                seq_len=c.seq_len,
                recompute=c.recompute,
                recompute_share=c.recompute_share,
                optimizer=c.optimizer,
                framework=c.software,
                memory_kind="device",
            )
        )
        assert isinstance(found, TrainResult)
        assert found.basis == option.step_s.basis
        assert found.step_s.value == pytest.approx(option.step_s.value, rel=1e-9)
        assert found.step_s.high == pytest.approx(option.step_s.high, rel=1e-9)
        assert found.memory_peak_bytes.value == pytest.approx(option.memory.value, rel=1e-9)
