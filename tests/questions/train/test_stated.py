"""What a training case may state beside degrees: every n-th layer recomputed, uneven experts, schedules, hosts."""

import pytest
from msgspec.structs import replace

from tonnage.domain.case import TrainCase, TrainCaseLayout, TrainResult
from tonnage.errors import BadRequest
from tonnage.questions.predict.training import predict_train

DENSE = TrainCase(
    model="meta-llama/Meta-Llama-3.1-8B",
    accelerator="h100-sxm5-80gb",
    count=16,
    seq_len=8192,
    global_batch=64,
    micro_batch=1,
    layout=TrainCaseLayout(tp=2, pp=2),
)
MIXTURE = TrainCase(
    model="mistralai/Mixtral-8x7B-v0.1",
    accelerator="h100-sxm5-80gb",
    count=64,
    seq_len=4096,
    global_batch=256,
    micro_batch=1,
    layout=TrainCaseLayout(tp=1, pp=4, ep=8),
)


def step(found: TrainResult) -> float:
    assert found.step_s is not None
    return found.step_s.value


def peak(found: TrainResult) -> float:
    assert found.memory_peak_bytes is not None
    return found.memory_peak_bytes.value


def test_every_second_layer_recomputed_lies_between_none_and_all() -> None:
    none = predict_train(replace(DENSE, recompute="none"))
    half = predict_train(replace(DENSE, recompute_share=0.5))
    full = predict_train(replace(DENSE, recompute="full"))
    assert step(none) < step(half) < step(full)
    assert peak(full) < peak(half) < peak(none)


def test_the_fullest_rank_of_experts_sets_the_pace_and_the_peak() -> None:
    even, uneven = predict_train(MIXTURE), predict_train(replace(MIXTURE, expert_load=1.5))
    assert 1.1 < step(uneven) / step(even) < 1.5
    assert peak(uneven) > peak(even)
    assert uneven.mfu is not None and even.mfu is not None
    assert uneven.mfu / even.mfu == pytest.approx(step(even) / step(uneven))  # tokens learnt from are the same


def test_experts_on_one_rank_are_never_uneven() -> None:
    alone = replace(MIXTURE, layout=TrainCaseLayout(tp=8, pp=1, ep=1))
    assert step(predict_train(alone)) == step(predict_train(replace(alone, expert_load=2.0)))


@pytest.mark.parametrize("changes", [{"recompute_share": 0.0}, {"recompute_share": 1.5}, {"expert_load": 0.5}])
def test_what_lies_outside_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(BadRequest, match=next(iter(changes))):
        predict_train(replace(DENSE, **changes))


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-h2"])
def test_a_split_backward_pass_fills_the_bubble(schedule: str) -> None:
    plain = predict_train(DENSE)
    split = predict_train(replace(DENSE, layout=replace(DENSE.layout, schedule=schedule)))
    assert step(split) < step(plain)


def test_an_optimizer_on_the_host_is_slower_and_smaller() -> None:
    there = predict_train(replace(DENSE, offload="optimizer"))
    assert step(there) > step(predict_train(DENSE))
    assert peak(there) < peak(predict_train(DENSE))


def test_products_in_pieces_hide_their_exchange() -> None:
    wide = replace(DENSE, layout=TrainCaseLayout(tp=8, pp=1))
    pieces = replace(wide, layout=replace(wide.layout, async_tp=True))
    assert step(predict_train(pieces)) < step(predict_train(wide))


def test_sharding_inside_a_node_keeps_more_and_sends_less_between() -> None:
    whole = replace(DENSE, count=64, framework="torchtitan", layout=TrainCaseLayout(sharding="fsdp"))
    inside = replace(whole, layout=TrainCaseLayout(sharding="hsdp"))
    assert peak(predict_train(inside)) > peak(predict_train(whole))


def test_dora_holds_and_takes_more_than_lora() -> None:
    lora = replace(DENSE, method="lora", count=8, layout=TrainCaseLayout(tp=1, pp=1, sharding="none"), framework="hf")
    dora = replace(lora, method="dora")
    assert step(predict_train(dora)) > step(predict_train(lora))
    assert peak(predict_train(dora)) >= peak(predict_train(lora))
