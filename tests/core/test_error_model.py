"""Errors: how wide a number is, how sure a limit, and what lies within error of what (C11)."""

import math
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage import catalog
from tonnage.catalog.fitted import causes
from tonnage.catalog.spreads import chance_within
from tonnage.core.error_model import (
    ErrorModel,
    Pair,
    Ratio,
    correlation,
    infer_level,
    ratio,
    serve_load,
    structure,
    tie_ratio,
    train_level,
    within_text,
)
from tonnage.core.kept_replicas import build_replica
from tonnage.core.replica import Replica, errors_at, with_queueing
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.case import InferCase, ServeCase, Traffic
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import Configuration, ServeOption
from tonnage.domain.requests.common import Lengths
from tonnage.domain.train_plan import TrainOption
from tonnage.physics.memory import checkpoint_precision
from tonnage.questions.ask import answer
from tonnage.questions.predict.predict import predict
from tonnage.simulation.capacity import Steady, at_concurrency
from tonnage.simulation.mean_step import ReplicaLoad


def served(**traffic: float) -> ServeCase:
    return ServeCase(
        model="llama-3.1-8b", accelerator="h100-sxm5-80gb", engine="vllm", isl=512, osl=128, traffic=Traffic(**traffic)
    )


@pytest.mark.parametrize(
    ("traffic", "saturated", "load"),
    [
        (Traffic(concurrency=16), False, "light"),
        (Traffic(concurrency=17), False, "steady"),
        (Traffic(concurrency=256), False, "steady"),
        (Traffic(concurrency=257), False, "crowded"),
        (Traffic(batch=257), False, "steady"),
        (Traffic(concurrency=4000), True, "saturated"),
        (Traffic(saturated=True), False, "saturated"),
        (Traffic(rate_per_s=2), False, "light"),
    ],
)
def test_a_load_has_one_class(traffic: Traffic, saturated: bool, load: str) -> None:
    in_flight = traffic.concurrency or 8.0
    assert serve_load(traffic, in_flight=in_flight, prompt_tokens=512, saturated=saturated) == load


def test_experts_make_a_mixture_and_totals_a_network() -> None:
    assert structure(catalog.model("gpt-oss-120b")) == "mixture"
    assert structure(catalog.model("resnet-50")) == "network"


def test_adapters_are_apart_from_whole_models() -> None:
    model = catalog.model("llama-3.1-8b")
    assert train_level(model, basis="derived", method="qlora", software="eager") == "derived:adapter:dense:eager"


def test_batches_through_networks_name_their_load() -> None:
    case = InferCase(model="resnet-50", accelerator="t4", saturated=True)
    level = infer_level(case, catalog.model("resnet-50"), basis="calibrated", engine="tensorrt")
    assert level == "calibrated:saturated:network:tensorrt"


def test_a_prediction_says_its_level() -> None:
    assert predict(served(concurrency=4)).level == "known-host:light:dense:calibrated:vllm"
    assert predict(served(concurrency=40)).level == "known-host:steady:dense:calibrated:vllm"


def test_a_lone_client_knows_its_first_token_better_than_a_crowd_does() -> None:
    alone, crowd = (predict(served(concurrency=clients)).ttft_s for clients in (4, 300))
    assert alone.high / alone.low < crowd.high / crowd.low


def test_a_plan_is_as_sure_as_its_load() -> None:
    """First tokens of few prompts are known better than those of many, in a plan as in a prediction."""
    found = replica("H100")
    assert found.times is not None
    load = ReplicaLoad(output_tokens=200, output_tail_tokens=200)
    few, many = (at_concurrency(found.times, load, concurrency=c) for c in (4, 400))
    alone, crowd = (errors_at(found, load, prompt_tokens=1000, state=None).spread("ttft_s") for load in (few, many))
    assert 0.0 < alone.width < crowd.width


def test_a_queue_widens_what_arrives_at_a_rate() -> None:
    """Far from its most a replica errs as its kernels do; near it, the upper end is overload."""
    found = replica("H100")
    assert found.times is not None
    state = Steady(found.times, ReplicaLoad(output_tokens=200, output_tail_tokens=200))
    full, errors = state.at(200), found.errors(found.basis, load="steady")
    idle, busy = (
        with_queueing(errors, state, rate_per_s=full.rate_per_s * share, seen=state.means).queueing
        for share in (0.02, 0.9)
    )
    assert idle["tpot_s"][1] < 1.05 < busy["tpot_s"][1]
    assert all(low <= 1.0 <= high for both in (idle, busy) for low, high in both.values())


