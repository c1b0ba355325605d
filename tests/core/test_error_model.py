"""The one place of widths and chances: what decides them, and what does not."""

import pytest

from tonnage import catalog
from tonnage.core.error_model import (
    ErrorModel,
    chance_within,
    correlation,
    infer_level,
    serve_load,
    structure,
    train_level,
)
from tonnage.core.replica import Replica, build_replica, errors_at, with_queueing
from tonnage.domain.answer import Basis
from tonnage.domain.case import InferCase, ServeCase, Traffic
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import Configuration
from tonnage.domain.requests.common import Lengths
from tonnage.physics.memory import checkpoint_precision
from tonnage.questions.predict.predict import predict
from tonnage.simulation.capacity import ReplicaLoad, Steady, at_concurrency


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
    assert errors_at(found, few, prompt_tokens=1000, state=None).factor("ttft_s") > 1.0
    assert errors_at(found, few, prompt_tokens=1000, state=None).factor("ttft_s") < errors_at(
        found, many, prompt_tokens=1000, state=None
    ).factor("ttft_s")


def test_a_queue_widens_what_arrives_at_a_rate() -> None:
    """Far from its most a replica errs as its kernels do; near it, the upper end is overload."""
    found = replica("H100")
    assert found.times is not None
    state = Steady(found.times, ReplicaLoad(output_tokens=200, output_tail_tokens=200))
    full, errors = state.at(200), found.errors(found.basis, load="steady")
    idle, busy = (with_queueing(errors, state, rate_per_s=full.rate_per_s * share).queueing for share in (0.02, 0.9))
    assert idle["tpot_s"][1] < 1.05 < busy["tpot_s"][1]
    assert all(low <= 1.0 <= high for both in (idle, busy) for low, high in both.values())


def test_a_chance_is_half_at_the_value_and_nine_tenths_and_a_half_at_the_upper_end() -> None:
    errors = ErrorModel(kind="serve", level="known-host:steady:dense:calibrated:vllm", queueing={"tpot_s": (0.9, 1.5)})
    low, high = errors.bounds("tpot_s", 0.03)
    found = errors.quantity("tpot_s", 0.03, unit="s", basis=Basis.CALIBRATED)
    assert chance_within(found, 0.03) == pytest.approx(0.5)
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
