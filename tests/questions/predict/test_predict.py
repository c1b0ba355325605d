"""One case of each kind through the real predictors: the published names come back, under the case's own id."""

import pytest

import tonnage
from tonnage.errors import UnknownName

SERVE = {
    "kind": "serve",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "accelerator": "h100-sxm5-80gb",
    "traffic": {"concurrency": 64},
    "isl": 1024,
    "osl": 1024,
    "id": "one",
}
TRAIN = {
    "kind": "train", "model": "meta-llama/Meta-Llama-3-8B", "accelerator": "h100-sxm5-80gb", "count": 8,
    "micro_batch": 1, "global_batch": 128, "seq_len": 8192, "id": "two",
}  # fmt: skip
INFER = {"kind": "infer", "model": "timm/resnet50.a1_in1k", "accelerator": "a100-sxm4-80gb", "batch": 64, "id": "three"}

NAMES = {
    "serve": {
        "ttft_s",
        "tpot_s",
        "e2e_s",
        "output_tokens_per_s",
        "requests_per_s",
        "kv_cache_tokens",
        "memory",
        "saturated",
        "basis",
        "fits",
    },
    "train": {"step_s", "tokens_per_s_per_accelerator", "mfu", "memory_peak_bytes", "fits", "basis"},
    "infer": {"samples_per_s", "latency_s", "memory"},
}


@pytest.mark.parametrize("raw", [SERVE, TRAIN, INFER])
def test_a_prediction_has_every_published_name(raw: dict[str, object]) -> None:
    found = tonnage.to_dict(tonnage.predict(raw))
    assert set(found) >= NAMES[str(raw["kind"])]
    assert found["id"] == raw["id"]
    assert found["fits"] is True


def test_quantities_lie_inside_their_intervals() -> None:
    served = tonnage.to_dict(tonnage.predict(SERVE))
    assert served["ttft_s"]["low"] < served["ttft_s"]["mean"] < served["ttft_s"]["high"]
    rate = served["output_tokens_per_s"]
    assert rate["low"] < rate["value"] < rate["high"]
    assert served["memory"]["total_bytes"] == pytest.approx(sum(part["value"] for part in served["memory"]["parts"]))
    trained = tonnage.to_dict(tonnage.predict(TRAIN))
    step, memory = trained["step_s"], trained["memory_peak_bytes"]
    assert step["value"] == pytest.approx(sum(part["value"] for part in step["parts"]))
    assert memory["low"] < memory["value"] < memory["high"]


@pytest.mark.parametrize("raw", [SERVE, TRAIN, INFER])
def test_an_unknown_name_is_refused_with_the_nearest(raw: dict[str, object]) -> None:
    with pytest.raises(UnknownName, match="h100-sxm5-80gb"):
        tonnage.predict({**raw, "accelerator": "h100-smx5-80gb"})


def test_a_case_without_an_id_has_an_answer_without_one() -> None:
    assert tonnage.predict({name: value for name, value in SERVE.items() if name != "id"}).id is None
