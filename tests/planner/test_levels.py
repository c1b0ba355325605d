"""What decides the width of an interval: load, structure, software, in this order."""

import pytest

from tonnage import catalog
from tonnage.nouns.case import InferCase, ServeCase, Traffic
from tonnage.nouns.layout import Engine, Layout
from tonnage.nouns.plan import Configuration
from tonnage.nouns.workload import Lengths
from tonnage.physics.memory import checkpoint_precision
from tonnage.planner.levels import infer_level, serve_level, structure, train_level
from tonnage.planner.predict.predict import predict
from tonnage.planner.replica import Replica, build_replica, factor_at


def served(**traffic: float) -> ServeCase:
    return ServeCase(
        model="llama-3.1-8b", accelerator="h100-sxm5-80gb", engine="vllm", isl=512, osl=128, traffic=Traffic(**traffic)
    )


@pytest.mark.parametrize(
    ("traffic", "saturated", "load"),
    [
        ({"concurrency": 16}, False, "light"),
        ({"concurrency": 17}, False, "steady"),
        ({"concurrency": 256}, False, "steady"),
        ({"concurrency": 257}, False, "crowded"),
        ({"batch": 257}, False, "steady"),
        ({"concurrency": 4000}, True, "saturated"),
        ({"rate_per_s": 2}, False, "open"),
    ],
)
def test_load_is_told_by_the_traffic(traffic: dict[str, float], saturated: bool, load: str) -> None:
    model = catalog.model("llama-3.1-8b")
    level = serve_level(served(**traffic), model, basis="calibrated", engine="vllm", saturated=saturated)
    assert level == f"calibrated:{load}:dense:vllm"


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
    assert predict(served(concurrency=4)).level == "calibrated:light:dense:vllm"
    assert predict(served(concurrency=40)).level == "calibrated:steady:dense:vllm"


def test_a_lone_client_knows_its_first_token_better_than_a_crowd_does() -> None:
    alone, crowd = (predict(served(concurrency=clients)).ttft_s for clients in (4, 300))
    assert alone.high / alone.low < crowd.high / crowd.low


def test_a_plan_is_as_sure_as_its_load() -> None:
    """First tokens of few prompts are known better than those of many, in a plan as in a prediction."""
    found = replica("H100")
    few, many = (factor_at(found, "ttft_s", concurrency=c, prompt_tokens=1000) for c in (4, 400))
    assert 1.0 < few < many
    assert factor_at(found, "ttft_s", concurrency=64, prompt_tokens=1000) == found.factors["ttft_s"]


def replica(name: str) -> Replica:
    part, model = catalog.accelerator(name), catalog.model("llama-3.1-8b")
    run = Configuration(
        accelerator=part.id, layout=Layout(), precision=checkpoint_precision(model), engine=Engine(name="vllm")
    )
    return build_replica(
        model=model, accelerator=part, configuration=run, lengths=Lengths(prompt_tokens=1000, output_tokens=200)
    )
