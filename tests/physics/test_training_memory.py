"""Training memory: recipes, sharding, the moment of the peak, what each accounting includes."""

import pytest
from msgspec.structs import replace

from tonnage.catalog.training import training_coefficients
from tonnage.nouns.accelerator import Accelerator, Fact, Link
from tonnage.nouns.layout import TrainLayout
from tonnage.nouns.model import Attention, LayerGroup, Mlp, Model, Moe, Network
from tonnage.nouns.training import TrainSetup
from tonnage.physics.parameters import parameters
from tonnage.physics.training_memory import adapter_parameters, held_parameters, recipe, training_memory

CARD = Accelerator(
    id="card", vendor="NVIDIA", name="Card", architecture="Hopper", segment="datacenter", memory_bytes=80 * 2**30,
    memory_bytes_per_s=3.35e12, peaks={"bf16": 989e12}, link=Link(kind="nvlink4", bytes_per_s=450e9, domain=8),
    host_link=Link(kind="pcie5", bytes_per_s=63e9), fact=Fact(source="a test"),
)  # fmt: skip
LAYER = LayerGroup(
    count=32,
    mixer=Attention(num_attention_heads=32, num_key_value_heads=32, head_dim=128),
    feed_forward=Mlp(intermediate_size=11008),
)
LLAMA_7B = Model(id="7b", family="Llama", kind="llm", hidden_size=4096, vocab_size=32000, layers=(LAYER,))
MOE = replace(
    LLAMA_7B,
    layers=(
        replace(LAYER, feed_forward=Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=11008)),
    ),
)  # fmt: skip


def memory(setup: TrainSetup, model: Model = LLAMA_7B, kind: str = "reserved"):  # type: ignore[no-untyped-def]
    return training_memory(model, accelerator=CARD, setup=setup, coefficients=training_coefficients(), memory_kind=kind)


@pytest.mark.parametrize(
    ("changes", "total"),
    [
        ({"software": "megatron"}, 18),
        ({"software": "megatron", "precision": "fp16"}, 20),
        ({"software": "fsdp"}, 16),
        ({"software": "eager", "precision": "fp32", "weights": "fp32"}, 16),
        ({"software": "eager", "master_weights": False}, 8),
        ({"software": "eager", "master_weights": False, "optimizer": "sgd"}, 6),
    ],
)
def test_recipes_are_the_rules_of_thumb(changes: dict[str, object], total: float) -> None:
    assert recipe(replace(TrainSetup(), **changes)).total == total


def test_parts_sum_to_the_whole() -> None:
    found = memory(TrainSetup(seq_len=2048))
    assert sum(part.value for part in found.parts) == pytest.approx(found.value)


def test_each_sharding_stage_takes_less() -> None:
    values = [
        memory(TrainSetup(seq_len=512, software="fsdp", layout=TrainLayout(dp=8, sharding=stage))).value
        for stage in ("none", "zero1", "zero2", "zero3")
    ]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 4


def test_zero_one_divides_only_what_the_optimizer_owns() -> None:
    whole = memory(TrainSetup(seq_len=512))
    cut = memory(TrainSetup(seq_len=512, layout=TrainLayout(dp=8, sharding="zero1")))
    assert cut.part("weights") == whole.part("weights")
    assert cut.part("optimizer") == pytest.approx(whole.part("optimizer") / 8)
    assert cut.part("master weights") == pytest.approx(whole.part("master weights") / 8)


def test_hybrid_sharding_stays_inside_the_node() -> None:
    one = memory(TrainSetup(seq_len=512, software="fsdp", layout=TrainLayout(dp=8, sharding="fsdp")))
    many = memory(TrainSetup(seq_len=512, software="fsdp", layout=TrainLayout(dp=64, sharding="hsdp")))
    assert many.part("weights") == pytest.approx(one.part("weights"))


def test_expert_parallelism_divides_experts_only() -> None:
    whole = held_parameters(MOE, setup=TrainSetup())
    cut = held_parameters(MOE, setup=TrainSetup(layout=TrainLayout(dp=8, ep=8)))
    assert cut.experts == pytest.approx(whole.experts / 8)
    assert cut.dense == whole.dense


def test_held_parameters_of_one_rank_are_the_model() -> None:
    assert held_parameters(LLAMA_7B, setup=TrainSetup()).total == pytest.approx(parameters(LLAMA_7B).value, rel=1e-4)