def test_a_chance_is_half_at_the_middle_and_nine_tenths_and_a_half_at_the_upper_end() -> None:
    errors = ErrorModel(kind="serve", level="known-host:steady:dense:calibrated:vllm", queueing={"tpot_s": (0.9, 1.5)})
    low, high = errors.bounds("tpot_s", 0.03)
    found = errors.quantity("tpot_s", 0.03, unit="s", basis=Basis.CALIBRATED)
    assert chance_within(found, found.middle) == pytest.approx(0.5)
    assert chance_within(found, high) == pytest.approx(0.95)
    assert chance_within(found, low) == pytest.approx(0.05)


def test_stacks_share_the_causes_that_they_have_in_common() -> None:
    here, same = run_on("H100"), run_on("H100", tp=2)
    other, elsewhere = run_on("H100", engine="sglang"), run_on("B200", engine="sglang")
    assert correlation(here, here) == 1.0
    shares = [correlation(here, one) for one in (same, run_on("B200"), other, elsewhere)]
    assert 1.0 > shares[0] > max(shares[1:]) > shares[3] == 0.0
    assert shares[0] > shares[1] + shares[2], "the two together are a cause of their own"


def run_on(name: str, *, engine: str = "vllm", tp: int = 1) -> Configuration:
    part, model = catalog.accelerator(name), catalog.model("llama-3.1-8b")
    return Configuration(
        accelerator=part.id, layout=Layout(tp=tp), precision=checkpoint_precision(model), engine=Engine(name=engine)
    )


def replica(name: str) -> Replica:
    part, model = catalog.accelerator(name), catalog.model("llama-3.1-8b")
    run = Configuration(
        accelerator=part.id, layout=Layout(), precision=checkpoint_precision(model), engine=Engine(name="vllm")
    )
    return build_replica(
        model=model, accelerator=part, configuration=run, lengths=Lengths(prompt_tokens=1000, output_tokens=200)
    )


TODAY = date(2026, 11, 21)
FACTORS = st.floats(1.0, 4.0)
ASKED: dict[str, dict[str, Any]] = {
    "serve": {
        "model": "meta-llama/Llama-3.1-8B-Instruct", "rate": "30/s", "traffic": "chat", "ttft": "2 s", "tpot": "60 ms",
        "quick": True, "accelerator": "H100,A100,L40S,L4",
    },
    "train": {"model": "7B", "tokens": "100B", "deadline": "30 days"},
    "batch": {
        "model": "meta-llama/Llama-3.1-8B-Instruct", "items": "1000000", "prompt_tokens": "512", "output_tokens": "64",
        "deadline": "12 h",
    },
}  # fmt: skip


def cost(usd: float, factor: float) -> Quantity:
    return Quantity(value=usd, unit="USD").within(factor)


def weighed(*pairs: Pair) -> Ratio:
    found = ratio(*pairs)
    assert found is not None
    return found


@given(st.floats(0.1, 100.0), st.floats(1.01, 10.0), FACTORS)
def test_the_same_configuration_at_two_prices_is_the_ratio_of_the_prices(usd: float, dearer: float, f: float) -> None:
    pair = Pair(cost(usd * dearer, f), cost(usd, f), 1.0)
    assert weighed(pair) == pytest.approx((dearer, dearer, dearer))
    assert tie_ratio(pair) is None
    assert within_text(weighed(pair)) == within_text(None) == ""


@given(st.floats(1.0, 10.0), FACTORS, FACTORS)
def test_errors_of_different_parts_add_in_squares(dearer: float, f: float, g: float) -> None:
    found = weighed(Pair(cost(dearer, f), cost(1.0, g)))
    width = math.hypot(math.log(f), math.log(g))
    assert math.log(found.high / found.value) == pytest.approx(width)
    assert math.log(found.value / found.low) == pytest.approx(width)


@given(st.floats(1.0, 3.0), FACTORS, FACTORS, st.floats(0.0, 0.99), st.floats(0.0, 0.99))
def test_the_more_is_shared_the_narrower_between_equals(d: float, f: float, g: float, a: float, b: float) -> None:
    less, more = sorted((a, b))
    wide, narrow = (weighed(Pair(cost(d, f), cost(1.0, f), each)) for each in (less, more))
    assert narrow.low >= wide.low * (1 - 1e-9) and narrow.high <= wide.high * (1 + 1e-9)
    # An error that only one has stays, whatever is shared.
    assert weighed(Pair(cost(d, f), Quantity(value=1.0, unit="USD"), less)).high == pytest.approx(d * f)


