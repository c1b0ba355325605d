"""One state of accelerators has one power, whoever asks: prediction, simulation, plans, inventories."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tonnage import catalog
from tonnage.core.board_power import share_of, used_by
from tonnage.core.deployment import case_of
from tonnage.domain.case import ServeCase, ServeResult, Traffic
from tonnage.domain.layout import Layout
from tonnage.domain.plan import Configuration, ServeOption
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import Lengths
from tonnage.domain.simulate import Simulation, SimulationTraffic
from tonnage.pricing.energy import IDLE_DRAW, WORKING_DRAW, board_share
from tonnage.questions.batch.plan import plan_batch
from tonnage.questions.batch.question import batch_request
from tonnage.questions.fleet.plan import plan_fleet
from tonnage.questions.fleet.question import fleet_request
from tonnage.questions.own.groups import answer_group
from tonnage.questions.own.question import OwnedGroup, own_request
from tonnage.questions.predict.predict import predict
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.question import serve_request
from tonnage.questions.simulate.simulate import simulate

MODEL, PART = "meta-llama/Llama-3.1-8B-Instruct", "h100-sxm5-80gb"
TODAY = date(2026, 11, 23)
PROMPT, ANSWER = 1155.0, 211.0
shares = st.floats(0.0, 3.0)


def watts_of_case(case: ServeCase) -> float:
    found = predict(case)
    assert isinstance(found, ServeResult)
    return found.board_w.value


def predicted_w(traffic: Traffic, **fields: object) -> float:
    return watts_of_case(
        ServeCase(model=MODEL, accelerator=PART, traffic=traffic, isl=PROMPT, osl=ANSWER, **fields)  # type: ignore[arg-type]
    )


def planned_w(configuration: Configuration, traffic: Traffic) -> float:
    """What `predict` says of a plan's configuration, drafts and formats included."""
    lengths = Lengths(prompt_tokens=PROMPT, output_tokens=ANSWER)
    return watts_of_case(case_of(configuration, model=catalog.model(MODEL), lengths=lengths, traffic=traffic))


@given(weights=shares, others=shares, products=shares, busy=st.floats(0.0, 1.0), more=st.floats(0.0, 2.0))
def test_more_work_never_draws_less_and_nothing_leaves_idle_to_limit(
    weights: float, others: float, products: float, busy: float, more: float
) -> None:
    found = board_share(weights=weights, others=others, products=products, busy=busy)
    assert found + 1e-12 >= IDLE_DRAW and found <= 1.0 + 1e-12
    for name, value in (("weights", weights), ("others", others), ("products", products)):
        state = {"weights": weights, "others": others, "products": products} | {name: value + more}
        assert board_share(**state, busy=busy) >= found - 1e-12
    assert board_share(weights=weights, others=others, products=products, busy=1.0) >= max(found, WORKING_DRAW) - 1e-12


def option_of(**fields: object) -> ServeOption:
    asked = {
        "model": MODEL, "accelerator": "H100", "prompt_tokens": "1155", "output_tokens": "211",
        "tpot": "40 ms", "engine": "vllm", "quick": True,
    } | fields  # fmt: skip
    return plan_serve(serve_request(asked), today=TODAY).options[0]


def test_a_serving_plan_and_a_prediction_of_its_mean_load_state_the_same_watts() -> None:
    option = option_of(rate="6/s")
    use, c = option.energy, option.configuration
    tokens = option.cost.value / option.usd_per_million_output_tokens * 1e6 / 3600.0
    rate = tokens / ANSWER / option.replicas
    alone = planned_w(c, Traffic(rate_per_s=rate))
    assert use.board_w / option.accelerators == pytest.approx(alone, rel=0.03)


def test_an_owned_group_and_a_prediction_of_its_row_state_the_same_watts() -> None:
    request = own_request({"own": "4 x H100", "model": MODEL})
    (group,) = request.own
    assert isinstance(group, OwnedGroup)
    row = answer_group(request, group, additions=catalog.NOTHING).rows[0]
    assert row.power_w is not None and row.layout == "tp1"
    lengths = request.serve.lengths
    case = ServeCase(
        model=MODEL,
        accelerator=PART,
        traffic=Traffic(rate_per_s=row.output_tokens_per_s.value / lengths.output_tokens / row.replicas),
        isl=lengths.prompt_tokens,
        osl=lengths.output_tokens,
        engine=row.engine,
    )
    found = predict(replace(case, precision=Precision(weights=row.weights)))
    assert isinstance(found, ServeResult)
    assert row.board_w == pytest.approx(found.board_w.value, rel=0.05)


def test_a_fleet_and_a_prediction_of_a_replicas_mean_load_state_the_same_watts() -> None:
    asked = {"model": MODEL, "rate": "6/s", "prompt_tokens": 1155, "output_tokens": 211, "tpot": "40 ms"}
    chat = {"name": "chat", **asked}
    plan = plan_fleet(fleet_request({"workloads": [chat], "accelerator": "H100", "quick": True}), today=TODAY)
    (one,) = plan.replicas
    c = one.configuration
    assert c is not None
    standing = sum(hour.count * (hour.stop - hour.start) for hour in one.hours) / plan.period_h
    traffic = Traffic(rate_per_s=6.0 / standing)
    alone = planned_w(c, traffic)
    assert one.board_w.value == pytest.approx(alone, rel=0.03)


def test_a_batch_and_a_saturated_prediction_state_the_same_watts() -> None:
    asked = {
        "model": MODEL, "items": "1M", "accelerator": "H100", "prompt_tokens": "1155", "output_tokens": "211",
        "engine": "vllm",
    }  # fmt: skip
    option = plan_batch(batch_request(asked), today=TODAY).options[0]
    c, use = option.configuration, option.energy
    alone = planned_w(c, Traffic(saturated=True))
    assert use.board_w / option.accelerators == pytest.approx(alone, rel=0.02)


@pytest.mark.parametrize("traffic", [Traffic(concurrency=24), Traffic(rate_per_s=4.0)])
def test_a_simulation_and_a_prediction_of_the_same_traffic_state_nearly_the_same_watts(traffic: Traffic) -> None:
    asked = Simulation(
        model=MODEL,
        accelerator=PART,
        traffic=SimulationTraffic(
            concurrency=None if traffic.concurrency is None else int(traffic.concurrency),
            rate_per_s=traffic.rate_per_s,
            prompt_tokens=PROMPT,
            output_tokens=ANSWER,
            num_requests=400,
        ),
        layout=Layout(),
    )
    played = simulate(asked)
    assert played.board_w.value == pytest.approx(predicted_w(traffic), rel=0.06)


def test_layers_dealt_out_over_cards_leave_each_waiting_for_the_others() -> None:
    one = predicted_w(Traffic(batch=1, static=True), engine="llama.cpp")
    two = predicted_w(Traffic(batch=1, static=True), engine="llama.cpp", layout=Layout(tp=2), split_mode="layer")
    assert two == pytest.approx((one + IDLE_DRAW * 700.0) / 2.0, rel=0.05)


def test_nothing_is_used_by_no_work() -> None:
    part = catalog.accelerator(PART)
    assert share_of(used_by((), part)).value == WORKING_DRAW
    assert share_of(used_by((), part), busy=0.5).value == pytest.approx((WORKING_DRAW + IDLE_DRAW) / 2.0)
