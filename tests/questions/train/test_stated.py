"""What a training case may state beside degrees: every n-th layer recomputed, uneven experts, schedules, hosts."""

from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest

MIXTURE = {"model": "mistralai/Mixtral-8x7B-v0.1", "count": 64, "seq_len": 4096, "global_batch": 256,
           "layout": {"tp": 1, "pp": 4, "ep": 8}}  # fmt: skip


def predicted(**changes: Any) -> Any:
    dense = {"model": "meta-llama/Meta-Llama-3.1-8B", "accelerator": "h100-sxm5-80gb", "count": 16, "seq_len": 8192,
             "global_batch": 64, "micro_batch": 1, "layout": {"tp": 2, "pp": 2}}  # fmt: skip
    return tonnage.predict({"kind": "train", **dense, **changes})


def step(**changes: Any) -> float:
    return float(predicted(**changes).step_s.value)


def peak(**changes: Any) -> float:
    return float(predicted(**changes).memory_peak_bytes.value)


def test_every_second_layer_recomputed_lies_between_none_and_all() -> None:
    none, half, full = {"recompute": "none"}, {"recompute_share": 0.5}, {"recompute": "full"}
    assert step(**none) < step(**half) < step(**full)
    assert peak(**full) < peak(**half) < peak(**none)


def test_the_fullest_rank_of_experts_sets_the_pace_and_the_peak() -> None:
    even, uneven = predicted(**MIXTURE), predicted(**MIXTURE, expert_load=1.5)
    longer = uneven.step_s.value / even.step_s.value
    assert 1.1 < longer < 1.5
    assert uneven.memory_peak_bytes.value > even.memory_peak_bytes.value
    assert uneven.mfu / even.mfu == pytest.approx(1.0 / longer)  # tokens learnt from are the same


def test_experts_on_one_rank_are_never_uneven() -> None:
    alone = MIXTURE | {"layout": {"tp": 8, "pp": 1, "ep": 1}}
    assert step(**alone) == step(**alone, expert_load=2.0)


@pytest.mark.parametrize("changes", [{"recompute_share": 0.0}, {"recompute_share": 1.5}, {"expert_load": 0.5}])
def test_what_lies_outside_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(BadRequest, match=next(iter(changes))):
        predicted(**changes)


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-h2"])
def test_a_split_backward_pass_fills_the_bubble(schedule: str) -> None:
    assert step(layout={"tp": 2, "pp": 2, "schedule": schedule}) < step()


def test_an_optimizer_on_the_host_is_slower_and_smaller() -> None:
    assert step(offload="optimizer") > step()
    assert peak(offload="optimizer") < peak()


def test_products_in_pieces_hide_their_exchange() -> None:
    wide = {"tp": 8, "pp": 1}
    assert step(layout={**wide, "async_tp": True}) < step(layout=wide)


def test_sharding_inside_a_node_keeps_more_and_sends_less_between() -> None:
    whole = {"count": 64, "framework": "torchtitan"}
    assert peak(**whole, layout={"sharding": "hsdp"}) > peak(**whole, layout={"sharding": "fsdp"})


def test_dora_holds_and_takes_more_than_lora() -> None:
    asked = {"count": 8, "layout": {"tp": 1, "pp": 1, "sharding": "none"}, "framework": "hf"}
    assert step(**asked, method="dora") > step(**asked, method="lora")
    assert peak(**asked, method="dora") >= peak(**asked, method="lora")