@given(st.floats(0.5, 5.0), FACTORS, st.floats(0.1, 10.0), FACTORS)
def test_a_half_that_is_the_same_takes_its_share_of_the_error_away(a: float, f: float, same: float, g: float) -> None:
    own = weighed(Pair(cost(1.5 * a, f), cost(a, f)))
    sums = weighed(Pair(cost(1.5 * a, f), cost(a, f)), Pair(cost(same, g), cost(same, g), 1.0))
    assert sums.value < own.value
    assert math.log(sums.high / sums.value) <= math.log(own.high / own.value) + math.log(g) * 0.5 + 1e-9
    none = weighed(Pair(cost(same, g), cost(same, g), 1.0))
    assert none == pytest.approx((1.0, 1.0, 1.0))


def test_a_step_of_replicas_counts_at_either_end_of_the_speed() -> None:
    """3 singles for 9 or a box for 10: as fast as the other, and were it slower the box would be the cheaper."""
    singles, box = (
        Quantity(value=9.0, unit="USD/h", low=6.0, high=18.0),
        Quantity(value=10.0, unit="USD/h", low=10.0, high=10.0),
    )
    found = tie_ratio(Pair(box, singles, 1.0))
    assert found.low == pytest.approx(10 / 18) and found.high == pytest.approx(10 / 6)


def test_what_cannot_be_weighed_ties_with_nothing() -> None:
    assert ratio(Pair(cost(1.0, 2.0), Quantity(value=0.0, unit="USD"))) is None
    assert tie_ratio(Pair(Quantity(value=1.0, unit="USD"), cost(1.0, 2.0))) is None
    # Cheaper than the first and yet behind it: it lost for another reason.
    assert tie_ratio(Pair(cost(0.5, 2.0), cost(1.0, 2.0))) is None
    assert correlation(None, None) == 0.0


def test_a_tie_is_told_with_its_ends() -> None:
    found = tie_ratio(Pair(cost(1.1, 1.2), cost(1.0, 1.2)))
    assert found is not None and within_text(found) == " (0.85x-1.42x within error)"
    assert tie_ratio(Pair(cost(1.4, 1.2), cost(1.0, 1.2))) is None


@pytest.mark.parametrize("question", ASKED)
def test_every_plan_ties_by_the_same_rule(question: str) -> None:
    """Different parts tie where the ratio's interval holds 1; the verdict says how far; one at two prices does not."""
    options: tuple[ServeOption | TrainOption | BatchOption, ...]
    options = answer(question, ASKED[question], today=TODAY).options  # type: ignore[union-attr]
    first = options[0]
    assert not first.ties and len(options) > 3
    for option in options[1:]:
        pair = Pair(option.cost, first.cost, correlation(option.configuration, first.configuration))
        found = tie_ratio(pair) if option.sure is first.sure else None
        assert option.ties is (found is not None), option.verdict
        assert ("within error)" in option.verdict.partition(";")[0]) is (option.ties and found != (1.0, 1.0, 1.0))
        if option.ties and found is not None and found.high > found.low * 1.001:
            assert f"{found.low:.2f}x-{found.high:.2f}x" in option.verdict


def test_the_same_configuration_elsewhere_does_not_tie_and_overlapping_intervals_are_no_reason() -> None:
    asked = {**ASKED["batch"], "accelerator": "H100", "term": "on-demand,spot", "provider": "runpod"}
    made = answer("batch", asked, today=TODAY)
    first, *others = made.options  # type: ignore[union-attr]
    same = [o for o in others if o.configuration == first.configuration and o.cost.value > 1.2 * first.cost.value]
    assert same and not any(option.ties for option in same)
    assert any((option.cost.low or 0.0) <= (first.cost.high or 0.0) for option in same)


def test_one_part_under_one_engine_shares_every_cause() -> None:
    options = answer("serve", ASKED["serve"], today=TODAY).options  # type: ignore[union-attr]
    made: dict[tuple[str, str], Configuration] = {}
    for one in options:
        made.setdefault((one.configuration.accelerator, one.configuration.engine.name), one.configuration)
    here, there = list(made.values())[:2]
    assert correlation(here, here) == 1.0 and correlation(here, there) < 0.2
    wider = type(here)(**{name: getattr(here, name) for name in here.__struct_fields__} | {"intra_link": "other"})
    assert correlation(here, wider) == pytest.approx(sum(cause.share for cause in causes("serve")))
