"""What others published near a question: the same run first, near things before far ones, every difference said."""

from typing import Any

import pytest

import tonnage
from tonnage.errors import UnknownName

CHAT: dict[str, Any] = {
    "kind": "serve", "model": "Qwen/Qwen3-32B", "accelerator": "h100-sxm5-80gb", "traffic": {"concurrency": 32},
    "isl": 1024, "osl": 1024, "layout": {"tp": 2}, "precision": {"weights": "bf16"},
}  # fmt: skip


def near(limit: int, **changes: Any) -> tuple[Any, ...]:
    return tonnage.near({**CHAT, **changes}, limit=limit)


def test_distances_grow_and_every_difference_is_said_the_largest_first() -> None:
    found = near(20)
    distances = [item.distance for item in found]
    assert distances == sorted(distances) and len(found) == 20
    for item in found:
        assert bool(item.differs) == (item.distance > 0)
        assert ("engine" in " ".join(item.differs)) == (item.result.engine != "vllm")
    assert all(item.result.kind == "serve" for item in found)


def test_at_most_two_near_duplicates_of_one_source_are_shown() -> None:
    runs = [(r.source, r.model, r.accelerator, r.engine) for r in (item.result for item in near(40))]
    assert max(runs.count(run) for run in runs) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"accelerator": "h200-sxm-141gb"}, "accelerator h100-sxm5-80gb instead of h200-sxm-141gb"),
        ({"engine": "lmdeploy"}, "engine vllm instead of lmdeploy"),
        ({"traffic": {"concurrency": 5000}}, "instead of 5000"),
        ({"traffic": {"rate_per_s": 2}}, "load clients instead of requests/s"),
        ({"precision": {"weights": "nvfp4"}}, "instead of nvfp4"),
        ({"layout": {"tp": 16}}, "accelerators instead of 16"),
        ({"model": "Qwen/Qwen3-14B"}, "instead of Qwen3 14B"),
    ],
)
def test_what_differs_is_named(change: dict[str, Any], said: str) -> None:
    found = near(10, **change)
    assert any(said in part for item in found for part in item.differs), [item.differs for item in found]


def test_training_and_networks_are_asked_too() -> None:
    step = {"kind": "train", "model": "meta-llama/Llama-3.1-8B", "accelerator": "h100-sxm5-80gb", "count": 8}
    assert "step_time_s" in tonnage.near({**step, "seq_len": 8192}, limit=1)[0].result.measured
    image = {"kind": "infer", "model": "timm/resnet50.a1_in1k", "accelerator": "rtx-4090", "batch": 512}
    assert tonnage.near({**image, "resolution": 224}, limit=1)[0].result.kind == "infer"


def test_names_are_read_as_people_write_them_and_unknown_ones_refused() -> None:
    assert near(1, accelerator="H100")[0].distance == 0.0
    with pytest.raises(UnknownName, match="H1000"):
        near(1, accelerator="H1000")