def test_pipeline_keeps_the_first_stage_full() -> None:
    flat = memory(TrainSetup(seq_len=4096, num_micro_batches=64))
    staged = memory(TrainSetup(seq_len=4096, num_micro_batches=64, layout=TrainLayout(pp=4)))
    assert staged.part("activations") == pytest.approx(flat.part("activations"), rel=0.1)
    assert staged.part("weights") < flat.part("weights") / 3


def test_adapters_are_rank_times_both_sides() -> None:
    setup = TrainSetup(method="lora", lora_rank=8, lora_targets=("q_proj", "v_proj"))
    assert adapter_parameters(LLAMA_7B, setup=setup) == 32 * 8 * 2 * (4096 + 4096)


def test_qlora_holds_the_base_in_four_bits() -> None:
    lora = memory(TrainSetup(method="lora", software="eager", seq_len=512, recompute="full"))
    qlora = memory(TrainSetup(method="qlora", software="eager", seq_len=512, recompute="full"))
    assert qlora.part("weights") < 0.35 * lora.part("weights")


def test_gradients_that_are_not_kept_leave_the_sum() -> None:
    base = TrainSetup(software="eager", master_weights=False, seq_len=64, recompute="full")
    assert memory(replace(base, grads_kept=False)).value < memory(base).value


def test_accountings_nest() -> None:
    setup = TrainSetup(seq_len=2048)
    values = [memory(setup, kind=kind).value for kind in ("allocated", "reserved", "device")]
    assert values == sorted(values)
    assert len(set(values)) == 3


def test_offload_moves_state_to_the_host() -> None:
    base = TrainSetup(seq_len=512, software="fsdp", layout=TrainLayout(dp=2, sharding="fsdp"))
    half = memory(replace(base, offload="optimizer"))
    assert half.part("optimizer") == 0
    assert memory(replace(base, offload="all")).part("weights") == 0


def test_a_network_keeps_its_activation_values() -> None:
    net = Model(
        id="net", family="ResNet", kind="cnn", published_parameters=25.6e6,
        network=Network(flop=8.2e9, input_px=224, activation_values=11.1e6),
    )  # fmt: skip
    small = memory(TrainSetup(software="eager", micro_batch=64), net)
    large = memory(TrainSetup(software="eager", micro_batch=128), net)
    assert large.part("activations") == pytest.approx(2 * small.part("activations"))


def test_zero_widens_only_the_gradients_of_its_own_partition() -> None:
    base = TrainSetup(seq_len=512, software="deepspeed", num_micro_batches=8)
    alone = memory(replace(base, layout=TrainLayout(sharding="zero1")))
    shared = memory(replace(base, layout=TrainLayout(dp=8, sharding="zero1")))
    assert (
        shared.part("gradients") == alone.part("gradients") == pytest.approx(2 * parameters(LLAMA_7B).value, rel=1e-4)
    )
    assert shared.part("master weights") == pytest.approx(8 * parameters(LLAMA_7B).value / 8, rel=1e-4)
    assert shared.part("communication") == pytest.approx(4.5 * 2 * 5e8)


def test_offloaded_shards_still_gather_their_gradients_on_the_device() -> None:
    base = TrainSetup(seq_len=512, software="fsdp", num_micro_batches=4, offload="all", master_weights=False,
                      recompute="full", layout=TrainLayout(dp=2, sharding="fsdp"))  # fmt: skip
    found = memory(base)
    assert found.part("gradients") == pytest.approx(2 * parameters(LLAMA_7B).value / 2, rel=1e-4)
    assert memory(replace(base, software="deepspeed")).part("gradients") == 0


def test_contiguous_gradients_leave_no_gaps() -> None:
    base = TrainSetup(seq_len=512, num_micro_batches=2, recompute="full")
    gaps = [memory(replace(base, software=name)).part("fragmentation") for name in ("megatron", "fsdp")]
    assert gaps[0] < gaps[1] / 3


def test_adapters_of_32_bits_keep_an_input_each() -> None:
    base = TrainSetup(
        method="lora", software="eager", seq_len=4096, recompute="full", lora_targets=("q_proj", "v_proj")
    )
    plain, wide = memory(base), memory(replace(base, wide_adapters=True))
    factor = training_coefficients().activation["eager"]
    assert wide.part("activations") - plain.part("activations") == pytest.approx(factor * 4096 * 5 * 2 * 4096)
    assert memory(replace(base, wide_adapters=True, lora_targets=())).value > wide.value
